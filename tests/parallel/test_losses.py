"""Ten updates' losses on eight fake devices, on any mesh, are one device's."""

import numpy as np
import pytest

from tests.parallel.programs import on_devices

PRODUCTS = {
    "data": {"data": 8},
    "fsdp": {"fsdp": 8},
    "tensor": {"data": 4, "tensor": 2},
    "data-fsdp-tensor": {"data": 2, "fsdp": 2, "tensor": 2},
}
MESHES = {
    "transformer": {**PRODUCTS, "sequence": {"sequence": 8}},
    "ring": {
        "sequence": {"sequence": 8},
        "data-sequence": {"data": 2, "sequence": 4},
        "fsdp-tensor-sequence": {"fsdp": 2, "tensor": 2, "sequence": 2},
    },
    "experts": {
        "data": {"data": 8},
        "expert": {"data": 2, "expert": 4},
        "fsdp-tensor-expert": {"fsdp": 2, "tensor": 2, "expert": 2},
    },
    "mixture": {"expert": {"data": 2, "expert": 4}, "fsdp-tensor-expert": {"fsdp": 2, "tensor": 2, "expert": 2}},
    "rnnsearch": PRODUCTS,
}


@pytest.mark.slow
@pytest.mark.parametrize("model", MESHES)
def test_ten_losses_on_eight_devices_are_one_devices(model):
    """To 1e-5, with unequal numbers of real tokens a device: jit with dropout off and on, pmap with it off; the batch
    whole and, with dropout off, accumulated in two parts."""
    rates = (0.0, 0.3)
    runs = {f"{name} {rate}": {"strategy": "jit", "dropout": rate, **mesh}
            for name, mesh in MESHES[model].items() for rate in rates}  # fmt: skip
    alone = {f"one {rate}": {"strategy": "one", "dropout": rate} for rate in rates}
    copies = {} if model == "ring" else {"pmap 0.0": {"strategy": "pmap"}}
    if model == "transformer":
        copies |= {"pmap in two parts 0.0": {"strategy": "pmap", "parts": 2}}
        for name in ("data", "data-fsdp-tensor"):
            copies[f"{name} in two parts 0.0"] = {"strategy": "jit", "parts": 2, **PRODUCTS[name]}
    found = on_devices(8, "losses", model, {**alone, **copies, **runs})
    for rate in rates:
        assert found[f"one {rate}"][-1] < found[f"one {rate}"][0] - 0.02
    for name, losses in found.items():
        rate = name.rpartition(" ")[2]
        np.testing.assert_allclose(losses, found[f"one {rate}"], rtol=1e-5, err_msg=name)
