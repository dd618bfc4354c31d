"""A model in the C++ core: passes with named activations, edits, and every analysis of the program as a method.

    model = openwork.Model("openwork-8m")
    run = model.run("The city of Paris is the capital of")
    run.logits, run["blocks.5.attn.hook_pattern"], run.top(5)
    model.edit({"blocks.5.attn.hook_z": lambda z: z * 0}).run("...")
    model.ablate("copy").to_frame()

Analyses run the program's own verbs on the open model; their options are the program's, with underscores
(`openwork VERB --help`). They release the GIL, show progress by tqdm, and stop at Ctrl-C.
"""

from __future__ import annotations

import json
import numbers
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from . import _library, results
from .errors import InputError
from .results import Record, Result, to_record

Prompt = str | Sequence[int] | Tensor
Edit = Callable[[Tensor], Tensor | None] | Tensor | float | int

# Options that take several words; lists of all others are joined by commas.
_SEVERAL = {"data", "task"}


def _options(options: Mapping[str, Any]) -> list[str]:
    """keyword=value as the program's --keyword value; True is a flag, None and False are left out."""
    words: list[str] = []
    for name, value in options.items():
        if value is None or value is False:
            continue
        words.append("--" + name.replace("_", "-"))
        if value is True:
            continue
        if isinstance(value, (list, tuple)):
            words += [str(each) for each in value] if name in _SEVERAL else [",".join(str(each) for each in value)]
        else:
            words.append(str(value))
    return words


def _call(verb: str, positionals: Sequence[str], models: Iterable[Model], **options: Any) -> tuple[str, list[Any]]:
    options.setdefault("threads", torch.get_num_threads())
    positionals = [str(each) for each in positionals]
    words = [verb, *positionals, *_options(options)]
    if any(word.startswith("-") for word in positionals):  # a prompt that would read as an option
        words = [verb, *_options(options), "--", *positionals]
    return _library.core().call(words, [model._core for model in models])


def call(verb: str, *positionals: str, **options: Any) -> Record:
    """Runs any verb of the program in this process and returns its JSON: call("inspect", "openwork-8m", tensors=True)."""
    text, _ = _call(verb, positionals, [], **options)
    return to_record(json.loads(text))


def models() -> list[Record]:
    """Built-in, fetched and cached models."""
    return call("models")["models"]


class Run:
    """One pass: logits, tokens, and activations by name. Those that were not asked for are computed when they are."""

    def __init__(self, model: Model, ids: list[list[int]], edits: Mapping[str, Edit], logits: Tensor, read: dict[str, Tensor]) -> None:
        self._model, self._edits, self._read = model, edits, read
        self.ids = ids
        """Token ids of each prompt."""
        self.logits = logits
        """[B, T, V]; [B, 1, V] of a run with last_only."""

    @property
    def tokens(self) -> list[str]:
        """The texts of the first prompt's tokens."""
        return self._model._core.pieces(self.ids[0])

    def __getitem__(self, name: str) -> Tensor:
        if name not in self._read:
            self._read |= self._model._pass(self.ids, [name], self._edits, last_only=True)[1]
        return self._read[name]

    def keys(self) -> list[str]:
        """Names of the activations that are here without another pass."""
        return list(self._read)

    @property
    def probabilities(self) -> Tensor:
        """Of the next token after each prompt: [B, V]."""
        return self.logits[:, -1].float().softmax(-1)

    def top(self, count: int = 10) -> list[Record]:
        """The most likely next tokens after the first prompt: id, token, logit, probability."""
        values, ids = self.logits[0, -1].float().topk(min(count, self.logits.shape[-1]))
        texts = self._model._core.pieces(ids.tolist())
        shares = self.probabilities[0, ids]
        rows = zip(ids.tolist(), texts, values.tolist(), shares.tolist(), strict=True)
        return [Record(id=id, token=text, logit=logit, probability=share) for id, text, logit, share in rows]

    def __repr__(self) -> str:
        return f"<openwork.Run of {self._model.name}: {len(self.ids)} x {len(self.ids[0])} tokens>"


class _Runs:
    """What Model and EditedModel share."""

    def _run(self, model: Model, prompt: Prompt | Sequence[Prompt], edits: Mapping[str, Edit], read: str | Iterable[str], last_only: bool) -> Run:
        ids = model._ids(prompt)
        names = [read] if isinstance(read, str) else list(read)
        if not all(isinstance(name, str) for name in names):
            raise InputError("an activation's name is no text; read; see Model.activation_names")
        logits, activations = model._pass(ids, names, edits, last_only)
        return Run(model, ids, edits, logits, activations)


class Model(_Runs):
    """A model opened by name: built-in, a folder, a .gguf file, a hub id in the cache, or BASE+ADAPTER."""

    def __init__(self, name: str | Path, *, device: str = "auto", dtype: str = "fp32", bos: str = "auto") -> None:
        """device auto, cpu, cuda or cuda:N; dtype fp32 or bf16; bos says whether a beginning token stands before prompts."""
        for option, given, known in (("dtype", dtype, ("fp32", "bf16")), ("bos", bos, ("auto", "yes", "no"))):
            if given not in known:
                raise InputError(f"{option} is {given!r}; openwork.Model; use {', '.join(known[:-1])} or {known[-1]}")
        self._core = _library.core().Model(str(name), str(device), dtype, bos)
        self.dtype, self.bos = dtype, bos

    @property
    def name(self) -> str:
        """As it was opened."""
        return self._core.name

    @property
    def device(self) -> str:
        """cpu or cuda:N."""
        return self._core.device

    @property
    def layers(self) -> int:
        """How many."""
        return self._core.layers

    @property
    def heads_per_layer(self) -> int:
        """How many."""
        return self._core.heads

    @property
    def gate(self) -> str | None:
        """score, logprob or idle; None of a dense model."""
        return None if self._core.gate == "none" else self._core.gate

    @property
    def config(self) -> Record:
        """config.json."""
        return to_record(json.loads(self._core.config()))

    @property
    def parameters(self) -> dict[str, Tensor]:
        """The weights by their Hugging Face names, shared with the core: what is written to one changes this model, never its file."""
        return dict(self._core.parameters())

    @property
    def activation_names(self) -> list[str]:
        """Every name that run and edit take, as TransformerLens has them; an architecture may lack some."""
        return self._core.activation_names()

    def __repr__(self) -> str:
        gate = f", gate {self.gate}" if self.gate else ""
        return f"<openwork.Model {self.name}: {self.layers} layers of {self.heads_per_layer} heads{gate}, {self.device}>"

    def encode(self, text: str) -> list[int]:
        """The prompt's token ids, behind what bos says."""
        try:
            return self._core.encode(text)
        except TypeError:  # not a str, or one with half a surrogate pair
            raise InputError(f"{text!r:.40} is no text; Model.encode; give a str of Unicode characters") from None

    def decode(self, ids: Sequence[int]) -> str:
        """The text of token ids."""
        return self._core.decode(list(ids))

    def _ids(self, prompt: Prompt | Sequence[Prompt]) -> list[list[int]]:
        if isinstance(prompt, str):
            return [self.encode(prompt)]
        if isinstance(prompt, Tensor):
            if prompt.dim() not in (1, 2) or prompt.is_floating_point() or prompt.is_complex():
                raise InputError(f"a tensor of {prompt.dtype} and shape {list(prompt.shape)}; prompt; give token ids, [T] or [B, T]")
            ids = prompt.tolist()
            return ids if prompt.dim() == 2 else [ids]
        if isinstance(prompt, bytes) or not isinstance(prompt, Iterable):
            raise InputError(f"a prompt is a {type(prompt).__name__}; prompt; give a text, token ids, or several of them")
        several = list(prompt)
        if not several:
            raise InputError("the prompt is empty; prompt; give at least one token")
        if not isinstance(several[0], numbers.Integral):
            return [ids for each in several for ids in self._ids(each)]  # type: ignore[arg-type]
        try:
            return [array("q", several).tolist()]  # type: ignore[type-var,list-item]
        except (TypeError, OverflowError):
            raise InputError("token ids are not all whole numbers; prompt; give ids that the vocabulary has") from None

    def _pass(self, ids: list[list[int]], read: list[str], edits: Mapping[str, Edit], last_only: bool) -> tuple[Tensor, dict[str, Tensor]]:
        logits, activations = self._core.run(ids, read, [(name, _as_function(name, edit)) for name, edit in edits.items()], last_only)
        return logits, dict(activations)

    def run(self, prompt: Prompt | Sequence[Prompt], *, read: str | Iterable[str] = (), last_only: bool = False) -> Run:
        """One pass over a text, token ids, or several of equal length. `read` names activations to keep, without a copy."""
        return self._run(self, prompt, {}, read, last_only)

    def edit(self, edits: Mapping[str, Edit]) -> EditedModel:
        """The model with activations replaced by name in every pass: by what a function makes of them (None leaves one as it
        is, for reading), by a tensor, or by a number."""
        if not isinstance(edits, Mapping):
            raise InputError(f"edits are a {type(edits).__name__}; Model.edit; give {{name: function, tensor or number}}")
        return EditedModel(self, edits)

    def generate(self, prompt: Prompt, tokens: int = 20, *, temperature: float = 0.0, top_k: int = 0, seed: int = 0) -> str:
        """The prompt's continuation; temperature 0 takes the most likely token each time."""
        return self.decode(self._core.generate(self._ids(prompt)[0], tokens, temperature, top_k, seed))

    def _analyse(self, kind: type[Any], verb: str, positionals: Sequence[str], others: Sequence[str | Model], figure: bool, **options: Any) -> Any:
        opened = [self, *(other for other in others if isinstance(other, Model))]
        names = [self.name, *(other.name if isinstance(other, Model) else str(other) for other in others)]
        if figure:
            options["out"] = _library.core().FIGURE_IN_MEMORY
        common = {"device": self.device, "dtype": self.dtype, "bos": self.bos}
        text, figures = _call(verb, [*names, *positionals], opened, **{**common, **options})
        return kind.from_json(text, figures)

    def heads(self, prompt: str | None = None, *others: str | Model, **options: Any) -> results.Heads:
        """Every head's pattern on a prompt, or (preset="task", task="copy") those a task needs; with the grid as a figure.

        Options: preset, order, layers, heads, top, task, threshold, columns, tokens, seed, ..."""
        return self._analyse(results.Heads, "heads", [] if prompt is None else [prompt], others, True, **options)

    def stats(self, prompts: str = "sample", *others: str | Model, figure: bool = True, **options: Any) -> results.Statistics:
        """Statistics, classes and redundancy of every head over prompts: a file, or "sample" for the built-in ones.

        With other models, tests between them."""
        folder = results.make_folder(None)
        try:
            out = {"out": folder} if figure else {}
            result = self._analyse(results.Statistics, "stats", [], others, False, prompts=prompts, **out, **options)
            result._figures = [_SavedFigure(path) for path in sorted(Path(folder).rglob("*.svg"))]
        finally:
            results.shutil.rmtree(folder, ignore_errors=True)
        return result

    def ablate(self, task: str, *, ablation: str = "mean", prompts: int | None = None, figure: bool = True, **options: Any) -> results.Ablation:
        """What each head is worth to a task: copy, ioi, greater-than, docstring, opposite or a JSONL file.

        ablation is zero, mean or interchange; options: of, only, seed, ..."""
        drawn = figure and options.get("of") != "mlp" and options.get("only") is None
        return self._analyse(results.Ablation, "ablate", [], [], drawn, task=task, ablation=ablation, prompts=prompts, **options)

    def circuit(self, task: str, *others: str | Model, level: str = "head", figure: bool = True, **options: Any) -> results.Circuits:
        """The heads or edges a task needs, and how faithful they are; models side by side.

        level is head, attention-edge or graph-edge; options: method, ablation, threshold, prompts, seeds, greedy, ..."""
        return self._analyse(results.Circuits, "circuit", [], others, figure, task=task, level=level, **options)

    def trace(self, prompt: str, *others: str | Model, figure: bool = True, **options: Any) -> results.Trace:
        """One prompt from its tokens through features and heads to the answer.

        Options: target, transcoder, ablate, boost, max_nodes, explain, graph, ..."""
        return self._analyse(results.Trace, "trace", [prompt], others, figure, **options)

    def evaluate(self, data: str | Path | Sequence[str | Path], *others: str | Model, **options: Any) -> results.Evaluation:
        """Held-out loss and kept edges on text files. Options: context, blocks, ..."""
        return self._analyse(results.Evaluation, "eval", [], others, False, data=_files(data), **options)

    def compare(self, *others: str | Model, out: str | Path | None = None, **options: Any) -> results.Comparison:
        """This model beside its sparse twins: everything on one page, which view() shows.

        Options: prompt, prompts, data, task, generate, no_trace, no_interactions, ..."""
        if not others:
            raise InputError("nothing to compare with; Model.compare; name another model")
        folder = results.make_folder(out)
        result = self._analyse(results.Comparison, "compare", [], others, False, **{**options, "out": folder})
        results.keep_folder(result, out, folder)
        return result

    def sparsify(self, data: str | Path | Sequence[str | Path], *, out: str | Path | None = None, **options: Any) -> results.Sparsified:
        """Gates a copy of this model and trains it until few edges are left; result.model() opens it.

        Options as of `openwork sparsify`: gate, steps or minutes, context, batch_tokens, lr, target, lora, held_out, ..."""
        files, folder = _files(data), results.make_folder(out)
        result = self._analyse(results.Sparsified, "sparsify", [], [], False, data=files, **{**options, "out": folder})
        results.keep_folder(result, out, folder)
        return result


class EditedModel(_Runs):
    """A model with activations replaced; made by Model.edit."""

    def __init__(self, model: Model, edits: Mapping[str, Edit]) -> None:
        self.model, self.edits = model, dict(edits)

    def run(self, prompt: Prompt | Sequence[Prompt], *, read: str | Iterable[str] = (), last_only: bool = False) -> Run:
        """As Model.run; what is read is seen after the edits."""
        return self._run(self.model, prompt, self.edits, read, last_only)

    def edit(self, edits: Mapping[str, Edit]) -> EditedModel:
        """More edits on top; one of the same name takes the earlier one's place."""
        return EditedModel(self.model, {**self.edits, **edits})

    def __repr__(self) -> str:
        return f"<{self.model!r} with {', '.join(self.edits)} replaced>"


def _files(data: str | Path | Sequence[str | Path]) -> list[str]:
    files = [str(data)] if isinstance(data, (str, Path)) else [str(each) for each in data]
    if not files:
        raise InputError("no text to read; data; name a file")
    return files


def _as_function(name: str, edit: Edit) -> Callable[[Tensor], Tensor | None]:
    if callable(edit) and not isinstance(edit, Tensor):
        return edit
    if not isinstance(edit, (Tensor, int, float)):
        raise InputError(f"an edit is a {type(edit).__name__}; {name}; give a function, a tensor or a number")
    value = torch.as_tensor(edit)

    def put(activation: Tensor) -> Tensor:
        try:
            return value.to(activation).expand_as(activation)
        except RuntimeError:
            shapes = f"a replacement has shape {list(value.shape)}, the activation {list(activation.shape)}"
            raise InputError(f"{shapes}; {name}; give one that fits, or a function") from None

    return put


class _SavedFigure(results.Figure):
    """A figure that a verb wrote as SVG."""

    def __init__(self, path: Path) -> None:
        self.name, self._text = path.stem, path.read_text()
        self._bitmap = path.with_suffix(".png").read_bytes() if path.with_suffix(".png").exists() else None

    def svg(self) -> str:
        return self._text

    def png(self, dpi: float = 150) -> bytes:
        if self._bitmap is None:
            raise InputError(f"no bitmap of '{self.name}'; figure; save it as .svg")
        return self._bitmap

    def save(self, path: str | Path, dpi: float = 150) -> Path:
        path = Path(path)
        if path.suffix not in (".svg", ".png"):
            raise InputError(f"'{path.suffix}'; {path.name}; save this figure as .svg or .png")
        path.write_bytes(self._text.encode() if path.suffix == ".svg" else self.png())
        return path

    def __repr__(self) -> str:
        return f"<openwork.Figure {self.name}>"
