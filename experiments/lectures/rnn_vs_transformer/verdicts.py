"""The verdicts of `lectures/rnn_vs_transformer`."""

from __future__ import annotations

from collections.abc import Mapping

from attention_research.studies.results import Results
from attention_research.studies.verdicts import (
    UNTESTED,
    Case,
    Comparison,
    Verdict,
    between,
    certain,
    compare,
    conclude,
    decide,
    every_seed,
)

from .courses import at_equal_time, seconds_to_loss

ERRORS = "evaluate.error_rate"


#: The recall of a model that has learned to copy, as in the study's competence.
LEARNED = 0.9


def _recalls(results: Results, rows: Mapping[str, str]) -> dict[str, Case]:
    rule = lambda values: Case.ruled(min(values) >= LEARNED, f"at least {min(values):.3f} over {len(values)} seeds")
    return every_seed(results, rows, "measure.far", rule)


def _higher(results: Results, better: str, worse: str, key: str) -> Comparison:
    return compare(results, better, worse, key, higher=True)


def locality(results: Results) -> Verdict:
    """From few examples, the LSTM learns agreement with a neighbouring noun better than attention does, and better than
    it learns agreement with a distant noun."""
    return conclude(
        {
            "neighbours, LSTM against attention without positions": _higher(
                results, "last_lstm", "last_transformer_nowhere", "measure.recall"
            ),
            "neighbours, LSTM against attention with positions": _higher(
                results, "last_lstm", "last_transformer", "measure.recall"
            ),
            "LSTM, neighbours against the distant noun": _higher(results, "last_lstm", "first_lstm", "measure.recall"),
        }
    )


def lstm_on_long(results: Results) -> Verdict:
    """Over the longest third of delays, the recall of the LSTM is above that of the vanilla RNN."""
    return conclude({"far recall, LSTM against vanilla": _higher(results, "copy_lstm", "copy_vanilla", "measure.far")})


def transformer_on_long(results: Results) -> Verdict:
    """Over the longest third of delays, the recall of the Transformer is at least `LEARNED` in every seed.

    The text compares it with the LSTM, which has learned the task as well and leaves nothing to be better at.
    """
    beside = _higher(results, "copy_transformer", "copy_lstm", "measure.far")
    return decide(_recalls(results, {"copy_transformer": "far recall, Transformer"}), beside.said)


def attention_joined(results: Results) -> Verdict:
    """The LSTM with attention is better than the LSTM on letters to sounds. In copying, where the LSTM leaves nothing
    to be better at, its far recall is at least `LEARNED` in every seed."""
    errors = conclude({"errors": compare(results, "lstm_attention", "lstm", ERRORS)})
    return decide({**errors.cases, **_recalls(results, {"copy_lstm_attention": "far recall, LSTM with attention"})})


def replaces_recurrence(results: Results) -> Verdict:
    """The Transformer is better than each recurrent model, after the same number of updates and after equal time."""
    cases = {}
    for row in ("vanilla", "lstm", "lstm_attention", "rnnsearch"):
        cases[f"errors, {row}"] = compare(results, "transformer", row, ERRORS)
        cases[f"errors at equal time, {row}"] = at_equal_time(results, "transformer", row)
    return conclude(cases)


def more_compute_but_faster(results: Results) -> Verdict:
    """The Transformer needs more operations per update than both recurrent models with attention, but fewer seconds to
    the worst of the final losses. All rows optimize the same loss.
    """
    cases, missing = {}, []
    for row in ("lstm_attention", "rnnsearch"):
        flops = [results.values(one, "inspect.flops") for one in ("transformer", row)]
        losses = [results.values(one, "train.loss") for one in ("transformer", row)]
        if not all(flops) or not all(losses):
            missing.append(f"time, {row}")
            continue
        more = flops[0][0] / flops[1][0]
        said = f"{more:.2f} times the operations per update of {row}"
        cases[f"operations, {row}"] = certain("transformer", row, more - 1, said)
        wanted = max(max(values) for values in losses)
        ours, theirs = (seconds_to_loss(results, one, wanted) for one in ("transformer", row))
        name = f"seconds to loss {wanted:.2f}:"
        cases[f"time, {row}"] = between("transformer", row, ours, theirs, name, higher=False)
    return conclude(cases, untested=missing) if cases else Verdict(UNTESTED, "not measured")


def no_pretraining(results: Results) -> Verdict:
    """Not tested: it would need models that are pre-trained for an equal time and then fine-tuned."""
    del results
    return Verdict(UNTESTED, "no row is pre-trained: the table has tokens per second, but no scores after pre-training")


def one_size(results: Results) -> Verdict:
    """Not tested: it would need several tasks on real text at several sizes and equal compute."""
    del results
    return Verdict(UNTESTED, "the rows have only one size and one task on real text")


VERDICTS = {
    "rnn-locality-bias": locality,
    "lstm-good-on-long": lstm_on_long,
    "transformer-good-at-long": transformer_on_long,
    "attention-joined-with-rnn": attention_joined,
    "attention-can-replace-recurrence": replaces_recurrence,
    "transformer-more-compute-faster": more_compute_but_faster,
    "parallelism-enables-pretraining": no_pretraining,
    "transformer-wins-over-tasks": one_size,
}
