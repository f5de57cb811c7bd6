"""Every registered model, task, data set, alignment and evaluation implements the protocol of its family.

These tests compare names and signatures. mypy checks the types of the package and of every kind against its protocol.
Other tests check what the methods compute.
"""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
import typing
from pathlib import Path

import pytest

from attention_research.data import protocol as data
from attention_research.layers.alignment.protocol import Alignment
from attention_research.models import protocol as models
from attention_research.registry import FAMILIES, lookup
from attention_research.tasks.evaluation_protocol import PERPLEXITY, ReadsOutputs, ScoresTexts
from attention_research.tasks.protocol import Task

#: Each class of a family implements all of one of the first protocols, and all or nothing of each of the others.
MODEL = (models.ScoresTokens, models.Classifies, models.Rates, models.MapsSeries)
WRITES = (models.Generates, models.Continues)
MORE_OF_DATA = (data.HasText, data.HasTokens, data.HasTargets, data.ReadsText, data.WritesText)


def members(protocol):
    """Name -> the protocol's declaration of it, including those of its bases."""
    bases = [base for base in reversed(protocol.__mro__) if getattr(base, "_is_protocol", False)]
    said = {name: value for base in bases for name, value in vars(base).items()}
    return {
        name: one
        for name, one in said.items()
        if name == "__call__" or not name.startswith("_") and (inspect.isfunction(one) or isinstance(one, property))
    }


def lacks(cls, protocol):
    """One line for each member of the protocol that a class lacks or that cannot be called as the protocol states."""
    lines = []
    for name, said in members(protocol).items():
        found = inspect.getattr_static(cls, name, None)
        if isinstance(said, property):
            if found is None and not any(name in vars(base).get("__annotations__", {}) for base in cls.__mro__):
                lines.append(f"{name}: missing")
        elif not inspect.isfunction(found):
            lines.append(f"{name}: {'missing' if found is None else 'no method'}")
        else:
            lines += [f"{name}: {line}" for line in refused(inspect.signature(found), inspect.signature(said))]
    return lines


def refused(own, said):
    """Why a call that the signature `said` allows is not valid for `own`; None if it is valid."""
    ours, theirs = list(own.parameters.values()), list(said.parameters.values())
    for index, wanted in enumerate(theirs):
        if wanted.kind is wanted.VAR_KEYWORD:
            continue
        here = own.parameters.get(wanted.name)
        if here is None:
            yield f"takes no {wanted.name}"
        elif wanted.kind is wanted.POSITIONAL_OR_KEYWORD and (index >= len(ours) or ours[index] is not here):
            yield f"{wanted.name} is not argument {index}"
        elif wanted.default is not wanted.empty and here.default is here.empty:
            yield f"{wanted.name} has no default"
    for here in ours:
        if here.name not in said.parameters and here.default is here.empty:
            yield f"asks for {here.name}"


def complete(cls, protocols):
    """The protocols that a class satisfies. Raises AssertionError if it implements only a part of a protocol."""
    found = [one for one in protocols if not lacks(cls, one)]
    given = {name for one in found for name in members(one)}
    for one in protocols:
        some = [name for name in members(one) if hasattr(cls, name) and name not in given]
        why = f"{cls.__name__} has {', '.join(some)}, but does not satisfy {one.__name__}: {'; '.join(lacks(cls, one))}"
        assert not some, why
    return found


@pytest.mark.parametrize("kind", FAMILIES["model"])
def test_models_implement_one_training_protocol_and_decoding_fully_or_not(kind):
    cls = lookup("model", kind)
    assert complete(cls, MODEL)
    found = complete(cls, (*WRITES, models.EncodesSource))
    assert len([one for one in found if one in WRITES]) <= 1
    for one in (*MODEL, models.EncodesSource, models.Generates):  # `isinstance` at run time agrees
        assert issubclass(cls, one) is (not lacks(cls, one))


@pytest.mark.parametrize("kind", FAMILIES["task"])
def test_a_task_reads_a_model_by_a_protocol(kind):
    cls = lookup("task", kind)
    assert lacks(cls, Task) == []
    assert typing.get_type_hints(cls.loss)["model"] in MODEL


@pytest.mark.parametrize("kind", FAMILIES["data"])
def test_data_implement_the_training_protocol_and_others_fully(kind):
    cls = lookup("data", kind)
    assert lacks(cls, data.Data) == []
    complete(cls, MORE_OF_DATA)
    if hasattr(cls, "labels"):
        assert lacks(cls, data.Labelled) == []


@pytest.mark.parametrize(
    ("family", "kind"), [(family, kind) for family in ("alignment", "image_alignment") for kind in FAMILIES[family]]
)
def test_alignments_implement_their_protocol(family, kind):
    assert lacks(lookup(family, kind), Alignment) == []


@pytest.mark.parametrize("kind", FAMILIES["evaluation"])
def test_evaluations_implement_one_protocol_and_declare_metrics(kind):
    cls = lookup("evaluation", kind)
    (sort,) = [one for one in (ScoresTexts, ReadsOutputs) if isinstance(cls(), one)]
    assert lacks(cls, sort) == []
    names = [metric.name for metric in cls.metrics]
    assert names and len(set(names)) == len(names) and set(cls().metrics) <= set(cls.metrics)
    assert (PERPLEXITY in cls.metrics) == (sort is ScoresTexts or kind == "perplexity")


def test_runtime_protocols_have_methods_only():
    """`isinstance` reads the attributes of a protocol: reading a property could train a vocabulary."""
    for one in (*MODEL, *WRITES, models.EncodesSource, *MORE_OF_DATA):
        assert one._is_runtime_protocol and all(map(inspect.isfunction, members(one).values())), one


class Whole:
    def encode(self, source, *, key=None, more=1): ...
    def start(self, memory, length=None): ...
    def step(self, cache, tokens): ...


class NoDefault(Whole):
    def start(self, memory, length): ...


class OtherName(Whole):
    def step(self, state, tokens): ...


class OtherOrder(Whole):
    def step(self, tokens, cache): ...


class More(Whole):
    def encode(self, source, mask, *, key=None): ...


class NoMethod(Whole):
    step = None


WRONG = {
    NoDefault: "start: length has no default",
    OtherName: "step: takes no cache",
    OtherOrder: "step: cache is not argument 1",
    More: "encode: asks for mask",
    NoMethod: "step: missing",
}


@pytest.mark.parametrize("cls", WRONG)
def test_invalid_implementations_are_found(cls):
    assert lacks(Whole, models.Generates) == []
    assert lacks(cls, models.Generates)[0] == WRONG[cls]
    with pytest.raises(AssertionError, match=f"{cls.__name__} has .*does not satisfy Generates"):
        complete(cls, (models.Generates,))


def test_data_without_a_declared_attribute_are_found():
    without = type("Without", (), {**vars(lookup("data", "listops"))})  # only names that the class defines itself
    assert "dtypes: missing" in lacks(without, data.Data)


def mypy(root, *files):
    """mypy's result for the package, or for some files. mypy reads again only files that changed since its last run."""
    pytest.importorskip("mypy")
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "attention_research" / "mypy"
    command = (sys.executable, "-m", "mypy", "--no-error-summary", f"--cache-dir={cache}", *map(str, files))
    return subprocess.run(command, cwd=root, capture_output=True, text=True)


@pytest.mark.slow
def test_mypy_finds_nothing(root):
    done = mypy(root)
    assert done.returncode == 0, done.stdout + done.stderr


#: Family -> the type that every kind of it has.
TYPES = {
    "model": "Model",
    "task": "Task[ScoresTokens] | Task[Classifies] | Task[Rates] | Task[MapsSeries]",
    "data": "Data",
    "alignment": "Alignment",
    "image_alignment": "Alignment",
    "evaluation": "ScoresTexts | ReadsOutputs",
}
MISTYPED = """
class Mistyped:
    def encode(self, source: Mapping[str, Any], *, key: Key[Array, ""] | None = None) -> Mapping[str, Any]: ...
    def start(self, memory: int, length: int | None = None) -> Any: ...
    def step(self, cache: Any, tokens: Array) -> tuple[Any, Array, dict[str, Any]]: ...
def mistyped(one: Mistyped) -> Generates: return one
"""


@pytest.mark.slow
def test_mypy_finds_every_kind_to_be_of_its_protocol(root, tmp_path):
    """One line for each kind that returns it as its protocol. Models that decode are also returned as `Generates`."""
    lines = ["from collections.abc import Mapping", "from typing import Any", "from jaxtyping import Array, Key"]
    names = "Classifies, Continues, Generates, MapsSeries, Model, Rates, ScoresTokens"
    lines += [f"from {models.__name__} import {names}", f"from {Task.__module__} import Task"]
    lines.append(f"from {ScoresTexts.__module__} import ReadsOutputs, ScoresTexts")
    lines += [f"from {data.__name__} import Data", f"from {Alignment.__module__} import Alignment"]
    for family, named in TYPES.items():
        for kind, place in FAMILIES[family].items():
            module, _, cls = place.partition(":")
            own = f"{family}_{kind}"
            types = [named] + [
                one.__name__ for one in WRITES if family == "model" and not lacks(lookup("model", kind), one)
            ]
            lines.append(f"from {module} import {cls} as {own}")
            lines += [f"def {own}_{i}(one: {own}) -> {name}: return one" for i, name in enumerate(types)]
    file = tmp_path / "kinds.py"
    file.write_text("\n".join(lines) + MISTYPED)
    errors = [line for line in mypy(root, file).stdout.splitlines() if " error: " in line and "empty-body" not in line]
    assert len(errors) == 1 and 'got "Mistyped", expected "Generates"' in errors[0], errors
