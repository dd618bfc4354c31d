"""Results as objects: the program's JSON records (docs/json.md) with their keys as attributes, as tables, and as figures.

A result's top level is a dataclass whose fields are those keys; what lies below is a Record, a dict whose keys are attributes
too. `result.json()` is what `openwork VERB --json` writes.
"""

from __future__ import annotations

import dataclasses
import html
import json
import shutil
import tempfile
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .errors import InputError


class Record(dict):
    """A JSON object: record["kept_edges"] and record.kept_edges are the same."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"no '{name}' here; there are {', '.join(self)}") from None

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self]


def to_record(value: Any) -> Any:
    """JSON values with every object a Record."""
    if isinstance(value, dict):
        return Record({key: to_record(each) for key, each in value.items()})
    return [to_record(each) for each in value] if isinstance(value, list) else value


class Figure:
    """A figure of the core: shown in a notebook as SVG, saved as .svg, .pdf or .png."""

    def __init__(self, painted: Any) -> None:
        self._painted = painted

    def svg(self) -> str:
        """The figure as the text of an SVG file."""
        return self._painted.render("svg").decode()

    def png(self, dpi: float = 150) -> bytes:
        """The figure as the bytes of a PNG file."""
        return self._painted.render("png", dpi)

    def save(self, path: str | Path, dpi: float = 150) -> Path:
        """Writes the figure; the format is the path's ending."""
        path = Path(path)
        path.write_bytes(self._painted.render(path.suffix.lstrip(".") or "svg", dpi))
        return path

    def _repr_svg_(self) -> str:
        return self.svg()

    def _repr_png_(self) -> bytes:
        return self.png()

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"image/svg+xml": self.svg()}  # one of the two: notebooks would keep both

    def __repr__(self) -> str:
        return f"<openwork.Figure of {self._painted.width:.0f} x {self._painted.height:.0f} points>"


class Page:
    """A self-contained page, shown inline in a notebook."""

    def __init__(self, text: str, height: int = 800) -> None:
        self.text, self.height = text, height

    def _repr_html_(self) -> str:
        source = html.escape(self.text, quote=True)
        return f'<iframe srcdoc="{source}" width="100%" height="{self.height}" style="border:0"></iframe>'


@dataclass(repr=False)
class Result:
    """What an analysis found."""

    protocol: Record
    """All that is needed to repeat it."""

    def __post_init__(self) -> None:
        self._json: dict[str, Any] = {}
        self._figures: list[Figure] = []

    @classmethod
    def from_json(cls, text: str, figures: list[Any] = ()) -> Any:  # type: ignore[assignment]
        """From what the program writes. Keys that this version of the package does not know are kept in json()."""
        fields = json.loads(text)
        known = {field.name for field in dataclasses.fields(cls)}
        result = cls(**{key: to_record(fields.get(key)) for key in known})
        result._json = fields
        result._figures = [Figure(each) for each in figures]
        return result

    def json(self) -> dict[str, Any]:
        """The record as plain Python values, as `--json` has it."""
        return self._json

    def rows(self) -> Iterator[dict[str, Any]]:
        """The rows of to_frame, as plain dicts; pandas is not needed."""
        raise InputError(f"{type(self).__name__} has no table; to_frame; use json()")

    def to_frame(self) -> Any:
        """The result as a pandas DataFrame."""
        try:
            import pandas
        except ImportError:
            raise InputError("pandas is not installed; to_frame; pip install pandas, or use rows()") from None
        return pandas.DataFrame(list(self.rows()))

    def figure(self) -> Figure:
        """The result's figure, painted when it is shown or saved."""
        if not self._figures:
            raise InputError(f"no figure was made; {type(self).__name__}; leave out figure=False, or use to_frame()")
        return self._figures[0]

    @property
    def figures(self) -> list[Figure]:
        """All of them, where there are several."""
        return list(self._figures)

    def view(self) -> Any:
        """What to look at in a notebook: the page where there is one, else the figure."""
        return self.figure()

    def __repr__(self) -> str:
        return f"<openwork.{type(self).__name__}: {', '.join(f.name for f in dataclasses.fields(self))}>"


def _place(layer: int, head: int) -> str:
    return f"L{layer}H{head}"


@dataclass(repr=False)
class Ablation(Result):
    """What each head is worth to a task: the metric lost when it alone is ablated."""

    clean_metric: float
    corrupt_metric: float
    ablation: str
    of: str | None
    effects: list[list[float]] | None
    """[layer][head]; None where parts were named."""
    intervals: list[list[list[float] | None]] | None
    """[layer][head]; an interval is None where there is one prompt alone."""
    parts: list[Record] | None

    def rows(self) -> Iterator[dict[str, Any]]:
        for part in self.parts or []:
            low, high = part.interval or (None, None)
            yield {"part": part.name, "effect": part.effect, "low": low, "high": high}
        for layer, effects in enumerate(self.effects or []):
            for head, effect in enumerate(effects):
                low, high = self.intervals[layer][head] or (None, None)  # type: ignore[index]
                name = f"m{layer}" if self.of == "mlp" else _place(layer, head)
                yield {"part": name, "layer": layer, "head": head, "effect": effect, "low": low, "high": high}


@dataclass(repr=False)
class Circuits(Result):
    """The heads or edges a task needs, in each model."""

    models: list[Record]
    comparison: list[Record]

    def rows(self) -> Iterator[dict[str, Any]]:
        for model in self.models:
            for count, faithfulness, interval in zip(model.counts, model.faithfulness, model.intervals, strict=False):
                low, high = interval or (None, None)
                yield {"model": model.name, "parts": count, "faithfulness": faithfulness, "low": low, "high": high}


@dataclass(repr=False)
class Heads(Result):
    """Every head's pattern on a prompt: the grid that is drawn, and what was seen."""

    models: list[Record]
    scale: Record
    columns: int

    def rows(self) -> Iterator[dict[str, Any]]:
        for model in self.models:
            for head in model.shown:
                yield {"model": model.name, **{key: value for key, value in head.items() if key != "frames"}}


@dataclass(repr=False)
class Statistics(Result):
    """Statistics, classes and redundancy of every head, and tests between models."""

    models: list[Record]
    comparisons: list[Record]

    def rows(self) -> Iterator[dict[str, Any]]:
        for model in self.models:
            for head in model.heads:
                plain = {key: value for key, value in head.items() if not isinstance(value, dict)}
                means = {key: value["mean"] for key, value in head.items() if isinstance(value, dict)}
                yield {"model": model.name, **plain, **means}


@dataclass(repr=False)
class Trace(Result):
    """One prompt from its tokens through features and heads to the answer."""

    models: list[Record]
    one_answer: bool

    def rows(self) -> Iterator[dict[str, Any]]:
        for model in self.models:
            for node in model.strongest:
                yield {"model": model.name, **node}


@dataclass(repr=False)
class Evaluation(Result):
    """Held-out loss and kept edges."""

    models: list[Record]

    def rows(self) -> Iterator[dict[str, Any]]:
        for model in self.models:
            yield {key: value for key, value in model.items() if not isinstance(value, (list, dict))}


@dataclass(repr=False)
class Comparison(Result):
    """A dense model beside its sparse twins: everything on one page, in a folder."""

    findings: list[str]
    models: list[Record]
    comparisons: list[Record]
    losses: list[Record]
    tasks: list[Record]
    trace: list[Record] | None
    samples: list[Record]
    prompt: str

    folder: Path = Path()

    def rows(self) -> Iterator[dict[str, Any]]:
        for comparison in self.comparisons:
            for row in comparison.rows:
                yield {"dense": comparison.dense, "sparse": comparison.sparse, **row}

    def page(self) -> Path:
        """The page's file: self-contained, to keep or to send."""
        return self.folder / "index.html"

    def view(self, height: int = 800) -> Page:
        return Page(self.page().read_text(), height)


@dataclass(repr=False)
class Sparsified(Result):
    """A training run: the report of `openwork sparsify` and the folder with the model."""

    base: Record | None
    control: Record | None
    sparse: Record | None
    target: Record | None
    frontier: list[Record] | None
    curves: Record

    folder: Path = Path()

    def rows(self) -> Iterator[dict[str, Any]]:
        for tokens, loss, kept in zip(self.curves.tokens, self.curves.loss, self.curves.kept_edges, strict=False):
            yield {"tokens": tokens, "loss": loss, "kept_edges": kept}

    def model(self, **options: Any) -> Any:
        """The trained model, opened."""
        from .model import Model

        opened = Model(str(self.folder), **options)
        opened._made_by = self  # a folder that nobody named goes when this does
        return opened


def keep_folder(result: Any, given: str | Path | None, folder: str | Path) -> None:
    """Notes the folder on the result; one that nobody named goes when the result does."""
    result.folder = Path(folder)
    if given is None:
        weakref.finalize(result, shutil.rmtree, str(folder), True)


def make_folder(given: str | Path | None) -> str:
    """The folder named, or a new one."""
    return str(given) if given is not None else tempfile.mkdtemp(prefix="openwork-")
