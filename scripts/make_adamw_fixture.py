#!/usr/bin/env python3
"""Makes tests/data/adamw.safetensors: what PyTorch's AdamW does to tests/data/gpt2 in 1 and 20 steps.

    python scripts/make_adamw_fixture.py

The tiny model learns one fixed batch in fp32: torch.optim.AdamW (rate 3e-3, betas 0.9 and 0.95, epsilon 1e-8; weight
decay 0.1 on matrices, none on embeddings, norms and biases), gradients clipped to a norm of 1. The file holds the
batch (`tokens` [6, 33]), `losses` before each of the 20 steps, and after steps 1 and 20 some parameters as
`after_1.NAME`, `after_20.NAME`. The committed file was made with torch 2.11.0 and transformers 5.22.2.
"""
import torch
from safetensors.torch import save_file
from transformers import GPT2LMHeadModel

KEPT = ["transformer.wpe.weight", "transformer.h.0.ln_1.weight", "transformer.h.1.attn.c_attn.weight",
        "transformer.h.1.attn.c_attn.bias", "transformer.h.2.mlp.c_proj.weight", "transformer.ln_f.bias"]


def is_decayed(name):
    return name.endswith(".weight") and not any(part in name for part in ("wte", "wpe", "ln_"))


def main():
    torch.manual_seed(7)
    model = GPT2LMHeadModel.from_pretrained("tests/data/gpt2", attn_implementation="eager").float().train()
    tokens = torch.randint(0, 97, (6, 33))
    named = list(model.named_parameters())
    optimiser = torch.optim.AdamW(
        [{"params": [p for n, p in named if is_decayed(n)], "weight_decay": 0.1},
         {"params": [p for n, p in named if not is_decayed(n)], "weight_decay": 0.0}],
        lr=3e-3, betas=(0.9, 0.95), eps=1e-8)
    saved, losses = {"tokens": tokens}, []
    for step in range(1, 21):
        optimiser.zero_grad()
        logits = model(tokens[:, :-1]).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        losses.append(loss.item())
        if step in (1, 20):
            saved.update({f"after_{step}.{n}": p.detach().clone() for n, p in named if n in KEPT})
    saved["losses"] = torch.tensor(losses, dtype=torch.float32)
    save_file(saved, "tests/data/adamw.safetensors")
    print(losses[0], losses[-1])


if __name__ == "__main__":
    main()
