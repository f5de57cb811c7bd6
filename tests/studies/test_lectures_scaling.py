"""`lectures/scaling`: measures on random vectors against formulas, verdicts by hand, every row's config."""

import numpy as np
import pytest
from results_of import clear_cases, measured, results_of

from attention_research.studies.trials import configuration
from attention_research.studies.verdicts import FAILED, HELD

STUDY = "lectures/scaling"


def test_every_row_resolves_at_every_scale(study):
    for scale in ("smoke", "cpu"):
        for row in study.rows_at(scale):
            if len(row.stages) > 1:
                assert configuration(study, scale, row).resolved["data"]["kind"] == "copying"


@pytest.mark.slow
def test_the_variance_of_random_logits_is_the_width(study):
    sizes = {"random_widths": (4, 64), "keys": 64, "rows": 512, "factors": (0.1, 30.0)}
    plain, scaled = (measured(study, f"random_{score}", **sizes) for score in ("dot", "scaled_dot"))
    np.testing.assert_allclose(plain["logit_variances"], [4, 64], rtol=0.1)
    np.testing.assert_allclose(scaled["logit_variances"], [1, 1], rtol=0.1)
    assert abs(plain["variance_power"] - 1) < 0.05 and abs(scaled["variance_power"]) < 0.05
    even = np.sqrt(1 / 64 - 1 / 64**2)  # the norm of the Jacobian for a row of 64 equal weights
    assert even < scaled["jacobian_by_factor"][0] < 1.05 * even


@pytest.mark.slow
def test_the_kernel_divides_by_the_heads_width(study):
    sizes = {"model_width": 32, "heads": (1, 4), "keys": 64, "rows": 512}
    head, model = (measured(study, f"heads_{divisor}", **sizes) for divisor in ("head", "model"))
    assert head["agreement"] < 1e-5 < 0.01 < model["agreement"]
    np.testing.assert_allclose(head["variances"], [1, 1], rtol=0.1)
    np.testing.assert_allclose(model["variances"], [1, 1 / 4], rtol=0.1)


def test_a_gradient_has_to_shrink_with_every_width(study):
    def judged(dot, scaled=(0.2, 0.2, 0.2)):
        rows = {
            "random_dot": {"measure.jacobians": [dot]},
            "random_scaled_dot": {"measure.jacobians": [scaled], "measure.jacobian_by_factor": [[0.1, 0.2]]},
        }
        return study.verdicts["softmax-gradient-shrinks"](results_of(rows, settings={"random_widths": (4, 16, 64)}))

    assert judged([0.2, 0.1, 0.05]).status == HELD
    found = judged([0.2, 0.3, 0.05])
    assert found.status == FAILED and clear_cases(found) == ["less than half of that with scaling at the largest width"]
    assert judged([0.2, 0.3, 0.15]).status == FAILED and judged([0.3, 0.05, 0.06]).status == FAILED
