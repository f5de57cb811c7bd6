"""Sutskever et al. 2014, Figure 2: the encoder's vectors of sentences, in their first two principal components.

    attention-research reproduce sutskever2014/figure2 --scale=cpu

The figure has the paper's two panels, with sentences of the grammar of the generated sentences that the models
translate: who does what to whom, and one act in three wordings. Also measured are the distance between a sentence and
its own words in another order (0 for a bag of words), and whether sentences are grouped by the actor rather than by the
verb. The rows and their trials are those of `sutskever2014/table1`.
"""

from __future__ import annotations

from pathlib import Path

from attention_research.analysis.parameter_counts import weights_without_biases
from attention_research.studies import Budget, Scale, Study
from attention_research.studies.columns import PARAMETERS, PERPLEXITY, Column, fixed
from attention_research.studies.competence import Competence
from attention_research.studies.figures import Figure, caption, save
from attention_research.studies.results import Results
from attention_research.studies.verdicts import UNTESTED, Case, Verdict, decide

from ..raffel2017.systems import CONFIG as SOUNDS
from . import sentence_vectors
from .table1 import ROWS, base


def order_matters(results: Results) -> Verdict:
    """Sentences with the same words in other roles have different vectors, unlike with a bag of words."""
    many = lambda key: ", ".join(f"{value:.2f}" for value in results.values("same_reversed", f"measure.{key}"))
    apart, actors, verbs = (
        results.values("same_reversed", f"measure.{key}")
        for key in ("order_distance", "actor_silhouette", "verb_silhouette")
    )
    if not apart or not actors or not verbs:
        return Verdict(UNTESTED, "sentence vectors were not measured")
    before = results.values("same_reversed", "measure.actor_silhouette_untrained")
    grouped = f"silhouette by actor {many('actor_silhouette')}"
    cases = {
        "other roles, other vectors": Case.ruled(
            min(apart) > 0,
            f"distance of reordered / different sentences {many('order_distance')} (bag of words: 0, before training: "
            f"{many('order_distance_untrained')})",
        ),
        "grouped by actor, not by verb": Case.ruled(
            min(actors) > max(0.0, max(verbs)), f"{grouped}, by verb {many('verb_silhouette')}"
        ),
    }
    if before:
        numbers = f"{grouped}, before training {many('actor_silhouette_untrained')}"
        cases["more than before training"] = Case.ruled(min(actors) > max(before), numbers)
    givers = f"silhouette by actor over three wordings: {many('giver_silhouette')}"
    return decide(cases, f"{givers} (before training: {many('giver_silhouette_untrained')})")


def planes(results: Results, folder: Path) -> Figure | None:
    """Draws both panels for the first finished seed of the reversed LSTM."""
    found = [
        entry.result["stages"].get("measure", {})
        for row in ("same_reversed", "same_forward")
        for entry in results.of(row)
        if entry.result
    ]
    found = [numbers for numbers in found if "roles_plane" in numbers]
    if not found:
        return None
    path, numbers = folder / "sentence_vectors.png", found[0]
    titles = {"roles_plane": "who does what to whom", "voices_plane": "one act in three wordings, in both directions"}
    figure = sentence_vectors.figure_of([(title, numbers[key]) for key, title in titles.items()])
    save(figure, path, caption(results, "blue circles and orange triangles: the two actors", seeds="1 seed"))
    grouped = f"silhouette by actor {numbers['actor_silhouette']:.2f}, by verb {numbers['verb_silhouette']:.2f}"
    return Figure(path, "Sentence vectors, first two principal components", f"Scatter of sentences; {grouped}.")


NOTE = "The encoder of a translator of generated sentences. Blue circles and orange triangles distinguish the actors."
STUDY = Study(
    rows=tuple(row for row in ROWS if row.id in ("same_forward", "same_reversed")),
    scales={
        "smoke": Scale(f"{SOUNDS}:smoke", base("smoke"), seeds=1, jobs=2, settings={"examples": 8}, note=NOTE),
        "cpu": Scale(f"{SOUNDS}:cpu", base("cpu"), seeds=3, jobs=2, settings={"examples": 600}, note=NOTE),
    },
    columns=(
        PARAMETERS, PERPLEXITY,
        Column("measure.vector_width", "vector width", fixed(0), spread=False),
        Column("measure.order_distance", "distance to reordered sentence", fixed(2)),
        Column("measure.bag_order_distance", "distance, bag of words", fixed(2), spread=False),
        Column("measure.actor_silhouette", "silhouette by actor", fixed(2), better="higher"),
        Column("measure.actor_silhouette_untrained", "by actor, untrained", fixed(2)),
        Column("measure.verb_silhouette", "silhouette by verb", fixed(2)),
        Column("measure.giver_silhouette", "silhouette by actor, three wordings", fixed(2), better="higher"),
        Column("measure.giver_silhouette_untrained", "by actor, three wordings, untrained", fixed(2)),
        Column("measure.variance_share", "variance in the figure, %", fixed(0, 100)),
    ),
    budgets=(Budget("same_reversed"),),
    claims="../claims.csv",
    counts=weights_without_biases,
    # A generated sentence has exactly one correct translation.
    competence=(Competence("same_reversed", "evaluate.error_rate", line=10),),
    verdicts={"must-hold-word-order-shows": order_matters},
    figures=(planes,),
)  # fmt: skip
