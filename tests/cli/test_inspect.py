"""`inspect`: exact counts of the module that would be trained, against closed forms; goldens of every variant."""

import json
import re
from pathlib import Path

import pytest

from attention_research.cli import main
from attention_research.config import load, variants
from attention_research.errors import ConfigError
from tests.tiers import fast_are

GOLDENS = Path(__file__).with_name("goldens.jsonl")  # one line for each variant
CONFIGS = sorted(Path(__file__).parents[2].joinpath("configs").rglob("*.py"))
CONFIG = "configs/translation/transformer.py"


def parameters(vocabulary, layers, width, hidden):
    """Vaswani et al. 2017 with biases on every projection and three-way tied embeddings, counted by hand."""
    attention = 4 * (width * width + width)
    feed_forward = 2 * width * hidden + hidden + width
    norm = 2 * width
    encoder, decoder = attention + feed_forward + 2 * norm, 2 * attention + feed_forward + 3 * norm
    return vocabulary * width + layers * (encoder + decoder)


@pytest.fixture(scope="module")
def inspected():
    from attention_research.training.inspection import inspect

    cache = {}
    return lambda spec, *overrides: cache.setdefault((spec, overrides), inspect(load(spec, overrides)))


SIZES = {
    "vaswani_base-sizes0": ("vaswani_base", (37000, 6, 512, 2048)),
    "vaswani_big-sizes1": ("vaswani_big", (37000, 6, 1024, 4096)),
    "vaswani_cpu-sizes2": ("vaswani_cpu", (4000, 2, 128, 512)),
}


@pytest.mark.parametrize(("variant", "sizes"), fast_are(["vaswani_cpu-sizes2"], SIZES, several=True))
def test_parameters_are_the_closed_form(inspected, variant, sizes):
    assert inspected(f"{CONFIG}:{variant}")["parameters"] == parameters(*sizes)


@pytest.mark.slow
def test_flops_of_a_small_variant_are_the_closed_form(inspected):
    """Matrix products of one step at [64, 64]: forward, and twice that backward, since few logits are kept.

    The gradient with respect to the inputs of the first layers is not needed if they are sums of embeddings.
    """
    B, T, D, F, V, L = 64, 64, 128, 512, 4000, 2
    tokens = B * T
    projections = L * (4 * D * D + 2 * D * F) + L * (8 * D * D + 2 * D * F)
    attention = 3 * L * 2 * T * D  # scores and contexts of three attentions per layer pair and token
    forward = 2 * tokens * (projections + attention)
    output = 2 * tokens * D * V
    assert inspected(f"{CONFIG}:cpu")["flops"] == pytest.approx(3 * forward + 3 * output, rel=0.01)


@pytest.mark.slow
def test_scanned_and_unrolled_stacks_count_the_same(inspected):
    unrolled = inspected(f"{CONFIG}:cpu")
    scanned = inspected(f"{CONFIG}:cpu", ("model.encoder.unroll", "false"), ("model.decoder.unroll", "false"))
    assert scanned["parameters"] == unrolled["parameters"] and scanned["flops"] == unrolled["flops"]


def test_json_is_one_document(capsys, monkeypatch, root):
    monkeypatch.chdir(root)
    assert main(["inspect", f"--config={CONFIG}:smoke", "--config.model.width=64", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["parameters"] == parameters(2000, 1, 64, 64) and document["config"]["model"]["width"] == 64


def test_replicas_are_counted_as_the_program_that_trains_them(inspected, capsys):
    """Matrix products, state and batches are those of the program; the parameters those of one model."""
    varied = ("training.varied", "training.learning_rate=0.1,0.2,0.3")
    one, all_ = inspected(f"{CONFIG}:smoke"), inspected(f"{CONFIG}:smoke", ("training.replicas", "3"), varied)
    assert (one["replicas"], all_["replicas"]) == (1, 3)
    assert all_["parameters"] == one["parameters"] and all_["batch"] == one["batch"]
    assert (all_["flops"], all_["state_bytes"]) == (3 * one["flops"], 3 * one["state_bytes"])
    assert 2 * one["peak_bytes"] < all_["peak_bytes"] < 4 * one["peak_bytes"]
    assert [array["shape"] for array in all_["arrays"]] == [[3, *array["shape"]] for array in one["arrays"]]
    assert main(["inspect", f"--config={CONFIG}:smoke", "--config.training.replicas=3"]) == 0
    assert f"{one['parameters']:,} parameters in each of 3 replicas · " in capsys.readouterr().out


def test_a_list_for_another_number_of_replicas_is_refused(inspected):
    with pytest.raises(ConfigError, match=r"training\.learning_rate has 2 value\(s\), training\.replicas is 3$"):
        inspected(f"{CONFIG}:smoke", ("training.replicas", "3"), ("training.varied", "training.learning_rate=0.1,0.2"))


DOES_NOT_DIVIDE = {
    "batch": (
        ("parallel.mesh.data", "3"),
        "config.training.batch_size: expected a multiple of 3, because parallel.mesh.data is 3; got 16; did you mean "
        "15 or 18?",
    ),
    "length": (
        ("parallel.mesh.sequence", "5"),
        "config.parallel.mesh.sequence: expected a divisor of the length of batches, 64; got 5; did you mean 4 or 8?",
    ),
}


@pytest.mark.parametrize(("override", "line"), DOES_NOT_DIVIDE.values(), ids=DOES_NOT_DIVIDE)
def test_a_mesh_that_does_not_divide_a_batch_is_one_line(override, line, inspected, monkeypatch):
    monkeypatch.setattr("attention_research.training.inspection.pretend", lambda devices: None)
    with pytest.raises(ConfigError, match=f"^{re.escape(line)}$"):
        inspected(f"{CONFIG}:smoke", override)


def test_a_mesh_axis_that_divides_no_parameter_is_one_line(inspected, monkeypatch):
    """Three devices would each compute the whole step. Of the axes, only `tensor` divides nothing but parameters."""
    monkeypatch.setattr("attention_research.training.inspection.pretend", lambda devices: None)
    line = r"config\.parallel\.mesh\.tensor: 3 divides no parameter of the model, so that 3 devices would do the same"
    with pytest.raises(ConfigError, match=f"^{line}"):
        inspected(f"{CONFIG}:smoke", ("parallel.mesh.tensor", "3"))


FAST = ("classification-text", "language_modelling-transformer")
#: The other files have many variants, or variants that take long to trace, and are long.
SLOW = ("images-vision_transformer", "text_to_text-t5_2020", "translation-recurrent", "translation-transformer")
FILES = {f"{file.parent.name}-{file.stem}": file for file in CONFIGS}


@pytest.mark.parametrize("file", fast_are(FAST, FILES, slow=SLOW))
def test_goldens_of_every_variant(file, inspected, request):
    """Hash, parameters, FLOPs and parameter tree of the resolved config. `--rewrite-goldens -n 0` rewrites them."""
    now = {}
    for variant in variants(file):
        counted = inspected(f"{file}:{variant}")
        now[f"{file.parent.name}/{file.stem}:{variant}"] = {
            "hash": load(f"{file}:{variant}").hash,
            "parameters": counted["parameters"],
            "flops": counted["flops"],
            "arrays": {array["name"]: array["shape"] for array in counted["arrays"]},
        }
    others = {name: one for name, one in goldens().items() if not name.startswith(f"{file.parent.name}/{file.stem}:")}
    if request.config.getoption("--rewrite-goldens"):
        found = sorted({**others, **now}.items(), key=lambda item: item[0].partition(":")[0])
        lines = [json.dumps({"config": name, **one}, separators=(",", ":")) for name, one in found]
        GOLDENS.write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert goldens() == {**others, **now}


def goldens():
    lines = map(json.loads, GOLDENS.read_text(encoding="utf-8").splitlines())
    return {line.pop("config"): line for line in lines}


def test_there_are_no_unused_goldens():
    names = {f"{file.parent.name}/{file.stem}:{variant}" for file in CONFIGS for variant in variants(file)}
    assert goldens().keys() == names
