"""The program `openwork` on the PATH: finds the one inside the package and becomes it. Imports no torch."""

import importlib.util
import os
import sys
from pathlib import Path


def main() -> None:
    """Runs the program with this process's arguments; does not return."""
    package = Path(__file__).resolve().parent.parent / "openwork"
    program = package / "bin" / "openwork"
    if not (package.parent / "torch" / "lib").exists():  # torch is elsewhere on the path: say where
        torch = importlib.util.find_spec("torch")
        if torch is not None and torch.submodule_search_locations:
            folders = [str(Path(torch.submodule_search_locations[0]) / "lib"), os.environ.get("LD_LIBRARY_PATH")]
            os.environ["LD_LIBRARY_PATH"] = ":".join(folder for folder in folders if folder)
    try:
        os.execv(program, ["openwork", *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"openwork: error: {error.strerror}; {program}; install openwork again")
