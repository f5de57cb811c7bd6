"""Properties of every study under experiments/, and a run at `smoke` for studies without one in their own file."""

import inspect
import json
import re
from pathlib import Path

import pytest
from results_of import results_of

from attention_research.cli import main
from attention_research.studies import find_studies
from attention_research.studies.results import Results, published
from attention_research.studies.tables import table
from attention_research.studies.verdicts import HELD, UNTESTED, claims_of
from tests.tiers import slow_are

STUDIES = tuple(find_studies(Path(__file__).parents[2] / "experiments"))
#: Verdicts that need no trial, computed from the modules or from published and counted numbers.
EXACT = {
    "bahdanau2015/figure3": {"no-alignment-supervision": HELD},
    "bahdanau2015/table1": {"rnnsearch-three-rnns": HELD, "score-uses-previous-state": HELD},
    "britz2017/attention": {
        "dot-needs-equal-widths": HELD, "bilinear-score": HELD, "reduced-rank-identity": HELD,
        "additive-is-feed-forward": HELD,
    },
    "lectures/positions": {"learned-positions-count": HELD},
    "narang2021/table1": {"narang-counts": HELD},
    "vaswani2017/table2": {"transformer-bleu": HELD},
    "vaswani2017/table3": {"transformer-base-sizes": HELD, "transformer-architecture-figure": HELD},
}  # fmt: skip
#: A measurement of several learning rates -> the call with which it chooses one, if it does not use `fit_best`.
CHOOSE = {"measure_batch_sizes": "at_best(", "measure_fit": "best("}
#: Studies that judge no claim.
WITHOUT_CLAIMS = ("ablation/recall",)
#: Study -> one row of each kind, for studies with many rows. Other studies run all rows.
SMOKE = {
    "ablation/recall": "standard,gated_deltanet",
    "bai2018/table1": "adding_tcn,adding_no_positions,copy_lstm_open",
    "zoology2023/figure2": "attention_64_0.00046,gru_64_0.0022",
    "g2p2018/table1": "gru_64,mocha",
    "nanogpt2022/shakespeare": "cpu",
    "mamba2023/induction": "abs,mamba",
    "power2022/grokking": "division,polynomial,s5_30",
    "bengio2003/table1": "mlp3,mlp9,transformer,deleted_interpolation,kneser_ney_4,classes_150",
    "lake2018/table1": "length_overall,jump_best,simple_srn",
    "ontanon2021/addition": "rel2_eb",
    "ontanon2021/reversing": "abs",
    "haviv2022/nopos": "none,none_masked",
    "haviv2022/probe": "none",
    "press2022/extrapolation": "alibi",
    "lectures/positions": "code_sinusoidal,sinusoid,shift_rotary,lm_concatenated",
    "lectures/heads": "blanks",
    "vaswani2017/table1": "attention_core,rnn,dilated",
    "lectures/complexity": "attention_core,length_30,gpt2_small,gradient",
    "lectures/nonlinearity": "attention,both,without_2",
    "lectures/identity": "plain_relu",
    "lectures/normalization": "formula_both,changes_tanh_norm,detached",
    "lectures/attention_layer": "cross-attention-memory,dot_keys",
    "lectures/embeddings": "embedding-is-lookup,encoder",
    "lectures/gating": "gating-interactions,ungated",
    "lectures/masking": "mask-to-minus-infinity,truncation",
    "lectures/recurrent": "rnn-blind-to-later-steps,copying_8",
    "lectures/hard_attention": "hard-zero-one,estimate,reinforce_baseline",
    "lectures/soft_lookup": "soft-lookup-against-hard,attention,table",
    "lectures/rigidity": "encoder_drawn,unlike_learned,largest_basic",
    "lectures/efficient_at_scale": "performer",
    "lectures/glue": "transformer",
    "lectures/seq2seq_tasks": "code",
    "lectures/agreement": "transformer_generated",
    "linformer2020/table3": "k_128",
    "linformer2020/figure1": "masked",
    "linformer2020/figure3": "k_8",
    "lra2020/table1": "listops_linear,cost_linear",
    "dosovitskiy2020/data_size": "vit_16000",
    "he2015/degradation": "residual_20,exact_residual",
    "hu2018/se": "squeeze_excitation",
    "woo2018/cbam": "cbam",
    "li2018/landscape": "residual_56,plain_56",
    "xu2015/table1": "hard,cut",
    "xu2015/figures": "soft",
    "xu2015/bottleneck": "once",
    "lectures/image_qa": "cross_attention",
    "lectures/convolution": "convolution-is-hard-attention,heads",
    "linformer2020/table2": "k_32",
    "lectures/scaling": "random_dot,heads_head,transformer_scaled_32",
    "lectures/gradients": "",
    "lectures/interpretability": "",
    "lectures/rnn_vs_transformer": "",
    "lectures/sets": "",
    "shaw2018/table1": "",
    "shaw2018/table2": "",
    "shaw2018/table3": "",
    "wang2019/structure": "",
}


def scale_of(study):
    """The scale at which claims of a study are judged."""
    return next(scale for scale in ("cpu", "paper") if scale in study.scales)


@pytest.mark.parametrize("name", STUDIES)
def test_every_claim_has_a_verdict_and_none_without_results(name, studies):
    study = studies[name]
    assert set(study.verdicts) == {claim["id"] for claim in claims_of(study)} >= EXACT.get(name, {}).keys()
    for claim, verdict in study.verdicts.items():
        exact = claim in EXACT.get(name, {})
        assert exact or verdict(Results(study, scale_of(study), study.rows, ())).status == UNTESTED, claim
        assert (exact and name != "lectures/positions") or verdict(results_of({})).status == UNTESTED, claim


@pytest.mark.parametrize(
    ("name", "claim"),
    [
        pytest.param(name, claim, marks=[pytest.mark.slow] * (claim == "no-alignment-supervision"))
        for name, claims in EXACT.items()
        for claim in claims
    ],
)
def test_exact_claims_are_judged_by_computation(name, claim, studies):
    study = studies[name]
    verdict = study.verdicts[claim](Results(study, "cpu", study.rows, ()))
    assert verdict.status == EXACT[name][claim], verdict.because


@pytest.mark.parametrize("name", STUDIES)
def test_every_published_cell_has_a_row_and_nothing_is_drawn_without_results(name, studies, tmp_path):
    study = studies[name]
    assert set(published(study)) <= {row.id for row in study.rows}
    bare = Results(study, "cpu", study.rows, ())
    assert len(table(bare)) == 1 + len(study.rows)
    if name != "narang2021/table1":  # its steps a second are recorded separately
        assert [draw(bare, tmp_path) for draw in study.figures] == [None] * len(study.figures)


#: Published columns that hold texts.
TEXTS = {"training", "complexity per layer", "sequential operations", "maximum path length"}


@pytest.mark.parametrize("name", STUDIES)
def test_published_cells_are_numbers_with_a_source_that_was_read(name, studies):
    for row, cells in published(studies[name]).items():
        assert cells["source"].strip() and "from memory" not in cells["source"], row
        for column in set(cells) - {"source", "differs", *TEXTS}:
            assert re.search(r"\d|^x$|^no generalisation$", cells[column]), (row, column)


def test_a_measurement_of_several_learning_rates_chooses_on_validation_examples(studies):
    """The choice is made by `fit_best` or by the call in CHOOSE."""
    every = [(study, row) for study in map(studies.__getitem__, STUDIES) for row in study.rows]
    functions = {stage.function for study, row in every for stage in row.stages or study.stages if stage.function}
    several = {function for function in functions if "rates" in inspect.signature(function).parameters}
    assert {"measure_selection", "measure_lookup", *CHOOSE} <= {function.__name__ for function in several}
    without = [
        function.__name__ for function in several
        if CHOOSE.get(function.__name__, "fit_best(") not in inspect.getsource(function)
    ]  # fmt: skip
    assert without == []


#: Slow: a study of each experiment and of each sort of measurement. The others are long.
SLOW = (
    "zoology2023/figure2", "nanogpt2022/shakespeare", "haviv2022/probe", "press2022/extrapolation", "lectures/identity",
    "lectures/attention_layer", "lectures/masking", "lectures/convolution", "lectures/soft_lookup",
    "linformer2020/table3", "linformer2020/figure1", "lra2020/table1", "hu2018/se", "li2018/landscape",
    "wang2019/structure",
)  # fmt: skip


@pytest.mark.data
@pytest.mark.parametrize("name", slow_are(SLOW, [*SMOKE]))
def test_smoke(name, tmp_path, in_process):
    rows = [f"--rows={SMOKE[name]}"] if SMOKE[name] else []
    assert main(["reproduce", name, "--scale=smoke", f"--workdir={tmp_path}", *rows]) == 0
    summary = json.loads((tmp_path / "summary.json").read_text())
    asked = SMOKE[name].count(",") + 1 if SMOKE[name] else summary["trials"]
    assert summary["finished"] == asked > 0 and not summary["failed"] and summary["figures"]
    assert len(summary["figures"]) > (
        name in ("lectures/gradients", "lectures/interpretability", "lectures/rnn_vs_transformer")
    )
    assert summary["verdicts"] or name in WITHOUT_CLAIMS
    assert not any(one["judged"] for one in summary["verdicts"])
