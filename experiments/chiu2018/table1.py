"""Chiu & Raffel 2018, Tables 1 and 2: monotonic chunkwise attention (MoChA) between hard monotonic and soft attention.

    attention-research reproduce raffel2017/online --scale=cpu
    attention-research reproduce chiu2018/table1 --scale=cpu --workdir=runs/raffel2017-online-cpu   # shares its trials

The paper's WSJ and CNN/Daily Mail data are licensed or not available. Their published cells are shown, and our rows use
other tasks. Pronunciation (letters to phonemes) is monotonic, as speech recognition is. In generated sentences
adjectives and adverbs move by a word or two, which the chunks of the paper can handle. Six of the rows and their trials
are those of `raffel2017/online`.
"""

from __future__ import annotations

from attention_research.studies import Budget, Row, Study
from attention_research.studies.columns import LOSS, PARAMETERS, STEPS_PER_SECOND, Column, fixed
from attention_research.studies.competence import Competence
from attention_research.studies.results import Results
from attention_research.studies.verdicts import Verdict, compare, conclude

from ..raffel2017.systems import (
    AVERAGE_LAG,
    BLEU,
    ERROR_RATE,
    ONLINE_EQUAL,
    SEQUENCES_WRONG,
    STAGES,
    pronounces,
    row,
    scales,
)

#: (row id, row name, alignment, overrides)
ALIGNMENTS = (
    ("soft", "soft", "soft", {}),
    ("monotonic", "hard monotonic", "monotonic", {}),
    *((f"mocha_{size}", f"MoChA w = {size}", "mocha", {"chunk_size": size}) for size in (2, 4, 8)),
)


def printed(id: str, name: str) -> Row:
    """A row with published cells only."""
    return Row(id, f"paper: {name}", scales=())


def chunks_recover(results: Results) -> Verdict:
    """On sentences whose words move, soft attention and chunks of 2 and 4 are better than hard attention."""
    error, aligned = "evaluate.error_rate", "measure.reordered_recall"
    cases = {"error rate, soft against hard": compare(results, "local_soft", "local_monotonic", error)}
    for size in (2, 4):
        row = f"local_mocha_{size}"
        cases[f"error rate, chunks of {size} against hard"] = compare(results, row, "local_monotonic", error)
        cases[f"moved words aligned, chunks of {size} against hard"] = compare(
            results, row, "local_monotonic", aligned, higher=True
        )
    return conclude(cases)


NOTE = "Ours: error rate of phonemes or words of generated sentences. Paper: word error rate on WSJ, ROUGE on CNN/DM."
STUDY = Study(
    rows=(
        *(
            row(task, id, name, kind, **settings)
            for task in ("sounds", "local")
            for id, name, kind, settings in ALIGNMENTS
        ),
        printed("paper_ctc", "CTC (Raffel 2017)"),
        printed("paper_rl", "reinforcement learning (Luo 2016)"),
        printed("paper_ctc_wang", "CTC (Wang 2016)"),
        printed("paper_monotonic", "hard monotonic"),
        printed("paper_soft", "soft, offline"),
        printed("paper_mocha_2", "MoChA w = 2"),
        printed("paper_mocha_8", "MoChA w = 8"),
    ),
    scales=scales(NOTE, gpu_seeds=8),
    stages=STAGES,
    columns=(
        PARAMETERS,
        STEPS_PER_SECOND,
        LOSS,
        ERROR_RATE,
        SEQUENCES_WRONG,
        BLEU,
        AVERAGE_LAG,
        ONLINE_EQUAL,
        Column("measure.reordered_recall", "moved words aligned, %", fixed(1, 100), better="higher"),
    ),
    budgets=(
        Budget("sounds_soft", {"sounds_monotonic": (), "sounds_mocha_2": ("sounds_mocha_4", "sounds_mocha_8")}),
        Budget("local_soft", {"local_monotonic": (), "local_mocha_2": ("local_mocha_4", "local_mocha_8")}),
    ),
    published="table1.csv",
    claims="../claims.csv",
    # A generated sentence has exactly one correct translation. Pronunciation must be 15 points better than one phoneme
    # for each letter.
    competence=(
        Competence("local_soft", "evaluate.error_rate", line=10, rows=("local_*",)),
        pronounces("sounds_soft", "sounds_*"),
    ),
    verdicts={"must-hold-chunks-recover": chunks_recover},
)
