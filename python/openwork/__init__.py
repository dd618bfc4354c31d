"""openwork: gate every attention edge of a language model, train further, and read what is left.

    out, penalty, active = openwork.gated_attention(q, k, v, bias, idle, gate="idle", seed=1)
    model = openwork.Model("openwork-8m")         # the C++ core: passes, edits, analyses
    model = openwork.load("openwork-8m-sparse")   # the same weights and gates as a transformers model

docs/python.md is the manual. Importing loads the operators alone; the rest is loaded when it is first used.
"""

import importlib
from typing import TYPE_CHECKING, Any

from . import _library
from .errors import Error, InputError
from .operator import GatedAttention, GatedAttentionResult, gated_attention

if TYPE_CHECKING:
    from .hugging_face import add_gates, gates_of, learn_gates, load, load_adapter, penalty, save
    from .lens import to_transformer_lens
    from .model import EditedModel, Model, Run, call, models
    from .results import Figure, Record, Result

__version__: str = _library.VERSION

_LATER = {
    "hugging_face": ("add_gates", "gates_of", "learn_gates", "load", "load_adapter", "penalty", "save"),
    "lens": ("to_transformer_lens",),
    "model": ("EditedModel", "Model", "Run", "call", "models"),
    "results": ("Figure", "Record", "Result"),
}
_HOME = {name: module for module, names in _LATER.items() for name in names}

__all__ = ["Error", "InputError", "GatedAttention", "GatedAttentionResult", "gated_attention", *_HOME]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'openwork' has no attribute '{name}'")
    return getattr(importlib.import_module(f"openwork.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)


_library.register_attention()
