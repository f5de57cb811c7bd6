"""SCAN against an interpreter of its own that reads a command word by word, and the published sizes of each split."""

import collections

import pytest

from attention_research.config import build, resolve
from attention_research.data import scan
from attention_research.errors import ConfigError

#: (split, cutoff) -> (training, validation, test), as released (validation of the first four is part of training).
SIZES = {
    ("simple", None): (16_728, 500, 4_182),
    ("length", None): (16_990, 500, 3_920),
    ("jump", None): (14_670, 500, 7_706),
    ("turn_left", None): (21_890, 500, 1_208),
    ("cutoff", 22): (15_292, 1_698, 3_920),
    ("cutoff", 26): (16_458, 1_828, 2_624),
    ("cutoff", 30): (17_783, 1_975, 1_152),
    ("cutoff", 40): (18_704, 2_078, 128),
}


def interpreted(command):
    """The actions of a command, from its words alone."""
    words = command.split()
    for joint in ("and", "after"):
        if joint in words:
            place = words.index(joint)
            halves = [interpreted(" ".join(part)) for part in (words[:place], words[place + 1 :])]
            return halves[0] + halves[1] if joint == "and" else halves[1] + halves[0]
    if words[-1] in ("twice", "thrice"):
        return interpreted(" ".join(words[:-1])) * {"twice": 2, "thrice": 3}[words[-1]]
    act = [] if words[0] == "turn" else ["I_" + words[0].upper()]
    if len(words) == 1:
        return act
    turn = ["I_TURN_" + words[-1].upper()]
    return {"opposite": turn + turn + act, "around": (turn + act) * 4}.get(words[1], turn + act)


def data(**settings):
    given = {
        "max_length": 50, "vocabulary_size": 23, "model": {"kind": "recurrent_language_model", "width": 12},
        "data": {"kind": "scan", **settings}, "training": {"steps": 1, "batch_size": 4, "learning_rate": 1.0},
    }  # fmt: skip
    return build(resolve(given).resolved["data"], "data")()


def test_every_command_has_its_actions():
    found = scan.commands()
    assert len(found) == len(dict(found)) == 20_910 and len(scan.verb_phrases()) == 34
    assert all(actions.split() == interpreted(command) for command, actions in found)
    lengths = [len(actions.split()) for _, actions in found]
    assert max(lengths) == 48 and round(sum(lengths) / len(lengths), 2) == 14.32
    assert max(len(command.split()) for command, _ in found) == 9
    assert len({word for command, _ in found for word in command.split()}) == 13
    assert len({word for _, actions in found for word in actions.split()}) == 6


@pytest.mark.parametrize(("split", "cutoff"), SIZES)
def test_a_split_has_its_published_size_and_shares_no_command(split, cutoff):
    made = data(split=split, cutoff=cutoff)
    parts = {name: list(zip(*made.text(name), strict=True)) for name in ("train", "validation", "test")}
    assert tuple(map(len, parts.values())) == SIZES[split, cutoff]
    train, test = set(parts["train"]), set(parts["test"])
    assert not train & test and len(test) == len(parts["test"])
    assert bool(set(parts["validation"]) & train) == (cutoff is None)
    if cutoff is not None:
        assert set(parts["validation"]) <= set(scan.by_length(cutoff)[0])


@pytest.mark.parametrize(
    ("percent", "sizes"), [(1, (209, 209, 20_701)), (2, (418, 418, 20_492)), (4, (836, 500, 20_074))]
)
def test_a_share_of_the_commands_has_its_published_size(percent, sizes):
    """The released files tasks_{train,test}_simple_p1, p2 and p4. Validation is part of training."""
    made = data(split="simple", percent=percent)
    parts = [list(zip(*made.text(name), strict=True)) for name in ("train", "validation", "test")]
    assert tuple(map(len, parts)) == sizes
    assert set(parts[1]) <= set(parts[0]) and set(parts[0]) | set(parts[2]) == set(scan.commands())


@pytest.mark.parametrize(("composed", "size", "copies"), [(8, 14_670, 163), (16, 14_665, 86), (32, 14_655, 44)])
def test_some_composed_commands_with_jump_are_trained(composed, size, copies):
    """The sizes and copies of the released files tasks_train_addprim_complex_jump_num8, 16 and 32."""
    made = data(split="jump", composed=composed)
    train, test = made.text("train")[0], made.text("test")[0]
    counts = collections.Counter(command for command in train if "jump" in command)
    assert len(train) == size and len(test) == len(set(test)) == 7_706 - composed
    assert counts.pop("jump") == copies and set(counts.values()) == {copies} and len(counts) == composed
    assert not counts.keys() & set(test) and all("jump" in command for command in test)


@pytest.mark.parametrize(("split", "phrase", "copies"), [("jump", "jump", 1467), ("turn_left", "turn left", 2189)])
def test_a_phrase_is_trained_alone_only(split, phrase, copies):
    made = data(split=split)
    counts = collections.Counter(command for command in made.text("train")[0] if phrase in command)
    assert counts == {phrase: copies}
    assert all(phrase in command and command != phrase for command in made.text("test")[0])


def test_settings_are_checked_and_tokens_are_words(tmp_path, monkeypatch):
    monkeypatch.setenv("ATTENTION_RESEARCH_DATA", str(tmp_path))
    for wrong in ({"split": "cutoff"}, {"split": "length", "cutoff": 22}):
        with pytest.raises(ConfigError, match="data.cutoff"):
            data(**wrong)
    for key, wrong in (("percent", 100), ("composed", 1467)):
        with pytest.raises(ConfigError, match=f"data.{key}: expected"):
            data(split="simple" if key == "percent" else "jump", **{key: wrong})
        with pytest.raises(ConfigError, match=f"data.{key}: expected .* only for split="):
            data(split="length", **{key: 8})
    made = data(split="length", train_examples=2000)
    assert made.prepare().tokenizer.size == 4 + 13 + 6 and made.dropped == 0
    assert len(made.text("train")[0]) == 2000 and made.batch_at(0, 0, 4)["target"].shape[0] == 4
