"""The study `ablation/recall` has a row for every causal kind of self-attention."""

from attention_research.registry import FAMILIES
from attention_research.studies.loading import load_study

#: Kinds for which recall is not a task.
LEFT_OUT = {"unmasked": "it reads the answers"}


def test_every_causal_kind_is_a_row():
    rows = load_study("ablation/recall").rows
    kinds = [row.overrides["model.self_attention"]["kind"] for row in rows]
    assert sorted([*kinds, *LEFT_OUT]) == sorted(FAMILIES["causal_attention"])
