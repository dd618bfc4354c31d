#!/usr/bin/env python3
"""What gates cost a training step: GPT-2 124M in transformers, openwork's attention beside sdpa, on a GPU, in turns.

    pip install . transformers ; scripts/bench_python_gpu.py [--rounds 10] [--json FILE]     for docs/results/python.md

A step is forward, backward and AdamW on 8 x 1024 tokens under bf16 autocast. Weights and tokens are random and dropout is off:
neither changes what a step takes. Every variant is a model of its own and takes its step in each round; a ratio is the median of
the rounds' ratios to sdpa. --tiny --device cpu runs the same code on a small model, to see that it does.
"""

import argparse
import json
import statistics
import time

import torch
import transformers

import openwork
from openwork import written_out


def refuse(*_, **__):
    raise SystemExit("the written-out form was called: not the operator's time")


def make_model(options, implementation, gate=None, **gates):
    """A GPT-2 of random weights with its optimiser; `gates` are fields of openwork.gates_of(model)."""
    torch.manual_seed(0)
    size = {"n_layer": 2, "n_embd": 128, "n_head": 2, "vocab_size": 512} if options.tiny else {}
    config = transformers.GPT2Config(n_positions=options.context, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, **size)
    config._attn_implementation = implementation
    with torch.device(options.device):
        model = transformers.GPT2LMHeadModel(config).train()
    if gate is not None:
        openwork.add_gates(model, gate)
        for name, value in gates.items():
            setattr(openwork.gates_of(model), name, value)
    assert model.config._attn_implementation == implementation
    return model, torch.optim.AdamW(model.parameters(), lr=1e-4, fused=options.device != "cpu")


def variants(options):
    """By name: model, optimiser, and the weight of the gates' penalty in the loss."""
    return {
        "sdpa": (*make_model(options, "sdpa"), 0),
        "openwork, no gates": (*make_model(options, "openwork"), 0),
        "idle, hard": (*make_model(options, "openwork", "idle", sampled=False), 0),
        "idle, sampled": (*make_model(options, "openwork", "idle"), 0),
        "idle, sampled, penalty": (*make_model(options, "openwork", "idle"), 1),
        "logprob, sampled, penalty": (*make_model(options, "openwork", "logprob"), 1),
        "score, sampled, penalty": (*make_model(options, "openwork", "score"), 1),
    }


def synchronise(device):
    if device != "cpu":
        torch.cuda.synchronize()


def take_step(options, ids, model, optimiser, weight):
    """Milliseconds, MB above what was there before, and the loss of one step."""
    on_gpu = options.device != "cpu"
    synchronise(options.device)
    before = torch.cuda.memory_allocated() if on_gpu else 0
    if on_gpu:
        torch.cuda.reset_peak_memory_stats()
    start = time.perf_counter()
    with torch.autocast(options.device, dtype=torch.bfloat16):
        loss = model(ids, labels=ids).loss
    whole = loss + weight * openwork.penalty(model) if weight else loss
    whole.backward()
    optimiser.step()
    optimiser.zero_grad()
    synchronise(options.device)
    took = 1e3 * (time.perf_counter() - start)
    return took, (torch.cuda.max_memory_allocated() - before) / 1e6 if on_gpu else 0.0, loss.item()


def measure(options):
    """Rows by variant: the milliseconds of every round, and the last one's memory and loss."""
    models = variants(options)
    vocabulary = models["sdpa"][0].config.vocab_size
    ids = torch.randint(vocabulary, (options.batch, options.context), generator=torch.Generator().manual_seed(0)).to(options.device)
    rows = {name: {"milliseconds": []} for name in models}
    for number in range(options.warm_up + options.rounds):
        for name, parts in models.items():
            took, memory, loss = take_step(options, ids, *parts)
            rows[name] |= {"step_memory_mb": memory, "loss": loss}
            if number < options.warm_up:
                rows[name].setdefault("first_loss", loss)
            else:
                rows[name]["milliseconds"].append(took)
    for name, row in rows.items():
        row["median_ms"] = statistics.median(row["milliseconds"])
        row["ratio"] = statistics.median(mine / sdpa for mine, sdpa in zip(row["milliseconds"], rows["sdpa"]["milliseconds"], strict=True))
        gates = openwork.gates_of(models[name][0], default=None)
        if gates is not None:
            pairs = options.batch * models[name][0].config.n_head * options.context * (options.context + 1) // 2
            row["open_gates"] = sum(active.sum().item() for active in gates.active.values()) / (pairs * len(gates.active))
    return rows, sum(parameter.numel() for parameter in models["sdpa"][0].parameters())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--warm-up", type=int, default=3)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--context", type=int, default=1024)
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    if options.device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU here; bench_python_gpu.py; --tiny --device cpu shows that it runs")
    written_out.attend = refuse
    rows, parameters = measure(options)
    device = torch.cuda.get_device_name() if options.device == "cuda" else "cpu"
    versions = {"torch": torch.__version__, "transformers": transformers.__version__, "openwork": openwork.__version__}
    print(f"{device}, {versions}, {parameters / 1e6:.1f} million parameters, {options.batch} x {options.context} tokens, bf16 autocast")
    print(f"{'step by':28} {'ms':>9} {'least':>9} {'most':>9} {'to sdpa':>8} {'MB':>8} {'loss':>15} {'open gates':>11}")
    for name, row in rows.items():
        times, losses = row["milliseconds"], f"{row.get('first_loss', row['loss']):.3f} -> {row['loss']:.3f}"
        share = f"{row['open_gates']:.4f}" if "open_gates" in row else ""
        print(f"{name:28} {row['median_ms']:9.2f} {min(times):9.2f} {max(times):9.2f} {row['ratio']:8.3f} {row['step_memory_mb']:8.0f} {losses:>15} {share:>11}")
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"device": device, "versions": versions, "parameters": parameters, "protocol": vars(options), "steps": rows}, file, indent=1)


if __name__ == "__main__":
    main()
