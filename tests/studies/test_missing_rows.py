"""No claim loses a case without a word because a row is missing: with the numbers of any recorded row taken away, the
cases of a verdict are the same, or one of them is not tested, or nothing is measured."""

import dataclasses
from pathlib import Path

import pytest

from attention_research.studies import row_comparisons
from attention_research.studies.comparisons import UNMEASURED
from attention_research.studies.rewriting import found_in
from attention_research.studies.verdicts import UNTESTED, claims_of
from tests.tiers import fast_are

RECORDED = {
    "-".join((path.parts[-5], *path.parts[-3:-1])): path.parent
    for path in sorted(Path(__file__).parents[2].glob("experiments/*/results/*/*/table.md"))
}
FAST = ("lectures-heads-cpu", "lectures-masking-cpu")


def without(results, row):
    """The results as if no trial of the row were finished."""
    entries = (dataclasses.replace(e, result=None) if e.trial.row == row else e for e in results.entries)
    return dataclasses.replace(results, entries=tuple(entries))


@pytest.mark.parametrize("folder", fast_are(FAST, RECORDED))
def test_a_missing_row_is_a_case_that_is_not_tested(folder, monkeypatch):
    monkeypatch.setattr(row_comparisons, "_over_items", lambda found, *_, **__: found)  # which cases there are is fast
    found = found_in(folder)
    claims = [claim["id"] for claim in claims_of(found.study) if claim["id"] in found.study.verdicts]
    whole = {claim: found.study.verdicts[claim](found) for claim in claims}
    for row in {entry.trial.row for entry in found.entries if entry.result}:
        less = without(found, row)
        for claim, before in whole.items():
            after = found.study.verdicts[claim](less)
            if before.cases.keys() - after.cases.keys() and after.status != UNTESTED:
                assert UNMEASURED in {case.outcome for case in after.cases.values()}, (claim, row)
