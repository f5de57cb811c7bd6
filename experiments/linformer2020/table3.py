"""Wang et al. 2020 (Linformer), Table 3: how many times faster, and in how many times less memory, by n and k.

    attention-research reproduce linformer2020/table3 --scale=cpu

Random weights: one block, forward, one row of n tokens, keys and values projected to k along the length
(`length_cost`). The paper's baseline writes its scores to memory and runs on a V100; beside it stands the
fused kernel, which nobody had in 2020. Compare shapes with the printed cells, not numbers.
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
    """Time and memory by length, against materialised attention, and against fused at the longest."""
    of = lambda what, length: Column(f"measure.{what}_{length}", f"{what} {length}".replace("_", " "), significant(2))
    last = LENGTHS[-1]
    return (*(of("time", length) for length in LENGTHS), *(of("memory", length) for length in LENGTHS),
            of("fused_time", last), of("fused_memory", last))  # fmt: skip


STUDY = Study(
    rows=tuple(Row(f"k_{rank}", f"k = {rank}", settings={"rank": rank},
                   scales=None if rank == 128 else ("cpu", "gpu")) for rank in RANKS),
    scales={
        "smoke": Scale(seeds=1, settings={**SIZES, "lengths": (256, 512), "width": 32, "seconds": 0.0}),
        "cpu": Scale(seeds=3, settings=SIZES, note="Two cores, width 256: the machine has to do nothing else."),
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
        "Times faster, and times less memory, than the same block with materialised attention; fused: than with the "
        "package's blockwise kernel. Memory is what the compiled program allocates; the paper's is a ratio of the "
        "largest batches that fit.",
    ),
)  # fmt: skip
