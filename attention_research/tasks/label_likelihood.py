"""Chooses the label that a text-to-text model finds most probable: rank classification (Sanh et al. 2022, section 5.2).

    prediction = argmax over labels y of log p(y | x),   log p(y | x) = sum_t log p(y_t | y_<t, x)

The sum includes the end of the sequence, and is not divided by the length. Unlike a generated text, the prediction is
always a label.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from attention_research.errors import ConfigError
from attention_research.tasks.evaluation import Evaluation
from attention_research.tasks.evaluation_protocol import Scores
from attention_research.tasks.text_to_text_evaluation import TextToTextEvaluation


class LabelLikelihoodEvaluation(Evaluation):
    """Scores the most probable label of each example by `metrics`, as `TextToTextEvaluation` scores a generated one.

    `labels` are the labels to choose from (default: the distinct targets of the training split, in alphabetical
    order). The first one wins a tie. The model reads each example once for each label. `positive` is the label of
    "f1".

    Raises ConfigError as `TextToTextEvaluation` does, and if a label has more tokens than a target may have.
    """

    needs = ("log_likelihood",)
    metrics = (*(m for m in TextToTextEvaluation.metrics if m.name in ("accuracy", "f1", "f1_macro", "matthews")),)

    def __init__(
        self,
        *,
        metrics: tuple[Literal["accuracy", "f1", "f1_macro", "matthews"], ...] = ("accuracy",),
        labels: tuple[str, ...] = (),
        positive: str | None = None,
        **inherited: Any,
    ):
        super().__init__(**inherited)
        self._labels = tuple(labels)
        self.labels = functools.lru_cache(maxsize=1)(self._labels_of)  # the training text is read once
        examples = {"split": self.split, "batch_size": self.batch_size, "examples": self.examples}
        self._texts = TextToTextEvaluation(metrics=metrics, labels=labels, positive=positive, **examples)
        self.metrics = tuple(one for one in type(self).metrics if one.name in metrics)

    def _labels_of(self, data: Any) -> list[str]:
        """The labels to choose from."""
        return list(self._labels) or sorted(set(data.text("train")[1]))

    def batches(self, data: Any) -> Iterator[tuple[np.ndarray, dict[str, np.ndarray]]]:
        """Each batch of the data once for each label, which replaces the targets.

        The id of example i with label k of K is i K + k.
        """
        labels = self.labels(data)
        tokens = data.tokenizer.encode(labels)
        for ids, batch in super().batches(data):
            for k, (label, written) in enumerate(zip(labels, tokens, strict=True)):
                target = np.zeros_like(batch["target"])
                if len(written) > target.shape[1]:
                    raise ConfigError(
                        f"config.data.target_length: the label {label!r} has {len(written)} tokens, but a target has "
                        f"at most {target.shape[1]}"
                    )
                target[ids >= 0, : len(written)] = written
                yield np.where(ids >= 0, ids * len(labels) + k, -1), {**batch, "target": target}

    def outputs(self, model: Any, batch: Mapping[str, Array]) -> dict[str, Array]:
        """{"log_likelihood" [B]: log p(target | source), summed over the tokens of the target}."""
        values, _ = model.log_likelihood(batch)
        return {"log_likelihood": jnp.sum(values["log_likelihood"], axis=1, where=values["mask"])}

    def score(self, triples: Iterable[tuple[np.ndarray, Mapping, Mapping]], data: Any) -> Scores:
        """Each metric by its name, their mean as `score`, and `majority_...`; see `TextToTextEvaluation.score`."""
        labels, (sources, references) = self.labels(data), data.text(self.split)
        found: dict[int, np.ndarray] = {}
        for ids, _, outputs in triples:
            for id, value in zip(np.asarray(ids).tolist(), outputs["log_likelihood"], strict=True):
                if id >= 0:
                    example, label = divmod(id, len(labels))
                    found.setdefault(example, np.full(len(labels), -np.inf))[label] = value
        examples = sorted(found)
        predictions = [labels[int(np.argmax(found[example]))] for example in examples]
        pick = lambda texts: [texts[example] for example in examples]
        return self._texts.score(predictions, pick(references), pick(sources))

    def floors(self, data: Any) -> dict[str, dict[str, float]]:
        """The floors "majority" and "tfidf_logistic"."""
        return self._texts.floors(data)

    def summary(self, scores: Mapping[str, Any]) -> str:
        """The scores in one line."""
        return self._texts.summary(scores)
