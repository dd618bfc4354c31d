"""Gated attention line by line in torch, for rows that do not all see every earlier token: behind a key/value cache, or with
padding. The same numbers as the operator where both apply (docs/operator.md); stores tensors of size T x K.
"""

import torch
from torch import Tensor
from torch.nn import functional


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    bias: Tensor,
    idle: Tensor | None = None,
    *,
    gate: str,
    mask: Tensor | None = None,
    seed: int | None = None,
    scale: float | None = None,
    sharpness: float = 1.0,
) -> tuple[Tensor, Tensor, Tensor]:
    """q [B, H, T, d], k and v [B, Hkv, K, d]: out [B, H, T, d], penalty [B, H], active [B, H].

    mask [B, 1 or H, T, K] is True (or, of numbers, 0) where an edge may be; None: each row sees all keys up to its own.
    """
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
    seen = _seen(mask, q.shape[2], k.shape[2], q.device)  # [B or 1, 1 or H, T, K]
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    scores = (q.float() @ k.float().transpose(-1, -2)) * scale
    # A row that sees nothing (padding) attends to nothing: its numbers stay finite and are masked below.
    scores = scores.masked_fill(~seen, torch.finfo(scores.dtype).min)
    total = scores.logsumexp(-1, keepdim=True)
    per_head = bias.float()[:, None, None]
    if gate == "score":
        g = scores + per_head
    else:
        g = scores - total + per_head
    if gate == "idle":
        g = g + functional.logsigmoid(total - idle.float()[:, None, None])  # type: ignore[union-attr]
    g = g * sharpness
    z = _open(g, seed)
    out = ((scores - total).exp() * z * seen) @ v.float()
    pairs = seen.expand(q.shape[0], q.shape[1], -1, -1)
    count = pairs.sum((-1, -2)).clamp(min=1)
    penalty = (g.sigmoid() * seen).sum((-1, -2)) / count
    return out.to(q.dtype), penalty, (z.detach() * seen).sum((-1, -2)).long()


def _seen(mask: Tensor | None, rows: int, keys: int, device: torch.device) -> Tensor:
    if mask is None:  # row i is the token at keys - rows + i
        ahead = torch.arange(keys, device=device) - torch.arange(rows, device=device)[:, None]
        return (ahead <= keys - rows)[None, None]
    return mask if mask.dtype == torch.bool else mask == 0


def _open(g: Tensor, seed: int | None) -> Tensor:
    """z: hard, or drawn with the operator's own uniforms and the gradient of sigmoid(g + logit u) straight through."""
    if seed is None:
        return (g > 0).float()
    soft = (g + _noise(g, seed)).sigmoid()
    return (soft > 0.5).float() + soft - soft.detach()


@torch.compiler.disable  # a graph for each seed would be worse than a break
def _noise(g: Tensor, seed: int) -> Tensor:
    batch, heads, rows, keys = g.shape
    uniforms = torch.ops.openwork.gate_uniforms(batch, heads, max(rows, keys), seed)[:, :, -rows:, :keys]
    return torch.logit(uniforms).to(g)
