"""Convolution as hard attention: each filter tap attends with weight 1 to one position and 0 to all others.

    attention-research reproduce lectures/convolution --scale=cpu

Exact statements, in float64 (`laws.convolution`): a K x K convolution is the sum of K^2 heads. Each head has a one-hot
attention map at its own offset and its own value matrix. The convolution is also the limit of heads with softmax
weights. The figure shows the nine maps of a 3 x 3 filter at one pixel of a handwritten digit, and their sum.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from attention_research.studies import Row, Scale, Study, measure
from attention_research.studies.columns import Column, significant
from attention_research.studies.figures import Figure, canvas, caption, save
from attention_research.studies.results import Results

from .laws import exact
from .laws.convolution import measure_heads


def draw_heads(results: Results, folder: Path) -> Figure | None:
    """Draws the image with the query pixel, the nine one-hot maps with their filter taps, and the sum of the heads."""
    found = results.of("heads")
    result = found[0].result if found else None
    if not result:
        return None
    drawn = result["stages"]["measure"]
    pyplot = canvas()
    figure = pyplot.figure(figsize=(10.5, 3.7))
    grid = figure.add_gridspec(3, 9)
    image = figure.add_subplot(grid[:, :3])
    image.imshow(drawn["image"], cmap="gray")
    row, column = drawn["query"]
    image.plot(column, row, "s", markersize=11, markerfacecolor="none", markeredgecolor="#D55E00", markeredgewidth=2)
    image.set_title("image and query (square)", fontsize=11)
    taps = np.ravel(drawn["filter"])
    for number, (one, tap) in enumerate(zip(drawn["maps"], taps, strict=True)):
        axis = figure.add_subplot(grid[number // 3, 3 + number % 3])
        axis.imshow(one, cmap="gray", vmin=0, vmax=1)
        axis.plot(column, row, "s", markersize=4, markerfacecolor="none", markeredgecolor="#D55E00")
        axis.set_title(f"value times {tap:g}", fontsize=8, pad=2)
    total = figure.add_subplot(grid[:, 6:])
    total.imshow(drawn["output"], cmap="gray")
    total.set_title("sum of the heads: the convolution", fontsize=11)
    for axis in figure.axes:
        axis.set_xticks([])
        axis.set_yticks([])
        axis.grid(False)
    where = folder / "heads.png"
    save(figure, where, caption(results, "small panels: attention weight of each head, white is 1", seeds="1 image"))
    alt = (
        f"A digit, the nine attention maps of a 3 x 3 filter at pixel ({row}, {column}), each white at one pixel, and "
        f"the filtered digit. The largest difference from a convolution is {drawn['difference']:.1g}."
    )
    return Figure(where, "A 3 x 3 filter as nine hard heads", alt)


CLAIM = "convolution-is-hard-attention"
STUDY = Study(
    rows=(
        exact.row(CLAIM, "one-hot heads, summed"),
        Row("heads", "a 3 x 3 filter on a digit", stages=(measure(measure_heads),)),
    ),
    scales={
        "smoke": Scale(seeds=1, jobs=2, settings={"draws": 1}),
        "cpu": Scale(seeds=3, jobs=2, settings=exact.DRAWS),
    },
    columns=(*exact.COLUMNS, Column("measure.difference", "difference on the digit", significant(2), spread=False)),
    claims="../claims.csv",
    competence=(),
    verdicts={CLAIM: exact.exact(CLAIM)},
    figures=(draw_heads,),
    notes=(exact.NOTE, "Difference on the digit: computed in float32 with one filter."),
)
