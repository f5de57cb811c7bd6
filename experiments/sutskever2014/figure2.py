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
    """The vectors of sentences are grouped by the actor, not by the verb, and more so than before training.

    The text gives the distance between a sentence and its own words in another order. No recurrent encoder gives both
    the same vector, so this distance decides nothing.
    """
    many = lambda key: ", ".join(f"{value:.2f}" for value in results.values("same_reversed", f"measure.{key}"))
    actors, verbs = (
        results.values("same_reversed", f"measure.{key}") for key in ("actor_silhouette", "verb_silhouette")
    )
    if not actors or not verbs:
        return Verdict(UNTESTED, "sentence vectors were not measured")
    before = results.values("same_reversed", "measure.actor_silhouette_untrained")
    grouped = f"silhouette by actor {many('actor_silhouette')}"
    cases = {
        "grouped by actor, not by verb": Case.ruled(
            min(actors) > max(0.0, max(verbs)), f"{grouped}, by verb {many('verb_silhouette')}"
        ),
    }
    if before:
        numbers = f"{grouped}, before training {many('actor_silhouette_untrained')}"
        cases["more than before training"] = Case.ruled(min(actors) > max(before), numbers)
    before_training = lambda key: f"{many(key)} (before training: {many(f'{key}_untrained')})"
    return decide(
        cases,
        f"distance of reordered / different sentences: {before_training('order_distance')}",
        f"silhouette by actor over three wordings: {before_training('giver_silhouette')}",
    )


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
