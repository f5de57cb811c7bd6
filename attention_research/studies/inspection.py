"""Counts parameters and FLOPs of the rows of a study, without running them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attention_research.studies import results
from attention_research.studies.loading import load_study
from attention_research.studies.study import Study
from attention_research.studies.trials import configuration

#: The kinds of stages that train the module of the config.
TRAINING = ("train", "finetune")


def inspect_study(
    study: str | Study, *, scale: str = "paper", rows: Sequence[str] | None = None
) -> list[dict[str, Any]]:
    """The counts of every row of a study at a scale, from the modules that would be trained. Allocates no arrays.

    Returns one object for each row, with ``row`` (the printed name), ``id``, ``parameters``, ``flops`` (one step,
    forward and backward), ``published`` (the cells of the published table) and the study's own counts. A study that
    only measures is counted by its ``count`` function at its largest point. Rows that train nothing in a study that
    trains have no counts. Published rows that are not run at the scale are included without counts, unless ``rows``
    restricts the rows.
    """
    study = load_study(study) if isinstance(study, str) else study
    size = study.scale(scale)
    paper = results.published(study, scale)
    chosen = study.rows_at(scale, rows)
    configs = {row.id: configuration(study, scale, row) for row in chosen}
    shown = configs.keys() if rows else configs.keys() | paper.keys()
    found = []
    for row in (row for row in study.rows if row.id in shown):
        config = configs.get(row.id)
        trained = any(stage.kind in TRAINING for stage in study.stages_of(row, scale))
        if config is not None and trained:
            from attention_research.training import inspection

            counted = inspection.inspect(config) | (study.counts(config) if study.counts else {})
            counted |= study.against(row, counted, paper.get(row.id, {})) if study.against else {}
        elif study.count is not None and row.id in configs:
            point = {study.axis: max(size.points)} if size.points else {}
            counted = {**study.count(**{**size.settings, **row.settings, **point}), **point}
        else:
            counted = {"parameters": None, "flops": None}
        found.append({"row": row.name, "id": row.id, **counted, "published": paper.get(row.id, {})})
    return found
