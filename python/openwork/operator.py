"""The operator: causal attention with a gate on every edge (docs/operator.md has the formulas).

It is registered with PyTorch's dispatcher in C++ (libopenwork_ops.so): gradients, fake tensors for torch.compile, autocast,
CPU and CUDA kernels. What is here gives it names, types and one-line errors.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from .errors import InputError

GATES = ("score", "logprob", "idle")


class GatedAttentionResult(NamedTuple):
    """What gated_attention returns."""

    out: Tensor
    """[B, H, T, d], as q."""
    penalty: Tensor
    """[B, H], the mean of sigmoid(g) over causal pairs; float32, float64 where q is. What training lowers."""
    active: Tensor
    """[B, H] int64, how many gates are open; no gradient."""


def gated_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    bias: Tensor,
    idle: Tensor | None = None,
    *,
    gate: str = "score",
    seed: int | None = None,
    first: int = 0,
    scale: float | None = None,
    sharpness: float = 1.0,
) -> GatedAttentionResult:
    """Causal softmax attention whose every edge (head, query, key) has a gate; nothing of size T x T is stored.

    q [B, H, T, d]; k, v [B, Hkv, T, d] with H a multiple of Hkv; bias [H], and with gate "idle" idle [H], float32 or q's
    dtype. gate is "score", "logprob" or "idle". A seed means sampled gates (training), none means hard ones; uniforms are a
    pure function of (seed, first + sample, head, query, key). scale is 1/sqrt(d) unless given; sharpness is 1, 2 or 4.
    Differentiable once in q, k, v, bias and idle.
    """
    call = torch.ops.openwork.gated_attention
    if torch.compiler.is_compiling():
        return GatedAttentionResult(*call(q, k, v, bias, idle, gate=gate, seed=seed, first=first, scale=scale, sharpness=sharpness))
    try:
        results = call(q, k, v, bias, idle, gate=gate, seed=seed, first=first, scale=scale, sharpness=sharpness)
    except (RuntimeError, TypeError) as error:
        line = str(error).splitlines()[0]
        if not line.startswith("gated_attention"):
            raise
        raise InputError(f"{line}; openwork.gated_attention; see its help for shapes and dtypes") from None
    return GatedAttentionResult(*results)


class GatedAttention(nn.Module):
    """Gated attention with its gates' parameters: a bias and, with gate "idle", an idle score for each head, both learned.

    Called with q, k, v as gated_attention takes them. In training mode a seed is wanted (the step's number, say: every
    module mixes in its own `layer`); in evaluation gates are hard. `penalty` and `active` are those of the last call.

        attend = openwork.GatedAttention(heads=12, layer=3)
        out = attend(q, k, v, seed=step)
        loss = loss + weight * attend.penalty.mean()
    """

    def __init__(
        self,
        heads: int,
        *,
        gate: str = "idle",
        bias: float = 5.0,
        idle: float = 5.0,
        layer: int = 0,
        scale: float | None = None,
        sharpness: float = 1.0,
        device: torch.device | str | None = None,
    ) -> None:
        super().__init__()
        if gate not in GATES:
            raise InputError(f"gate is '{gate}'; GatedAttention; use 'score', 'logprob' or 'idle'")
        self.gate, self.layer, self.scale, self.sharpness = gate, layer, scale, sharpness
        self.gate_bias = nn.Parameter(torch.full((heads,), float(bias), device=device))
        self.gate_idle = nn.Parameter(torch.full((heads,), float(idle), device=device)) if gate == "idle" else None
        self.penalty: Tensor | None = None
        self.active: Tensor | None = None

    def forward(self, q: Tensor, k: Tensor, v: Tensor, *, seed: int | None = None, first: int = 0) -> Tensor:
        """Attention's output [B, H, T, d]. `first` is the index of the call's first sample in the step's batch."""
        if self.training and seed is None:
            raise InputError("no seed in training mode; GatedAttention; pass seed=step, or call eval() for hard gates")
        drawn = layer_seed(seed, self.layer) if self.training and seed is not None else None
        result = gated_attention(
            q, k, v, self.gate_bias, self.gate_idle,
            gate=self.gate, seed=drawn, first=first, scale=self.scale, sharpness=self.sharpness,
        )  # fmt: skip
        self.penalty, self.active = result.penalty, result.active
        return result.out

    def extra_repr(self) -> str:
        return f"heads={self.gate_bias.numel()}, gate={self.gate!r}, layer={self.layer}"


def layer_seed(seed: int, layer: int) -> int:
    """A layer's own seed, 64 bits. The noise's generator mixes well; two layers of a step, and two steps, only must differ."""
    wide = seed * 65536 + layer
    if not -(1 << 63) <= wide < 1 << 63:
        wide = (wide + (wide >> 64) * 0x9E3779B97F4A7C15) % (1 << 64)
    return wide - (1 << 64) if wide >= 1 << 63 else wide
