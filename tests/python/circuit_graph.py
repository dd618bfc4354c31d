"""circuit-tracer's attribution graph of a GPT-2 with ReLU transcoders, by autograd and nothing of openwork.

The replaced model: MLP outputs are what the transcoders write plus an error that makes them exact. Attention patterns
and the denominators of norms are held as the prompt has them. An edge is the gradient of the target's pre-activation
(a feature's, or the logit's with the unembedding's mean over the vocabulary taken off), at the place where the source
writes, times what it writes: activation times decoder row, the error, the token's embedding. No gradient passes an MLP.

    python3 tests/python/circuit_graph.py FOLDER    writes the fixture and its edges there (tests/data/relu_gpt2)
"""

import json
import struct
import sys
from pathlib import Path

import torch

LAYERS, WIDTH, HEADS, VOCABULARY, POSITIONS, FEATURES = 3, 24, 3, 41, 12, 14
PROMPT = [5, 17, 2, 30, 11]
EPSILON = 1e-5


def write_safetensors(path, tensors):
    header, data = {}, b""
    for name, tensor in tensors.items():
        part = tensor.detach().contiguous().to(torch.float32).numpy().tobytes()
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [len(data), len(data) + len(part)]}
        data += part
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    Path(path).write_bytes(struct.pack("<Q", len(text)) + text + data)


def read_safetensors(path):
    raw = Path(path).read_bytes()
    start = 8 + struct.unpack("<Q", raw[:8])[0]
    found = {}
    for name, entry in json.loads(raw[8:start]).items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        values = torch.frombuffer(bytearray(raw[start + begin : start + end]), dtype=torch.float32)
        found[name] = values.reshape(entry["shape"]).double()
    return found


def make_fixture(folder):
    """A random GPT-2 and ReLU transcoders of it; the embedding's mean over the vocabulary is 0."""
    generator = torch.Generator().manual_seed(20)

    def draw(*shape, scale):
        return scale * torch.randn(*shape, generator=generator)

    embedding = draw(VOCABULARY, WIDTH, scale=0.6)
    model = {"wte.weight": embedding - embedding.mean(0), "wpe.weight": draw(POSITIONS, WIDTH, scale=0.2)}
    for n in range(LAYERS):
        for name, rows, columns in (("attn.c_attn", WIDTH, 3 * WIDTH), ("attn.c_proj", WIDTH, WIDTH),
                                    ("mlp.c_fc", WIDTH, 4 * WIDTH), ("mlp.c_proj", 4 * WIDTH, WIDTH)):
            model[f"h.{n}.{name}.weight"] = draw(rows, columns, scale=0.9 / rows**0.5)
            model[f"h.{n}.{name}.bias"] = draw(columns, scale=0.1)
        for norm in ("ln_1", "ln_2"):
            model[f"h.{n}.{norm}.weight"] = 1 + draw(WIDTH, scale=0.1)
            model[f"h.{n}.{norm}.bias"] = draw(WIDTH, scale=0.1)
    model["ln_f.weight"], model["ln_f.bias"] = 1 + draw(WIDTH, scale=0.1), draw(WIDTH, scale=0.1)
    folder = Path(folder)
    (folder / "transcoders").mkdir(parents=True, exist_ok=True)
    write_safetensors(folder / "model.safetensors", model)
    config = {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "activation_function": "gelu_new",
              "n_embd": WIDTH, "n_head": HEADS, "n_layer": LAYERS, "n_positions": POSITIONS,
              "vocab_size": VOCABULARY, "layer_norm_epsilon": EPSILON, "tie_word_embeddings": True,
              "bos_token_id": 0, "eos_token_id": 0}
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    for n in range(LAYERS):
        write_safetensors(folder / "transcoders" / f"layer_{n}.safetensors", {
            "W_enc": draw(FEATURES, WIDTH, scale=WIDTH**-0.5), "b_enc": draw(FEATURES, scale=0.2),
            "W_dec": draw(FEATURES, WIDTH, scale=0.3), "b_dec": draw(WIDTH, scale=0.1)})
    (folder / "transcoders" / "config.yaml").write_text(
        "model_name: relu_gpt2\nmodel_kind: transcoder_set\nfeature_input_hook: ln2.hook_normalized\n"
        "feature_output_hook: hook_mlp_out\nscan: relu_gpt2\n")


class Replaced:
    """The replaced model on one prompt; in float64, so that what differs is the other side's rounding."""

    def __init__(self, folder, ids):
        self.ids, self.weights = ids, read_safetensors(Path(folder) / "model.safetensors")
        self.sets = [read_safetensors(Path(folder) / "transcoders" / f"layer_{n}.safetensors") for n in range(LAYERS)]
        tokens = self.weights["wte.weight"][ids] + self.weights["wpe.weight"][: len(ids)]
        with torch.no_grad():
            self.held = {}
            self.run(tokens, [None] * LAYERS)
        # What sources write is cut from what made it: gradients stop there.
        self.tokens = tokens.clone().requires_grad_()
        self.outputs = [self.held[f"out{n}"].clone().requires_grad_() for n in range(LAYERS)]
        self.logits = self.run(self.tokens, self.outputs)

    def norm(self, x, name):
        centred = x - x.mean(-1, keepdim=True)
        scale = (centred.square().mean(-1, keepdim=True) + EPSILON).sqrt()
        scale = self.held.setdefault(name, scale)
        return centred / scale * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]

    def linear(self, x, name):
        return x @ self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]

    def run(self, tokens, outputs):
        x, count = tokens, len(self.ids)
        self.pre = []
        for n in range(LAYERS):
            q, k, v = (part.reshape(count, HEADS, -1).transpose(0, 1)
                       for part in self.linear(self.norm(x, f"h.{n}.ln_1"), f"h.{n}.attn.c_attn").split(WIDTH, 1))
            scores = q @ k.transpose(1, 2) / (WIDTH / HEADS) ** 0.5
            scores = scores.masked_fill(torch.ones(count, count).triu(1).bool(), -torch.inf)
            pattern = self.held.setdefault(f"pattern{n}", scores.softmax(-1))
            z = (pattern @ v).transpose(0, 1).reshape(count, WIDTH)
            x = x + self.linear(z, f"h.{n}.attn.c_proj")
            read = self.norm(x, f"h.{n}.ln_2")
            self.pre.append(read @ self.sets[n]["W_enc"].T + self.sets[n]["b_enc"])
            if outputs[n] is None:
                inner = torch.nn.functional.gelu(self.linear(read, f"h.{n}.mlp.c_fc"), approximate="tanh")
                self.held[f"out{n}"] = self.linear(inner, f"h.{n}.mlp.c_proj")
            x = x + (self.held[f"out{n}"] if outputs[n] is None else outputs[n])
        unembedding = self.weights["wte.weight"] - self.weights["wte.weight"].mean(0)
        return self.norm(x, "ln_f")[-1] @ unembedding.T

    def writings(self):
        """What every source writes: its id, the leaf it writes into (-1: tokens), its token, and the row."""
        for p, token in enumerate(self.ids):
            yield f"E_{token}_{p}", -1, p, self.tokens.detach()[p]
        for n in range(LAYERS):
            active = self.pre[n].detach().relu()
            error = self.outputs[n].detach() - active @ self.sets[n]["W_dec"] - self.sets[n]["b_dec"]
            for p in range(len(self.ids)):
                yield f"error_{n}_{p}", n, p, error[p]
                for f in active[p].nonzero().flatten().tolist():
                    yield f"{n}_{f}_{p}", n, p, active[p, f] * self.sets[n]["W_dec"][f]

    def edges(self):
        """{target: {source: weight}}, all that are not 0: of every active feature, and of the likeliest logit."""
        best = int(self.logits.argmax())
        targets = {f"{LAYERS + 1}_{best}_{len(self.ids) - 1}": self.logits[best]}
        for n in range(LAYERS):
            for p, f in (self.pre[n] > 0).nonzero().tolist():
                targets[f"{n}_{f}_{p}"] = self.pre[n][p, f]
        sources, found = list(self.writings()), {}
        for name, value in targets.items():
            grads = torch.autograd.grad(value, [*self.outputs, self.tokens], retain_graph=True, allow_unused=True)
            found[name] = {}
            for source, leaf, p, row in sources:
                weight = 0.0 if grads[leaf] is None else float(grads[leaf][p] @ row)
                if weight != 0:
                    found[name][source] = weight
        return found


def edges_to_answer(folder, ids):
    """The edges on some path to the logit: no others can be in a graph of it."""
    edges = Replaced(folder, ids).edges()
    kept, reached = {}, [next(iter(edges))]
    while reached:
        target = reached.pop()
        if target in kept or target not in edges:
            continue
        kept[target] = edges[target]
        reached.extend(edges[target])
    return kept


def main():
    folder = Path(sys.argv[1])
    make_fixture(folder)
    edges = {target: {source: float(f"{weight:.7g}") for source, weight in row.items()}
             for target, row in edges_to_answer(folder, PROMPT).items()}
    (folder / "edges.json").write_text(json.dumps({"tokens": PROMPT, "edges": edges}, separators=(",", ":")) + "\n")
    print(f"{sum(map(len, edges.values()))} edges on {len(edges)} targets")


if __name__ == "__main__":
    main()
