"""The program's attribution graph against circuit-tracer's definition worked out by autograd, on every edge."""

import json
import subprocess

import pytest

torch = pytest.importorskip("torch")

from circuit_graph import PROMPT, edges_to_answer, make_fixture, read_safetensors  # noqa: E402
from conftest import DATA, PROGRAM  # noqa: E402

FOLDER = DATA / "relu_gpt2"


def trace_edges(ids, folder):
    """{target: {source: weight}} of the whole graph, biases (no nodes of circuit-tracer's) left out."""
    file = folder / "graph.json"
    words = [PROGRAM, "trace", FOLDER, "--tokens", ",".join(map(str, ids)), "--transcoder", FOLDER / "transcoders",
             "--node-threshold", "1", "--edge-threshold", "1", "--graph", file, "--device", "cpu", "--quiet"]
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    edges = {}
    for link in json.loads(file.read_text())["links"]:
        if not link["source"].startswith("bias_"):
            edges.setdefault(link["target"], {})[link["source"]] = link["weight"]
    return edges


@pytest.mark.parametrize("ids", [PROMPT, [3, 3, 9, 40, 0, 21, 8], [12]])
def test_every_edge_is_what_autograd_gives_on_the_replaced_model(ids, tmp_path):
    wanted, seen = edges_to_answer(FOLDER, ids), trace_edges(ids, tmp_path)
    assert set(seen) == set(wanted)
    count = 0
    for target, row in wanted.items():
        for source in set(row) | set(seen[target]):
            weight, other = row.get(source, 0.0), seen[target].get(source, 0.0)
            assert abs(weight - other) <= 1e-4 * max(1.0, abs(weight)), (source, target, weight, other)
            count += 1
    assert count > 10 * len(ids)


def test_the_fixture_is_what_its_seed_makes(tmp_path):
    make_fixture(tmp_path)
    for name in ("model.safetensors", "transcoders/layer_1.safetensors"):
        for key, tensor in read_safetensors(FOLDER / name).items():
            assert torch.allclose(tensor, read_safetensors(tmp_path / name)[key], atol=1e-6), key
