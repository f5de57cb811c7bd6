"""Generated copying and agreement: answers by hand, delays in turn, splits, a vocabulary of whole words, configs."""

import random

import numpy as np
import pytest

from attention_research.config import build, resolve
from attention_research.data import copying, generated_pairs


def data(kind="copying", **settings):
    given = {
        "max_length": 13, "vocabulary_size": 32, "model": {"kind": "recurrent_language_model", "width": 12},
        "data": {"kind": kind, "max_delay": 7, "train_examples": 41, "batching": {"boundaries": (13,)}, **settings},
        "training": {"steps": 1, "batch_size": 4, "learning_rate": 1.0},
    }  # fmt: skip
    return build(resolve(given).resolved["data"], "data")()


@pytest.fixture(scope="module", autouse=True)
def folder(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ATTENTION_RESEARCH_DATA", str(tmp_path_factory.mktemp("data")))
        yield


def test_a_copied_pair():
    source, target = copying.copied(random.Random(3), 5, symbols=8, length=3)
    words = source.split()
    assert " ".join(words[:3]) == target and set(target.split()) <= set("ABCDEFGH")
    assert words[-1] == copying.CUE and len(words) == 9 and set(words[3:-1]) <= set(copying.FILLERS)


@pytest.mark.parametrize("subject", ["first", "last"])
def test_an_agreeing_pair(subject):
    chance, both = random.Random(5), set()
    for delay in range(9):
        source, verb = copying.agreeing(chance, delay, subject=subject)
        words = source.split()
        assert words[0] == "the" and len(words) == 2 + delay // 2 * 2
        noun = words[1 if subject == "first" else -1]
        assert verb == ("sleep" if noun.endswith("s") else "sleeps")
        both.add(verb)
    assert both == {"sleep", "sleeps"}


@pytest.mark.parametrize(("kind", "found"), [("copying", range(8)), ("agreement", range(0, 8, 2))])
def test_delays_are_equally_frequent(kind, found):
    made = data(kind)
    sources, targets = made.text("test")
    delays = [made.delay(source) for source in sources]
    assert set(delays) == set(found) and np.ptp(np.unique(delays, return_counts=True)[1]) <= 1
    assert made.text("test") == (sources, targets) and made.text("validation")[0] != sources
    assert len(made.text("train")[0]) == 41 and len(sources) == copying.EVALUATED


def test_batches_hold_whole_words():
    made = data()
    assert made.prepare().tokenizer.size == 4 + 8 + len(copying.FILLERS) + 1
    batch = made.batch_at(0, 0, 4)
    sources = [" ".join(text.split()) for text in made.tokenizer.decode(batch["source"].tolist())]
    targets = made.tokenizer.decode(batch["target"].tolist())
    pairs = dict(zip(*made.text("train"), strict=True))
    assert [pairs[source] for source in sources] == targets and batch["source"].shape == (4, 13)
    assert "41 pairs" in made.describe() and made.dropped == 0


def test_other_settings_give_other_text():
    changes = ({}, {"symbols": 7}, {"length": 2}, {"max_delay": 5})
    prints = [data(**settings).prepare().fingerprint for settings in changes]
    assert len(set(prints)) == 4 and data().prepare().fingerprint == prints[0]


def test_a_changed_generator_does_not_use_the_text_of_the_old_one(monkeypatch, tmp_path):
    first = data("agreement").prepare()
    source = tmp_path / "copying.py"
    source.write_text("# another generator")
    monkeypatch.setattr(generated_pairs.inspect, "getfile", lambda of: str(source))
    monkeypatch.setattr(copying, "NOUNS", ("horse", "cow", "goat", "hen", "duck"))
    again = data("agreement").prepare()
    sources = again.tokenizer.decode(again.batch_at(0, 0, 4)["source"])
    assert first.fingerprint != again.fingerprint and set(sources) <= set(again.text("train")[0])
