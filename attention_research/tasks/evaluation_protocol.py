"""The contract of evaluations, which score a model for training, evaluation and the tables of studies.

An evaluation is a section of a config: `evaluation`, or one of the named sections of `evaluations`. There are two
sorts. `ScoresTexts` scores the texts that the model writes. `ReadsOutputs` computes outputs of the model, batch by
batch, and scores them. Both list their metrics. A `Metric` has a direction, a format and floors, which tables, figures,
curves and the choice of a checkpoint use. The metrics are read from the source without importing the class
(`studies.columns`), so write them as literals.

Derive a kind from `tasks.evaluation.Evaluation` or `TextEvaluation`. They have defaults for everything but `metrics`,
`score`, `summary`, and `outputs` of an evaluation that reads outputs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

if TYPE_CHECKING:  # planning and drawing tables read the metrics without JAX and NumPy
    import numpy as np
    from jaxtyping import Array

#: Name of a metric -> its number or text, for one split.
Scores = dict[str, float | str]


@dataclasses.dataclass(frozen=True)
class Floor:
    """A trivial baseline. `slug` is its name in `floors`, `title` the name of its line in a table.

    `stored` is the name of the floor's score if the evaluation stores it with its own scores; a trained row must be
    better than it. `said` is the floor in a sentence ("a unigram model"), `whose` its possessive form ("unigram's").
    """

    slug: str
    title: str
    stored: str = ""
    said: str = ""
    whose: str = ""


@dataclasses.dataclass(frozen=True)
class Metric:
    """A number of an evaluation: its `name` in the scores, the `title` of its column, and which direction is better.

    It is printed with `digits` digits after the point, or, if `significant`, with that many significant digits. A note
    prints a floor with `floor_digits` digits after the point.

    `bounds` are the least and the largest possible value. By default, a metric of which higher is better is a
    percentage from 0 to 100, and a metric of which lower is better is at least 0. Figures end intervals there.
    """

    name: str
    title: str
    better: Literal["higher", "lower"]
    digits: int = 1
    significant: bool = False
    floor_digits: int = 1
    floors: tuple[Floor, ...] = ()
    bounds: tuple[float, float] | None = None

    @property
    def higher(self) -> bool:
        """Whether more is better."""
        return self.better == "higher"

    @property
    def possible(self) -> tuple[float, float]:
        """The least and the largest possible value; infinity if there is no largest value.

        >>> Metric("bleu", "BLEU", "higher").possible, Metric("bits", "bits", "lower").possible
        ((0.0, 100.0), (0.0, inf))
        """
        return self.bounds or (0.0, 100.0 if self.higher else float("inf"))

    def missed(self, floor: Floor, value: float) -> str:
        """The note on a model that is not better than a floor of this value.

        >>> Metric("bleu", "BLEU", "higher").missed(Floor("copy", "copying the source", whose="copying's"), 3.14)
        "BLEU not above copying's 3.1"
        """
        side = "above" if self.higher else "below"
        return f"{self.title.split(',')[0]} not {side} {floor.whose} {value:,.{self.floor_digits}f}"


#: The perplexity of a target token. Every evaluation that decodes reports it with its scores.
PERPLEXITY = Metric(
    "perplexity",
    "perplexity",
    "lower",
    digits=3,
    significant=True,
    floor_digits=0,
    bounds=(1.0, float("inf")),
    floors=(
        Floor("unigram", "unigram", stored="unigram_perplexity", said="a unigram model", whose="unigram's"),
        Floor("bigram", "bigram (Kneser-Ney)"),
        Floor("trigram", "trigram (Kneser-Ney)"),
    ),
)

#: The share of right labels in percent.
ACCURACY = Metric(
    "accuracy",
    "accuracy, %",
    "higher",
    floors=(
        Floor(
            "majority",
            "most frequent class",
            "majority_accuracy",
            "the most frequent class",
            "the most frequent class's",
        ),
        Floor("tfidf_logistic", "TF-IDF and logistic regression"),
    ),
)


class Described(Protocol):
    """The members of both sorts: the examples that are scored, the metrics and the floors.

    `examples` limits the number of scored examples of the split (None: all). The scored model is the mean of the newest
    `average` checkpoints.
    """

    split: str
    batch_size: int
    examples: int | None
    average: int

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """The metrics that `score` returns, and those that training measures itself; an attribute of the class."""
        ...

    @property
    def needs(self) -> tuple[str, ...]:
        """The methods that the model must have; an attribute of the class."""
        ...

    def summary(self, scores: Mapping[str, Any]) -> str:
        """The scores in one line."""
        ...

    def floors(self, data: Any) -> dict[str, dict[str, float]]:
        """Slug of a floor -> its scores on the split, under the names of `score`. Floors are fitted on the training
        split. Import their code in the method, because scoring a trial does not need it."""
        ...


@runtime_checkable
class ScoresTexts(Described, Protocol):
    """Scores the texts that the model writes. The three lists have one item for each example, in the same order. An
    item is a text; the references of a caption are several texts. By default `by_distance` and `sentence_statistics`
    return nothing."""

    def score(self, hypotheses: Sequence[str], references: Sequence[Any], sources: Sequence[Any]) -> Scores:
        """The metrics by name, the stored floors, and signatures that describe how a number was computed."""
        ...

    def by_distance(
        self, hypotheses: Sequence[str], references: Sequence[Any], sources: Sequence[Any], data: Any, report: Any
    ) -> dict[str, Any]:
        """Separate scores for sources near to a training source and for sources far from all of them. Returns nothing,
        and reports why in a line, if the training text is not available."""
        ...

    def distance_summary(self, scores: Mapping[str, Any]) -> str:
        """The scores of `by_distance` in words, to follow `summary`."""
        ...

    def sentence_statistics(
        self, hypotheses: Sequence[str], references: Sequence[Any], sources: Sequence[Any]
    ) -> dict[str, Any]:
        """The statistics of each sentence, whose sums give a corpus metric (`tasks.sentence_statistics`)."""
        ...


@runtime_checkable
class ReadsOutputs(Described, Protocol):
    """Scores outputs of the model. The id -1 marks a row that only fills the batch."""

    def batches(self, data: Any) -> Iterable[tuple[np.ndarray, Mapping[str, Any]]]:
        """(ids [B], batch) that the model reads. By default, the ids are those of the examples of the data."""
        ...

    def outputs(self, model: Any, batch: Mapping[str, Array]) -> dict[str, Array]:
        """A batch of the data -> arrays with the batch as their first axis. A pure function, traced by `jax.jit`."""
        ...

    def score(self, triples: Iterable[tuple[np.ndarray, Mapping[str, Any], Mapping[str, Any]]], data: Any) -> Any:
        """(ids [B], batch, outputs) of all batches -> scores, as in `ScoresTexts.score`."""
        ...
