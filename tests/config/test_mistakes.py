"""Every kind of error gives one line: the full path, what was expected, the given value, and the nearest valid name."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from attention_research.config import ConfigError, load, resolve
from attention_research.registry import FAMILIES

OVERRIDES = {
    "unknown key": (
        ("model.num_head", "4"),
        "config.model.num_head: no such setting; did you mean config.model.num_hea",
    ),
    "unknown section": (("modle.width", "4"), "config.modle: no such setting; did you mean config.model?"),
    "section of another section": (
        ("model.cross_attention.kind", "standard"),
        "config.model.cross_attention: no such setting; did you mean config.model.decoder.cross_attention?",
    ),
    "key of another section": (("steps", "4"), "config.steps: no such setting; did you mean config.training.steps?"),
    "nothing near": (("training.zzz", "4"), "config.training.zzz: no such setting; there are steps, batch_size,"),
    "key of another kind": (
        ("model.self_attention.rank", "4"),
        "config.model.self_attention.rank: no such setting of standard; linformer has it",
    ),
    "word for an int": (("training.steps", "many"), "config.training.steps: expected an int at least 1; got 'many'"),
    "fraction for an int": (("training.steps", "4.5"), "config.training.steps: expected an int at least 1; got '4.5'"),
    "float for an int": (("training.steps", 4.5), "config.training.steps: expected an int at least 1; got 4.5"),
    "bool for an int": (("training.steps", True), "config.training.steps: expected an int at least 1; got True"),
    "int for a bool": (("training.warm", 1), "config.training.warm: expected true or false; got 1"),
    "word for a bool": (("training.warm", "yes"), "config.training.warm: expected true or false; got 'yes'"),
    "nan": (("training.learning_rate", "nan"), "config.training.learning_rate: expected a float above 0; got nan"),
    "infinity": (("training.learning_rate", 1e999), "config.training.learning_rate: expected a float above 0; got inf"),
    "text that is not UTF-8": (
        ("training.note", "caf\udce9"),  # the byte e9 on the command line
        "config.training.note: expected a string in UTF-8; got 'caf\\udce9'",
    ),
    "zero": (("training.batch_size", "0"), "config.training.batch_size: expected an int at least 1; got 0"),
    "negative": (("training.steps", "-5"), "config.training.steps: expected an int at least 1; got -5"),
    "zero rate": (("training.learning_rate", 0.0), "config.training.learning_rate: expected a float above 0; got 0.0"),
    "rate of one": (("model.dropout_rate", "1"), "config.model.dropout_rate: expected a float from 0 to below 1; got"),
    "more than JAX counts": (
        ("training.batch_size", "99999999999999999999"),
        "config.training.batch_size: expected an int at least 1, and at most 2147483647; got 99999999999999999999",
    ),
    "more than JAX counts, optional": (
        ("model.head_width", "3e9"),
        "config.model.head_width: expected an int at least 1, and at most 2147483647; got 3000000000",
    ),
    "a float beyond": (
        ("training.steps", 3e9),
        "config.training.steps: expected an int at least 1, and at most 2147483647; got 3000000000",
    ),
    "bad choice": (("model.dtype", "float16"), "config.model.dtype: expected one of float32, bfloat16; got 'float16'"),
    "none not allowed": (("training.steps", None), "config.training.steps: expected an int at least 1; got None"),
    "optional out of range": (
        ("model.head_width", "0"),
        "config.model.head_width: expected an int at least 1, or none; got '0'",
    ),
    "too long a tuple": (
        ("training.betas", "1,2,3"),
        "config.training.betas: expected a tuple of 2: a float and a float; got (1, 2, 3)",
    ),
    "bad item of a tuple": (("training.lengths", "(3, 'x')"), "config.training.lengths: expected an int at least 1; g"),
    "broken tuple": (("training.lengths", "(3,"), "config.training.lengths: expected a tuple"),
    "text for a tuple": (("training.names", 3), "config.training.names: expected a tuple, each item a string; got 3"),
    "unknown kind": (
        ("model.self_attention.kind", "linfomer"),
        "config.model.self_attention.kind: no kind 'linfomer' of attention; did you mean linformer?",
    ),
    "refused kind": (
        ("model.decoder.self_attention.kind", "linformer"),
        "config.model.decoder.self_attention.kind: linformer is not defined here: it mixes all positions; there are "
        "standard, relative",
    ),
    "kind not defined, without reason": (
        ("model.decoder.cross_attention", "relative"),
        "config.model.decoder.cross_attention.kind: no kind 'relative' of cross_attention; there are standard, linf",
    ),
    "kind that is not a name": (("model.kind", 3), "config.model.kind: expected the name of a kind of model (tr"),
    "number for a section": (("model.encoder", 3), "config.model.encoder: expected a kind of encoder (transformer"),
    "below a leaf": (("model.width.x", 3), "config.model.width: is an int at least 1, not a section; it has no x"),
    "unknown key in a dict": (
        ("model.encoder", {"self_attention": {"scalde": True}}),
        "config.model.encoder.self_attention.scalde: no such setting; did you mean "
        "config.model.encoder.self_attention.scaled?",
    ),
    "index beyond": (("model.encoder.block.parts.2", "scale"), "config.model.encoder.block.parts.2: expected the num"),
    "no index": (("model.encoder.block.parts.x.rate", "1"), "config.model.encoder.block.parts.x: expected the num"),
    "missing setting": (
        ("model.self_attention", "linformer"),
        "config.model.self_attention.rank: missing; linformer needs it (an int at least 1)",
    ),
    "missing below": (
        ("model.encoder.self_attention", "linformer"),
        "config.model.encoder.self_attention.rank: missing; linformer needs it (an int at least 1)",
    ),
    "empty path": (("model..width", "1"), "model..width: expected a path such as model.num_heads"),
    "heads that do not divide": (
        ("model.num_heads", "3"),
        "config.model.num_heads: 3 heads do not divide the width 8; change one of them or set head_width",
    ),
    "heads of one section": (
        ("model.encoder.self_attention.num_heads", "3"),
        "config.model.encoder.self_attention.num_heads: 3 heads do not divide the width 8",
    ),
    "rank above the length": (
        ("model.self_attention", {"kind": "linformer", "rank": 17}),
        "config.model.self_attention.rank: Linformer's rank 17 is above max_length 16",
    ),
    "too few tokens": (("vocabulary_size", "4"), "config.vocabulary_size: 4 leaves no room beside the 4 special"),
}


def refused(given, *overrides):
    with pytest.raises(ConfigError) as caught:
        resolve(given, overrides)
    message = str(caught.value)
    assert "\n" not in message
    return message


@pytest.mark.parametrize("name", OVERRIDES)
def test_a_mistake_in_an_override(toy, name):
    override, message = OVERRIDES[name]
    assert refused(toy, override).startswith(message)


def test_a_message_about_many_kinds_names_the_command_that_lists_them():
    given = {"max_length": 16, "model": {"width": 8, "num_heads": 2}, "training": {"steps": 5}}
    message = refused(given, ("model.self_attention.kind", "qqqq"))
    *_, last = named = message.split("there are ")[1].split(" and ")[0].split(", ")
    more = len(FAMILIES["attention"]) - 12
    assert len(named) == 12 and {*named} <= {*FAMILIES["attention"]}
    assert message.endswith(f", {last} and {more} more (`attention-research list kinds attention` lists them)")


GIVEN = {
    "typo in the file": ({"model": {"widht": 8}}, "config.model.widht: no such setting; did you mean config.model.wi"),
    "text for a number": ({"training": {"steps": "5"}}, "config.training.steps: expected an int at least 1; got '5'"),
    "missing width": ({"model": {"num_heads": 2}}, "config.model.width: missing; transformer needs it (an int at"),
    "missing steps": ({"training": {}}, "config.training.steps: missing; standard needs it (an int at least 1)"),
    "no section": ({"model": None}, "config.model: expected a kind of model"),
    "a function": ({"training": {"steps": len}}, "config.training.steps: expected an int at least 1; got <built-in"),
    "a key that is not a name": ({"model": {3: 1}}, "config.model: its keys are names; got 3"),
    "an inherited mistake": (
        {"model": {"width": 8, "num_heads": 2, "self_attention": {"kind": "relative", "distance": -1}}},
        "config.model.self_attention.distance: expected an int at least 0; got -1",
    ),
}


@pytest.mark.parametrize("name", GIVEN)
def test_a_mistake_in_the_file(toy, name):
    changed, message = GIVEN[name]
    assert refused({**toy, **changed}).startswith(message)


def test_an_array_for_named_sections():
    given = [("evaluations", np.array([1, 2]))]
    with pytest.raises(ConfigError, match=r"^config.evaluations: expected a dict of name to section, each a kind of"):
        load("translation/transformer:cpu", given)


def test_an_inherited_mistake_is_named_where_it_was_written(toy, tmp_path):
    path = tmp_path / "toy_config" / "toy.py"  # the encoder is resolved before the section that it inherits from
    source = path.read_text().replace('self_attention: Child["attention"] = "standard", ', "")
    last = 'decoder: Child["decoder"], self_attention: Child["attention"], rngs'
    source = source.replace('decoder: Child["decoder"], rngs', last)
    path.write_text(source)
    toy["model"]["self_attention"] = {"kind": "relative", "distance": -1}
    assert refused(toy).startswith("config.model.self_attention.distance: expected")
    toy["model"]["self_attention"] = {"kind": "relative", "distanse": 1}
    assert refused(toy).startswith("config.model.self_attention.distanse: no such setting; did you mean config.")
    toy["model"]["self_attention"] = {"kind": "linformer"}
    assert refused(toy).startswith("config.model.self_attention.rank: missing; linformer needs it")


def test_heads_need_not_divide_where_their_width_is_given(toy):
    assert resolve(toy, [("model.num_heads", "3"), ("model.head_width", "5")]).resolved["model"]["num_heads"] == 3


def test_mistakes_are_reported_without_importing_jax(root):
    program = (
        "import sys\n"
        "from attention_research.config import ConfigError, load\n"
        "try:\n"
        "    load('configs/translation/transformer.py', [('model.num_head', '4')])\n"
        "except ConfigError as error:\n"
        "    print(error)\n"
        "print(sorted({'jax', 'flax', 'numpy', 'optax', 'tensorflow_datasets'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=root, timeout=300)
    assert done.stdout.splitlines() == [
        "config.model.num_head: no such setting; did you mean config.model.num_heads?",
        "[]",
    ], done.stderr
