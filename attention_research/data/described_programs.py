"""TFDS builder `described_programs/python`: descriptions of functions of a list of numbers, and their Python code.

    keep the numbers that are even , square them and give their sum
    def f ( xs ) : return sum ( [ x ** 2 for x in xs if x % 2 == 0 ] )

The pairs are generated. A program keeps some of the numbers (or all), applies up to two operations to each, and returns
one number, a sorted list or a part of the list. Each part is described in one of several phrasings, drawn at random. No
program occurs twice, so that the programs of the test split are not in training; the split is by MD5. Every program is
one line with spaces between its tokens, and runs on every list of integers (`tasks.restricted_python` evaluates it).
"""

import random
from collections.abc import Iterator

import tensorflow_datasets as tfds

from attention_research.data.by_hash import split_of

SEED, PROGRAMS = 1409, 20_000
NUMBERS = range(2, 10)

#: condition on x -> its phrasings
_KEPT: dict[str, tuple[str, ...]] = {
    "x % 2 == 0": ("even", "divisible by two"),
    "x % 2 == 1": ("odd", "not even"),
    "x > 0": ("positive", "above zero"),
    "x < 0": ("negative", "below zero"),
    **{f"x > {n}": (f"greater than {n}", f"larger than {n}", f"above {n}") for n in NUMBERS},
    **{f"x < {n}": (f"less than {n}", f"smaller than {n}", f"below {n}") for n in NUMBERS},
    **{f"x % {n} == 0": (f"divisible by {n}", f"multiples of {n}") for n in NUMBERS if n > 2},
}
#: operation on {} -> its phrasings
_DONE: dict[str, tuple[str, ...]] = {
    "{} ** 2": ("square them", "take their squares"),
    "- {}": ("negate them", "change their signs"),
    "abs ( {} )": ("drop their signs", "take their absolute values"),
    **{f"{{}} + {n}": (f"add {n} to them", f"increase them by {n}") for n in NUMBERS},
    **{f"{{}} - {n}": (f"subtract {n} from them", f"decrease them by {n}") for n in NUMBERS},
    **{f"{{}} * {n}": (f"multiply them by {n}", f"take {n} times each") for n in NUMBERS},
    **{f"{{}} % {n}": (f"take their remainders by {n}", f"reduce them modulo {n}") for n in NUMBERS if n > 2},
}
#: result computed from the list {} -> its phrasings
_GIVEN: dict[str, tuple[str, ...]] = {
    "{}": ("give the list", "return all of them"),
    "sum ( {} )": ("give their sum", "add them all up"),
    "len ( {} )": ("count them", "say how many there are"),
    "max ( {} , default = 0 )": ("give the largest", "return the greatest one"),
    "min ( {} , default = 0 )": ("give the smallest", "return the least one"),
    "sorted ( {} )": ("sort them", "give them in ascending order"),
    "sorted ( {} , reverse = True )": ("sort them backwards", "give them in descending order"),
    **{f"{{}} [ : {n} ]": (f"give the first {n}", f"return {n} from the front") for n in NUMBERS},
    **{f"{{}} [ - {n} : ]": (f"give the last {n}", f"return {n} from the end") for n in NUMBERS},
    **{f"sorted ( {{}} ) [ : {n} ]": (f"give the {n} smallest", f"return the lowest {n}") for n in NUMBERS},
}
_KEEP = ("keep the numbers that are", "take those that are", "of the numbers that are")


def program(chance: random.Random) -> tuple[str, str]:
    """(description, code) of one random program."""
    drawn = lambda ways: ways[int(chance.random() * len(ways))]
    said, each, condition = [], "x", ""
    if chance.random() < 0.7:
        condition = drawn(tuple(_KEPT))
        said.append(f"{drawn(_KEEP)} {drawn(_KEPT[condition])}")
    for _ in range(int(chance.random() * 3)):
        done = drawn(tuple(_DONE))
        said.append(drawn(_DONE[done]))
        each = done.format(each if each == "x" or done.startswith("abs") else f"( {each} )")
    given = drawn(tuple(_GIVEN))
    tested = f" if {condition}" if condition else ""
    numbers = "xs" if each == "x" and not condition else f"[ {each} for x in xs{tested} ]"
    description = " , ".join(said) + " and " if said else ""
    return description + drawn(_GIVEN[given]), f"def f ( xs ) : return {given.format(numbers)}"


def programs() -> Iterator[tuple[str, str]]:
    """`PROGRAMS` descriptions with different programs, the same in every call."""
    chance = random.Random(SEED)
    seen: set[str] = set()
    while len(seen) < PROGRAMS:
        description, code = program(chance)
        if code not in seen:
            seen.add(code)
            yield description, code


class DescribedPrograms(tfds.core.GeneratorBasedBuilder):
    """Features `description` and `code`, as in a translation set; the key of an example is its number."""

    VERSION = tfds.core.Version("1.0.0")
    BUILDER_CONFIGS = [tfds.core.BuilderConfig(name="python", description="one-line functions of a list of numbers")]

    def _info(self) -> tfds.core.DatasetInfo:
        features = tfds.features.Translation(languages=("description", "code"))
        return tfds.core.DatasetInfo(builder=self, description=__doc__, features=features)

    def _split_generators(self, dl_manager):
        splits: dict[str, list] = {"train": [], "validation": [], "test": []}
        for number, (description, code) in enumerate(programs()):
            splits[split_of(code)].append((number, {"description": description, "code": code}))
        return {split: self._generate_examples(examples) for split, examples in splits.items()}

    def _generate_examples(self, examples):
        yield from examples
