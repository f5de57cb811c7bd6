"""The restricted evaluator against Python's own on programs that we wrote, the refused programs, and scores by hand."""

import itertools
import random
import time

import pytest

from attention_research.data import described_programs
from attention_research.tasks.programs import LISTS, program_scores, results
from attention_research.tasks.restricted_python import Refused, function_of

#: In addition to the generated programs: every node and function that can be evaluated.
MORE = [
    "not len(xs)",
    "abs(sum(xs))",
    "sum([x for x in [y - 1 for y in xs] if x != 3 if x <= 9])",
    "True",
    "xs[-1]",
    "sorted(xs, reverse=len(xs) > 3)[1:-1]",
    "max(xs, default=-1) - min(xs, default=1)",
    "sum(xs) // len(xs)",
    "- - len(xs)",
    "max(xs[0], 3)",
    "xs[len(xs) - 1:]",
    "[xs for x in xs]",
    "xs == sorted(xs)",
    "sum(xs, 5)",
    "- (-7) ** 3 % 5",
]


def of_python(code, numbers):
    """The result in Python, or None if it raises."""
    names = {}
    exec(code, names)
    try:
        return names["f"](list(numbers))
    except Exception:
        return None


def ours(code, numbers):
    try:
        return function_of(code)(numbers)
    except Refused:
        return None


def test_generated_programs_give_what_python_gives():
    chance = random.Random(3)
    for _, code in itertools.islice(described_programs.programs(), 1500):
        numbers = [chance.randint(-20, 20) for _ in range(chance.randrange(12))]
        wanted = of_python(code, numbers)
        assert wanted is not None and repr(ours(code, numbers)) == repr(wanted), (code, numbers)


@pytest.mark.parametrize("expression", MORE)
def test_evaluation_equals_pythons(expression):
    code = f"def f(xs): return {expression}"
    found = [(ours(code, numbers), of_python(code, numbers)) for numbers in LISTS]
    assert all(repr(mine) == repr(theirs) for mine, theirs in found)
    assert sum(mine is not None for mine, _ in found) >= 5


#: Expressions that are not evaluated, and programs that are not a function of one argument with one return.
EXPRESSIONS = [
    "__import__('os').system('true')",
    "xs.clear()",
    "open('x')",
    "(lambda: 1)()",
    "eval('1')",
    "f(xs)",
    "[x for x in xs",
    "'a'",
    "1.5",
    "sum",
    "sum(key=len)",
    "sorted(xs, key=abs)",
    "(y := 3)",
    "{x for x in xs}",
    "xs * 100000",
    "9 ** 9",
    "2 ** -1",
    "xs[::2]",
    "1 // 0",
    "max([])",
    "1 and 2",
    "1 if xs else 2",
    "[len for len in xs][0](xs)",
    "[[x] for x in xs]",
    "sum([xs for x in xs], xs)",
    "-" * 100_000 + "1",
    "(" * 500 + "1" + ")" * 500,
]
PROGRAMS = [
    "import os",
    "def f(xs, ys): return 1",
    "1 + 1",
    "",
    "def f(xs=[]): return 1",
    "@len\ndef f(xs): return 1",
    "def f(*xs): return 1",
    "def f(xs): pass",
    "def f(xs): \x00",
    "async def f(xs): return 1",
    "def f(xs): return 1\nwhile True: pass",
    "def f(xs: print()): return 1",
    *(f"def f(xs): return {expression}" for expression in EXPRESSIONS),
]


@pytest.mark.parametrize("code", PROGRAMS, ids=range(len(PROGRAMS)))
def test_everything_else_is_refused(code):
    with pytest.raises(Refused):
        function_of(code)([3, 1, 2])


def test_long_or_large_computations_are_refused_quickly():
    nested = "[1 for x in xs]"
    for _ in range(8):
        nested = f"[sum({nested}) for x in xs]"
    grown = "x"
    for _ in range(12):
        grown = f"({grown}) ** 4"
    repeated = "xs"  # each comprehension repeats one list: 10 times as many numbers for 12 steps
    for _ in range(6):
        repeated = f"[[y for x in xs] for y in [{repeated} for z in xs[:1]]][0]"
    started = time.process_time()
    for expression in (nested, repeated, f"[{grown} for x in xs]", "[x * 10 ** 4 * 10 ** 4 * 10 ** 4 for x in xs]"):
        with pytest.raises(Refused):
            function_of(f"def f(xs): return {expression}")(range(7, 17))
    assert time.process_time() - started < 2


def test_scores_by_hand():
    reference = "def f ( xs ) : return sum ( [ x for x in xs if x > 0 ] )"
    written = [
        reference,
        "def f ( xs ) : return sum ( [ x for x in xs if 0 < x ] )",  # passes, with different text
        "def f ( xs ) : return len ( xs )",  # runs
        "def f ( xs ) : return sum ( [ x for x in",
    ]
    assert program_scores(written, [reference] * 4) == {"exact_match": 25.0, "runs": 75.0, "passes": 50.0}
    one, true = (f"def f ( xs ) : return {value}" for value in ("1", "True"))
    assert program_scores([true], [one])["passes"] == 0 and results("def f ( xs ) : return xs [ 0 ]") is None
