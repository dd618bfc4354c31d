#!/usr/bin/env python3
"""The head sweep as people write it with TransformerLens: one hooked forward pass per head, fp32, on the CPU.

    pip install transformer-lens
    scripts/peers/transformer_lens_sweep.py models/openwork-8m tests/data/copy_heads.json [REPEATS]

A hook puts the head's mean over the corrupt prompts, per position, in place of its z; the metric is read; effect = clean -
ablated. Prints the seconds of each sweep (the clean and corrupt runs are part of it), on the clock and of CPU time, and how far the effects are from the file's.
`openwork bench circuit` is the same sweep here: run the two in turns. On a busy machine compare CPU times with one thread
(OMP_NUM_THREADS=1, openwork ablate --threads 1).
"""
import json
import statistics
import sys
import time

import torch
from transformer_lens.model_bridge import TransformerBridge
from transformers import AutoModelForCausalLM

READ = slice(25, 50)  # positions of the copy task's second half


def metric(logits, clean, corrupt):
    rows = logits[:, READ]
    answers, wrongs = clean[:, 26:51], corrupt[:, 1:26]
    return (rows.gather(2, answers[..., None]) - rows.gather(2, wrongs[..., None])).mean().item()


@torch.no_grad()
def sweep(model, clean, corrupt):
    names = [f"blocks.{layer}.attn.hook_z" for layer in range(model.cfg.n_layers)]
    heads, size = model.cfg.n_heads, model.cfg.d_head
    _, cache = model.run_with_cache(corrupt, names_filter=lambda name: name in names)
    base = metric(model(clean), clean, corrupt)
    effects = []
    for name in names:
        mean = cache[name].mean(0).unflatten(-1, (heads, size)) if cache[name].dim() == 3 else cache[name].mean(0)
        for head in range(heads):

            def replace(z, hook, head=head):
                z = z.clone()
                z.view(*z.shape[:2], heads, size)[:, :, head] = mean[:, head]
                return z

            effects.append(base - metric(model.run_with_hooks(clean, fwd_hooks=[(name, replace)]), clean, corrupt))
    return effects


def main():
    folder, fixture, repeats = sys.argv[1], json.load(open(sys.argv[2])), int(sys.argv[3]) if len(sys.argv) > 3 else 3
    hf_model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    model = TransformerBridge.boot_transformers(folder, hf_model=hf_model, device="cpu")
    clean, corrupt = torch.tensor(fixture["clean"]), torch.tensor(fixture["corrupt"])
    expected = [effect for layer in fixture["mean_ablation_effect"] for effect in layer]
    seconds = []
    for _ in range(repeats):
        start, work = time.perf_counter(), time.process_time()
        effects = sweep(model, clean, corrupt)
        seconds.append(time.perf_counter() - start)
        work = time.process_time() - work
        difference = max(abs(a - b) for a, b in zip(effects, expected))
        print(f"{len(effects)} heads, {len(clean)} x {clean.shape[1]}: {seconds[-1]:.3f} s ({work:.3f} s of CPU time)", flush=True)
        print(f"largest difference {difference:.1e}")
    print(f"median {statistics.median(seconds):.3f} s, torch {torch.__version__}, {torch.get_num_threads()} threads")


main()
