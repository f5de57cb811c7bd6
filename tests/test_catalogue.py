"""The catalogue names every mechanism once, with its paper and an oracle that exists."""

from __future__ import annotations

import inspect
import re

import pytest

from attention_research import kernels, registry
from attention_research.config import catalogue
from tests.catalogue import FAMILIES, mechanisms
from tests.catalogue.__main__ import document, of_mechanisms, of_studies, read
from tests.catalogue.kinds import kinds_of, kinds_of_kernels
from tests.catalogue.names import ALSO, KINDS, NO_LAYER
from tests.kernels.laws import applicable

#: Modules whose functions are parts of mechanisms or of models, not attention themselves.
PARTS = {
    "attention_research.kernels.cross_entropy",
    "attention_research.kernels.efficient.feature_attention",
    "attention_research.kernels.experts",
    "attention_research.kernels.masks",
    "attention_research.kernels.normalization",
    "attention_research.kernels.product_keys",
    "attention_research.kernels.projection",
    "attention_research.kernels.recurrent.gru",
    "attention_research.kernels.recurrent.gru_reset_before",
    "attention_research.kernels.recurrent.lstm",
    "attention_research.kernels.recurrent.recurrence",
    "attention_research.kernels.recurrent.vanilla",
    "attention_research.kernels.rms_norm",
    "attention_research.kernels.sequence_convolution",
    "attention_research.kernels.state.taylor",
}
ALL = mechanisms()


def test_names_are_unique():
    names = [mechanism.name for mechanism in ALL]
    assert len(names) == len(set(names)) and all(re.fullmatch("[a-z0-9_]+", name) for name in names)


@pytest.mark.parametrize("mechanism", ALL, ids=lambda mechanism: mechanism.name)
def test_a_mechanism_has_a_citation_and_an_oracle(mechanism, root):
    citation = mechanism.citation()
    assert all(citation[part] for part in ("title", "paper", "equation")), citation
    path, test = mechanism.test
    assert f"def {test}(" in (root / path).read_text(encoding="utf-8")


@pytest.mark.parametrize("mechanism", ALL, ids=lambda mechanism: mechanism.name)
def test_omitted_inputs_and_broken_laws_exist(mechanism):
    arrays = inspect.signature(inspect.unwrap(mechanism.function)).parameters.keys() | mechanism.inputs.keys()
    known = {"scale", "bias", "mask", *arrays}  # some members of a family lack what it omits
    assert {*mechanism.without.split(), *mechanism.first.split()} <= known
    assert {*mechanism.breaks} <= {"padding", "empty", "grows"}


@pytest.mark.parametrize("family", FAMILIES)
def test_all_mechanisms_of_a_family_are_tested(family):
    walked = {id(case.values[0]) for case in applicable(family)}
    assert mechanisms(family) and walked == {id(mechanism) for mechanism in mechanisms(family)}


def test_every_kernel_is_in_a_module_of_the_catalogue():
    walked = {inspect.unwrap(mechanism.function).__module__ for mechanism in ALL}
    for name in dir(kernels):
        value = getattr(kernels, name)
        if inspect.isfunction(value) and not name.startswith("_"):
            module = inspect.unwrap(value).__module__
            assert module in walked | PARTS, f"{name} of {module} is in no family of the catalogue"


def test_the_tables_of_names_and_kinds_name_mechanisms_and_kinds():
    names = {mechanism.name for mechanism in ALL}
    assert ALSO.keys() | KINDS.keys() <= names
    for kind in (kind for kinds in KINDS.values() for kind in kinds):
        family, _, name = kind.partition(".")
        assert name in registry.FAMILIES[family], kind


@pytest.mark.parametrize(
    ("name", "kinds"),
    {
        "linformer_headwise": ["attention.linformer"],
        "cosine_scores": ["score.cosine"],
        "general_scores": ["score.general"],  # from the table of names
        "learned_sink": ["attention.sink"],
        "structural_depths": [],
        "copy_distribution": ["model.copy_attention", "model.pointer_generator"],  # one kernel calls another
    }.items(),
)
def test_the_kinds_of_a_mechanism_are_those_whose_classes_call_its_kernel(name, kinds):
    (mechanism,) = (one for one in ALL if one.name == name)
    assert kinds_of(mechanism) == kinds


def test_no_kind_is_given_that_the_calls_show():
    shown = kinds_of_kernels()
    assert not [one.name for one in ALL if list(KINDS.get(one.name, ())) == shown.get(inspect.unwrap(one.function))]


@pytest.mark.parametrize("words", ["softmax off by one", "softmax1", "sink_attention", "GQA", "RoPE", "FlashAttention"])
def test_a_mechanism_is_found_by_its_other_names(words, root):
    assert words in (root / "docs" / "catalogue.md").read_text(encoding="utf-8")


def test_a_row_of_the_large_table_names_its_file_paper_and_oracle(root):
    """The file cites the paper, the oracle exists, and the rows are the counted ones."""
    rows = read(root, "variants.csv")
    assert list(rows) == list(read(root, "counts.csv"))
    for name, row in rows.items():
        text = (root / row["file"]).read_text(encoding="utf-8")
        author, year = re.match(r"(\w+).*?(\d{4})", row["paper"]).groups()
        assert author in text and year in text and row["equation"], name
        path, test = row["test"].split("::")
        assert f"def {test}(" in (root / path).read_text(encoding="utf-8"), name


def test_the_page_is_up_to_date(root, request):
    path = root / "docs" / "catalogue.md"
    if request.config.getoption("--rewrite-goldens"):
        path.write_text(document(root), encoding="utf-8")
    assert path.read_text(encoding="utf-8") == document(root)
    assert all(f"[{mechanism.name}](../{mechanism.file})" in path.read_text(encoding="utf-8") for mechanism in ALL)


def test_the_facts_for_the_command_line_are_up_to_date(root, request):
    """`list kinds --json` prints them; they are the facts of the page, and every mechanism has kinds or a reason."""
    path = root / "attention_research" / "config" / "mechanisms.jsonl"
    if request.config.getoption("--rewrite-goldens"):
        path.write_text(of_mechanisms(root), encoding="utf-8")
    assert path.read_text(encoding="utf-8") == of_mechanisms(root)
    found = {one["name"]: one for one in catalogue.mechanisms()}
    assert list(found) == [mechanism.name for mechanism in ALL]
    for one in found.values():
        assert bool(one["kinds"]) != bool(one["reason"]) and bool(one["kinds"]) == bool(one["families"])
    assert NO_LAYER.keys() <= found.keys()


@pytest.mark.slow
def test_every_mechanism_without_a_kind_says_why():
    assert [one["name"] for one in catalogue.mechanisms() if one["reason"] == "no kind yet"] == []


@pytest.mark.slow
def test_the_studies_of_each_kind_are_up_to_date(root, request):
    path = root / "attention_research" / "config" / "studies.jsonl"
    if request.config.getoption("--rewrite-goldens"):
        path.write_text(of_studies(), encoding="utf-8")
    assert path.read_text(encoding="utf-8") == of_studies()


@pytest.mark.parametrize(
    ("text", "paper"),
    {
        "Linformer, Wang et al. 2020, equation 7: f.": "Wang et al. 2020",
        "Shazeer & Stern 2018, algorithms 4 and 5, as in Raffel et al. 2020.": "Shazeer & Stern 2018",
        "Scores, Bahdanau, Cho & Bengio 2015 (arXiv 1409.0473).": "Bahdanau, Cho & Bengio 2015 (arXiv 1409.0473)",
        "ListOps (Nangia & Bowman 2018, arXiv 1804.06028), generated.": "Nangia & Bowman 2018",
        "KDA, Kimi Team 2025 (arXiv 2510.26692), equation 1.": "Kimi Team 2025 (arXiv 2510.26692)",
    }.items(),
)
def test_a_citation_is_found_in_a_docstring(text, paper):
    assert catalogue.cited(text)[0] == paper
    assert catalogue.cited("Whole words of 2020 texts.") is None
