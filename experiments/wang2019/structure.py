"""Wang et al. 2019: positions in the dependency tree for subject-verb agreement, by linear distance.

    attention-research reproduce wang2019/structure --scale=cpu

The data are generated sentences with gold trees (`agreement_trees`). The model predicts the number of every verb, which
its subject shows, with other nouns between them. It is a small Transformer encoder with linear distances, distances in
the tree (Shaw's tables over the d_ij of section 3.2), both, or none. In further rows a tenth of the words depend on the
main verb instead of their heads. Models are trained by `training.fitting` (in `tree_positions`), because the data of
translation have no trees. The paper measures translation and probes. Its tables were not available, so there are no
published values.
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
        *(Column(f"measure.from_{first}", f"subject {name} words back, %", fixed(1, 100), better="higher")
          for first, name in classes(FROM).items()),
        Column("measure.attracted", "nearest noun has other number, %", fixed(1, 100), better="higher"),
        Column("measure.neighbour", "nearest-noun baseline, %", fixed(1, 100), spread=False),
    ),
    claims="../claims.csv",
    # The subject shows its number, so the sentence contains the answer.
    competence=(Competence("linear", "measure.accuracy", line=0.9, higher=True),),
    verdicts={"syntax-positions": tree_helps},
    figures=(draw_distances,),
    notes=(
        "Accuracy: at the verbs of generated sentences that are not in the training data, with gold trees. Of the "
        "sentences that are drawn for the test, about one in seven is in the training data and is left out. "
        "Nearest-noun baseline: the accuracy of always agreeing with the nearest noun before the verb.",
    ),
)  # fmt: skip
