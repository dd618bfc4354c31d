"""What the tests share: where fixtures are, running the program, and a golden file's numbers."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import torch

# torch finds what it compiled before by the text of a graph, not by the signatures of its operators: a folder of
# our own, so that nothing compiled for a former build is taken.
COMPILED = tempfile.TemporaryDirectory(prefix="openwork-compiled-")
os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", COMPILED.name)

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "tests" / "data"
INSTALLED = Path(sys.executable).parent / "openwork"  # where pip puts it
PROGRAM = os.environ.get("OPENWORK_PROGRAM") or str(INSTALLED if INSTALLED.exists() else ROOT / "build" / "openwork")
ARCHITECTURES = ("gpt2", "llama", "olmo", "olmo2", "gpt_neox")


def run_program(*words):
    """The program's standard output. It has as many threads as torch has here, so that sums have the same order."""
    words = [PROGRAM, *words, "--threads", torch.get_num_threads()]
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="session")
def program():
    """Runs the program: program("run", "openwork-8m", "text") returns its JSON."""
    return lambda *words: json.loads(run_program(*words, "--json", "-"))


@pytest.fixture(scope="session")
def program_logits(tmp_path_factory):
    """The program's logits [B, T, V] of a model on token ids."""
    from safetensors.torch import load_file

    def run(model, ids):
        folder = tmp_path_factory.mktemp("logits")
        tokens = folder / "tokens.json"
        tokens.write_text(json.dumps(ids.tolist()))
        run_program("run", model, "--tokens-file", tokens, "--save", folder / "pass.safetensors", "--quiet")
        return load_file(folder / "pass.safetensors")["logits"]

    return run


@pytest.fixture(scope="session")
def needs_compiler():
    """Skips where torch.compile has no C++ compiler to call."""
    import shutil

    if shutil.which("g++") is None and shutil.which("clang++") is None:
        pytest.skip("no C++ compiler for torch.compile")
