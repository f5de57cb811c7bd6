"""Descriptions of settings: every setting of every kind has one, and the most specific text is chosen."""

import pytest

from attention_research import registry
from attention_research.config import meanings, schema
from attention_research.config.shared_settings import SHARED


def meaning(family: str, kind: str, setting: str) -> str:
    return {one.name: one.meaning for one in meanings.describe(family, kind)}[setting]


@pytest.fixture(scope="module")
def described() -> dict[str, meanings.Description]:
    kinds = {
        registry.locate(family, kind): (family, kind)
        for family in registry.FAMILIES
        for kind in registry.FAMILIES[family]
    }
    return {
        f"{family}.{kind}.{one.name}": one for family, kind in kinds.values() for one in meanings.describe(family, kind)
    }


def test_every_setting_of_every_kind_has_a_type_and_a_meaning(described):
    assert len(described) > 1000
    assert not [path for path, one in described.items() if not (one.type and one.meaning.endswith((".", ")")))]


def test_every_shared_meaning_is_used_by_several_kinds(described):
    uses = [one.name for one in described.values() if one.meaning == SHARED.get(one.name)]
    assert {name: uses.count(name) for name in SHARED if uses.count(name) < 2} == {}


@pytest.mark.parametrize(
    ("path", "expected"),
    {
        "the class": ("attention.linformer.rank", "`rank` is R, the number of projected positions."),
        "the sentences that begin with it": (
            "training.standard.seed",
            "`seed` determines the initial parameters and dropout; `data_seed` (None: `seed`) determines the order of "
            "the data.",
        ),
        "the shared table before the module": ("decoding.beam.extra_length", SHARED["extra_length"]),
        "the base class": (
            "attention.lightweight_convolution.kernel_width",
            "The base class of gated convolutions, with `num_filters` filters of `kernel_width` taps.",
        ),
        "without the sentence of an error": (
            "norm.partial_rms_norm.fraction",
            "`fraction` is the share of the channels from which the mean square is computed.",
        ),
    }.values(),
)  # fmt: skip
def test_the_meaning_is_the_sentence_about_the_setting(path, expected):
    assert meaning(*path.split(".")) == expected


def test_a_setting_is_inherited_required_or_has_a_default():
    found = {one.name: one for one in meanings.describe("attention", "linformer")}
    assert found["width"].inherited and not found["width"].required
    assert found["rank"].required and not found["rank"].inherited and found["rank"].default is schema.REQUIRED
    assert (found["sharing"].default, found["sharing"].required, found["sharing"].inherited) == (
        "headwise",
        False,
        False,
    )
    sections = {one.name: one for one in meanings.describe("encoder", "transformer")}
    assert sections["self_attention"].inherited and sections["self_attention"].type == "a section of encoder_attention"


def test_points_in_code_initials_and_abbreviations_do_not_end_a_sentence():
    text = "As `a.b. C` of D. Knuth et al. Then `x.`.\n\n    code. Not.\n\n>>> 1. Not.\n"
    assert meanings.sentences(text) == ["As `a.b. C` of D. Knuth et al. Then `x.`."]
