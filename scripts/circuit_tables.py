#!/usr/bin/env python3
"""The Markdown table of docs/results/circuits.md from the folders of JSON that scripts/circuits.sh wrote.

    scripts/circuit_tables.py FOLDER...

One row per task and level: the sizes of the dense and the sparse circuit of the first seed with their 95 % intervals, those
of the other seeds behind them, and how many times fewer the sparse model needs over all seeds.
"""
import json
import pathlib
import sys

TASKS = ["copy", "ioi", "greater-than", "docstring", "opposite"]
LEVELS = ["head", "attention-edge", "graph-edge"]


def place(path):
    task, level = path.stem, ""
    for name in LEVELS:
        if path.stem.endswith("-" + name):
            task, level = path.stem[: -len(name) - 1], name
    return (TASKS.index(task) if task in TASKS else len(TASKS), task, LEVELS.index(level) if level else -1)


def size(model):
    key = "heads_at_threshold" if model["level"] == "head" else "edges_at_threshold"
    low, high = model["threshold_interval"]
    text = f"{model[key]:,} of {model['candidates']:,} [{low:,.0f}, {high:,.0f}]"
    others = [f"{seed[key]:,}" for seed in model["seeds"][1:]]
    return text + (f"; {', '.join(others)}" if others else "")


def row(path):
    result = json.loads(path.read_text())
    dense, sparse = result["models"][0], result["models"][-1]
    comparison, protocol = result["comparison"][-1], result["protocol"]
    low, high = comparison["interval"]
    return (
        f"| {protocol['task']} | {dense['level']} | {protocol['prompts']} | {dense['clean_metric']:.2f}, "
        f"{sparse['clean_metric']:.2f} | {size(dense)} | {size(sparse)} | {comparison['ratio']:.2f} [{low:.2f}, {high:.2f}] |"
    )


def main():
    files = [path for folder in sys.argv[1:] for path in sorted(pathlib.Path(folder).glob("*.json"), key=place)]
    if not files:
        sys.exit(f"no results in {' '.join(sys.argv[1:]) or 'nothing'}: run scripts/circuits.sh first")
    print("| task | level | prompts | metric | dense | sparse | times fewer |\n|---|---|---|---|---|---|---|")
    for path in files:
        print(row(path))


main()
