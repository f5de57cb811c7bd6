"""Trivial baselines that a trained model must beat: each method is fitted on the training split, without a seed."""

from attention_research.tasks.floors.table import NAMES, floors_of

__all__ = ["NAMES", "floors_of"]
