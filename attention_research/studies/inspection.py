"""What a study's rows count, without running them: parameters and FLOPs of the modules that would be trained."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attention_research.studies import results
from attention_research.studies.loading import load_study
from attention_research.studies.study import Study
from attention_research.studies.trials import configuration


def inspect_study(
    study: str | Study, *, scale: str = "paper", rows: Sequence[str] | None = None
) -> list[dict[str, Any]]:
    """What every row of a study counts at a scale, from the module that would be trained: allocates nothing.

    Objects with ``row`` (the printed name), ``id``, ``parameters``, ``flops`` (one step, forward and backward),
    ``published`` (the paper's cells) and what else is counted. A study of pure measurement is counted by its own
    ``count`` function at its largest point. A row that is not run at the scale has its published cells alone, unless
    ``rows`` says which are wanted.
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
        if config is not None:
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
