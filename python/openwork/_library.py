"""The compiled part of the package: checks that it fits this Python and torch, and loads it.

A build belongs to one Python and one torch minor version: C++ code of torch has no stable interface between them.
libtorch is always the one that `import torch` has loaded; the package brings none.
"""

import importlib
import importlib.abc
import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import torch

from ._build import PYTHON, TORCH, VERSION  # written by the build

__all__ = ["VERSION", "core", "register_attention"]

_PACKAGE = Path(__file__).parent

# Debian's packages of the libraries that are linked and not bundled.
_DEBIAN = {
    "libcairo": "libcairo2", "libpango-1.0": "libpango-1.0-0", "libpangocairo": "libpangocairo-1.0-0",
    "libcurl": "libcurl4", "libcrypto": "libssl3", "libssl": "libssl3", "libpcre2": "libpcre2-8-0",
    "libutf8proc": "libutf8proc2", "libzstd": "libzstd1", "liblzma": "liblzma5", "libfmt": "libfmt9",
}  # fmt: skip


def _check_versions() -> None:
    python = "{}.{}".format(*sys.version_info[:2])
    if python != PYTHON:
        raise ImportError(f"this openwork is for Python {PYTHON}, not {python}; openwork; install it again with this Python")
    torch_minor = ".".join(torch.__version__.split(".")[:2])
    if torch_minor != TORCH:
        raise ImportError(f"this openwork is for torch {TORCH}, not {torch_minor}; openwork; install it again with this torch")


def _explain(error: Exception, what: str) -> ImportError:
    """The one line for a library that does not load, naming the one that is missing."""
    text = str(error).splitlines()[0]
    missing = re.search(r"(lib[\w.+-]+?\.so[\w.]*): cannot open", text)
    if missing is None:
        return ImportError(f"{text}; {what}; install openwork again")
    package = next((p for name, p in _DEBIAN.items() if missing[1].startswith(name)), None)
    advice = f"apt-get install {package}" if package else "install it, or set LD_LIBRARY_PATH to its folder"
    return ImportError(f"{missing[1]} is missing; {what}; {advice}")


def _load_operators() -> None:
    path = _PACKAGE / "lib" / "libopenwork_ops.so"
    try:
        torch.ops.load_library(path)
    except OSError as error:
        raise _explain(error, path.name) from None


_core: ModuleType | None = None


def core() -> ModuleType:
    """The bindings to the C++ core, loaded and told about this process at the first call."""
    global _core
    if _core is None:
        try:
            module = importlib.import_module("openwork._core")
        except ImportError as error:
            raise _explain(error, "openwork._core") from None
        from .progress import show

        module.enter(str(_PACKAGE / "models"), show)
        _core = module
    return _core


def register_attention() -> None:
    """Makes attn_implementation="openwork" known to transformers: now where it is imported, else when it is."""
    if "transformers" in sys.modules:
        importlib.import_module("openwork.hugging_face")
    elif importlib.util.find_spec("transformers") is not None:
        sys.meta_path.insert(0, _WhenImported())


class _WhenImported(importlib.abc.MetaPathFinder):
    """Waits for transformers' attention interface and registers beside it; transformers itself stays unimported."""

    _name = "transformers.modeling_utils"

    def find_spec(self, fullname, path=None, target=None):
        if fullname != self._name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is None or spec.loader is None:
            return None
        run = spec.loader.exec_module

        def run_and_register(module: ModuleType) -> None:
            run(module)
            importlib.import_module("openwork.hugging_face")

        spec.loader.exec_module = run_and_register  # type: ignore[method-assign]
        return spec


_check_versions()
_load_operators()
