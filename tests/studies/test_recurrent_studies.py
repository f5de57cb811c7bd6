"""The recurrent papers' studies: counts at their sizes, shared trials, exact claims, verdicts on made-up numbers."""

import ast
import csv

import numpy as np
import pytest
from results_of import results_of

from attention_research.analysis.parameter_counts import weights_without_biases
from attention_research.config import load, variants
from attention_research.studies.results import Results, published
from attention_research.studies.trials import configuration, plan
from attention_research.studies.verdicts import FAILED, FIGURE, HELD
from tests.tiers import slow_are

CONFIG = "configs/translation/recurrent.py"


def row_of(study, id):
    return next(row for row in study.rows if row.id == id)


@pytest.mark.parametrize(
    ("name", "row", "weights"),
    [
        ("sutskever2014/table1", "reversed", 384_000_000),
        ("sutskever2014/table1", "forward", 384_000_000),
        ("bahdanau2015/table1", "search", 80_401_000),
        ("bahdanau2015/table1", "search_30", 80_401_000),
        # 37.2M embeddings, 4.86M encoder, 7.86M decoder, 1M initial state, 17.62M readout
        ("bahdanau2015/table1", "encdec", 68_540_000),
        # 150M tables and output, 64M recurrent, 8M + 2M for input feeding and W_c, 1M W_a, 1.001M for p_t
        ("luong2015/table1", "local_p_feed", 150_000_000 + 64_000_000 + 4_000_000 + 2_000_000 + 1_000_000 + 1_001_000),
    ],
)
def test_weights_at_the_papers_sizes(studies, name, row, weights):
    one = studies[name]
    assert weights_without_biases(configuration(one, "paper", row_of(one, row))) == {"weights_without_biases": weights}


def test_the_configs_header_has_the_counts(root):
    header = ast.get_docstring(ast.parse((root / CONFIG).read_text(encoding="utf-8")))
    said = {line.split()[0]: line.split()[1:3] for line in header.splitlines() if line[:1].islower()}
    for variant in variants(CONFIG):
        config = load(f"{CONFIG}:{variant}")
        counted = weights_without_biases(config)["weights_without_biases"], config.resolved["training"]["steps"]
        assert said[variant] == [f"{number:,}" for number in counted]


def test_score_widths_cost_what_the_paper_prints(studies):
    """Britz: k (512 + 1024) weights for a product of width k, and k more in the additive one; published in 0.01M."""
    one, printed = studies["britz2017/attention"], published(studies["britz2017/attention"])
    count = lambda row: weights_without_biases(configuration(one, "paper", row_of(one, row)))["weights_without_biases"]
    counts = {row: count(row) for row in ("mul_128", "mul_256", "add_1024", "add_128")}
    assert counts["mul_256"] - counts["mul_128"] == 128 * (512 + 1024)
    assert counts["add_128"] - counts["mul_128"] == 128
    printed_more = float(printed["add_1024"]["parameters M"]) - float(printed["add_128"]["parameters M"])
    assert (counts["add_1024"] - counts["add_128"]) / 1e6 == pytest.approx(printed_more, abs=0.011)


@pytest.mark.parametrize("row", ["gru", "vanilla", "every_step"])
def test_rows_called_equal_have_equal_parameters(studies, row):
    one = studies["sutskever2014/table1"]
    ours, lstm = (
        weights_without_biases(configuration(one, "cpu", row_of(one, id)))["weights_without_biases"]
        for id in (row, "reversed")
    )
    assert ours == pytest.approx(lstm, rel=0.01) and ours != lstm


def test_studies_share_the_trials_that_they_have_in_common(studies):
    """If both use the same workdir, one study finds the trials of the other."""

    def ids(name):
        return {trial.id: trial.row for trial in plan(studies[name], "cpu", studies[name].rows_at("cpu"), 1, "")}

    table1, figure2, figure3 = (ids(f"bahdanau2015/{name}") for name in ("table1", "figure2", "figure3"))
    assert {table1[id] for id in table1.keys() & figure2} == {"encdec_30", "search_30", "encdec", "search"}
    assert {table1[id] for id in table1.keys() & figure3} == {"search"}
    sutskever = [ids(f"sutskever2014/{name}") for name in ("table1", "figure2")]
    assert {sutskever[0][id] for id in sutskever[0].keys() & sutskever[1]} == {"same_forward", "same_reversed"}
    luong = [ids(f"luong2015/{name}") for name in ("table1", "table4")]
    assert {luong[1][id] for id in luong[0].keys() & luong[1]} == {
        "location", "global_general", "local_m_general", "local_p_general",
    }  # fmt: skip


def test_cells_are_the_printed_ones(root):
    def cell(paper, name, row, column):
        with open(root / f"experiments/{paper}/{name}.csv", newline="") as file:
            return next(line[column] for line in csv.DictReader(file) if line["row"] == row)

    assert cell("sutskever2014", "table1", "ensemble_5_beam_12", "BLEU (ntst14)") == "34.81"
    assert cell("bahdanau2015", "table1", "search", "BLEU all") == "26.75"
    assert cell("bahdanau2015", "table1", "encdec_30", "BLEU no UNK") == "24.19"
    assert cell("luong2015", "table1", "local_p_feed", "perplexity") == "5.9"
    assert cell("luong2015", "table3", "dot_dropout_feed", "BLEU (newstest2015)") == "22.8"
    assert cell("luong2015", "table4", "location", "AER") == "0.39"
    assert cell("britz2017", "attention", "mul_1024", "BLEU") == "18.22 ± 0.03"


def test_an_exact_claim_can_fail(studies, monkeypatch):
    """A bilinear score that squares its query is detected."""
    from attention_research import kernels

    true = kernels.general_scores
    monkeypatch.setattr(kernels, "general_scores", lambda query, keys, weight: true(query**2, keys, weight))
    one = studies["britz2017/attention"]
    verdict = one.verdicts["bilinear-score"](Results(one, "cpu", one.rows, ()))
    assert verdict.status == FAILED


CLEAR, OVERLAP = [10.0, 11.0, 10.5], [10.2, 10.9, 10.6]


def numbers(**by_key):
    """{"measure.bleu_fitting": ...} from bleu_fitting=...; perplexity and error rate are stored under evaluate."""
    place = dict.fromkeys(("perplexity", "unigram_perplexity", "error_rate"), "evaluate")
    return {f"{place.get(key, 'measure')}.{key}": values for key, values in by_key.items()}


@pytest.mark.parametrize(
    ("name", "claim", "rows", "status"),
    [
        ("bahdanau2015/figure2", "fixed-vector-bottleneck",
         {row: numbers(length_slope=[-0.2, -0.21, -0.22]) for row in
          ("encdec", "encdec_30", "generated_encdec", "generated_encdec_30")}, HELD),
        ("bahdanau2015/figure2", "fixed-vector-bottleneck",
         {"encdec": numbers(length_slope=[0.1, -0.3]), "generated_encdec": numbers(length_slope=[-1.0, -1.01])},
         FAILED),
        ("bahdanau2015/figure2", "fixed-vector-bottleneck", {"encdec": numbers(length_slope=[0.1, -0.3])}, FAILED),
        ("bahdanau2015/table1", "context-differs-each-step",
         {"search": numbers(context_distance=[0.5, 0.6], context_share=[0.4, 0.5])}, HELD),
        ("bahdanau2015/table1", "context-differs-each-step",
         {"search": numbers(context_distance=[0.01, 0.6], context_share=[0.4, 0.5])}, FAILED),
        ("bahdanau2015/table1", "look-back-instead-of-remembering",
         {"search": numbers(start_share=[0.1, 0.2, 0.1]), "encdec": numbers(start_share=[0.2, 0.1, 0.15]),
          "start_only": numbers(start_share=[0.9, 0.95, 1.0])}, FAILED),
        ("bahdanau2015/table1", "annotations-join-both-directions",
         {"search": numbers(perplexity=CLEAR, bleu_fitting=CLEAR),
          "forward": numbers(perplexity=OVERLAP, bleu_fitting=OVERLAP)}, FAILED),
        ("bahdanau2015/figure3", "attention-finds-reordering",
         {row: numbers(reordered_recall=[0.9, 0.88], reordered_diagonal=[0.3, 0.3]) for row in ("local", "reversed")},
         HELD),
        ("bahdanau2015/figure3", "attention-finds-reordering",
         {"local": numbers(reordered_recall=[0.9, 0.2], reordered_diagonal=[0.3, 0.3])}, FAILED),
        ("bahdanau2015/figure3", "alignment-for-free",
         {row: numbers(alignment_error_rate=[0.1, 0.11, 0.12], aer_untrained=[0.9] * 3, aer_even=[0.9] * 3,
                       aer_diagonal=[0.5] * 3) for row in ("monotone", "local", "reversed")}, HELD),
        ("bahdanau2015/figure3", "alignment-for-free",
         {"local": numbers(alignment_error_rate=[0.1, 0.6], aer_untrained=[0.9, 0.9], aer_even=[0.9, 0.9],
                           aer_diagonal=[0.5, 0.5])}, FAILED),
        ("sutskever2014/table1", "must-hold-reversed-source",
         {"same_reversed": numbers(perplexity=[2.0, 2.1]), "same_forward": numbers(perplexity=[3.0, 3.1]),
          "opposite_forward": numbers(perplexity=[2.0, 2.1]), "opposite_reversed": numbers(perplexity=[3.0, 3.1]),
          "reversed": numbers(perplexity=[40.0, 41.0]), "forward": numbers(perplexity=[50.0, 51.0])}, HELD),
        ("sutskever2014/table1", "last-state-initialises-decoder",
         {row: {**numbers(perplexity=[40.0], unigram_perplexity=[300.0], error_rate=[2.0]),
                "inspect.parameters": [1000]} for row in ("reversed", "every_step")}, FIGURE),
        ("sutskever2014/table1", "last-state-initialises-decoder",
         {row: {**numbers(perplexity=[40.0], unigram_perplexity=[300.0], error_rate=[2.0]),
                "inspect.parameters": [size]} for row, size in (("reversed", 1000), ("every_step", 1100))},
         FIGURE),
        ("sutskever2014/figure2", "must-hold-word-order-shows",
         {"same_reversed": numbers(order_distance=[0.7], actor_silhouette=[0.5], verb_silhouette=[-0.1])}, HELD),
        ("sutskever2014/figure2", "must-hold-word-order-shows",
         {"same_reversed": numbers(order_distance=[0.7], actor_silhouette=[0.1], verb_silhouette=[0.4])}, FAILED),
        ("sutskever2014/figure2", "must-hold-word-order-shows",
         {"same_reversed": numbers(order_distance=[0.7], actor_silhouette=[0.5], verb_silhouette=[-0.1],
                              actor_silhouette_untrained=[0.6])}, FAILED),
        ("luong2015/table1", "global-sees-all-states",
         {"global_feed": numbers(perplexity=[9.0, 9.2], error_rate=[5.0, 5.2]),
          "last_state_feed": numbers(perplexity=[12.0, 12.1], error_rate=[8.0, 8.2])}, HELD),
        ("luong2015/table4", "score-functions-compared",
         {"global_dot": numbers(perplexity=[9.0, 9.1], unigram_perplexity=[300.0, 300.0]),
          "global_general": numbers(perplexity=[12.0, 12.1], unigram_perplexity=[300.0, 300.0])}, HELD),
        ("luong2015/table4", "score-functions-compared",
         {"global_dot": numbers(perplexity=[9.0, 9.1], unigram_perplexity=[300.0, 300.0]),
          "global_general": numbers(perplexity=[9.05, 9.1], unigram_perplexity=[300.0, 300.0])}, FAILED),
        ("britz2017/attention", "additive-width-is-hyperparameter",
         {"add_128": numbers(perplexity=[9.0, 9.1]), "add_512": numbers(perplexity=[7.0, 7.1])}, HELD),
    ],
)  # fmt: skip
def test_verdicts_are_computed_from_the_numbers(studies, name, claim, rows, status):
    verdict = studies[name].verdicts[claim](results_of(rows))
    assert verdict.status == status, verdict.because


@pytest.mark.slow
def test_curves_and_planes_and_maps_are_drawn(studies, tmp_path, saved):
    """The numbers are made up in the form of a trial's results."""
    lists = {"length_words": [5.0, 9.0, None], "length_bleu": [20.0, 10.0, None]}
    drawn = {
        "bahdanau2015/figure2": {row: {f"measure.{key}": [value, value] for key, value in lists.items()}
                                 for row in ("search", "encdec", "generated_search")},
        "bahdanau2015/figure3": {
            row: {"measure.maps": [[{"source": ["a", "b"], "target": ["x"], "weights": [[0.9, 0.1]]}]]}
            for row in ("search", "local")
        },
        "sutskever2014/figure2": {"same_reversed": {
            "measure.roles_plane": [plane := {"texts": ["a", "b"], "groups": [0, 1], "points": [[0.0, 1.0], [1.0, 0.0]],
                                              "shares": [0.7, 0.2]}],
            "measure.voices_plane": [plane], "measure.actor_silhouette": [0.5], "measure.verb_silhouette": [0.1],
        }},
    }  # fmt: skip
    for name, rows in drawn.items():
        for function in studies[name].figures:
            figure = function(results_of(rows), tmp_path)
            assert figure.path.exists() and figure.title and figure.alt
    assert saved == {
        "bleu_by_length.png": [4, 4],  # a curve and a band for each of two rows, on real and generated pairs
        "alignments.png": [1, 2],  # a map, and the scale of the weights
        "generated_alignments.png": [1, 2],
        "sentence_vectors.png": [4, 4],
    }
    curve = studies["bahdanau2015/figure2"].figures[0].__globals__["mean_curve"]
    rows = {"search": {"measure.length_words": [[5.0, 9.0]] * 2, "measure.length_bleu": [[20.0, 10.0], [30.0, 14.0]]}}
    assert curve(results_of(rows), "search") == ([5.0, 9.0], [25.0, 12.0], [20.0, 10.0], [30.0, 14.0])


#: Study -> a row of it.
ROWS = {
    "sutskever2014/figure2": "same_reversed",
    "bahdanau2015/table1": "search",
    "luong2015/table1": "generated_unk",
    "luong2015/table4": "generated_local_p_general",
    "britz2017/attention": "none_input",
}


@pytest.mark.data
@pytest.mark.parametrize("name", slow_are(["bahdanau2015/table1", "britz2017/attention"], [*ROWS]))
def test_a_row_runs_through_at_smoke(tmp_path, in_process, name):
    from attention_research.studies.run import run_study

    row = ROWS[name]
    summary = run_study(name, scale="smoke", rows=[row], workdir=tmp_path)
    assert summary["failed"] == [] and summary["finished"] == 1
    cells = {key: cell["mean"] for key, cell in next(r for r in summary["rows"] if r["id"] == row)["cells"].items()}
    assert cells["evaluate.perplexity"] > 1 and np.isfinite(cells["evaluate.perplexity"])
    assert any(
        value is not None
        for key, value in cells.items()
        if key.startswith(("measure.", "evaluate.error_rate", "evaluate.bleu"))
    )
