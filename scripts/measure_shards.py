#!/usr/bin/env python3
"""Memory of a process of a training run that ranks share, predicted beside measured, on the CPU of this machine.

    scripts/measure_shards.py [--shape 124m|350m|1b] [--ranks 1,2,4] [--dtypes fp32,bf16] [--program build/openwork]
                              [--steps 3] [--context 64] [--rows 4] [--to FOLDER]

For each dtype and number of ranks it pretrains a model of the shape from nothing for a few steps of `rows` rows of `context`
tokens, on the committed text and openwork-8m's tokenizer, with Gloo over loopback, and prints a Markdown row: what the program
said beforehand (the parts in GB) and the peak resident memory of the largest rank. Runs that end at the same weights are told
so: the loss of the last line is beside. FOLDER (a temporary one) needs room for a checkpoint and the model: 16 bytes a weight.

The 1B shape (OLMo-1B's) on a machine with 128 GiB:  scripts/measure_shards.py --shape 1b --ranks 1,2,4
"""
import argparse
import json
import os
import pathlib
import shutil
import socket
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
COMMON = {"max_position_embeddings": 2048, "vocab_size": 50304, "rope_theta": 10000.0, "hidden_act": "silu",
          "model_type": "olmo", "tie_word_embeddings": True}
SHAPES = {
    "124m": {"num_hidden_layers": 12, "num_attention_heads": 12, "hidden_size": 768, "intermediate_size": 2048},
    "350m": {"num_hidden_layers": 24, "num_attention_heads": 16, "hidden_size": 1024, "intermediate_size": 2816},
    "1b": {"num_hidden_layers": 16, "num_attention_heads": 16, "hidden_size": 2048, "intermediate_size": 8192},
}


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def run(options, folder, config, dtype, ranks):
    """The report of a run of so many ranks."""
    out = folder / f"{dtype}-{ranks}"
    shutil.rmtree(out, ignore_errors=True)
    command = [options.program, "pretrain", "--config", config, "--tokenizer", ROOT / "models/openwork-8m/tokenizer.json",
               "--data", ROOT / "tests/data/held_out.txt", "--held-out", "0.2", "--held-out-blocks", "2", "--out", out,
               "--steps", options.steps, "--context", options.context, "--batch-tokens", options.rows * options.context,
               "--checkpoint-every", "0", "--log-every", "1", "--dtype", dtype, "--device", "cpu"]
    if ranks == 1:
        command += ["--accumulate", options.passes]
    place = {"WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    jobs = []
    for rank in range(ranks):
        here = dict(os.environ, RANK=str(rank), LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE=str(ranks), **place)
        log = (folder / f"{dtype}-{ranks}.{rank}.log").open("w")
        jobs.append(subprocess.Popen([str(part) for part in command], env=here if ranks > 1 else None, cwd=ROOT,
                                     stdout=log, stderr=log))
    try:
        codes = [job.wait() for job in jobs]
    finally:  # where the script is stopped, they are too
        for job in jobs:
            job.kill()
    if any(codes):
        raise SystemExit(f"{dtype}, {ranks} ranks: exit codes {codes}; see {folder}/{dtype}-{ranks}.0.log")
    report = json.loads((out / "report.json").read_text())
    loss = json.loads((out / "metrics.jsonl").read_text().splitlines()[-1])["loss"]
    shutil.rmtree(out)
    return report["trained"]["training"]["memory"], loss


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", choices=SHAPES, default="124m")
    parser.add_argument("--ranks", default="1,2,4")
    parser.add_argument("--dtypes", default="fp32,bf16")
    parser.add_argument("--program", default=str(ROOT / "build/openwork"))
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--context", type=int, default=64)
    parser.add_argument("--rows", type=int, default=4, help="of a step, shared by the ranks")
    parser.add_argument("--passes", type=int, default=1, help="--accumulate of one process alone")
    parser.add_argument("--to", help="a folder to work in")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.to) as name:
        folder = pathlib.Path(options.to or name)
        config = folder / f"{options.shape}.json"
        config.write_text(json.dumps(COMMON | SHAPES[options.shape]))
        parts = ["weights", "gradients", "moments", "exchange", "activations", "program"]
        print("| dtype | ranks | " + " | ".join(parts) + " | predicted | measured | apart | loss of the last step |")
        print("|" + "---|" * (len(parts) + 6))
        for dtype in options.dtypes.split(","):
            for ranks in map(int, options.ranks.split(",")):
                memory, loss = run(options, folder, config, dtype, ranks)
                said, seen = memory["predicted"], memory["measured"]
                numbers = [f"{said[part] / 1e9:.2f}" for part in parts] + [f"{said['total'] / 1e9:.2f}", f"{seen / 1e9:.2f}"]
                print(f"| {dtype} | {ranks} | " + " | ".join(numbers) +
                      f" | {100 * (said['total'] / seen - 1):+.1f} % | {loss:.6f} |", flush=True)


if __name__ == "__main__":
    main()
