"""Tables of attention and copying weights for each sub-token of a name (Allamanis et al. 2016, Table 3).

Each sub-token of the name has one row: alpha and kappa over the tokens of the body, darker for larger weights, and
lambda, the weight of copying. A model that does not copy has alpha only.
"""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Array

from attention_research.tokens import EOS, PAD

END = "END"
#: Sizes in inches: the width of the figure, the heights of a row of weights and of a line of a heading, the space below
#: a table, and the length of a character of a token.
_WIDTH, _ROW, _LINE, _BELOW, _CHARACTER = 11.0, 0.17, 0.18, 0.6, 0.065
#: The number of characters in a line of a heading.
_COLUMNS = 120


@dataclasses.dataclass(frozen=True)
class CopyTable:
    """The table of one function.

    It holds the sub-tokens of the `body`, those of the true `name`, and those of the output `wrote`, followed by END.
    For each sub-token of the output it holds alpha and kappa over the body (lists of rows), and lambda.
    """

    place: str
    body: tuple[str, ...]
    name: tuple[str, ...]
    wrote: tuple[str, ...]
    alpha: tuple[tuple[float, ...], ...]
    kappa: tuple[tuple[float, ...], ...]
    copy_probability: tuple[float, ...]

    def to_json(self) -> dict[str, Any]:
        """Returns the table as JSON values, rounded so that records stay small."""
        short = lambda rows: [[round(float(x), 4) for x in row] for row in rows]
        said = {"place": self.place, "body": " ".join(self.body), "name": " ".join(self.name)}
        weights = {"alpha": short(self.alpha), "kappa": short(self.kappa)}
        return {**said, "wrote": list(self.wrote), **weights, "lambda": short([self.copy_probability])[0]}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> CopyTable:
        """Builds a table from the output of `to_json`."""
        rows = lambda name: tuple(map(tuple, value[name]))
        texts = tuple(value["body"].split()), tuple(value["name"].split()), tuple(value["wrote"])
        return cls(value["place"], *texts, rows("alpha"), rows("kappa"), tuple(value["lambda"]))

    def words(self) -> str:
        """Returns the rows as text: sub-token, lambda, and the tokens with the largest kappa and alpha."""
        most = lambda rows, line: self.body[int(np.argmax(rows[line]))] if rows and self.body else "-"
        lines = [
            f"{word} lambda {weight:.3f} kappa {most(self.kappa, i)} alpha {most(self.alpha, i)}"
            for i, (word, weight) in enumerate(zip(self.wrote, self.copy_probability, strict=True))
        ]
        return "; ".join(lines)


def collect(model: Any, batch: Mapping[str, Array]) -> dict[str, Array]:
    """Computes the weights at the targets of a batch, [B T S] and [B T], as a pure function.

    Without copying, its weights are 0.
    """
    _, aux = model.log_likelihood(batch)
    decoder = aux["decoder"]
    alpha = decoder["alignment"]
    copies = "copy" in decoder
    return {
        "alpha": alpha,
        "kappa": decoder["copy"] if copies else np.zeros(alpha.shape, np.float32),
        "copy_probability": decoder["copy_probability"] if copies else np.zeros(alpha.shape[:2], np.float32),
    }


def table_of(
    place: str, words: Sequence[str], name: str, source: np.ndarray, target: np.ndarray, found: Mapping[str, np.ndarray]
) -> CopyTable:
    """Returns the table of one row of a batch. `words` are the texts of the source and the target."""
    body = [i for i, token in enumerate(source) if token not in (PAD, EOS)]
    steps = [t for t, token in enumerate(target) if token != PAD]
    wrote = [END if target[t] == EOS else words[len(source) + t] for t in steps]
    rows = lambda weights: tuple(tuple(float(weights[t, i]) for i in body) for t in steps)
    weights = tuple(float(found["copy_probability"][t]) for t in steps)
    texts = tuple(words[i] for i in body), tuple(name.split()), tuple(wrote)
    return CopyTable(place, *texts, rows(found["alpha"]), rows(found["kappa"]), weights)


def heading(table: CopyTable) -> str:
    """Returns the heading of a table."""
    return f"{table.place} · true name {'_'.join(table.name)} · generated {'_'.join(table.wrote[:-1]) or '(nothing)'}"


def figure_of(tables: Sequence[CopyTable], printed: Sequence[tuple[str, float]] = (), longest: int = 44) -> Any:
    """Returns the matplotlib figure. `printed` are the published (sub-token, lambda), drawn below as bars only.

    A body is shown up to `longest` tokens. The label gives the number of tokens that are not shown.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    heights = [_above(table, longest) + 2 * _ROW * len(table.wrote) + _BELOW for table in tables]
    heights += [_BELOW + 0.5 + _ROW * len(printed)] if printed else []
    figure = Figure(figsize=(_WIDTH, sum(heights)), dpi=110, facecolor="white", layout="none")
    FigureCanvasAgg(figure)
    parts = figure.subfigures(len(heights), 1, height_ratios=heights, squeeze=False)[:, 0]
    for part, height, table in zip(parts, heights, tables, strict=False):
        _draw(part, height, table, longest)
    if printed:
        part, body = parts[-1], "{ this.useBrowserCache = useBrowserCache; }"
        title = f"published λ of the printed example in Java · true name setUseBrowserCache · body {body}"
        part.text(0.01, 1 - 0.15 / heights[-1], title, va="top", fontsize=10)
        axis = part.add_axes((0.10, _BELOW / heights[-1], 0.3, _ROW * len(printed) / heights[-1]))
        _bars(axis, [word for word, _ in printed], [value for _, value in printed])
    return figure


def _lines(table: CopyTable) -> list[str]:
    """The heading, in lines that fit into the figure."""
    return textwrap.wrap(heading(table), _COLUMNS)


def _above(table: CopyTable, longest: int) -> float:
    """The height of the heading and of the tokens of the body, so that a heading stands close to its own table."""
    return 0.15 + _LINE * len(_lines(table)) + _CHARACTER * max(map(len, table.body[:longest]), default=0) + 0.15


def _draw(part: Any, height: float, table: CopyTable, longest: int) -> None:
    part.text(0.01, 1 - 0.1 / height, "\n".join(_lines(table)), va="top", fontsize=10)
    shown = min(len(table.body), longest)
    weights = np.zeros((2 * len(table.wrote), max(1, shown)))
    for i, rows in enumerate((table.alpha, table.kappa)):
        for t, row in enumerate(rows):
            weights[2 * t + i, :shown] = row[:shown]
    bottom, tall = _BELOW / height, 2 * _ROW * len(table.wrote) / height
    axis = part.add_axes((0.10, bottom, 0.74, tall))
    axis.imshow(weights, cmap="Greys", vmin=0, vmax=1, aspect="auto", interpolation="nearest")
    labels = [f"{word}  {sign}" if sign == "α" else sign for word in table.wrote for sign in "ακ"]
    axis.set_yticks(range(len(labels)), labels, fontsize=8)
    axis.set_xticks(range(shown), table.body[:shown], rotation=90, fontsize=7)
    axis.xaxis.tick_top()
    axis.tick_params(length=0)
    axis.grid(False)
    for line in range(1, len(table.wrote)):
        axis.axhline(2 * line - 0.5, color="#0072B2", linewidth=0.6)
    beside = part.add_axes((0.86, bottom, 0.09, tall))
    _bars(beside, [], table.copy_probability)
    if len(table.body) > shown:
        axis.set_xlabel(f"{len(table.body) - shown} more tokens of the body are not shown", fontsize=7)


def _bars(axis: Any, words: Sequence[str], values: Sequence[float]) -> None:
    axis.barh(range(len(values)), values, color="#0072B2", height=0.5)
    for place, value in enumerate(values):
        axis.text(1.03, place, f"{value:.3f}", va="center", fontsize=8)
    axis.set_ylim(len(values) - 0.5, -0.5)
    axis.set_xlim(0, 1)
    axis.set_yticks(range(len(words)), words, fontsize=8)
    axis.set_xticks([0, 1], ["0", "λ = 1"], fontsize=7)
    axis.grid(False)
