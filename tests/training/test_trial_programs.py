"""The hash of a config's programs: equal for the same computation, wherever it is written and whoever runs it."""

import json
import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import pytest

from attention_research.config import load
from attention_research.layers.attention import multi_head
from attention_research.training.program_text import program_text
from attention_research.training.programs import program_hashes

SMALL = [
    ("model.num_layers", 1), ("model.width", 12), ("model.num_heads", 2), ("vocabulary_size", 13), ("max_length", 7),
    ("training.batch_size", 4), ("evaluation.batch_size", 3), ("model.feed_forward.hidden_width", 11),
]  # fmt: skip
SCALED, UNSCALED = [], [("model.self_attention.kind", "unscaled"), ("model.decoder.cross_attention.kind", "unscaled")]


def config(*overrides):
    return load("configs/translation/transformer.py:smoke", [*SMALL, *overrides])


@pytest.fixture(scope="module")
def hashes(root):
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        return [program_hashes(config(*kind)) for kind in (SCALED, UNSCALED)]


@pytest.mark.slow
def test_two_attentions_are_two_programs_of_one_initialization(hashes):
    scaled, unscaled = hashes
    assert set(scaled) == {"start", "train", "evaluate", "decode"} and all(len(one) == 12 for one in scaled.values())
    assert [name for name in scaled if scaled[name] == unscaled[name]] == ["start"]


@pytest.mark.slow
def test_a_kernels_scale_changes_the_programs_that_call_it_and_no_other(hashes, root, monkeypatch):
    kernel = multi_head.dot_product_attention
    doubled = lambda query, *rest, **how: kernel(query if how["scale"] else query * 2, *rest, **how)
    monkeypatch.setattr(multi_head, "dot_product_attention", doubled)
    monkeypatch.chdir(root)
    now = [program_hashes(config(*kind), evaluated=False) for kind in (SCALED, UNSCALED)]
    changed = [
        [name for name in found if found[name] != before[name]] for found, before in zip(now, hashes, strict=True)
    ]
    assert changed == [["train", "evaluate"], []]


@pytest.mark.slow
def test_execution_settings_do_not_change_the_program(hashes, root, monkeypatch):
    monkeypatch.chdir(root)
    spread = [("parallel.mesh.data", 4), ("training.replicas", 2), ("training.log_every", 3), ("training.seed", 5)]
    assert program_hashes(config(*spread), evaluated=False) == {n: x for n, x in hashes[0].items() if n != "decode"}


@pytest.mark.slow
def test_a_fresh_process_with_another_hash_seed_gives_the_same(hashes, root):
    """The traced text does not depend on shape checks, strict promotion or other settings of the tests either."""
    script = (
        "import json, sys; sys.path.insert(0, 'tests/training'); import test_trial_programs as t\n"
        "print(json.dumps(t.program_hashes(t.config(*t.SCALED))))"
    )
    seed = str(1 + int(os.environ.get("PYTHONHASHSEED", "0").replace("random", "0")))
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=root, env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True
    )
    assert json.loads(done.stdout.splitlines()[-1]) == hashes[0], done.stderr.decode()


def test_names_and_places_of_functions_are_left_out_and_constants_are_not():
    def source(inner, argument, factor=2.0):
        return (
            f"@jax.jit\ndef {inner}({argument}):\n    return jnp.where({argument} > 0, {argument} * {factor}, table)\n"
        )

    def text(source, inner, table=5000.0):
        scope = {"jax": jax, "jnp": jnp, "table": jnp.arange(6000.0) * table}
        exec(source, scope)
        return program_text(lambda x: {inner: scope[inner](x)}, jax.ShapeDtypeStruct((6000,), jnp.float32))

    first = text(source("first", "x"), "first")
    assert first == text("\n\n# moved\n" + source("another", "value"), "another")
    assert first != text(source("first", "x", 3.0), "first")
    assert first != text(source("first", "x"), "first", table=5001.0)
