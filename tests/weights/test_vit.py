"""Oracle: Hugging Face's ViT in PyTorch with random weights, saved by it and loaded here; another image size too."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import ndimage

from attention_research.errors import ConfigError
from attention_research.weights import load
from attention_research.weights.vit import interpolated

torch = pytest.importorskip("torch", reason="PyTorch's CPU wheel is for Python 3.11 only")
transformers = pytest.importorskip("transformers", reason="Hugging Face Transformers is not installed")

D, N, F, LAYERS, SIDE, PATCH, CLASSES, B = 20, 5, 29, 3, 21, 7, 11, 2


@pytest.fixture(scope="module")
def theirs(tmp_path_factory):
    """(folder, their model). No parameter keeps its initial value of 0 or 1."""
    torch.manual_seed(1)
    config = transformers.ViTConfig(
        hidden_size=D, num_hidden_layers=LAYERS, num_attention_heads=N, intermediate_size=F, image_size=SIDE,
        patch_size=PATCH, num_labels=CLASSES, layer_norm_eps=1e-3, attn_implementation="eager",
    )  # fmt: skip
    model = transformers.ViTForImageClassification(config).eval()
    with torch.no_grad():
        for x in model.parameters():
            x.add_(0.3 * torch.randn_like(x)) if x.ndim == 1 else x.normal_(std=1.5 * x.shape[-1] ** -0.5)
    folder = tmp_path_factory.mktemp("vit")
    model.save_pretrained(folder)
    return folder, model


def images(side=SIDE):
    return np.random.default_rng(2).integers(0, 256, (B, side, side, 3), dtype=np.uint8)


def ours(loaded, image):
    run = jax.jit(lambda p: loaded.structure.merge(p).log_probabilities({"image": jnp.asarray(image)}))
    log_p, aux = run(loaded.parameters)
    return np.asarray(log_p), np.asarray(aux["encoder"]["segment_0"]["self_attention"]["attention_weights"])


def of_theirs(model, image, **more):
    """(log p, attention [L B N T T]) for pixels scaled as by its image processor."""
    pixels = (torch.tensor(image).permute(0, 3, 1, 2).float() / 255 - 0.5) / 0.5
    with torch.no_grad():
        found = model(pixel_values=pixels, output_attentions=True, **more)
    return torch.log_softmax(found.logits, -1).numpy(), torch.stack(found.attentions).numpy()


def test_logits_and_every_layers_attention_are_theirs(theirs):
    folder, model = theirs
    log_p, weights = ours(load(folder), images())
    want, maps = of_theirs(model, images())
    assert np.ptp(want) > 1 and maps.max() > 0.3
    np.testing.assert_allclose(weights, maps, rtol=0, atol=1e-5)
    np.testing.assert_allclose(log_p, want, rtol=0, atol=2e-5)


def test_the_run_has_their_sizes_and_no_tokens(theirs):
    folder, _ = theirs
    loaded = load(folder)
    found = loaded.config.resolved
    assert (found["side"], found["channels"], found["model"]["max_length"]) == (SIDE, 3, 10)
    assert found["model"]["encoder"]["feed_forward"]["activation"] == "gelu_exact" and len(loaded.numbering) == 0
    assert sum(x.size for x in loaded.parameters.values()) == sum(x.numel() for x in theirs[1].parameters())


def test_another_size_interpolates_positions_and_other_classes_reset_the_head(theirs):
    """Section 3.2, against SciPy's zoom, which the released code uses."""
    folder, _ = theirs
    wider = [("side", 35), ("model.max_length", 26), ("model.num_classes", 4)]
    loaded, before = load(folder, wider), load(folder).parameters
    for name, x in loaded.parameters.items():
        if name not in ("encoder.positions.table", "head.kernel", "head.bias"):
            np.testing.assert_array_equal(x, before[name])
    table, old = (np.asarray(one["encoder.positions.table"]) for one in (loaded.parameters, before))
    np.testing.assert_array_equal(table[0], old[0])
    zoomed = ndimage.zoom(old[1:].reshape(3, 3, D), (5 / 3, 5 / 3, 1), order=1)
    np.testing.assert_allclose(table[1:].reshape(5, 5, D), zoomed, atol=1e-6)
    np.testing.assert_allclose(ours(loaded, images(35))[0], -np.log(4), rtol=1e-6)


def test_two_classes_are_the_default_that_a_folder_leaves_out(tmp_path):
    config = transformers.ViTConfig(
        hidden_size=D, num_hidden_layers=1, num_attention_heads=N, intermediate_size=F, image_size=SIDE,
        patch_size=PATCH, num_labels=2, attn_implementation="eager",
    )  # fmt: skip
    model = transformers.ViTForImageClassification(config).eval()
    model.save_pretrained(tmp_path)
    assert "id2label" not in json.loads((tmp_path / "config.json").read_text())
    np.testing.assert_allclose(ours(load(tmp_path), images())[0], of_theirs(model, images())[0], rtol=0, atol=1e-4)


def test_interpolation_is_exact_for_linear_functions():
    grid = lambda side: np.stack(np.meshgrid(*2 * [np.linspace(-1, 1, side)]), axis=-1).reshape(side * side, 2)
    table = np.concatenate([[[7.0, 7.0]], grid(4)])
    np.testing.assert_allclose(interpolated(table, 122), np.concatenate([[[7.0, 7.0]], grid(11)]), atol=1e-6)
    np.testing.assert_allclose(interpolated(table, 17), table, atol=1e-6)


def test_settings_that_change_the_equations_are_refused(theirs, tmp_path):
    folder, _ = theirs
    for file in folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "preprocessor_config.json").write_text(json.dumps({"image_mean": [0.485, 0.456, 0.406]}))
    with pytest.raises(ConfigError, match=r"image_mean is \[0.485, 0.456, 0.406\]; ours has 0.5 for each channel"):
        load(tmp_path)
    (tmp_path / "preprocessor_config.json").write_text(json.dumps({"image_mean": None, "image_std": [0.5] * 3}))
    assert load(tmp_path).parameters.keys() == load(folder).parameters.keys()
    for key, value in {"do_normalize": False, "do_rescale": False, "rescale_factor": 1.0}.items():
        (tmp_path / "preprocessor_config.json").write_text(json.dumps({key: value}))
        with pytest.raises(ConfigError, match=f"{key} is {value}; ours has "):
            load(tmp_path)
    config = json.loads((folder / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "qkv_bias": False}))
    with pytest.raises(ConfigError, match="qkv_bias is False; ours has True"):
        load(tmp_path)
