"""The model of Power et al. 2022: its parameters by arithmetic, and its start beside layers of PyTorch."""

import jax
import numpy as np
import pytest
from scipy import stats

from attention_research.config import load
from attention_research.training.trainer import Trainer

CONFIG, D = "arithmetic/equations:division", 128


@pytest.fixture(scope="module")
def trainer():
    return Trainer(load(CONFIG))


def test_it_has_four_hundred_thousand_weights_besides_the_embeddings(trainer):
    layers = 2 * (4 * D**2 + 8 * D**2 + 4 * D)
    assert trainer.parameter_count == layers + 2 * 103 * D and abs(layers - 4e5) < 1e4


@pytest.mark.slow
def test_the_start_is_pytorchs(trainer, torch):
    """Kolmogorov-Smirnov tests against `nn.Linear` and `nn.Embedding` of the same sizes."""
    torch.manual_seed(0)
    start = jax.device_get(trainer.execution.start()["parameters"])
    for name, ours in start.items():
        rows = ours.reshape(-1, *ours.shape[-2:])
        if name.endswith("kernel"):
            theirs = torch.nn.Linear(*ours.shape[-2:], bias=False).weight.detach().numpy()
            assert abs(ours).max() <= ours.shape[-2] ** -0.5
        elif name.endswith("table"):
            theirs = torch.nn.Embedding(*ours.shape).weight.detach().numpy()
        else:
            np.testing.assert_array_equal(ours, float(name.endswith("scale")))
            continue
        assert stats.ks_2samp(rows[0].ravel(), theirs.ravel()).pvalue > 1e-3, name
