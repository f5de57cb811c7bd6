"""The losses of ten updates on eight fake devices, on any mesh, equal those on one device."""

import numpy as np
import pytest

from tests.parallel.programs import on_devices
from tests.tiers import slow_are

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
    "released": {"expert": {"data": 2, "expert": 4}},
    "one_group": {"fsdp-tensor-expert": {"fsdp": 2, "tensor": 2, "expert": 2}},
    "clusters": {
        "tensor": {"data": 4, "tensor": 2},
        "fsdp-tensor-sequence": {"fsdp": 2, "tensor": 2, "sequence": 2},
    },
    "rnnsearch": PRODUCTS,
}
EXPERTS = ("experts", "mixture", "released", "one_group")
#: Models without a run under pmap: pmap's keys (one for each device) change more than their dropout, or the model needs
#: a mesh.
ON_MESHES_ALONE = ("released", "one_group", "clusters", "ring")
#: The others are long tests.
SLOW = ("transformer", "ring")


@pytest.mark.parametrize("model", slow_are(SLOW, [*MESHES]))
def test_ten_losses_on_eight_devices_are_one_devices(model):
    """To 1e-5, with unequal numbers of real tokens on the devices: jit with dropout on every mesh, pmap without it.

    The program with dropout contains the one without. Therefore jit runs without dropout only for the transformer: on
    one mesh, and with the batch accumulated in two parts. Models with experts also compare the auxiliary loss and the
    share of dropped tokens.
    """
    rates = (0.3,) if model in ON_MESHES_ALONE else (0.0, 0.3)
    runs = {f"{name} 0.3": {"strategy": "jit", "dropout": 0.3, **mesh} for name, mesh in MESHES[model].items()}
    alone = {f"one {rate}": {"strategy": "one", "dropout": rate} for rate in rates}
    copies = {} if model in ON_MESHES_ALONE else {"pmap 0.0": {"strategy": "pmap"}}
    if model == "transformer":
        copies |= {"pmap in two parts 0.0": {"strategy": "pmap", "parts": 2}}
        copies |= {"sequence 0.0": {"strategy": "jit", **MESHES[model]["sequence"]}}
        for name in ("data", "data-fsdp-tensor"):
            copies[f"{name} in two parts 0.0"] = {"strategy": "jit", "parts": 2, **PRODUCTS[name]}
    found = on_devices(8, "losses", model, {**alone, **copies, **runs})
    for rate in rates:
        losses = found[f"one {rate}"]["loss"]
        assert losses[-1] < losses[0] - 0.02
    for name, figures in found.items():
        want = found[f"one {name.rpartition(' ')[2]}"]
        assert figures.keys() == want.keys() and ("dropped" in want) == (model in EXPERTS)
        for figure in want:
            np.testing.assert_allclose(figures[figure], want[figure], rtol=1e-5, err_msg=f"{name}: {figure}")
        if model in EXPERTS:
            assert min(want["dropped"]) > 0 and min(want["auxiliary_loss"]) > 0


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ("jit", "pmap"))
@pytest.mark.parametrize("devices", (1, 2))
def test_only_programs_of_one_cpu_device_are_kept_in_the_cache(devices, strategy, tmp_path, monkeypatch):
    """Programs for several devices, once read from the cache, waited for each other forever."""
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
    on_devices(devices, "losses", "rnnsearch", {"run": {"strategy": strategy, "data": -1}})
    kept = [path.name for path in tmp_path.iterdir()]
    assert any(name.startswith("jit_start") for name in kept) == (devices == 1), kept
