"""The cost of a layer by length and width, counted and timed, and the share of attention in a Transformer.

    attention-research reproduce lectures/complexity --scale=cpu

The layers are those of `vaswani2017/table1`, and self-attention with its projections, with the T x T scores kept in
memory or not. For each layer the study measures:

- the powers of length and width with which the number of multiply-adds grows;
- the longest chains of dependent products, forward and backward;
- the time of forward and backward together, by length and width;
- the temporary memory of the compiled gradient in bytes, without its arguments and results, by length;
- the length from which attention costs more than another layer, counted and timed.

It also measures blocks of width 1,024 at the three lengths of the lectures, 30, 512 and 10,000, the share of scores and
weighted sums in blocks of published sizes at one length, and the gradient of multi-head attention against finite
differences in float64.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attention_research.studies import Row, Scale, Study, measure
from attention_research.studies.columns import Column, exponent, fixed, significant

from ...vaswani2017.layers import KINDS, chains, count_powers, real_call, summed
from .blocks import measure_gradient, measure_length, measure_share
from .figures import draw_costs, draw_shares
from .verdicts import VERDICTS

#: The layers with which attention is compared to find the crossover.
OTHERS = ("rnn", "lstm", "convolution")
LAYERS = {**KINDS, "attention_dense": "self-attention with projections, scores held"}
#: Brown et al. 2020 (arXiv 2005.14165), Table 2.1, and Radford et al. 2019, Table 2: width, heads, layers, parameters.
MODELS = {
    "gpt2_small": ("GPT-2 117M", 768, 12, 12, 117e6),
    "gpt2_medium": ("GPT-2 345M", 1024, 16, 24, 345e6),
    "gpt2_large": ("GPT-2 762M", 1280, 20, 36, 762e6),
    "gpt2_xl": ("GPT-2 1.5B", 1600, 25, 48, 1542e6),
    "gpt3_2.7b": ("GPT-3 2.7B", 2560, 32, 32, 2.7e9),
    "gpt3_6.7b": ("GPT-3 6.7B", 4096, 32, 32, 6.7e9),
    "gpt3_175b": ("GPT-3 175B", 12288, 96, 96, 175e9),
}


def measure_layer(
    *, kind: str, lengths: Sequence[int], widths: Sequence[int], chained: Sequence[int], counted: Sequence[int],
    seconds: float, seed: int, **_: Any,
) -> dict[str, Any]:  # fmt: skip
    """Measures a layer: powers, chains, times [width][length], bytes by length at the second largest width, and
    crossovers."""
    from attention_research.accounting.clock import measure_call

    found = count_powers(kind, counted, widths, (33, 65))
    forward, backward = chains(kind, 64, chained), chains(kind, 64, chained, backward=True)
    times = []
    for width in widths:
        calls = [real_call(kind, width, length, seed) for length in lengths]
        runs = [measure_call(_gradient(call), *arguments, seconds=seconds, repeats=3) for call, *arguments in calls]
        times.append([run["milliseconds"] for run in runs])
    held = [compiled_bytes(kind, widths[-2], length) for length in lengths]
    return {
        **found,
        "chains": forward,
        "chains_backward": backward,
        "chain_power": exponent(chained, forward),
        "chain_backward_power": exponent(chained, backward),
        "times": times,
        "time_length_power": exponent(lengths, times[-1]),
        "time_width_power": exponent(widths, [of_width[-1] for of_width in times]),
        "milliseconds": times[-1][-1],
        "bytes": held,
        "bytes_power": exponent(lengths, held) if min(held) else None,
        "crossovers": {other: [crossover(kind, other, width) for width in widths] for other in OTHERS}
        if kind in ("attention", "attention_core")
        else {},
    }


def _gradient(call: Any) -> Any:
    import jax

    return jax.grad(summed(call), argnums=(0, 1))


def compiled_bytes(kind: str, width: int, length: int) -> int:
    """The temporary memory of the compiled gradient in bytes, without arguments and results, as XLA reports it."""
    import jax

    from ...vaswani2017.sequence_layers import Sizes, abstract_call

    function, shapes = abstract_call(kind, Sizes(width), length)
    return jax.jit(_gradient(function)).lower(*shapes).compile().memory_analysis().temp_size_in_bytes


def crossover(kind: str, other: str, width: int, longest: int = 2**20) -> int | None:
    """The first length at which a forward pass needs more multiply-adds than that of layer `other`, by bisection.

    It is None if there is no such length up to `longest`, and 1 if length 1 already needs more.
    """
    from ...vaswani2017.sequence_layers import Sizes, multiply_adds

    dearer = lambda length: multiply_adds(kind, Sizes(width), length) > multiply_adds(other, Sizes(width), length)
    low, high = 0, longest
    if not dearer(high):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if dearer(middle) else (middle, high)
    return high


LARGE = ("cpu", "gpu")
ROWS = (
    *(Row(kind, name, settings={"kind": kind}) for kind, name in LAYERS.items()),
    *(
        Row(f"length_{length}", f"block of 1,024 at T = {length:,}", stages=(measure(measure_length),),
            settings={"width": 1024, "num_heads": 16, "length": length}, scales=None if length < 512 else LARGE)
        for length in (30, 512, 10_000)
    ),
    *(
        Row(id, name, stages=(measure(measure_share),), settings={"width": width, "num_heads": heads, "layers": layers})
        for id, (name, width, heads, layers, _) in MODELS.items()
    ),
    Row("gradient", "multi-head attention, gradient", stages=(measure(measure_gradient),),
        settings={"width": 32, "num_heads": 4, "length": 17}),
)  # fmt: skip
CPU = {
    "lengths": (128, 512, 2048),
    "widths": (64, 256, 1024),
    "chained": (16, 64, 256),
    "counted": (256, 512, 1024, 2048),
    "model_length": 2048,
    "seconds": 0.5,
}
SMOKE = {**CPU, "lengths": (16, 32), "widths": (16, 32), "chained": (4, 8), "counted": (64, 128), "seconds": 0.0}
STUDY = Study(
    rows=ROWS,
    scales={
        "smoke": Scale(seeds=1, jobs=2, settings=SMOKE),
        "cpu": Scale(seeds=3, settings=CPU, note="ms: forward and backward at T = 2,048, width 1,024, batch 1."),
        "gpu": Scale(seeds=3, settings=CPU),
    },
    stages=(measure(measure_layer),),
    columns=(
        Column("measure.length_power", "operations ~ T^", fixed(2), spread=False),
        Column("measure.width_power", "operations ~ D^", fixed(2), spread=False),
        Column("measure.reach_power", "operations ~ k^", fixed(2), spread=False),
        Column("measure.chain_power", "chain ~ T^", fixed(2), spread=False),
        Column("measure.chain_backward_power", "backward chain ~ T^", fixed(2), spread=False),
        Column("measure.milliseconds", "ms", significant(3), better="lower"),
        Column("measure.time_length_power", "ms ~ T^", fixed(2)),
        Column("measure.time_width_power", "ms ~ D^", fixed(2)),
        Column("measure.bytes_power", "bytes ~ T^", fixed(2), spread=False),
        Column("measure.block_operations", "forward GFLOPs", significant(3, 1e-9), spread=False),
        Column("measure.scores", "scores and sums, %", fixed(1, 100), spread=False),
        Column("measure.attention", "all attention, %", fixed(1, 100), spread=False),
        Column("measure.score_bytes", "MB of scores", significant(3, 1e-6), spread=False),
        Column("measure.gradient_error", "gradient error", lambda value: f"{value:.0e}", spread=False),
    ),
    claims="../../claims.csv",
    competence=(),
    verdicts=VERDICTS,
    figures=(draw_costs, draw_shares),
    notes=(
        "Powers are fitted around T = 256, D = 64 and k = 33. Times and bytes are those of forward and backward "
        "together. Chain: the longest chain of dependent operations.",
        "Blocks of published sizes: attention and a feed-forward layer of width 4 D, without embeddings, at T = 2,048.",
    ),
)
