"""`lectures/seq2seq_tasks` and `lectures/agreement`: configs, verdicts and pictures from made-up numbers."""

import pytest
from results_of import clear_cases, results_of

from attention_research.studies.trials import configuration
from attention_research.studies.verdicts import FAILED, HELD

NAMES = ("lectures/seq2seq_tasks", "lectures/agreement")


def rows(**numbers):
    """row -> stage.number -> a value for each seed. Names are given as stage__number."""
    return {row: {name.replace("__", "."): values for name, values in of.items()} for row, of in numbers.items()}


def judged(studies, claim, **numbers):
    (study,) = (studies[name] for name in NAMES if claim in studies[name].verdicts)
    return study.verdicts[claim](results_of(rows(**numbers)))


@pytest.mark.parametrize("name", NAMES)
def test_every_row_resolves_and_the_tasks_have_one_model(name, studies):
    study = studies[name]
    for scale in study.scales:
        models = []
        for row in study.rows_at(scale):
            model = dict(configuration(study, scale, row).resolved["model"])
            sizes = [model.pop(size) for size in ("max_length", "vocabulary_size") if size in model]
            assert all(sizes)
            models.append({**model, "vocabulary": None})
        if name == "lectures/seq2seq_tasks":
            assert all(model == models[0] for model in models)


def test_lengths_are_judged_cell_by_cell(studies):
    judge = lambda *tables: judged(studies, "sequence-to-sequence-any-lengths", lengths={
        "measure__cells": list(tables), "measure__exact": [0.5] * len(tables),
        "measure__exact_unequal": [0.4] * len(tables)})  # fmt: skip
    assert judge([[1.0, None], [0.95, 0.9]], [[0.9, None], [0.9, 0.95]]).status == HELD
    partly = judge([[1.0, 0.2], [0.95, 0.9]], [[1.0, 0.2], [0.9, 0.95]])
    assert partly.status == FAILED and "3 of 4 cells" in partly.because and "worst has 20.0%" in partly.because
    assert judge([[1.0, 0.2], [0.5, 0.95]], [[1.0, 0.2], [0.5, 0.95]]).status == FAILED  # good at equal lengths only


def test_trees_and_programs_need_form_and_content(studies):
    def parsing(f1, malformed):
        numbers = {"evaluate__f1": f1, "evaluate__flat_f1": [29.0] * 3, "evaluate__malformed": malformed}
        return judged(studies, "task-parsing", parsing=numbers).status

    assert parsing([80, 85, 90], [1, 2, 1]) == HELD and parsing([80, 85, 90], [30, 40, 30]) == FAILED
    assert parsing([28, 20, 40], [1, 2, 1]) == FAILED

    def code(passes, runs):
        numbers = {"measure__runs": runs, "measure__exact_match": passes, "measure__passes": passes}
        floor = {f"measure__nearest_{name}": [10.0] * 3 for name in ("exact_match", "passes")}
        return judged(studies, "task-code-generation", code={**numbers, **floor}).status

    assert code([90, 91, 95], [99, 99, 98]) == HELD and code([30, 31, 35], [50, 50, 50]) == FAILED
    assert code([5, 5, 20], [99, 99, 99]) == FAILED


def few(mass, kept, seeds=2):
    numbers = {f"measure__mass_{k}": [mass] * seeds for k in (1, 2, 3)}
    numbers |= {f"measure__kept_{k}": [kept] * seeds for k in (1, 2, 3)}
    return numbers | {"measure__bleu_whole": [30.0] * seeds, "measure__even_3": [0.2] * seeds}


def test_few_words_need_most_of_the_mass_and_the_same_bleu(studies):
    judge = lambda **found: judged(studies, "translation-needs-few-source-words", **found)
    every = ("rnnsearch_generated", "transformer_generated", "rnnsearch", "transformer")
    assert judge(**{row: few(0.8, 0.95) for row in every}).status == HELD
    assert judge(**{row: few(0.8, 0.5) for row in every}).status == FAILED
    some = judge(**{row: few(0.8, 0.95) for row in every[:1]}, **{row: few(0.3, 0.95) for row in every[1:]})
    assert some.status == FAILED and clear_cases(some) == ["RNNsearch, generated"]


def gender(near, far):
    drops = [a - b for a, b in zip(near, far, strict=True)]
    return {"measure__near": near, "measure__far": far, "measure__drop": drops}


def test_distance_has_to_hurt_only_the_fixed_vector(studies):
    judge = lambda fixed, search, transformer: judged(
        studies, "gender-agreement-at-distance", encdec_generated=fixed, rnnsearch_generated=search,
        transformer_generated=transformer,
    ).status  # fmt: skip
    good, falls = gender([1.0, 1.0, 0.99], [0.99, 1.0, 0.99]), gender([0.98, 0.97, 0.99], [0.7, 0.72, 0.75])
    assert judge(falls, good, good) == HELD
    assert judge(falls, good, gender([1.0, 1.0, 1.0], [0.9, 0.91, 0.9])) == FAILED
    assert judge(good, good, good) == FAILED
    assert judge(gender([0.5, 0.52, 0.49], [0.5, 0.5, 0.51]), good, good) == FAILED  # it never learned the gender


@pytest.mark.slow
def test_pictures_are_drawn_of_existing_results(studies, tmp_path):
    table = [[0.5 + 0.01 * (i + j) if (i, j) != (0, 3) else None for j in range(6)] for i in range(6)]
    pictures = {
        "lectures/seq2seq_tasks": rows(
            lengths={"measure__cells": [table, table]},
            code={"measure__passes": [80.0, 90.0], "measure__nearest_passes": [10.0, 10.0]},
        ),
        "lectures/agreement": rows(
            encdec_generated={"measure__gender_by_distance": [[1, 0.5]], "measure__distances": [[0, 1]],
                              "measure__noun_mass": [[0.0, 0.0]]},
            rnnsearch_generated={**few(0.8, 0.9), **{f"measure__even_{k}": [0.1] * 2 for k in (1, 2)}},
        ),
    }  # fmt: skip
    for name, numbers in pictures.items():
        drawn = [draw(results_of(numbers), tmp_path) for draw in studies[name].figures]
        assert all(figure.path.stat().st_size > 5000 for figure in drawn)
        assert all(draw(results_of({}), tmp_path) is None for draw in studies[name].figures)
