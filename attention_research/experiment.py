"""The root of a config: its signature is the schema of what stands above the sections."""

from __future__ import annotations

from attention_research.registry import Child, Constructor, Positive


class Experiment:
    """The sections as constructors; ``max_length`` (tokens, EOS included) and ``vocabulary_size`` flow into them."""

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
