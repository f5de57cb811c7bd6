"""The generated task sets and the dialogues: against Python itself, other readers, and a hand-made package."""

import collections
import hashlib
import itertools
import json
import re
import zipfile

import pytest

from attention_research.data import articles, described_programs, dialogue, run_lengths, sources
from attention_research.data.registry_package import Package
from attention_research.data.reordering_grammar import ADJECTIVES, NOUNS

SPLITS = ("train", "validation", "test")


def test_programs_do_what_their_descriptions_say():
    """We generated both, so running the code is safe. Compares the descriptions' words with the code's results."""
    found = dict(itertools.islice(described_programs.programs(), 4000))
    numbers = [4, -3, 9, 12, 7, 0, -8, 5]

    def run(code):
        names = {}
        exec(code, names)
        return names["f"](list(numbers))

    checked = collections.Counter()
    for description, code in found.items():
        kept = re.match(
            r"(?:keep the numbers|take those|of the numbers) that ?are? (even|odd|not even) and ", description
        )
        rest = description[kept.end() :] if kept else description
        those = [x for x in numbers if not kept or (x % 2 == 0) == (kept[1] == "even")]
        wanted = {
            "give their sum": sum(those), "add them all up": sum(those), "count them": len(those),
            "sort them": sorted(those), "give them in descending order": sorted(those)[::-1],
            "give the largest": max(those), "return the least one": min(those), "give the first 3": those[:3],
            "return 2 from the end": those[-2:], "return the lowest 4": sorted(those)[:4],
        }  # fmt: skip
        if rest in wanted:
            checked[rest] += 1
            assert run(code) == wanted[rest], description
        else:
            run(code)
    assert len(checked) > 5 and len(set(found.values())) == len(found)


def test_operations_apply_to_the_whole_preceding_expression():
    codes = [code for _, code in itertools.islice(described_programs.programs(), 3000)]
    inner = [match[1] for code in codes if (match := re.search(r"\[ (.*?) for x", code))]
    for expression in inner:
        # Without parentheses 2 * (x + 3) would read as 2 * x + 3. Python evaluates it at x, step by step.
        assert all(isinstance(eval(expression, {"x": x, "abs": abs}), int) for x in (-7, 0, 5))
    assert any(re.fullmatch(r"\( x \+ \d \) \* \d", one) for one in inner)
    assert not any(re.fullmatch(r"x \+ \d \* \d", one) for one in inner)


def test_run_length_codes_expand_to_their_targets():
    found = list(itertools.islice(run_lengths.pairs(), 4000))
    cells = collections.Counter()
    for source, target in found:
        runs = re.findall(r"([a-h]) (\d+)", source)
        assert target.split() == [symbol for symbol, count in runs for _ in range(int(count))]
        assert re.sub(r"[a-h] \d+|-| ", "", source) == ""
        cells[len(source.split()), len(target.split())] += 1
    assert set(cells) >= set(itertools.product(range(3, 13), range(1, 13)))
    assert all(len(side) == 4000 for side in (found, set(found)))


def test_articles_agree_with_their_nouns_and_have_positions():
    gender = {stem: gender for _, stem, gender in NOUNS}
    feminine = {"la", "une", "ma", "cette"}
    between = collections.Counter()
    plain = {stem for _, stem in ADJECTIVES}
    for source, target in itertools.islice(articles.sentences(), 2000):
        words = target.split()
        assert len(words) == len(source.split())
        for article, noun in articles.agreements(source):
            between[noun - article - 1] += 1
            assert (words[article] in feminine) == (gender[words[noun]] == "f")
            for adjective in words[article + 1 : noun]:
                assert adjective in plain if gender[words[noun]] == "m" else adjective.removesuffix("e") in plain
    assert set(between) == set(range(9)) and max(between.values()) < 1.4 * min(between.values())
    assert all(articles.OTHER[articles.OTHER[form]] == form for form in feminine)


def test_a_dialogue_is_read_turn_by_turn_and_stays_in_one_split(data_home, monkeypatch, tmp_path):
    said = lambda *turns: {"messages": [[{"text": text} for text in turn] for turn in turns], "prompt": "?"}
    long = " ".join(["word"] * 21)
    conversations = {
        f"id{number}": said(["hi", "all well?"], ["yes  and\nyou"], [long], ["me"]) for number in range(60)
    }
    path = tmp_path / "made.whl"
    with zipfile.ZipFile(path, "w") as zipped:
        zipped.writestr(dialogue.MEMBER, json.dumps(conversations))
    package = Package("handmade", "1", hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_size)
    monkeypatch.setattr(dialogue, "PACKAGE", package)
    path.rename(package.path)
    counts = sources.prepare_dataset("dialogue/chitchat", lambda line: None)
    assert sum(counts.values()) == 2 * 60 and all(count % 2 == 0 and count for count in counts.values())
    found = [tuple(one.values()) for split in SPLITS for one in sources.open_split("dialogue/chitchat", split)]
    assert set(found) == {
        ("| hi all well?", "yes and you"),
        (" ".join(f"| yes and you | {long}".split()[-24:]), "me"),
    }  # fmt: skip


@pytest.mark.parametrize("name", ["described_programs/python", "run_lengths/free", "articles/adjectives"])
def test_a_generated_set_through_its_builder(name, data_home, monkeypatch):
    module = {"described_programs": described_programs, "run_lengths": run_lengths, "articles": articles}
    module = module[name.split("/")[0]]
    for count in ("PROGRAMS", "PAIRS", "SENTENCES"):
        if hasattr(module, count):
            monkeypatch.setattr(module, count, 300)
    made = next(getattr(module, one) for one in ("programs", "pairs", "sentences") if hasattr(module, one))
    assert sum(sources.prepare_dataset(name, lambda line: None).values()) == 300
    found = [tuple(one.values()) for split in SPLITS for one in sources.open_split(name, split)]
    order = sources.languages(name)
    pairs = {frozenset(pair) for pair in made()}
    assert {frozenset(pair) for pair in found} == pairs and len(order) == 2


@pytest.mark.data
@pytest.mark.slow
def test_the_real_dialogues_are_counted():
    counts = sources.prepare_dataset("dialogue/chitchat", lambda line: None)
    assert counts == {"train": 83_590, "validation": 6_608, "test": 4_051}
