"""What an evaluation gives: the contract between a score and what trains, evaluates and tabulates.

An evaluation is a section of a config: `evaluation`, or one of the further ones that `evaluations` names. There are two
sorts. One that `ScoresTexts` is given what the model writes. One that `ReadsOutputs` computes what it needs of the
model, batch by batch. Both say what they measure: each number that they print is a `Metric`, which knows its direction,
its format and its floors. Tables, pictures, curves and the choice of a checkpoint read these. The metrics are read from
the source, without an import (`studies.columns`): write them as literals in the class.

A kind derives from `tasks.evaluation.Evaluation` or `TextEvaluation`, which have defaults for all but `metrics`,
`score`, `summary` and, of one that reads outputs, `outputs`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

if TYPE_CHECKING:  # planning and drawing tables read the metrics without JAX and NumPy
    import numpy as np
    from jaxtyping import Array

#: What a metric is called -> its number or text, of one split.
Scores = dict[str, float | str]


@dataclasses.dataclass(frozen=True)
class Floor:
    """A trivial baseline. `slug` is its name in `floors`, `title` that of its line in a table.

    Where the evaluation stores the floor's score with its own, it stands there as `stored`; a trained row must be
    better than it. `said` is the floor in a sentence ("a unigram model"), `whose` its possessive form ("unigram's").
    """

    slug: str
    title: str
    stored: str = ""
    said: str = ""
    whose: str = ""


@dataclasses.dataclass(frozen=True)
class Metric:
    """A number of an evaluation: `name` in its scores, `title` of its column, and which way is better.

    It is printed with `digits` after the point, or so many significant ones; a floor in a note with `floor_digits`.
    """

    name: str
    title: str
    better: Literal["higher", "lower"]
    digits: int = 1
    significant: bool = False
    floor_digits: int = 1
    floors: tuple[Floor, ...] = ()

    @property
    def higher(self) -> bool:
        """Whether more is better."""
        return self.better == "higher"

    def missed(self, floor: Floor, value: float) -> str:
        """What is said of a model that is not better than a floor of this value.

        >>> Metric("bleu", "BLEU", "higher").missed(Floor("copy", "copying the source", whose="copying's"), 3.14)
        "BLEU not above copying's 3.1"
        """
        side = "above" if self.higher else "below"
        return f"{self.title.split(',')[0]} not {side} {floor.whose} {value:,.{self.floor_digits}f}"


#: The perplexity of a target token, which all evaluations that decode are given beside their scores.
PERPLEXITY = Metric(
    "perplexity",
    "perplexity",
    "lower",
    digits=3,
    significant=True,
    floor_digits=0,
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
    """What both sorts have: which examples are scored, by which metrics, and against which floors.

    `examples` bounds how many of the split are scored (None: all). The model is the mean of the newest `average`
    checkpoints.
    """

    split: str
    batch_size: int
    examples: int | None
    average: int

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """What `score` gives, and training beside it; an attribute of the class."""
        ...

    @property
    def needs(self) -> tuple[str, ...]:
        """The methods that the model must have; an attribute of the class."""
        ...

    def summary(self, scores: Mapping[str, Any]) -> str:
        """One line of what `score` gave."""
        ...

    def floors(self, data: Any) -> dict[str, dict[str, float]]:
        """Slug of a floor -> its scores on the split, by the names that `score` gives them; each is fitted on the
        training split. What computes them is imported in the method: it is no part of scoring a trial."""
        ...


@runtime_checkable
class ScoresTexts(Described, Protocol):
    """Scores what the model writes. The three lists have one item an example, in the same order: text, or of captions
    several references. The numbers of `by_distance` and the statistics are nothing unless the evaluation has some."""

    def score(self, hypotheses: Sequence[str], references: Sequence[Any], sources: Sequence[Any]) -> Scores:
        """The metrics by name, the stored floors, and signatures that say how a number was made."""
        ...

    def by_distance(
        self, hypotheses: Sequence[str], references: Sequence[Any], sources: Sequence[Any], data: Any, report: Any
    ) -> Scores:
        """Scores of the sources near to a training source and of those far from one, apart. Where the training text is
        not here: nothing, and a line to `report` that says why."""
        ...

    def distance_summary(self, scores: Mapping[str, Any]) -> str:
        """What follows `summary` of the numbers of `by_distance`."""
        ...

    def sentence_statistics(
        self, hypotheses: Sequence[str], references: Sequence[Any], sources: Sequence[Any]
    ) -> dict[str, Any]:
        """What a corpus metric is a sum of, sentence by sentence (`tasks.sentence_statistics`)."""
        ...


@runtime_checkable
class ReadsOutputs(Described, Protocol):
    """Scores what it reads off the model. An id of -1 marks a row that only fills the batch."""

    def outputs(self, model: Any, batch: Mapping[str, Array]) -> dict[str, Array]:
        """A batch of the data -> arrays, the batch their first axis; a pure function, traced by `jax.jit`."""
        ...

    def score(self, triples: Iterable[tuple[np.ndarray, Mapping[str, Any], Mapping[str, Any]]], data: Any) -> Any:
        """(ids [B], batch, outputs) of all batches -> as `ScoresTexts.score`."""
        ...
