"""Tests of differences and orders, against written-out formulas and against their nominal levels."""

import json
import math
import statistics

import numpy as np
import pytest
import sacrebleu
from results_of import results_of
from sacrebleu.significance import PairedTest
from scipy.stats import rankdata, t, ttest_ind, ttest_rel

from attention_research.studies.columns import Column
from attention_research.studies.comparisons import LEVEL, Margin, between, together
from attention_research.studies.differences import (
    LEAST,
    RESAMPLES,
    p_above,
    p_over_items,
    resampled,
    resampled_sums,
    student,
    student_over_rows,
    welch,
)
from attention_research.studies.row_comparisons import compare, equivalent, no_worse
from attention_research.studies.significance import (
    adjusted,
    agreement,
    holm,
    paired,
    partial_rank_correlation,
    rank_correlation,
)
from attention_research.studies.verdicts import CONDITION, HELD, conclude
from attention_research.tasks import sentence_statistics
from attention_research.tasks.error_rate import ErrorRateEvaluation
from attention_research.tasks.evaluation import BleuEvaluation

INF = math.inf


def test_paired_equals_students_t():
    a, b = [1.31, 2.05, 2.9, 4.4], [1.0, 2.1, 2.2, 3.3]
    d = np.subtract(a, b)
    t = d.mean() / (d.std(ddof=1) / math.sqrt(len(d)))
    # Student's density with 3 degrees of freedom, 2 / (pi sqrt 3) (1 + t^2 / 3)^-2, integrated beyond |t|.
    x = np.linspace(abs(t), 4000, 8_000_001)
    density = 2 / (math.pi * math.sqrt(3)) / (1 + x**2 / 3) ** 2
    tail = float(np.sum((density[1:] + density[:-1]) / 2) * (x[1] - x[0]))
    found = paired(a, b)
    assert found.mean == pytest.approx(d.mean()) and found.p == pytest.approx(2 * tail, rel=1e-3)


def test_without_any_spread_a_difference_is_certain():
    assert paired([2.0, 3.0], [1.0, 2.0]).p == 0.0 and paired([2.0, 3.0], [2.0, 3.0]).p == 1.0


def test_holm_equals_r():
    """R: p.adjust(c(0.01, 0.02, 0.03, 0.04, 0.005), "holm")."""
    found = holm(dict(zip("abcde", (0.01, 0.02, 0.03, 0.04, 0.005), strict=True)))
    assert list(found) == list("abcde")
    np.testing.assert_allclose(list(found.values()), [0.04, 0.06, 0.06, 0.06, 0.025])


def test_holm_works_along_the_last_axis():
    p = np.random.default_rng(0).random((3, 5, 7))
    found = adjusted(p)
    for place in np.ndindex(3, 5):
        np.testing.assert_allclose(found[place], [*holm(dict(enumerate(p[place]))).values()])
    assert holm({}) == {}


@pytest.mark.parametrize("margin", [0.0, 0.2, -0.3])
def test_one_sided_p_values_are_scipys(margin):
    rng = np.random.default_rng(0)
    for _ in range(20):
        ours, theirs = rng.normal(0.3, 1, (2, 5))
        fewer = theirs[:3]
        moved = ours + margin
        pairs, apart = (p_above(ours, theirs, in_pairs=way, margin=margin) for way in (True, False))
        assert pairs == pytest.approx(ttest_rel(moved, theirs, alternative="greater").pvalue)
        assert apart == pytest.approx(ttest_ind(moved, theirs, equal_var=False, alternative="greater").pvalue)
        unequal = ttest_ind(moved, fewer, equal_var=False, alternative="greater").pvalue
        assert p_above(ours, fewer, in_pairs=False, margin=margin) == pytest.approx(unequal)
    with pytest.raises(ValueError, match="as many numbers"):
        p_above(ours, fewer, in_pairs=True)


@pytest.mark.parametrize("in_pairs", [True, False])
def test_without_spread_the_sign_decides(in_pairs):
    p = lambda ours, theirs: p_above(ours, theirs, in_pairs=in_pairs)
    assert (p([0.1] * 3, [0.3] * 3), p([0.3] * 3, [0.1] * 3), p([0.1] * 3, [0.1] * 3)) == (1.0, 0.0, 0.5)
    assert p([0.1], [0.3]) is None and p([], []) is None


def test_runs_that_diverged_have_exact_p_values():
    p = lambda ours, theirs: p_above(ours, theirs, in_pairs=False)
    chances = np.linspace(0, 1, 1001)  # probability that a run diverges, in both rows
    for n, m in ((2, 2), (3, 3), (3, 5)):
        worst = max(chances**m * (1 - chances) ** n)
        assert p([1.0] * n, [-INF] * m) == pytest.approx(worst, rel=1e-4)
    assert p([2.0, 3.0, 4.0], [1.0, -INF, -INF]) == pytest.approx(1 / 20)  # the best one of 20 orders
    assert p([2.0, 3.0, -INF], [1.0, -INF, -INF]) == pytest.approx(4 / 20)
    assert p([-INF] * 3, [1.0, 2.0, 3.0]) == 1.0


def test_ranks_correlate_as_by_hand():
    """1 - 6 sum d^2 / (n (n^2 - 1)) for ranks without ties."""
    x, y = [3.0, 1.0, 4.0, 1.5, 9.0], [2.0, 7.0, 1.0, 8.0, 3.0]
    d = np.argsort(np.argsort(x)) - np.argsort(np.argsort(y))
    found = rank_correlation(x, y)
    assert found.rho == pytest.approx(1 - 6 * np.sum(d**2) / (5 * 24)) and found.pairs == 5
    assert found.low < found.rho < found.high
    same = rank_correlation([1, 2, 3, 4], [2, 4, 6, 9])
    assert same[:3] == (1.0, 1.0, 1.0) and str(same) == "1.00 (4 rows)"


def test_the_interval_of_a_correlation_has_its_nominal_coverage():
    """For normal pairs with Pearson correlation r, Spearman's is (6 / pi) asin(r / 2)."""
    rng, r, n, draws = np.random.default_rng(0), 0.6, 40, 1500
    true = 6 / math.pi * math.asin(r / 2)
    x = rng.standard_normal((draws, n))
    y = r * x + math.sqrt(1 - r**2) * rng.standard_normal((draws, n))
    found = [rank_correlation(*pair) for pair in zip(x, y, strict=True)]
    assert 0.93 < np.mean([one.low < true < one.high for one in found]) < 0.975


def test_partial_rank_correlation_is_that_of_residuals():
    """The correlation of the residuals of x's and y's ranks after linear regression on the ranks of the third."""
    rng = np.random.default_rng(0)
    for n in (5, 7, 11):
        x, y, z = rng.standard_normal((3, n))
        x, y = x + z, y + 2 * z
        ranks = [rankdata(side) for side in (x, y, z)]
        left = [side - np.polyval(np.polyfit(ranks[2], side, 1), ranks[2]) for side in ranks[:2]]
        found = partial_rank_correlation(x, y, z)
        assert found.rho == pytest.approx(np.corrcoef(*left)[0, 1]) and found.pairs == n
        assert found.low < found.rho < found.high
    assert math.isnan(partial_rank_correlation(z, y, z).rho)


def test_a_table_reports_its_agreement_with_the_published_one():
    """For four or more common rows. With five rows the number of parameters can be held fixed."""
    losses, counts, printed = [3.0, 1.0, 4.0, 1.5, 9.0], [7.0, 5.0, 5.5, 6.0, 8.0], [2.0, 7.0, 1.0, 8.0, 3.0]
    rows = {name: {"train.loss": [loss - 0.1, loss + 0.1], "inspect.parameters": [count] * 2}
            for name, loss, count in zip("abcde", losses, counts, strict=True)}  # fmt: skip
    cells = {name: {"PPL": f"{value} ± 0.1"} for name, value in zip("abcde", printed, strict=True)} | {
        "f": {"PPL": "1"}
    }
    columns = (Column("train.loss", "loss"),)
    told = lambda rows, cells: agreement(results_of(rows, compared={"train.loss": "PPL"}, columns=columns), cells)
    whole, partial = rank_correlation(losses, printed), partial_rank_correlation(losses, printed, counts)
    line = f"Spearman's rank correlation of our loss with the published PPL: {whole}"
    assert told(rows, cells) == [f"{line}, with the number of parameters held fixed {partial}."]
    four = {name: of for name, of in rows.items() if name != "e"}
    assert told(four, cells) == [f"{line.split(':')[0]}: {rank_correlation(losses[:4], printed[:4])}."]
    assert told(rows, {**cells, "a": {"PPL": "n/a"}, "b": {}}) == []


WORDS = "the a dog cat sees runs over under green old tree house and then".split()


def sentences(rng, count, kept, like=None):
    """Sentences of 4 to 12 words. They keep a share of about `kept` of the words of `like`; others are drawn again."""
    like = like or [[rng.choice(WORDS) for _ in range(rng.integers(4, 13))] for _ in range(count)]
    return [[word if rng.random() < kept else rng.choice(WORDS) for word in words] for words in like]


@pytest.mark.parametrize("kept", [1.0, 0.7, 0.0], ids=["copied", "some", "none"])
def test_bleu_follows_from_the_packed_statistics(kept):
    """Bitwise equal, with punctuation, empty hypotheses, and sentences shorter than four words."""
    rng = np.random.default_rng(1)
    references = sentences(rng, 53, 1.0)
    said = [words[: rng.integers(0, 13)] for words in sentences(rng, 53, kept, references)]
    said, references = (
        [" ".join(words) + "." * (i % 3) for i, words in enumerate(side)] for side in (said, references)
    )
    said[7] = ""
    scores = BleuEvaluation().score(said, references, references)
    packed = json.loads(json.dumps(BleuEvaluation().sentence_statistics(said, references, references)))
    counts = sentence_statistics.counts(packed)
    assert counts.shape == (53, 10) and packed["items"] == 53
    assert sentence_statistics.SCORES["bleu"]["bleu"](counts.sum(0), 53) == scores["bleu"]
    assert scores["bleu"] == sacrebleu.corpus_bleu(said, [references]).score and (scores["bleu"] > 9) == (kept > 0)
    np.testing.assert_array_equal(counts, sentence_statistics.bleu_counts(said, references))
    assert sentence_statistics.counts({**packed, "version": 0}) is None
    nothing = BleuEvaluation().sentence_statistics([], [], [])
    assert sentence_statistics.counts(nothing).shape == (0, 10)


def stored(hypotheses, references):
    """The packed statistics of each seed's hypotheses, as stored by its trial."""
    pack = BleuEvaluation().sentence_statistics
    return [
        pack([" ".join(words) for words in one], [" ".join(words) for words in references], []) for one in hypotheses
    ]


@pytest.mark.parametrize("kept", [0.6, 0.5])
def test_the_paired_bootstrap_is_sacrebleus(kept):
    """Equal numbers if no resample reverses the order of two systems. sacreBLEU folds those that do."""
    rng = np.random.default_rng(0)
    references = sentences(rng, 101, 1.0)
    said = [sentences(rng, 101, share, references) for share in (0.75, kept)]
    texts = [[" ".join(words) for words in side] for side in (*said, references)]
    named = [("theirs", texts[1]), ("ours", texts[0])]
    _, found = PairedTest(named, {"BLEU": sacrebleu.BLEU()}, [texts[2]], "bs", n_samples=RESAMPLES)()
    both = resampled(stored(said, references), "bleu")
    assert both.scores.tolist() == [sacrebleu.corpus_bleu(one, [texts[2]]).score for one in texts[:2]]
    gains = both.resamples[0] - both.resamples[1]
    above, below = p_over_items(both.scores[0] - both.scores[1], gains)
    assert gains.min() > 0 and above == pytest.approx(found["BLEU"][1].p_value) and below > 0.9
    assert p_over_items(both.scores[1] - both.scores[0], -gains) == (below, above)
    assert p_over_items(np.zeros(()), np.zeros(7)) == (1.0, 1.0)


def test_unpaired_results_are_not_resampled():
    rng = np.random.default_rng(0)
    references = sentences(rng, 103, 1.0)
    one, other = stored([sentences(rng, 103, 0.8, references) for _ in range(2)], references)
    (another,) = stored([references], sentences(rng, 103, 1.0))
    (few,) = stored([references[:97]], references[:97])
    assert resampled([one, other], "bleu").items == 103
    for trials, name in (
        ([], "bleu"), ([one, None], "bleu"), ([one, another], "bleu"), ([one, other], "error_rate"), ([few], "bleu"),
        ([{**one, "version": 0}], "bleu"),
    ):  # fmt: skip
        assert resampled(trials, name) is None


def test_a_difference_is_clear_only_over_seeds_and_over_test_items():
    """Three trainings that hardly differ, on a test set that cannot decide the order of one pair of rows."""
    rng = np.random.default_rng(2)
    references = sentences(rng, 107, 1.0)
    packed = {row: stored([sentences(rng, 107, share, references)] * 3, references)
              for row, share in {"good": 0.8, "bad": 0.5, "like_good": 0.78}.items()}  # fmt: skip
    counted = {row: sentence_statistics.counts(one[0]).sum(0) for row, one in packed.items()}
    rows = {
        row: {
            "evaluate.bleu": [sentence_statistics.bleu(counted[row]) + 0.01 * seed for seed in range(3)],
            "evaluate.sentence_statistics": packed[row],
        }
        for row in packed
    }
    results = results_of(rows)
    found = compare(results, "good", "bad", "evaluate.bleu", higher=True)
    assert found.clear and found.alone.seeds < 1e-6 and found.p == found.alone.items == 1 / 1001 and found.items == 107
    said = "clear over 3 seeds and 107 test items (p = 0.001, over seeds alone p < 0.0001, over items alone p = 0.001)"
    assert found.text.endswith(said)
    turned = compare(results, "bad", "good", "evaluate.bleu", higher=True)
    assert turned.outcome == "reversed" and (turned.p_reversed, turned.alone_reversed) == (found.p, found.alone)
    order = ["good", "like_good"] if counted["good"][2] > counted["like_good"][2] else ["like_good", "good"]
    near = compare(results, *order, "evaluate.bleu", higher=True)
    assert near.outcome == "not clear" and near.alone.seeds < LEVEL < near.alone.items == near.p
    three = together({"a": found, "b": near, "c": found})
    assert three["a"].p == 3 / 1001 and three["a"].alone == found.alone

    without = {row: {"evaluate.bleu": one["evaluate.bleu"]} for row, one in rows.items()}
    plain = compare(results_of(without), *order, "evaluate.bleu", higher=True)
    assert plain.p == near.alone.seeds and "items" not in plain.text
    half = compare(results_of({**without, "good": rows["good"]}), *order, "evaluate.bleu", higher=True)
    assert half.p == plain.p and "the choice of test items was not tested, clear over 3 seeds" in half.text


@pytest.mark.parametrize("margin", [0.01, 1.0, 40.0])
def test_equality_within_a_margin_is_also_tested_over_test_items(margin):
    rng = np.random.default_rng(2)
    references = sentences(rng, 107, 1.0)
    packed = {row: stored([sentences(rng, 107, share, references)] * 3, references)
              for row, share in {"one": 0.8, "other": 0.78}.items()}  # fmt: skip
    scores = {row: sentence_statistics.bleu(sentence_statistics.counts(side[0]).sum(0)) for row, side in packed.items()}
    rows = {row: {"evaluate.bleu": [scores[row] + 0.001 * seed for seed in range(3)],
                  "evaluate.sentence_statistics": packed[row]} for row in packed}  # fmt: skip
    first, second = resampled([packed["one"][0], packed["other"][0]], "bleu").resamples
    gain, moved = scores["one"] - scores["other"], (first - second) - (first - second).mean()
    share = lambda events: (1 + np.sum(events)) / 1001
    asked = results_of(rows), "one", "other", "evaluate.bleu", Margin(margin)
    found = no_worse(*asked, higher=True)
    assert found.alone.items == share(moved >= gain + margin) and found.p == max(found.alone) and found.items == 107
    assert found.alone_reversed.items == share(moved <= gain + margin)
    both = equivalent(*asked, higher=True)
    assert both.alone.items == max(share(moved >= gain + margin), share(moved <= gain - margin))
    assert both.clear == (margin == 40.0)


def test_near_and_far_sources_are_resampled_alone():
    rng = np.random.default_rng(4)
    references = sentences(rng, 240, 1.0)
    said = [sentences(rng, 240, share, references) for share in (0.8, 0.6)]
    near = np.arange(240) % 2 == 0
    packed = [sentence_statistics.with_near(one, near) for one in stored(said, references)]
    texts = [[" ".join(words) for words in side] for side in (*said, references)]
    for name, of in (("near_bleu", near), ("far_bleu", ~near)):
        chosen = [[text for text, one in zip(side, of, strict=True) if one] for side in texts]
        found = resampled(packed, name)
        assert found.items == 120
        assert found.scores.tolist() == [sacrebleu.corpus_bleu(one, [chosen[2]]).score for one in chosen[:2]]
    assert resampled(stored(said, references), "far_bleu") is None  # which sources are near is not stored


def test_lower_error_rates_are_better():
    rng = np.random.default_rng(3)
    references = sentences(rng, 109, 1.0)
    texts = lambda side: [" ".join(words) for words in side]
    rows = {}
    for row, share in {"good": 0.9, "bad": 0.6}.items():
        said = [sentences(rng, 109, share, references) for _ in range(2)]
        scored = [(texts(one), texts(references), [f"s{i}" for i in range(109)]) for one in said]
        rates = [ErrorRateEvaluation().score(*one)["error_rate"] for one in scored]
        packed = [ErrorRateEvaluation().sentence_statistics(*one) for one in scored]
        rows[row] = {"evaluate.error_rate": rates, "evaluate.sentence_statistics": packed}
    found = compare(results_of(rows), "good", "bad", "evaluate.error_rate")
    assert found.gain > 0 and found.alone.items == 1 / 1001 and found.alone_reversed.items > 0.9


# Verdicts on a claim with k cases if no effect is real, and if all effects are.

SHAPES = [(cases, seeds) for cases in (1, 2, 5) for seeds in (2, 3, 5)]
NOISE = {"normal": lambda rng, *shape: rng.standard_normal(shape), "t3": lambda rng, *shape: rng.standard_t(3, shape)}


def p_values(rng, noise, cases, seeds, *, in_pairs, effect=0.0, claims=8000):
    """[claims, cases]: p-values that the better row is better, with means `effect` standard deviations apart.

    Pairs share an effect of their batches that is as large as the noise.
    """
    draw = lambda *shape: NOISE[noise](rng, claims, cases, *shape)
    spread = {"normal": 1.0, "t3": math.sqrt(3)}[noise]
    shared = draw(seeds) if in_pairs else 0.0
    ours, theirs = draw(seeds) + shared + effect * spread, draw(seeds) + shared
    return student(ours - theirs) if in_pairs else welch(ours, theirs)


@pytest.mark.parametrize("in_pairs", [True, False], ids=["paired", "unpaired"])
@pytest.mark.parametrize("noise", NOISE)
def test_false_claims_rarely_get_a_verdict(noise, in_pairs):
    """Held, held under the named condition (here the first case), or reversed: each with a rate of at most `LEVEL`."""
    rng = np.random.default_rng(7)
    for cases, seeds in SHAPES:
        p = p_values(rng, noise, cases, seeds, in_pairs=in_pairs)
        clear, turned = adjusted(p) <= LEVEL, adjusted(1 - p) <= LEVEL
        sampling = 3 * math.sqrt(LEVEL * (1 - LEVEL) / len(p))
        assert np.mean(clear.any(-1)) < LEVEL + sampling  # for any cases that a condition could name
        assert np.mean(turned.any(-1)) < LEVEL + sampling
        assert np.mean(clear.all(-1) | clear[:, 0]) < LEVEL + sampling


@pytest.mark.slow
def test_a_finding_must_hold_over_seeds_and_over_items():
    """Claims of 1, 2 and 5 cases whose error rates are equal over all test sets, over all trainings, or over both.

    If one of the two tests finds a true difference, the other one alone keeps the verdict at its level.
    """
    rng, items, claims, seeds = np.random.default_rng(11), LEAST, 2000, 3
    for cases in (1, 2, 5):
        wrong = rng.random((2, items, claims, cases)) < 0.3  # two rows with the same error rate in the population
        sums = resampled_sums((wrong[1] * 1.0 - wrong[0]).reshape(items, -1)).reshape(-1, claims, cases)
        over_items, _ = p_over_items((wrong[1] * 1.0 - wrong[0]).mean(0), np.moveaxis(sums, 0, -1) / items)
        over_seeds = p_values(rng, "normal", cases, seeds, in_pairs=False, claims=claims)
        by_items = rng.random((claims, cases)) < 0.5
        sampling = 3 * math.sqrt(LEVEL * (1 - LEVEL) / claims)
        for p in (over_items, np.where(by_items, over_items, over_seeds), np.maximum(over_items, over_seeds)):
            assert np.mean((adjusted(p) <= LEVEL).any(-1)) < LEVEL + sampling


def test_the_variance_over_rows_is_that_of_a_least_squares_fit():
    """Against a regression on indicators of rows and seeds; a row with a larger spread keeps its own variance."""
    rng = np.random.default_rng(2)
    for rows, seeds in ((3, 2), (6, 2), (4, 3)):
        values = rng.standard_normal((rows, seeds)) + 2 * rng.standard_normal(seeds)
        values[1] += (-8.0, 8.0, 0.0)[:seeds]
        design = np.array([[*np.eye(rows)[r], *np.eye(seeds)[s, 1:]] for r in range(rows) for s in range(seeds)])
        left = values.ravel() - design @ np.linalg.lstsq(design, values.ravel(), rcond=None)[0]
        freedom = values.size - np.linalg.matrix_rank(design)
        differences = values[1:] - values[0]
        variance = np.maximum(2 * left @ left / freedom, differences.var(-1, ddof=1))
        expected = t.sf(np.abs(differences.mean(-1)) / np.sqrt(variance / seeds), freedom)
        np.testing.assert_allclose(student_over_rows(values), expected, rtol=1e-9)


#: Standard deviations of the rows of a table, the reference row first -> the permitted rate of tables with a false
#: difference. Only a reference row that is much noisier than the others raises it above `LEVEL`.
SPREADS = {
    (1,) * 6: 0.05,
    (1, 1, 1): 0.05,
    (1, 1, 1, 1, 1, 2): 0.05,
    (1, 0.5, 2, 0.5, 2, 1): 0.05,
    (2, 1, 1, 1, 1, 1): 0.07,
}


def test_two_seeds_rarely_show_a_false_difference_and_often_a_large_one():
    rng, tables = np.random.default_rng(13), 8000
    for spread, allowed in SPREADS.items():
        shared = rng.standard_normal((tables, 1, 2))
        values = shared + np.array(spread)[:, None] * rng.standard_normal((tables, len(spread), 2))
        false = np.mean((adjusted(2 * student_over_rows(values)) <= LEVEL).any(-1))
        assert false < allowed + 3 * math.sqrt(LEVEL * (1 - LEVEL) / tables), spread
    values = rng.standard_normal((tables, 6, 2)) + np.array([0, 8, 8, 8, 8, 8])[:, None]
    alone = 2 * student(values[:, 1:] - values[:, :1])
    found, before = (np.mean((adjusted(p) <= LEVEL).all(-1)) for p in (2 * student_over_rows(values), alone))
    assert found > 0.9 and before < 0.3


def test_a_verdict_is_what_the_simulation_counts():
    """`conclude` on the simulated seeds themselves, compared with the arrays of p-values."""
    rng = np.random.default_rng(3)
    for cases, seeds in ((1, 3), (2, 2), (5, 5)):
        ours, theirs = rng.standard_normal((2, 30, cases, seeds))
        ours += 1.5
        clear = adjusted(welch(ours, theirs)) <= LEVEL
        for one, (first, second) in enumerate(zip(ours, theirs, strict=True)):
            rows = {str(case): between("a", "b", first[case], second[case], "loss") for case in range(cases)}
            found = conclude(rows, condition=("0",))
            expected = HELD if clear[one].all() else CONDITION if clear[one, 0] else None
            assert (found.status if found.status in (HELD, CONDITION) else None) == expected


def test_the_power_grows_with_the_effect_and_the_seeds():
    """How often a claim holds if every case is true with this effect in standard deviations; printed with -s."""
    rng, found = np.random.default_rng(5), {}
    for noise in NOISE:
        for in_pairs in (True, False):
            print(f"\n{noise}, {'paired' if in_pairs else 'unpaired'}: share of true claims that hold")
            for cases, seeds in SHAPES:
                powers = [
                    float(np.mean((adjusted(p) <= LEVEL).all(-1)))
                    for effect in (1, 2, 4)
                    for p in [p_values(rng, noise, cases, seeds, in_pairs=in_pairs, effect=effect, claims=1000)]
                ]
                found[noise, in_pairs, cases, seeds] = powers
                said = ", ".join(f"{power:4.0%} at {effect}" for power, effect in zip(powers, (1, 2, 4), strict=True))
                print(f"{cases} cases, {seeds} seeds: {said}")
    assert all(powers == sorted(powers) for powers in found.values())
    for noise, in_pairs in ((noise, way) for noise in NOISE for way in (True, False)):
        power = {shape: found[noise, in_pairs, *shape][-1] for shape in SHAPES}
        assert power[1, 5] > 0.95 and power[1, 5] > power[1, 3] > power[1, 2]
        assert statistics.fmean(power[1, n] - power[5, n] for n in (2, 3, 5)) > 0


@pytest.mark.parametrize("function", [paired, rank_correlation])
def test_too_few_pairs_are_refused(function):
    with pytest.raises(ValueError, match="at least"):
        function([1.0], [2.0])
