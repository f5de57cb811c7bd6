"""The grid of Figure 2 that is run here: mixers, widths and learning rates, and the best rate of each point."""

from __future__ import annotations

from attention_research.studies.results import Results

ACCURACY = "evaluate.accuracy"
#: Kind of the mixer -> its name. The first has two layers and learned positions.
MIXERS = {
    "attention": "attention",
    "hyena": "Hyena",
    "linear": "linear attention",
    "retnet": "retention",
    "rwkv7": "RWKV-7",
    "gru": "GRU",
}
WIDTHS = (64, 128)
#: The accuracy in percent at which a run ends.
SOLVED = 99.0
RATES = (0.0001, 0.00046, 0.0022, 0.01)


def row_id(mixer: str, width: int, rate: float) -> str:
    """The id of a row.

    >>> row_id("hyena", 64, 0.00046)
    'hyena_64_0.00046'
    """
    return f"{mixer}_{width}_{rate:g}"


def best(results: Results, mixer: str, width: int) -> float | None:
    """The accuracy of the best learning rate, as the figure shows it; None until all rates were run, unless one
    reaches `SOLVED`."""
    found = [results.mean(row_id(mixer, width, rate), ACCURACY) for rate in RATES]
    measured = [accuracy for accuracy in found if accuracy is not None]
    known = len(measured) == len(RATES) or max(measured, default=0.0) >= SOLVED
    return max(measured) if known else None
