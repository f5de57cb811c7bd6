"""Each program uses the implementation of the platform that it is lowered for, without cost on the home platform."""

from __future__ import annotations

import functools
import re
from collections import Counter

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export

from attention_research.kernels import dot_product_attention, explain_implementation, relative_attention
from attention_research.kernels.attention import reference
from attention_research.kernels.attention.arguments import prepare
from attention_research.kernels.platforms import per_platform
from tests.tiers import fast_are

B, T, N, H = 2, 19, 4, 32
SHAPES = [jax.ShapeDtypeStruct((B, T, N, H), jnp.float32)] * 3 + [jax.ShapeDtypeStruct((B,), jnp.int32)]
CALLS = {"triton": "__gpu$xla.gpu.triton", "mosaic": "@tpu_custom_call"}
#: From JAX 0.11 on, lowering Triton kernels needs a known GPU: a real one, or one that an abstract mesh names.
ANONYMOUS = jax.__version_info__ < (0, 11)
needs_anonymous = pytest.mark.skipif(not ANONYMOUS, reason="this JAX lowers Triton kernels for a named GPU only")
UNSTABLE = [export.DisabledSafetyCheck.custom_call(CALLS["triton"])]


def attend(query, key, value, lengths, implementation=None):
    return dot_product_attention(
        query, key, value, is_causal=True, key_value_seq_lengths=lengths, implementation=implementation
    )


def dense(query, key, value, lengths):
    return attend(query, key, value, lengths, "reference")


def loss(attend, *arrays):
    return jnp.sum(jnp.sin(attend(*arrays)))


def layers(attend, query, *others):
    """Three layers in a scan, recomputed in the gradient."""
    body = jax.checkpoint(lambda x, _: (attend(x, *others), None))
    return jnp.sum(jnp.sin(jax.lax.scan(body, query, None, length=3)[0]))


def mapped(attend, query, *others):
    many = jnp.stack([query, 2 * query], axis=1)
    return jax.vmap(jax.grad(functools.partial(loss, attend), (0, 1)), (1, None, None, None))(many, *others)


def split(attend, *arrays, check_vma=False):
    """On a mesh of one device. The gradient sums over the mesh."""
    mesh = jax.make_mesh((1,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
    along, whole = jax.sharding.PartitionSpec("data"), jax.sharding.PartitionSpec()
    total = lambda *local: jax.lax.psum(loss(attend, *local), "data")
    specs = (along, whole, whole, whole)
    sharded = jax.shard_map(total, mesh=mesh, in_specs=specs, out_specs=whole, check_vma=check_vma)
    return jax.grad(sharded, (0, 1, 2))(*arrays)


FORMS = {
    "forward": lambda attend: attend,
    "gradient": lambda attend: jax.grad(functools.partial(loss, attend), (0, 1, 2)),
    "gradient_by_query": lambda attend: jax.grad(functools.partial(loss, attend)),
    "scan_remat": lambda attend: jax.grad(functools.partial(layers, attend), (0, 1, 2)),
    "vmap": lambda attend: functools.partial(mapped, attend),
    "shard_map": lambda attend: functools.partial(split, attend),
    "shard_map_vma": lambda attend: functools.partial(split, attend, check_vma=True),
}
#: Form -> kernels in the program. A gradient runs the forward kernel twice, one kernel by queries and one by keys.
KERNELS = {"forward": 1, "gradient": 4, "scan_remat": 4, "vmap": 4, "shard_map": 4}
#: Operations that move or name values without computing.
PLUMBING = {"parameter", "constant", "broadcast", "bitcast", "tuple", "get-tuple-element"}


def calls(text: str) -> dict[str, int]:
    return {name: text.count(target) for name, target in CALLS.items() if target in text}


def exported(function, *platforms: str):
    return export.export(jax.jit(function), platforms=platforms, disabled_checks=UNSTABLE)(*SHAPES)


@needs_anonymous
@pytest.mark.parametrize("form", fast_are(["forward", "gradient", "scan_remat"], KERNELS.keys()))
def test_the_programs_platform_selects_the_kernel_under_every_transformation(form):
    program = FORMS[form](attend)
    for platform, kernels in {"cpu": {}, "cuda": {"triton": KERNELS[form]}, "tpu": {"mosaic": KERNELS[form]}}.items():
        text = exported(program, platform).mlir_module()
        assert calls(text) == kernels and "stablehlo.case" not in text, platform


def test_a_gradient_under_a_named_card_does_not_run_the_forward_kernel_again():
    card = jax.sharding.AbstractDevice("NVIDIA H100 80GB HBM3", 132, "gpu")
    mesh = jax.sharding.AbstractMesh((1,), ("data",), (jax.sharding.AxisType.Auto,), abstract_device=card)
    program = jax.jit(FORMS["gradient"](attend))
    lowered = lambda: calls(program.trace(*SHAPES).lower(lowering_platforms=("cuda",)).as_text())
    before = lowered() if ANONYMOUS else None
    with jax.sharding.use_abstract_mesh(mesh):
        assert lowered() == {"triton": 3}
        assert explain_implementation(*given()[:3]).implementation == "pallas"
    assert not ANONYMOUS or before == lowered() == {"triton": 4}


def given() -> list[jax.Array]:
    random = np.random.default_rng(0)
    arrays = [jnp.asarray(random.standard_normal(x.shape), x.dtype) for x in SHAPES[:3]]
    return [*arrays, jnp.array([7, T], jnp.int32)]


@needs_anonymous
@pytest.mark.slow
def test_one_program_for_several_platforms_runs_here():
    program = exported(FORMS["gradient"](attend), "cpu", "cuda", "tpu")
    assert calls(program.mlir_module()) == {"triton": 4, "mosaic": 4}
    for got, want in zip(program.call(*given()), FORMS["gradient"](dense)(*given()), strict=True):
        np.testing.assert_allclose(got, want, atol=1e-6, rtol=1e-5)


def operations(program) -> Counter:
    found = Counter(re.findall(r" ([a-z-]+)\(", program.as_text().split("FileNames")[0]))
    return Counter({name: count for name, count in found.items() if name not in PLUMBING})


@pytest.mark.parametrize("form", fast_are(["forward", "gradient"], FORMS.keys()))
def test_the_home_platform_has_the_program_of_the_implementation(form):
    ours, plain = (jax.jit(FORMS[form](each)).lower(*SHAPES).compile() for each in (attend, dense))
    assert operations(ours) == operations(plain)
    assert ours.memory_analysis().temp_size_in_bytes <= plain.memory_analysis().temp_size_in_bytes
    for got, want in zip(*(jax.tree.leaves(x(*given())) for x in (ours, plain)), strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.slow
def test_forward_mode_and_second_derivatives_are_those_of_the_implementation_alone():
    query, key, value, lengths = given()

    @functools.partial(jax.jit, static_argnums=0)
    def derivatives(attend, query, key, value):
        one = lambda *x: loss(attend, *x, lengths)
        gradient = jax.grad(one, (0, 1, 2))
        hessian = jax.hessian(lambda s: one(query * s, key, value * s))(jnp.float32(2))
        twice = jax.grad(lambda *x: sum(jnp.sum(jnp.square(g)) for g in gradient(*x)), (0, 1, 2))(query, key, value)
        along = jax.jvp(one, (query, key, value), (key, value, query))
        product = jax.jvp(gradient, (query, key, value), (key, value, query))
        by_two = jax.jacfwd(lambda s: attend(query * s[0], key, value + s[1], lengths))(jnp.ones(2))
        return hessian, twice, along, product, by_two

    ours, plain = (jax.tree.leaves(derivatives(each, query, key, value)) for each in (attend, dense))
    for got, want in zip(ours, plain, strict=True):
        np.testing.assert_array_equal(got, want)


def test_another_platform_is_traced_only_where_a_program_is_lowered_for_it():
    seen = []

    def run(platform, x):
        seen.append(platform)
        return jnp.sin(x) if platform == "cpu" else jnp.cos(x)

    program = jax.jit(jax.grad(lambda x: jnp.sum(per_platform(run, x))))
    x = jnp.arange(3.0)
    np.testing.assert_allclose(program(x), np.cos(x), rtol=1e-6)
    assert set(seen) == {"cpu"}
    np.testing.assert_allclose(jax.grad(lambda x: jnp.sum(per_platform(run, x)))(x), np.cos(x), rtol=1e-6)
    assert "stablehlo.cosine" in program.trace(x).lower(lowering_platforms=("cpu",)).as_text()
    assert "stablehlo.sine" in program.trace(x).lower(lowering_platforms=("tpu",)).as_text() and "tpu" in seen


def test_an_implementation_that_was_asked_for_is_compiled_or_refused_where_the_program_is_lowered():
    def lowered(name, platform):
        program = jax.jit(functools.partial(attend, implementation=name)).trace(*SHAPES)
        return calls(program.lower(lowering_platforms=(platform,)).as_text())

    assert lowered("splash", "tpu") == {"mosaic": 1}
    assert not ANONYMOUS or lowered("pallas", "cuda") == {"triton": 1}
    for name, platform in {"pallas": "tpu", "splash": "cuda"}.items():
        with pytest.raises(ValueError, match=f"implementation='{name}': .*; the platform is {platform}"):
            lowered(name, platform)


def test_relative_attention_is_laid_out_by_platform():
    """In blocks on a CPU, to save time; dense on an accelerator, which has the memory for it."""
    x, table = jax.ShapeDtypeStruct((1, 1031, 2, 8), jnp.float32), jax.ShapeDtypeStruct((7, 8), jnp.float32)
    program = jax.jit(relative_attention).trace(x, x, x, table)
    assert "1031x1031" not in program.lower(lowering_platforms=("cpu",)).as_text()
    assert "1031x1031" in program.lower(lowering_platforms=("tpu",)).as_text()


def test_explanations_are_by_platform(unchecked):
    query, key, value, lengths = given()
    chosen = {
        platform: explain_implementation(query, key, value, platform=platform).implementation
        for platform in (None, "cpu", "cuda", "rocm", "tpu")
    }
    assert chosen == {None: "reference", "cpu": "reference", "cuda": "pallas", "rocm": "pallas", "tpu": "splash"}
    with pytest.raises(ValueError, match="platform: expected None or one of cpu, cuda, rocm, tpu, got 'gpu'"):
        explain_implementation(query, key, value, platform="gpu")


@needs_anonymous
def test_without_a_ragged_edge_the_kernels_lower_too():
    """Widths and lengths are whole tiles, so that nothing is masked and every load is plain."""
    x = jax.ShapeDtypeStruct((1, 64, 2, 32), jnp.bfloat16)

    def total(query, key, value):
        arrays, options = prepare(query, key, value, *[None] * 3, False, *[None] * 3)
        run = lambda platform, arrays: reference.attend(arrays, options)
        assert per_platform(run, arrays).shape == x.shape
        return jnp.sum(dot_product_attention(query, key, value).astype(jnp.float32))

    program = jax.jit(jax.grad(total, (0, 1, 2))).trace(x, x, x)
    assert calls(program.lower(lowering_platforms=("cuda",)).as_text()) == {"triton": 4}
