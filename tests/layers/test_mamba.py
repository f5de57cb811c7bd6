"""Mamba against float64 NumPy and Hugging Face Transformers: packed rows, prompts, steps and the initial values."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from attention_research.layers.attention.state.mamba import Mamba
from attention_research.layers.structure import abstract
from tests.kernels.state_members import sigmoid, softplus
from tests.layers.packed_and_stepped import PROMPT, outputs

B, T, D, H, RANK = 2, 21, 6, 5, 3  # T is more than a chunk
SETTINGS = {"width": D, "state_width": H, "convolution_width": 3, "step_rank": RANK}
#: Packed examples; 0 is padding.
SEGMENTS = np.array([[1] * 4 + [2] * 17, [1, 1, 0, 2, 2] + [3] * 14 + [0, 0]])


def oracle(w, u, segments):
    """Algorithm 2 on one row, one position after the other."""
    silu, C = lambda x: x * sigmoid(x), 2 * D
    x, state, y = np.zeros((len(u), C)), np.zeros((C, H)), np.zeros((len(u), C))
    for t in range(len(u)):
        for tap in range(3):
            at = t + tap - 2
            if at >= 0 and segments[at] == segments[t] != 0:
                x[t] += w["convolution.filter_kernel"][:, tap] * (u[at] @ w["value.kernel"])
    x = silu(x + w["convolution.bias"])
    for t in range(len(u)):
        if t and segments[t] != segments[t - 1]:
            state = np.zeros((C, H))
        dt = softplus(x[t] @ w["step_down.kernel"] @ w["step_kernel"] + w["step_bias"])
        write = np.outer(dt * x[t], x[t] @ w["key.kernel"])
        state = np.exp(-dt[:, None] * np.exp(w["rate_log"])) * state + write
        y[t] = state @ (x[t] @ w["query.kernel"]) + w["skip"] * x[t]
    return y * silu(u @ w["gate.kernel"]) @ w["output.kernel"]


def layer():
    structure, shapes, _ = abstract(lambda rngs: Mamba(**SETTINGS, rngs=rngs))
    random = np.random.default_rng(1)
    return structure, {name: random.standard_normal(x.shape) * x.shape[0] ** -0.5 for name, x in sorted(shapes.items())}


@pytest.fixture(scope="module")
def found():
    """The quantities that the tests check, by one program."""
    structure, w = layer()
    x = np.random.default_rng(2).standard_normal((B, T, D))
    return w, x, outputs(structure, w, x, SEGMENTS, T)


def test_packed_rows_are_the_equation(found):
    w, x, got = found
    for row in range(B):
        real = SEGMENTS[row] != 0
        np.testing.assert_allclose(got["packed"][row][real], oracle(w, x[row], SEGMENTS[row])[real], atol=1e-5)
        np.testing.assert_allclose(got["wide"][row], oracle(w, x[row], np.ones(T)), atol=1e-5)


def test_a_prompt_with_padding_and_steps_are_the_whole(found):
    got = found[2]
    np.testing.assert_allclose(got["prompt"][PROMPT], got["whole"][:, :5][PROMPT], atol=1e-5)
    np.testing.assert_allclose(got["rest"], got["whole"][:, 5:], atol=1e-5)


def test_bfloat16_keeps_the_dtype_and_the_state_in_float32(found):
    got = found[2]
    assert got["narrow"].dtype == jnp.bfloat16
    np.testing.assert_allclose(np.float32(got["narrow"]), got["wide"], atol=0.1 * np.abs(got["wide"]).max())
    structure, w = layer()
    cache = jax.eval_shape(lambda p: structure.merge(p).start(B, T, jnp.bfloat16), w)
    assert cache["state"].dtype == jnp.float32 and cache["state"].shape == (B, 2 * D, H)
    assert cache["inputs"].dtype == jnp.bfloat16 and cache["inputs"].shape == (B, 2, 2 * D)


@pytest.mark.slow
def test_the_layer_is_that_of_transformers(torch):
    from transformers.models.mamba.configuration_mamba import MambaConfig
    from transformers.models.mamba.modeling_mamba import MambaMixer

    _, w = layer()
    settings = {"conv_kernel": 3, "time_step_rank": RANK, "use_mambapy": False}
    theirs = MambaMixer(MambaConfig(hidden_size=D, state_size=H, **settings), layer_idx=0).double()
    stacked = lambda *names: np.concatenate([w[f"{name}.kernel"].T for name in names])
    weights = {
        "in_proj.weight": stacked("value", "gate"), "x_proj.weight": stacked("step_down", "key", "query"),
        "conv1d.weight": w["convolution.filter_kernel"][:, None], "conv1d.bias": w["convolution.bias"],
        "dt_proj.weight": w["step_kernel"].T, "dt_proj.bias": w["step_bias"], "A_log": w["rate_log"], "D": w["skip"],
        "out_proj.weight": w["output.kernel"].T,
    }  # fmt: skip
    theirs.load_state_dict({name: torch.tensor(value) for name, value in weights.items()})
    x = np.random.default_rng(2).standard_normal((T, D))
    with torch.no_grad():
        want = theirs(torch.tensor(x)[None])[0].numpy()
    np.testing.assert_allclose(oracle(w, x, np.ones(T)), want, atol=1e-6)  # parts of theirs are in float32


def test_initial_values():
    made = Mamba(width=40, rngs=nnx.Rngs(0))
    assert made.step_down.kernel.shape == (80, 3) and made.key.kernel.shape == (80, 16)
    np.testing.assert_allclose(-np.exp(made.rate_log[...]), -np.broadcast_to(np.arange(1, 17), (80, 16)), rtol=1e-6)
    sizes = jax.nn.softplus(made.step_bias[...])
    assert 0.001 <= sizes.min() < 0.003 and 0.03 < sizes.max() <= 0.1
    assert np.all(np.asarray(made.skip) == 1) and 0.5 < np.abs(made.step_kernel[...]).max() <= 3**-0.5


def test_a_call_without_causality_is_refused():
    structure, w = layer()
    with pytest.raises(ValueError, match="Mamba is causal"):
        jax.eval_shape(lambda p: structure.merge(p)(jnp.zeros((B, T, D))), w)
