"""The root sections of configs. Their signatures define the top-level settings, which are passed on to the sections.

`evaluation` computes the scores of the run; `evaluations` are further evaluations by name (`training.scoring`).
"""

from __future__ import annotations

from collections.abc import Mapping

from attention_research.signatures import Child, Children, Constructor, Positive


class Experiment:
    """An experiment with text. ``max_length`` (tokens, EOS included) and ``vocabulary_size`` are passed to sections."""

    def __init__(
        self,
        *,
        max_length: Positive,
        vocabulary_size: Positive,
        task: Child["task"] = "translation",
        data: Child["data"],
        model: Child["model"],
        training: Child["training"],
        parallel: Child["parallel"],
        decoding: Child["decoding"],
        evaluation: Child["evaluation"],
        evaluations: Children["evaluation"] = (),
    ):
        self.max_length = max_length
        self.vocabulary_size = vocabulary_size
        self.task: Constructor = task
        self.data: Constructor = data
        self.model: Constructor = model
        self.training: Constructor = training
        self.parallel: Constructor = parallel
        self.decoding: Constructor = decoding
        self.evaluation: Constructor = evaluation
        self.evaluations: Mapping[str, Constructor] = evaluations


class ImageExperiment:
    """An experiment with images only. ``side`` (pixels) and ``channels`` (1 or 3) are passed to the sections."""

    def __init__(
        self,
        *,
        side: Positive,
        channels: Positive = 3,
        task: Child["task"] = "classification",
        data: Child["data"] = "images",
        model: Child["model"] = "image_classifier",
        training: Child["training"],
        parallel: Child["parallel"],
        decoding: Child["decoding"],
        evaluation: Child["evaluation"] = "classification",
        evaluations: Children["evaluation"] = (),
    ):
        self.side, self.channels = side, channels
        self.task: Constructor = task
        self.data: Constructor = data
        self.model: Constructor = model
        self.training: Constructor = training
        self.parallel: Constructor = parallel
        self.decoding: Constructor = decoding
        self.evaluation: Constructor = evaluation
        self.evaluations: Mapping[str, Constructor] = evaluations


class ImageTextExperiment:
    """An experiment with images and text, such as captions or questions.

    It has the top-level settings of both other kinds of experiments.
    """

    def __init__(
        self,
        *,
        side: Positive,
        channels: Positive = 3,
        max_length: Positive,
        vocabulary_size: Positive,
        task: Child["task"] = "captioning",
        data: Child["data"] = "captions",
        model: Child["model"] = "recurrent_captioner",
        training: Child["training"],
        parallel: Child["parallel"],
        decoding: Child["decoding"],
        evaluation: Child["evaluation"] = "captions",
        evaluations: Children["evaluation"] = (),
    ):
        self.side, self.channels, self.max_length, self.vocabulary_size = side, channels, max_length, vocabulary_size
        self.task: Constructor = task
        self.data: Constructor = data
        self.model: Constructor = model
        self.training: Constructor = training
        self.parallel: Constructor = parallel
        self.decoding: Constructor = decoding
        self.evaluation: Constructor = evaluation
        self.evaluations: Mapping[str, Constructor] = evaluations


class SeriesExperiment:
    """An experiment with series of numbers. ``max_length`` (positions) and ``channels`` are passed to the sections.

    ``channels`` is the number of numbers at each position.
    """

    def __init__(
        self,
        *,
        max_length: Positive,
        channels: Positive,
        task: Child["task"] = "regression",
        data: Child["data"] = "adding",
        model: Child["model"] = "series",
        training: Child["training"],
        parallel: Child["parallel"],
        decoding: Child["decoding"],
        evaluation: Child["evaluation"] = "regression",
        evaluations: Children["evaluation"] = (),
    ):
        self.max_length, self.channels = max_length, channels
        self.task: Constructor = task
        self.data: Constructor = data
        self.model: Constructor = model
        self.training: Constructor = training
        self.parallel: Constructor = parallel
        self.decoding: Constructor = decoding
        self.evaluation: Constructor = evaluation
        self.evaluations: Mapping[str, Constructor] = evaluations
