"""Sutskever et al. 2014, Figure 2: the encoder's vectors of sentences, in their first two principal components.

    attention-research reproduce sutskever2014/figure2 --scale=cpu

The figure has the paper's two panels, with names and acts that occur in Bible verses: who does what to whom, and one
act in three wordings. Also measured are the distance between a sentence and its own words in another order (0 for a bag
of words), and whether sentences are grouped by the actor rather than by the verb. The rows and their trials are those
of `sutskever2014/table1`, so results can be copied from one study to the other.
"""

from __future__ import annotations

from pathlib import Path

from attention_research.analysis.by_length import measure as by_length
from attention_research.analysis.parameter_counts import weights_without_biases
from attention_research.studies import Budget, Row, Scale, Study, evaluate, measure, train
from attention_research.studies.columns import PARAMETERS, PERPLEXITY, Column, fixed
from attention_research.studies.competence import Competence
from attention_research.studies.figures import Figure, caption, save
from attention_research.studies.results import Results
from attention_research.studies.verdicts import UNTESTED, Case, Verdict, decide

from . import sentence_vectors

CONFIG = "configs/translation/recurrent.py"
#: The same as in table1, so that the trials are the same.
BASE = {
    "model.cell": {"kind": "lstm"},
    "model.encoder": {"kind": "unidirectional"},
    "model.decoder": {"kind": "fixed_vector"},
    "model.alignment": {"kind": "none"},
    "model.initialization": {"kind": "uniform", "scale": 0.08},
    "model.reverse_source": True,
    "model.num_layers": 2,
}
SMOKE = {"model.width": 16, "model.embedding_width": 16, "vocabulary_size": 1000}
CPU = {"model.width": 128, "model.embedding_width": 128, "vocabulary_size": 4000}
LENGTHS = measure(by_length, edges=(1, 10, 15, 20, 25, 30, 40, 60), longest=96)


def order_matters(results: Results) -> Verdict:
    """Sentences with the same words in other roles have different vectors, unlike with a bag of words."""
    many = lambda key: ", ".join(f"{value:.2f}" for value in results.values("reversed", f"measure.{key}"))
    apart, actors, verbs = (
        results.values("reversed", f"measure.{key}")
        for key in ("order_distance", "actor_silhouette", "verb_silhouette")
    )
    if not apart or not actors or not verbs:
        return Verdict(UNTESTED, "sentence vectors were not measured")
    before = results.values("reversed", "measure.actor_silhouette_untrained")
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
    givers = f"silhouette by giver over three wordings: {many('giver_silhouette')}"
    return decide(cases, f"{givers} (before training: {many('giver_silhouette_untrained')})")


def planes(results: Results, folder: Path) -> Figure | None:
    """Draws both panels for the first finished seed of the reversed LSTM."""
    found = [
        entry.result["stages"].get("measure", {}) for row in ("reversed", "forward") for entry in results.of(row)
        if entry.result
    ]  # fmt: skip
    found = [numbers for numbers in found if "roles_plane" in numbers]
    if not found:
        return None
    path, numbers = folder / "sentence_vectors.png", found[0]
    titles = {"roles_plane": "who does what to whom", "voices_plane": "one act in three wordings, in both directions"}
    figure = sentence_vectors.figure_of([(title, numbers[key]) for key, title in titles.items()])
    save(figure, path, caption(results, "blue circles and orange triangles: the two actors", seeds="1 seed"))
    grouped = f"silhouette by actor {numbers['actor_silhouette']:.2f}, by verb {numbers['verb_silhouette']:.2f}"
    return Figure(path, "Sentence vectors, first two principal components", f"Scatter of sentences; {grouped}.")


NOTE = "The encoder of a translation model of Bible verses. Blue circles and orange triangles distinguish the actors."
STUDY = Study(
    rows=(
        Row("forward", "one forward LSTM", {"model.reverse_source": False}),
        Row("reversed", "one reversed LSTM"),
    ),
    scales={
        "smoke": Scale(f"{CONFIG}:smoke", BASE | SMOKE, seeds=1, jobs=2, settings={"examples": 8}, note=NOTE),
        "cpu": Scale(f"{CONFIG}:cpu", BASE | CPU, seeds=3, jobs=2, settings={"examples": 600}, note=NOTE),
    },
    stages=(train, evaluate, LENGTHS, measure(sentence_vectors.measure)),
    columns=(
        PARAMETERS, PERPLEXITY,
        Column("measure.vector_width", "vector width", fixed(0), spread=False),
        Column("measure.order_distance", "distance to reordered sentence", fixed(2)),
        Column("measure.bag_order_distance", "distance, bag of words", fixed(2), spread=False),
        Column("measure.actor_silhouette", "silhouette by actor", fixed(2), better="higher"),
        Column("measure.actor_silhouette_untrained", "by actor, untrained", fixed(2)),
        Column("measure.verb_silhouette", "silhouette by verb", fixed(2)),
        Column("measure.giver_silhouette", "silhouette by giver, three voices", fixed(2), better="higher"),
        Column("measure.giver_silhouette_untrained", "by giver, untrained", fixed(2)),
        Column("measure.variance_share", "variance in the figure, %", fixed(0, 100)),
    ),
    budgets=(Budget("reversed"),),
    claims="../claims.csv",
    counts=weights_without_biases,
    competence=(Competence("reversed", "evaluate.perplexity", "trigram"),),
    verdicts={"must-hold-word-order-shows": order_matters},
    figures=(planes,),
)  # fmt: skip
