"""Wang et al. 2020 (Linformer), Table 3: speed-up and memory savings by n and k.

    attention-research reproduce linformer2020/table3 --scale=cpu

Measured is the forward pass of one block with random weights on one row of n tokens, with keys and values projected to
length k (`length_cost`). The paper's baseline writes its scores to memory and runs on a V100. This table also has the
fused kernel, which did not exist in 2020. Compare the trends with the published cells, not the numbers.
"""

from __future__ import annotations

from attention_research.studies import Row, Scale, Study, measure
from attention_research.studies.columns import Column, significant

from .length_cost import measure_length_cost
from .table3_verdicts import cheaper, draw

RANKS = (128, 256, 512, 1024, 2048)
LENGTHS = (512, 1024, 2048, 4096, 8192)
LONG = (*LENGTHS, 16_384, 32_768, 65_536)
SIZES = {"width": 256, "num_heads": 4, "seconds": 1.0, "lengths": LENGTHS}


def columns() -> tuple[Column, ...]:
    """The columns of time and memory by length, against materialized attention and, at the longest, against fused."""
    of = lambda what, length: Column(f"measure.{what}_{length}", f"{what} {length}".replace("_", " "), significant(2))
    last = LENGTHS[-1]
    return (*(of("time", length) for length in LENGTHS), *(of("memory", length) for length in LENGTHS),
            of("fused_time", last), of("fused_memory", last))  # fmt: skip


STUDY = Study(
    rows=tuple(Row(f"k_{rank}", f"k = {rank}", settings={"rank": rank},
                   scales=None if rank == 128 else ("cpu", "gpu")) for rank in RANKS),
    scales={
        "smoke": Scale(seeds=1, settings={**SIZES, "lengths": (256, 512), "width": 32, "seconds": 0.0}),
        "cpu": Scale(seeds=3, settings=SIZES, note="Two cores, width 256; run it on an otherwise idle machine."),
        "gpu": Scale(seeds=3, settings={**SIZES, "lengths": LONG, "width": 768, "num_heads": 12}),
    },
    stages=(measure(measure_length_cost),),
    columns=columns(),
    published="table3.csv",
    claims="../claims.csv",
    competence=(),
    verdicts={"linformer-speed-memory": cheaper},
    figures=(draw,),
    notes=(
        "Time and memory: the cost of the same block with materialized attention divided by that with Linformer; "
        "fused: the same for the package's blockwise kernel. Memory is what the compiled program allocates; in the "
        "paper it is a ratio of the largest batches that fit.",
    ),
)  # fmt: skip
