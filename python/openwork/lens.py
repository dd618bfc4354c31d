"""A model of openwork's as a TransformerLens model, with its gates as permanent hooks. Needs transformer_lens 3 or newer."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from .errors import InputError


def to_transformer_lens(name: str, *, device: str | torch.device = "cpu", dtype: torch.dtype = torch.float32) -> Any:
    """The model `name` (as openwork.load takes it) as a TransformerBridge: the same logits, gates hard.

    Gates are hooks on hook_attn_scores and hook_pattern, so that a pattern read there is P times z, as in the program.
    """
    try:
        from transformer_lens.model_bridge import TransformerBridge
    except ImportError:
        raise InputError("transformer_lens 3 or newer is not installed; to_transformer_lens; pip install transformer-lens") from None
    from .hugging_face import gates_of, load

    model = load(name, device=device, dtype=dtype)
    gates = gates_of(model, default=None)
    numbers: list[tuple[Any, Any]] = [  # of each layer: bias, and idle score where the gate has one
        (module.gate_bias.detach().clone(), module.gate_idle.detach().clone() if gates.kind == "idle" else None)  # type: ignore[operator]
        for module in model.modules()
        if gates is not None and hasattr(module, "gate_bias")
    ]
    bridge = TransformerBridge.boot_transformers(str(name), hf_model=model, tokenizer=_tokenizer(name), device=device)
    for layer, (bias, idle) in enumerate(numbers):
        _add_gate_hooks(bridge, layer, gates.kind, bias, idle)
    return bridge


def _tokenizer(name: str) -> Any:
    """transformers' own reader of the model's tokenizer.json; None where it has none."""
    from pathlib import Path

    from transformers import PreTrainedTokenizerFast

    from .model import models

    folder = next((Path(model.path) for model in models() if model.name == str(name)), Path(name))
    if not (folder / "tokenizer.json").is_file():
        return None
    tokenizer = PreTrainedTokenizerFast.from_pretrained(str(folder))
    end = "<|endoftext|>"
    if tokenizer.bos_token is None and end in tokenizer.get_vocab():
        tokenizer = PreTrainedTokenizerFast.from_pretrained(str(folder), bos_token=end, eos_token=end, pad_token=end)
    return tokenizer


def _add_gate_hooks(bridge: Any, layer: int, kind: str, bias: Tensor, idle: Tensor | None) -> None:
    kept: dict[str, Tensor] = {}
    bias = bias[:, None, None]

    def keep_scores(scores: Tensor, hook: Any) -> Tensor:
        kept["scores"] = scores
        return scores

    def close(pattern: Tensor, hook: Any) -> Tensor:
        scores = kept.pop("scores").float()  # [B, H, T, K], masked above the diagonal
        g = scores + bias if kind == "score" else scores.log_softmax(-1) + bias
        if idle is not None:
            g = g + functional.logsigmoid(scores.logsumexp(-1, keepdim=True) - idle[:, None, None])
        return pattern * (g > 0)

    bridge.add_perma_hook(f"blocks.{layer}.attn.hook_attn_scores", keep_scores)
    bridge.add_perma_hook(f"blocks.{layer}.attn.hook_pattern", close)
