"""Wang et al. 2019: positions of the dependency tree on subject-verb agreement, by linear distance.

    attention-research reproduce wang2019/structure --scale=cpu

Generated sentences with gold trees (`agreement_trees`): at every verb its number, which its subject shows,
with other nouns between. A small Transformer encoder that knows linear distances, the tree's (Shaw's tables over d_ij
of section 3.2), both, or none, and the tree's where a tenth of the words hang on the main verb instead of their heads.
Trained by `training.fitting` (in `tree_positions`), since trees do not go through the data of translation. The paper
measures translation and probes; its tables were not at hand, and nothing is printed beside.
"""

from __future__ import annotations

from attention_research.studies import Row, Scale, Study, measure
from attention_research.studies.columns import Column, fixed
from attention_research.studies.competence import Competence

from .structure_verdict import classes, draw_distances, tree_helps
from .tree_positions import FROM, measure_structure

CPU = {
    "sentences": 16_384,
    "tested": 4096,
    "max_length": 28,
    "steps": 1500,
    "batch_size": 48,
    "learning_rate": 0.002,
    "sizes": {"width": 64, "num_heads": 4, "num_layers": 2, "max_distance": 16},
}
SMALL = {"width": 8, "num_heads": 2, "num_layers": 1, "max_distance": 4}
SMOKE = {**CPU, "sentences": 64, "tested": 256, "steps": 4, "batch_size": 8, "sizes": SMALL}
GPU = {**CPU, "sentences": 262_144, "steps": 20_000, "batch_size": 256,
       "sizes": {"width": 256, "num_heads": 8, "num_layers": 4, "max_distance": 16}}  # fmt: skip
STUDY = Study(
    rows=(
        Row("linear", "linear distance", settings={"positions": "linear"}),
        Row("dependency", "dependency tree", settings={"positions": "dependency"}),
        Row("both", "both", settings={"positions": "both"}),
        Row("none", "no positions", settings={"positions": "none"}, scales=("cpu", "gpu")),
        Row("dependency_lost", "dependency tree, a tenth lost", settings={"positions": "dependency", "lost": 0.1},
            scales=("cpu", "gpu")),
        Row("both_lost", "both, a tenth lost", settings={"positions": "both", "lost": 0.1}, scales=("cpu", "gpu")),
    ),
    scales={
        "smoke": Scale(seeds=1, jobs=2, settings=SMOKE),
        "cpu": Scale(seeds=3, jobs=2, settings=CPU),
        "gpu": Scale(seeds=3, settings=GPU),
    },
    stages=(measure(measure_structure),),
    columns=(
        Column("measure.parameters", "parameters", fixed(0), spread=False),
        Column("measure.accuracy", "accuracy, %", fixed(1, 100), better="higher"),
        *(Column(f"measure.from_{first}", f"subject {name} back", fixed(1, 100), better="higher")
          for first, name in classes(FROM).items()),
        Column("measure.attracted", "nearest noun of the other number", fixed(1, 100), better="higher"),
        Column("measure.neighbour", "nearest noun always", fixed(1, 100), spread=False),
    ),
    claims="../claims.csv",
    # A subject shows its number: the answer is in the sentence.
    competence=(Competence("linear", "measure.accuracy", line=0.9, higher=True),),
    verdicts={"syntax-positions": tree_helps},
    figures=(draw_distances,),
    notes=(
        "Accuracy at the verbs of generated sentences that training did not draw from, in %, gold trees. The last "
        "column: what agreeing with the nearest noun before the verb gets.",
    ),
)  # fmt: skip
