"""Pages of BertViz and CircuitsVis with as many heads and tokens as asked, for viewer/test/peers.mjs to open.

    python3 -m venv /tmp/peers && /tmp/peers/bin/pip install torch numpy bertviz circuitsvis
    /tmp/peers/bin/python scripts/peer_pages.py OUT LAYERS HEADS TOKENS

Attention is made up: every row a softmax over the tokens up to it, the same numbers for both. BertViz asks a CDN for its
libraries (peers.mjs answers from a folder); CircuitsVis is written with its script inside.
"""
import pathlib
import sys

import bertviz
import circuitsvis.attention
import numpy
import torch


def make_attention(heads: int, tokens: int) -> numpy.ndarray:
    """[heads, tokens, tokens] float32: query by key, rows sum to 1, nothing above the diagonal."""
    scores = numpy.random.default_rng(1).normal(0, 2, (heads, tokens, tokens)).astype(numpy.float32)
    scores[:, numpy.triu_indices(tokens, 1)[0], numpy.triu_indices(tokens, 1)[1]] = -numpy.inf
    weights = numpy.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def write_page(path: pathlib.Path, body: str) -> None:
    path.write_text(f'<!DOCTYPE html>\n<html><head><meta charset="utf-8"></head><body>{body}</body></html>\n')
    print(path, path.stat().st_size)


def main() -> None:
    folder, (layers, heads, tokens) = pathlib.Path(sys.argv[1]), map(int, sys.argv[2:5])
    folder.mkdir(parents=True, exist_ok=True)
    attention, words = make_attention(layers * heads, tokens), [f" word{n}" for n in range(tokens)]
    name = f"{layers * heads}x{tokens}.html"
    shown = circuitsvis.attention.attention_heads(attention, words)
    write_page(folder / f"circuitsvis-{name}", shown.local_src)
    del shown
    by_layer = [torch.from_numpy(one).unsqueeze(0) for one in attention.reshape(layers, heads, tokens, tokens)]
    write_page(folder / f"bertviz-{name}", bertviz.model_view(by_layer, words, html_action="return").data)


main()
