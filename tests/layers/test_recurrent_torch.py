"""Oracle: PyTorch's packed LSTM, GRU and RNN; for Bahdanau's unit a loop of its equations. Properties of padding."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from attention_research.layers.recurrent.scan import run
from attention_research.layers.structure import split
from attention_research.registry import FAMILIES, lookup
from tests.tiers import fast_are

B, T, I, D = 3, 11, 5, 7
LENGTHS = np.array([7, 11, 2])
REAL = np.arange(T) < LENGTHS[:, None]
KINDS = list(FAMILIES["recurrent_cell"])
THEIRS = {"lstm": "LSTM", "gru": "GRU", "vanilla": "RNN"}


def array(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def cell(kind, input_width=I, seed=0):
    """A cell with nonzero biases, so that a missing one is noticed."""
    made = lookup("recurrent_cell", kind)(width=D, input_width=input_width, rngs=nnx.Rngs(seed))
    structure, parameters, _ = split(made)
    values = {name: 0.5 * array(seed + k, *p.shape) for k, (name, p) in enumerate(parameters.items())}
    return structure.merge(jax.tree.map(jnp.asarray, values))


def weighted(outputs, states):
    """A loss in which every output and final state has a different weight."""
    return sum(
        (a * jnp.asarray(array(100 + k, *a.shape))).sum() for k, a in enumerate(jax.tree.leaves((outputs, states)))
    )


def ours(cells, x, real):
    """(outputs [B T 2D], final states) of layers of (forward, backward) cells."""
    states = []
    for pair in cells:
        done = [run(c, x, c.initial(len(x), x.dtype), real, reverse=bool(back)) for back, c in enumerate(pair)]
        x = jnp.concatenate([outputs for outputs, _ in done], axis=-1)
        states.append([state for _, state in done])
    return x, states


def converted(kind, module, suffix, of):
    """Our parameters from theirs (or from their gradients), in our layout."""
    W, U, b, c = (of(getattr(module, f"{name}_{suffix}")) for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
    out = {"input_kernel": W.T, "state_kernel": U.T}
    if kind != "gru":
        return {**out, "bias": b + c}
    return {**out, "input_bias": b + np.concatenate([c[: 2 * D], np.zeros(D, b.dtype)]), "state_bias": c[2 * D :]}


@pytest.mark.parametrize("kind", fast_are(["lstm"], list(THEIRS)))
def test_two_bidirectional_layers_are_pytorchs_packed_ones(kind, torch):
    torch.manual_seed(0)
    theirs = getattr(torch.nn, THEIRS[kind])(I, D, num_layers=2, bidirectional=True, batch_first=True).double()
    for parameter in theirs.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    x = torch.tensor(array(1, B, T, I), dtype=torch.float64, requires_grad=True)
    packed = torch.nn.utils.rnn.pack_padded_sequence(x, torch.tensor(LENGTHS), batch_first=True, enforce_sorted=False)
    packed, final = theirs(packed)
    outputs, _ = torch.nn.utils.rnn.pad_packed_sequence(packed, batch_first=True, total_length=T)
    final = final if kind == "lstm" else (final,)

    names = [[f"l{layer}{back}" for back in ("", "_reverse")] for layer in range(2)]
    value = lambda p: p.detach().numpy().astype(np.float32)
    built = [[cell(kind, I if layer == 0 else 2 * D) for _ in range(2)] for layer in range(2)]
    structures = [[split(c)[0] for c in pair] for pair in built]
    parameters = [[converted(kind, theirs, suffix, value) for suffix in pair] for pair in names]

    def loss(parameters, x):
        cells = [[s.merge(p) for s, p in zip(*pair, strict=True)] for pair in zip(structures, parameters, strict=True)]
        outputs, states = ours(cells, x, jnp.asarray(REAL))
        states = {  # PyTorch's layout: layer 0 forward, layer 0 backward, layer 1 forward, ...
            name: jnp.stack([state[name] for pair in states for state in pair]) for name in states[0][0]
        }
        states = [states["hidden"], *([states["cell"]] if kind == "lstm" else [])]
        return weighted(outputs, states), (outputs, states)

    gradient = jax.jit(jax.value_and_grad(loss, (0, 1), has_aux=True))
    (_, (got, states)), (ours_parameters, ours_x) = gradient(parameters, x.detach().numpy().astype(np.float32))
    close = lambda a, b: np.testing.assert_allclose(a, b.detach().numpy(), atol=1e-5, rtol=1e-5)
    close(got, outputs)
    for a, b in zip(states, final, strict=True):
        close(a, b)
    sum(
        (a * torch.tensor(array(100 + k, *a.shape))).sum() for k, a in enumerate((outputs, *final))
    ).backward()  # fmt: skip
    close(ours_x, x.grad)
    for pair, ours_pair in zip(names, ours_parameters, strict=True):
        for suffix, found in zip(pair, ours_pair, strict=True):
            zero = lambda p: p.grad.numpy()
            for name, wanted in gradients(kind, theirs, suffix, zero).items():
                np.testing.assert_allclose(found[name], wanted, atol=1e-5, rtol=1e-5, err_msg=f"{suffix} {name}")


def gradients(kind, module, suffix, of):
    """Their gradients under our names. If PyTorch adds two biases, each has the gradient of the sum."""
    W, U, b, c = (of(getattr(module, f"{name}_{suffix}")) for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
    out = {"input_kernel": W.T, "state_kernel": U.T}
    return {**out, **({"input_bias": b, "state_bias": c[2 * D :]} if kind == "gru" else {"bias": b})}


@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
def test_bahdanaus_unit_is_a_loop_of_its_equations(reverse):
    made, x = cell("gru_reset_before"), array(1, B, T, I)
    outputs, final = jax.jit(lambda x, real: run(made, x, made.initial(B, x.dtype), real, reverse=reverse))(x, REAL)
    W, U, b = (np.asarray(p[...], np.float64) for p in (made.input_kernel, made.state_kernel, made.bias))
    W, U, b = (np.split(a, 3, axis=-1) for a in (W, U, b))
    sigma = lambda a: 1 / (1 + np.exp(-a))
    for e, length in enumerate(LENGTHS):
        s, wanted = np.zeros(D), np.zeros((T, D))
        for t in range(length)[:: -1 if reverse else 1]:
            r = sigma(x[e, t] @ W[0] + s @ U[0] + b[0])
            z = sigma(x[e, t] @ W[1] + s @ U[1] + b[1])
            s = (1 - z) * s + z * np.tanh(x[e, t] @ W[2] + (r * s) @ U[2] + b[2])
            wanted[t] = s
        np.testing.assert_allclose(outputs[e], wanted, atol=1e-5)
        np.testing.assert_allclose(final["hidden"][e], s, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_padding_never_leaks(kind):
    """Bitwise equal for any padding values, with a gradient of exactly 0, also for padding in the middle."""
    forward, backward = cell(kind), cell(kind, seed=40)
    x, real = array(1, B, T, I), REAL.copy()
    real[1, 4] = False

    @jax.jit
    def both(x):
        def loss(x):
            state, mask = forward.initial(B, x.dtype), jnp.asarray(real)
            done = [run(c, x, state, mask, reverse=c is backward) for c in (forward, backward)]
            return weighted(*zip(*done, strict=True)), done

        return jax.value_and_grad(loss, has_aux=True)(x)

    (_, found), gradient = both(x)
    for filling in (1e9 * array(2, B, T, I), np.full_like(x, np.nan)):
        (_, other), other_gradient = both(np.where(real[:, :, None], x, filling))
        for a, b in zip(*map(jax.tree.leaves, ((found, gradient), (other, other_gradient))), strict=True):
            np.testing.assert_array_equal(a, b)
    assert not np.any(np.asarray(gradient)[~real]) and np.all(np.any(np.asarray(gradient)[real], axis=-1))
    for outputs, _ in found:
        assert not np.any(np.asarray(outputs)[~real]) and np.all(np.any(np.asarray(outputs)[real], axis=-1))


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_is_its_cell_step_by_step(kind):
    """From any initial state, and also if the sequence is cut in two."""
    made, x = cell(kind), jnp.asarray(array(1, B, T, I))
    state = {name: jnp.asarray(array(7 + k, B, D)) for k, name in enumerate(made.initial(B, x.dtype))}
    outputs, final = jax.jit(lambda x, state: run(made, x, state))(x, state)
    step, after = jax.jit(lambda x, state: made(x, state)), state
    for t in range(T):
        after = step(x[:, t], after)
        np.testing.assert_allclose(outputs[:, t], after["hidden"], atol=1e-6)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6), final, after)
