"""Schedules against the papers' formulas in float64."""

import math

import jax
import numpy as np
import pytest

from attention_research import registry
from attention_research.config import ConfigError, resolve
from attention_research.registry import FAMILIES
from attention_research.training.schedules import Constant, Cosine, InverseSqrt, Linear, Noam, Step
from attention_research.training.trainer import Trainer


def rates(kind, learning_rate, *, width=512, steps=1000, upto=50, **settings):
    schedule = kind(**settings)(learning_rate, width=width, steps=steps)
    return np.array([float(schedule(count)) for count in range(upto)])


def test_noam_is_equation_3():
    steps = np.arange(1, 51, dtype=np.float64)
    want = 2.0 * 512**-0.5 * np.minimum(steps**-0.5, steps * 20**-1.5)
    np.testing.assert_allclose(rates(Noam, 2.0, warmup_steps=20), want, rtol=1e-6)
    assert np.argmax(want) + 1 == 20


def test_noam_peak_of_the_paper():
    """4,000 steps at width 512: the peak is (512 x 4000)^-0.5 = 0.000699."""
    assert float(Noam()(1.0, width=512, steps=100_000)(3999)) == pytest.approx((512 * 4000) ** -0.5, rel=1e-6)


def test_inverse_sqrt_is_flat_then_falls():
    got = rates(InverseSqrt, 0.01, warmup_steps=10)
    steps = np.arange(1, 51, dtype=np.float64)
    np.testing.assert_allclose(got, 0.01 * np.sqrt(10 / np.maximum(steps, 10)), rtol=1e-6)
    ramp = rates(InverseSqrt, 0.01, warmup_steps=10, ramp_steps=20)
    np.testing.assert_allclose(ramp, got * np.minimum(1, steps / 20), rtol=1e-6)


def test_constant_warms_up_linearly():
    np.testing.assert_allclose(
        rates(Constant, 0.3, warmup_steps=4, upto=7), 0.3 * np.minimum(np.arange(7) / 4, 1), rtol=1e-6
    )
    np.testing.assert_allclose(rates(Constant, 0.3, upto=7), np.full(7, 0.3), rtol=1e-6)


@pytest.mark.parametrize("warmup", [0, 10])
def test_cosine_ends_at_its_final_share(warmup):
    got = rates(Cosine, 0.5, warmup_steps=warmup, final=0.1, steps=50, upto=51)
    fall = lambda t: 0.05 + 0.45 * 0.5 * (1 + math.cos(math.pi * (t - warmup) / (50 - warmup)))
    np.testing.assert_allclose(got, [0.5 * t / warmup if t < warmup else fall(t) for t in range(51)], atol=1e-6)


def test_cosine_may_begin_above_zero():
    """nanoGPT's rates of the first w updates: (t + 1) / (w + 1) of the peak."""
    got = rates(Cosine, 0.5, warmup_steps=4, initial=1 / 5, steps=50, upto=5)
    np.testing.assert_allclose(got, [0.1, 0.2, 0.3, 0.4, 0.5], rtol=1e-6)


@pytest.mark.parametrize("warmup", [0, 10])
def test_linear_falls_to_its_final_share(warmup):
    got = rates(Linear, 0.5, warmup_steps=warmup, final=0.1, steps=50, upto=53)
    line = lambda t: 0.5 + (0.05 - 0.5) * min((t - warmup) / (50 - warmup), 1.0)
    np.testing.assert_allclose(got, [0.5 * t / warmup if t < warmup else line(t) for t in range(53)], atol=1e-6)


def test_linear_of_a_run_shorter_than_its_warm_up():
    np.testing.assert_allclose(rates(Linear, 0.4, warmup_steps=8, steps=4, upto=4), 0.4 * np.arange(4) / 8, rtol=1e-6)


def test_step_multiplies_after_each_boundary():
    """The first 3 updates use the full rate. Luong et al. 2015 halve it, He et al. 2016 divide it by 10."""
    halved = rates(Step, 0.8, boundaries=(3, 5, 6), factor=0.5, upto=9)
    np.testing.assert_allclose(halved, [0.8] * 3 + [0.4] * 2 + [0.2] + [0.1] * 3, rtol=1e-6)
    np.testing.assert_allclose(rates(Step, 0.1, boundaries=(2,), upto=4), [0.1, 0.1, 0.01, 0.01], rtol=1e-6)


MULTI_STEP = (Step, {"boundaries": (3, 5, 6), "factor": 0.5}, "MultiStepLR", ([3, 5, 6], 0.5))
LINEAR = (Linear, {"final": 0.25, "steps": 8}, "LinearLR", (1.0, 0.25, 8))


@pytest.mark.filterwarnings("ignore:Detected call of")
@pytest.mark.parametrize("kind, settings, peer, arguments", [MULTI_STEP, LINEAR], ids=["step", "linear"])
def test_step_and_linear_are_pytorchs(kind, settings, peer, arguments, torch):
    peer = getattr(torch.optim.lr_scheduler, peer)
    scheduled, theirs = peer(torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.8), *arguments), []
    for _ in range(10):
        theirs += scheduled.get_last_lr()
        scheduled.step()
    np.testing.assert_allclose(rates(kind, 0.8, upto=10, **settings), theirs, rtol=1e-6)


def test_every_schedule_of_the_registry_is_tested():
    named = {path.split(":")[1] for path in FAMILIES["schedule"].values()}
    assert {kind.__name__ for kind in (Noam, Constant, Cosine, InverseSqrt, Linear, Step)} == named


NO_WIDTH = """
import jax
import jax.numpy as jnp
from flax import nnx


class Frequencies(nnx.Module):
    def __init__(self, *, num_classes: int, rngs: nnx.Rngs):
        self.bias = nnx.Param(jnp.zeros((num_classes,), jnp.float32))

    def log_probabilities(self, batch, *, key=None):
        return jnp.broadcast_to(jax.nn.log_softmax(self.bias[...]), (len(batch["label"]), *self.bias.shape)), {}
"""


def test_a_model_without_a_width_trains_but_not_by_noam(tmp_path, monkeypatch):
    (tmp_path / "without_width.py").write_text(NO_WIDTH)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setitem(registry.FAMILIES["model"], "frequencies", "without_width:Frequencies")
    given = {
        "kind": "images",
        "side": 28,
        "channels": 1,
        "data": {"name": "fashion_images"},
        "model": {"kind": "frequencies", "num_classes": 10},
        "training": {"steps": 2, "batch_size": 3, "learning_rate": 0.1},
    }
    with pytest.raises(ConfigError, match="^config.training.schedule.kind=noam: .*model.width.*constant"):
        Trainer(resolve(given, [("training.schedule.kind", "noam")]))
    step, start = Trainer(resolve(given, [("training.schedule.kind", "constant")]), alone=True).step_and_start
    batch = {"image": jax.ShapeDtypeStruct((3, 28, 28, 1), "uint8"), "label": jax.ShapeDtypeStruct((3,), "int32")}
    after, metrics = jax.eval_shape(step, jax.eval_shape(start, 0), batch)
    assert after["parameters"].keys() == {"bias"} and metrics["loss"].shape == ()
