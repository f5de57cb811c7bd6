"""The interface strings: filters by hand-written cases, a hand-made package through the builder, the real counts."""

import hashlib
import json
import zipfile

import pytest

from attention_research.config import ConfigError
from attention_research.data import names, sources, ui_strings, ui_translate
from attention_research.data.by_hash import split_of
from attention_research.data.registry_package import Package, fetch
from tests.tiers import fast_are

KEPT = {
    "a translation": ("Appareil", "Device", True),
    "not translated": ("Zigbee", "Zigbee", False),
    "empty": ("", "Device", False),
    "three times as long": ("abcdefghi", "abc", True),
    "more than three times as long": ("abcdefghij", "abc", False),
    "60 words": ("le " * 59 + "mot", "the " * 59 + "word", True),
    "61 words": ("le " * 60 + "mot", "the " * 59 + "word", False),
    "placeholders in another order": ("{b} de {a}", "{a}'s {b}", True),
    "another placeholder": ("{nom} trouvé", "{name} found", False),
    "a missing placeholder": ("{name} trouvé", "{name} found on {host}", False),
}


@pytest.mark.parametrize("case", KEPT, ids=[name.replace(" ", "-") for name in KEPT])
def test_which_pairs_are_kept(case):
    first, second, kept = KEPT[case]
    assert ui_strings.keep(first, second) is kept and ui_strings.keep(second, first) is kept


def test_texts_are_unique_up_to_case_digits_and_placeholders():
    pairs = [
        ("a", ("x",), "Bouton 1 de {n}", "Button 1 of {n}"),
        ("b", ("x",), "Touche 12 de {m}", "button 12 of {m}"),  # the English text exists already
        ("b", ("y",), "bouton 3 de {n}", "Key 3 of {n}"),  # the French text exists already
        ("c", ("x",), "Touche", "Key"),
        ("c", ("y",), "Touche 5 de {m}", "Key 5 of {m}"),  # a pair that was left out has no effect
    ]
    assert list(ui_strings.distinct(pairs)) == [pairs[0], pairs[3], pairs[4]]


def test_strings_keep_their_keys_and_lose_line_breaks():
    tree = {"title": "One", "steps": {"user": {"a": " two\n\n words ", "b": {}}, "n": 3}}
    assert list(ui_strings.leaves(tree)) == [(("title",), "One"), (("steps", "user", "a"), "two words")]


COMPONENTS = [f"component_{index}" for index in range(60)]


@pytest.fixture
def hand_made(data_home, tmp_path, monkeypatch):
    """A package of sixty components, already downloaded. Each has its own text and one that all have."""
    wheel = tmp_path / "made.whl"
    with zipfile.ZipFile(wheel, "w") as zipped:
        zipped.writestr("homeassistant/components/component_1/strings.json", '{"own": "not a translation"}')
        for component in reversed(COMPONENTS):
            own = "".join(chr(ord("a") + int(digit)) for digit in component.split("_")[1])
            for language in ("en", "de"):
                tree = {"own": f"{language} {own}", "all": {"of": f"{language}\n shared"}, "name": "Zigbee"}
                tree |= {f"only_{language}": f"{language} here alone"}
                file = f"homeassistant/components/{component}/translations/{language}.json"
                zipped.writestr(file, json.dumps(tree))
        zipped.writestr("homeassistant/components/component_x/translations/de.json", '{"own": "ohne Englisch"}')
    package = Package("handmade", "1", hashlib.sha256(wheel.read_bytes()).hexdigest(), wheel.stat().st_size)
    monkeypatch.setattr(ui_translate, "PACKAGE", package)
    wheel.rename(package.path)


def test_a_hand_made_package_through_the_builder(hand_made, capfd):
    """Every component's own text is in the split of its name.

    The common text is in the split of the first component.
    """
    reports = []
    counts = sources.prepare_dataset("ui_translate/de-en", reports.append)
    expected = {"train": {}, "validation": {}, "test": {}}
    for component in COMPONENTS:
        share = int(hashlib.md5(component.encode()).hexdigest(), 16) % 20
        own = "".join("abcdefghij"[int(digit)] for digit in component.split("_")[1])
        expected[{0: "test", 1: "validation"}.get(share, "train")][f"de {own}"] = f"en {own}"
    first = int(hashlib.md5(b"component_0").hexdigest(), 16) % 20
    expected[{0: "test", 1: "validation"}.get(first, "train")]["de shared"] = "en shared"
    assert counts == {split: len(pairs) for split, pairs in expected.items()} and min(counts.values()) > 0
    for split, pairs in expected.items():
        found = sources.open_split("ui_translate/de-en", split)
        assert {pair["de"]: pair["en"] for pair in found} == pairs and len(found) == len(pairs)
    assert sources.languages("ui_translate/de-en") == ("de", "en")
    assert reports[0] == "building ui_translate/de-en" and len(reports) == 2
    assert capfd.readouterr().out == ""


def test_its_names_are_known_and_a_wrong_one_is_one_line():
    assert {f"ui_translate/{language}-en" for language in ("fr", "de", "es")} <= set(names.dataset_names())
    line = r"^data.name: no such data set: 'ui_translate/fr-em'; did you mean ui_translate/fr-en\?$"
    with pytest.raises(ConfigError, match=line):
        names.check_name("ui_translate/fr-em")


COUNTS = {
    "fr": {"train": 24_981, "validation": 1_151, "test": 830},
    "de": {"train": 30_162, "validation": 1_457, "test": 931},
    "es": {"train": 30_430, "validation": 1_448, "test": 919},
}


@pytest.mark.data
@pytest.mark.parametrize("language", fast_are([], COUNTS.keys()))
def test_the_real_package(language):
    """Checks the counts, and that no component, English text or foreign text is in two splits."""
    counts, where = dict.fromkeys(COUNTS["fr"], 0), {}
    for component, _, foreign, english in ui_strings.read_pairs(fetch(ui_strings.PACKAGE), language):
        split = split_of(component)
        counts[split] += 1
        for content in (("component", component), (language, foreign.lower()), ("en", english.lower())):
            assert where.setdefault(content, split) == split, content
        assert "\n" not in foreign + english and foreign != english
    assert counts == COUNTS[language]
