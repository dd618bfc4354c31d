#!/usr/bin/env python3
"""What Python costs: openwork.Model beside the program, and beside TransformerLens. One thread, seconds of CPU time, in turns.

    pip install . ; scripts/bench_python.py [--rounds 5] [--lens PYTHON]      the table of docs/results/python.md

CPU time and not the clock's, so that other work on the machine counts little. The program's start and loading are measured by
a command that does one part of the work, and taken away; Python's model is open before. --lens names a Python that has
transformer-lens: scripts/peers/transformer_lens_sweep.py then runs in turns too.
"""

import argparse
import json
import os
import re
import resource
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"  # before torch is imported
os.environ["OPENWORK_PROGRESS"] = "0"

import openwork  # noqa: E402

ROOT = Path(__file__).resolve().parents[1]
MODEL, TOKENS, PASSES = "openwork-8m", 256, 40
PROGRAM = os.environ.get("OPENWORK_PROGRAM", "openwork")


def of_program(*words):
    """CPU seconds of a command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [PROGRAM, *words, "--threads", 1, "--device", "cpu", "--quiet"]
    subprocess.run(list(map(str, command)), check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def of_python(call):
    """CPU seconds of a call in this process."""
    before = time.process_time()
    call()
    return time.process_time() - before


def write_inputs(folder):
    """Prompts of token ids, one and many; and the copy task of tests/data as a file that `ablate` reads."""
    ids = [[(37 * n * n + 11 * p) % 8192 for n in range(TOKENS)] for p in range(PASSES)]
    (folder / "one.json").write_text(json.dumps(ids[:1]))
    (folder / "many.json").write_text(json.dumps(ids))
    copy = json.loads((ROOT / "tests" / "data" / "copy_heads.json").read_text())
    with open(folder / "copy.jsonl", "w") as file:
        for clean, corrupt in zip(copy["clean"], copy["corrupt"], strict=True):
            answers = {"at": list(range(25, 50)), "answer": clean[26:51], "wrong": corrupt[1:26]}
            file.write(json.dumps({"clean": clean, "corrupt": corrupt, **answers}) + "\n")
    return ids


def measure(folder, model, ids, lens):
    """One round: CPU seconds by name."""
    run = ["run", MODEL, "--tokens-file"]
    ablate = ["ablate", MODEL, "--task", folder / "copy.jsonl"]
    task = str(folder / "copy.jsonl")
    one, many = of_program(*run, folder / "one.json"), of_program(*run, folder / "many.json")
    alone, all_heads = of_program(*ablate, "--only", "L7H7"), of_program(*ablate)
    seconds = {
        "pass, program": (many - one) / (PASSES - 1),
        "pass, Python": 0.0,
        "pass, core alone": 0.0,
        "sweep, program": all_heads - alone,
    }
    for each in ids[1:]:
        seconds["pass, Python"] += of_python(lambda each=each: model.run(each, last_only=True).top(10)) / (PASSES - 1)
        seconds["pass, core alone"] += of_python(lambda each=each: model._core.run([each], [], [], True)) / (PASSES - 1)
    recording = of_python(lambda: model.ablate(task, only="L7H7", figure=False))
    seconds["sweep with recording, Python"] = of_python(lambda: model.ablate(task, figure=False))
    seconds["sweep, Python"] = seconds["sweep with recording, Python"] - recording
    if lens:
        peer = [lens, ROOT / "scripts" / "peers" / "transformer_lens_sweep.py", ROOT / "models" / MODEL]
        done = subprocess.run([*map(str, peer), str(ROOT / "tests" / "data" / "copy_heads.json"), "1"], check=True, capture_output=True, text=True)
        seconds["sweep with recording, TransformerLens"] = float(re.search(r"([\d.]+) s of CPU time", done.stdout)[1])
    return seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--lens", metavar="PYTHON")
    options = parser.parse_args()
    model = openwork.Model(MODEL, device="cpu")
    rounds = []
    with tempfile.TemporaryDirectory() as folder:
        ids = write_inputs(Path(folder))
        for number in range(options.rounds):
            rounds.append(measure(Path(folder), model, ids, options.lens))
            print(f"round {number + 1}, load {os.getloadavg()[0]:.1f}:", {name: round(value, 4) for name, value in rounds[-1].items()}, flush=True)

    def ratio(one, other):
        return statistics.median(each[one] / each[other] for each in rounds)

    for name in rounds[0]:
        print(f"{name:40} {statistics.median(each[name] for each in rounds):9.4f} s")
    print(f"pass: Python / program {ratio('pass, Python', 'pass, program'):.3f}, Python / core {ratio('pass, Python', 'pass, core alone'):.3f}")
    print(f"sweep: Python / program {ratio('sweep, Python', 'sweep, program'):.3f}")
    if options.lens:
        print(f"sweep with recording: TransformerLens / Python {ratio('sweep with recording, TransformerLens', 'sweep with recording, Python'):.2f}")


if __name__ == "__main__":
    main()
