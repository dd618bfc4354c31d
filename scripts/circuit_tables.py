#!/usr/bin/env python3
"""The Markdown tables of docs/results/circuits.md from the folders of JSON that scripts/circuits.sh wrote.

    scripts/circuit_tables.py FOLDER...

The first table has a row for each task, level and model (base, control, sparse): the size of the circuit of the first seed
with its 95 % interval, those of the other seeds behind it, the sizes at 50, 80, 90 and 95 % faithfulness, the area under the
curve and the mean size over all thresholds. The second has a row for each pair of them: how many times fewer parts the latter
needs than the former, over all seeds. Where spare heads were dropped, their rows follow.
"""
import json
import pathlib
import sys

TASKS = ["copy", "ioi", "greater-than", "docstring", "opposite"]
LEVELS = ["head", "attention-edge", "graph-edge"]
SHARES = ["0.5", "0.8", "0.9", "0.95"]
ROLES = {1: ["base"], 2: ["base", "sparse"], 3: ["base", "control", "sparse"]}


def place(path):
    task, level = path.stem, ""
    for name in LEVELS:
        if path.stem.endswith("-" + name):
            task, level = path.stem[: -len(name) - 1], name
    return (TASKS.index(task) if task in TASKS else len(TASKS), task, LEVELS.index(level) if level else -1)


def roles(result):
    """What each model is; its name where there are more of them than three."""
    names = [model["name"] for model in result["models"]]
    return ROLES.get(len(names), names)


def interval(pair, digits):
    return "" if pair is None else f" [{pair[0]:,.{digits}f}, {pair[1]:,.{digits}f}]"


def size_rows(result):
    protocol = result["protocol"]
    for role, model in zip(roles(result), result["models"]):
        key = "heads_at_threshold" if model["level"] == "head" else "edges_at_threshold"
        others = [f"{seed[key]:,}" for seed in model["seeds"][1:]]
        size = f"{model[key]:,} of {model['candidates']:,}{interval(model['threshold_interval'], 0)}"
        cells = [protocol["task"], model["level"], role, f"{model['clean_metric']:.2f}"]
        cells.append("; ".join([size, ", ".join(others)] if others else [size]))
        cells += [f"{model['at'][share]:,}" for share in SHARES]
        yield cells + [f"{model['area']:.4f}", f"{model['mean_size']:,.1f}"]
        if "greedy" in model:
            others = [f"{seed['greedy']['heads']:,}" for seed in model["seeds"][1:]]
            size = f"{len(model['greedy']['heads']):,}"
            dropped = "; ".join([size, ", ".join(others)] if others else [size])
            counts = [f"{model['greedy']['at'][share]:,}" for share in SHARES]
            yield [protocol["task"], "head, spare ones dropped", role, "", dropped] + counts + ["", ""]


def ratio(entry):
    return f"{entry['ratio']:.2f}{interval(entry['interval'], 2)}"


def ratio_rows(result):
    protocol, named, level = result["protocol"], roles(result), result["models"][0]["level"]
    pairs = [(a, b) for a in range(len(named)) for b in range(a + 1, len(named))]
    for (a, b), row in zip(pairs, result["comparison"]):
        pair = f"{named[a]} / {named[b]}"
        cells = [protocol["task"], level, pair, ratio(row)]
        yield cells + [ratio(row["at"][share]) for share in SHARES] + [ratio(row["mean_size"])]
        if "greedy" in row:
            cells = [protocol["task"], "head, spare ones dropped", pair, ratio(row["greedy"])]
            yield cells + [ratio(row["greedy"]["at"][share]) for share in SHARES] + [""]


def print_table(head, rows):
    print("| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(row) + " |")


def main():
    files = [path for folder in sys.argv[1:] for path in sorted(pathlib.Path(folder).glob("*.json"), key=place)]
    if not files:
        sys.exit(f"no results in {' '.join(sys.argv[1:]) or 'nothing'}: run scripts/circuits.sh first")
    results = [json.loads(path.read_text()) for path in files]
    percent = [f"{float(share):.0%}".replace("%", " %") for share in SHARES]
    print_table(
        ["task", "level", "model", "metric", "at the threshold"] + percent + ["area", "mean size"],
        [row for result in results for row in size_rows(result)],
    )
    print()
    print_table(
        ["task", "level", "times fewer", "at the threshold"] + percent + ["mean size"],
        [row for result in results for row in ratio_rows(result)],
    )


main()
