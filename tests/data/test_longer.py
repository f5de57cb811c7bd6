"""Addition and reversing with longer test examples: answers by hand, lengths of each split, tokens, refusals."""

import numpy as np
import pytest

from attention_research.config import build, resolve
from attention_research.errors import ConfigError


def data(task, **settings):
    given = {
        "max_length": 26, "vocabulary_size": 16, "model": {"kind": "recurrent_language_model", "width": 12},
        "data": {"kind": "longer", "task": task, "train_examples": 400, "held_out": 50, **settings},
        "training": {"steps": 1, "batch_size": 4, "learning_rate": 1.0},
    }  # fmt: skip
    return build(resolve(given).resolved["data"], "data")()


@pytest.fixture(scope="module", autouse=True)
def folder(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ATTENTION_RESEARCH_DATA", str(tmp_path_factory.mktemp("data")))
        yield


def number(words):
    assert len(words) == 12 and all(len(word) == 1 for word in words)
    return int("".join(words))


@pytest.mark.parametrize(("split", "most"), [("train", 10**8), ("validation", 10**8), ("test", 10**10)])
def test_a_sum_is_that_of_the_two_numbers(split, most):
    found = []
    for source, target in zip(*data("addition").text(split), strict=True):
        words = source.split()
        one, other = number(words[:12]), number(words[13:])
        assert words[12] == "+" and number(target.split()) == one + other
        found += [one, other]
    assert max(found) < most
    if split == "test":  # random digits: a number of 9 digits may begin with zeros, but most do not
        assert max(found) > 10**9 and np.mean(np.array(found) >= 10**8) > 0.9
    else:  # one number in eight has each number of digits
        lengths = [len(str(one)) for one in found]
        assert set(range(1, 9)) == set(lengths) and max(found) >= 10**7


@pytest.mark.parametrize(("split", "lengths"), [("train", range(1, 17)), ("validation", range(1, 17)),
                                                ("test", range(17, 25))])  # fmt: skip
def test_a_sequence_is_reversed(split, lengths):
    sources, targets = data("reversing").text(split)
    assert all(source.split()[::-1] == target.split() for source, target in zip(sources, targets, strict=True))
    assert {len(source.split()) for source in sources} <= set(lengths)
    assert max(len(source.split()) for source in sources) == lengths[-1]
    assert {digit for source in sources for digit in source.split()} == set("0123456789")


@pytest.mark.parametrize(("task", "words"), [("addition", 11), ("reversing", 10)])
def test_splits_differ_and_are_the_same_in_every_call(task, words):
    made = data(task)
    assert made.prepare().tokenizer.size == 4 + words and made.dropped == 0
    train, validation, test = (made.text(split)[0] for split in ("train", "validation", "test"))
    assert len(train) == 400 and len(validation) == len(test) == 50
    assert train[:50] != validation and made.text("train")[0] == train
    assert data(task, train_examples=300).text("test")[0] == test
    assert made.batch_at(0, 0, 4)["source"].shape[0] == 4


def test_another_task_is_refused():
    with pytest.raises(ConfigError, match="task"):
        data("subtraction")
