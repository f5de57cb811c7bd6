"""`wang2019/structure`: every row's settings, and verdicts by hand."""

import numpy as np
from results_of import results_of

from attention_research.experiments.wang2019.agreement_trees import generate
from attention_research.experiments.wang2019.tree_positions import FROM, POSITIONS, without
from attention_research.studies.comparisons import REVERSED
from attention_research.studies.verdicts import FAILED, HELD

STUDY = "wang2019/structure"


def test_every_kind_of_positions_is_a_row_with_whole_trees(study):
    whole = [row.settings["positions"] for row in study.rows_at("cpu") if "lost" not in row.settings]
    assert sorted(whole) == sorted(POSITIONS)


def judged(study, **rows):
    """The verdict from each row's accuracy by distance."""
    near = lambda x: [x - 0.01, x, x + 0.01]
    numbers = {
        row: {f"measure.from_{first}": near(x) for first, x in zip(FROM, values, strict=True)}
        | {"measure.accuracy": near(sum(values) / len(values))}
        for row, values in rows.items()
    }
    return study.verdicts["syntax-positions"](results_of(numbers))


def test_no_tested_sentence_is_in_the_training_data():
    seen, drawn = generate(2000, 28, 0, 0.0), generate(300, 28, 1, 0.0)
    kept = without(drawn, seen)
    rows = lambda sentences: [tuple(row) for row in np.asarray(sentences.tokens).tolist()]
    assert not set(rows(kept)) & set(rows(seen)) and set(rows(drawn)) & set(rows(seen))
    assert len(kept.tokens) == len(kept.plural) == sum(row not in set(rows(seen)) for row in rows(drawn))


def test_the_tree_has_to_help_at_every_distance_beside_word_order(study):
    linear, good = (0.9, 0.8, 0.7, 0.6), (0.95, 0.95, 0.95, 0.95)
    held = judged(study, linear=linear, dependency=good, both=good, dependency_lost=(0.9,) * 4)
    assert held.status == HELD and "a tenth of the heads lost: accuracy 0.9 (dependency_lost)" in held.because
    far = judged(study, linear=linear, dependency=good, both=(0.8, 0.8, 0.9, 0.9))
    assert far.status == FAILED and far.cases["both, subject 1-2 back"].outcome == REVERSED
    assert judged(study, linear=good, dependency=good, both=good).status == FAILED
