"""NaN and infinite losses, gradients and parameters, and real out-of-memory errors."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attention_research.errors import Diverged, RunError
from attention_research.training.health import Health, enough_memory, finite

NAMES = ("table", "encoder.kernel", "decoder.kernel")  # the module's order, which is not alphabetical
GOOD = {name: jnp.ones((2, 3)) for name in NAMES}


def metrics(loss, **bad):
    gradients = {**GOOD, **{name.replace("_", "."): jnp.asarray([1.0, value]) for name, value in bad.items()}}
    return {"loss": jnp.asarray(loss), "finite_gradients": finite(gradients), "tokens": jnp.asarray(3.0)}


def test_each_array_is_flagged_by_its_own_elements():
    arrays = {"b": jnp.asarray([1.0, jnp.nan]), "a": jnp.asarray([3e38, -3e38]), "c": jnp.asarray([[-jnp.inf]])}
    assert finite(arrays).tolist() == [True, False, False]


def test_the_first_bad_step_and_the_modules_first_bad_parameter_are_named():
    health = Health(NAMES, ["seed 7"])
    assert set(health.watch(1, metrics(2.0))) == {"loss", "tokens"}
    health.check()
    health.watch(2, metrics(2.5))
    health.watch(3, metrics(1.5, decoder_kernel=jnp.nan, encoder_kernel=-jnp.inf))
    health.watch(4, metrics(jnp.nan, table=jnp.nan))
    with pytest.raises(Diverged) as caught:
        health.check()
    line = str(caught.value)
    assert line.startswith(
        "step 3, seed 7: the loss is 1.5, the gradient of encoder.kernel and of 1 more of 3 parameters"
    )
    assert "\n" not in line


@pytest.mark.parametrize("value", [jnp.nan, jnp.inf, -jnp.inf])
def test_a_loss_that_is_not_finite_is_named(value):
    health = Health(NAMES, ["seed 0"])
    health.watch(5, metrics(value))
    with pytest.raises(Diverged, match=f"step 5, seed 0: the loss is {float(value)}; lower training.learning_rate"):
        health.check()


def test_the_seed_of_a_replica_is_named():
    health = Health(NAMES, ["seed 4", "seed 5"])
    both = jax.tree.map(lambda *x: jnp.stack(x), metrics(1.0), metrics(2.0, table=jnp.nan))
    health.watch(1, both)
    with pytest.raises(Diverged, match="step 1, seed 5: the loss is 2.0, the gradient of table is not finite"):
        health.check()


def test_a_state_with_nan_is_not_saved():
    health, state = Health(NAMES, ["seed 0"]), {"parameters": GOOD, "statistics": {"mean": jnp.zeros(2)}}
    health.check_state(1, state)
    with pytest.raises(Diverged, match="step 2: encoder.kernel is not finite after the update"):
        health.check_state(2, {**state, "parameters": {**GOOD, "encoder.kernel": jnp.asarray([jnp.inf])}})
    with pytest.raises(Diverged, match="step 3: mean is not finite after the update"):
        health.check_state(3, {**state, "statistics": {"mean": jnp.asarray([jnp.nan])}})


PETABYTES = 2**49


@pytest.mark.parametrize(
    "take",
    [lambda: jax.jit(lambda x: jnp.sort(jnp.broadcast_to(x, (PETABYTES,))))(1.0), lambda: np.ones(PETABYTES)],
    ids=["device", "host"],
)
def test_out_of_memory_errors_name_the_batch_size_and_remedies(take):
    with pytest.raises(RunError) as caught, enough_memory(4096):
        take()
    line = str(caught.value)
    assert line.startswith("out of memory at training.batch_size=4096: ") and "\n" not in line
    assert "training.accumulation_steps" in line and "remat=True" in line


def test_other_device_errors_are_not_changed():
    with pytest.raises(jax.errors.JaxRuntimeError, match="Disallowed"), enough_memory(4096):
        with jax.transfer_guard("disallow"):
            jax.jit(lambda x: x)(np.ones(3))
