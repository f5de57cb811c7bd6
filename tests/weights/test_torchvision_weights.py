"""Tensor files written by PyTorch, read without it; torchvision's MobileNetV2 on real photographs, and as a run."""

import io
import json
import os
import pickle
import struct
import subprocess
import sys
import zipfile
from collections import OrderedDict
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image

from attention_research.config import resolve
from attention_research.data.registry_package import Package, fetch
from attention_research.errors import ConfigError
from attention_research.training import initial
from attention_research.training.trainer import Trainer
from attention_research.weights import mobilenet_v2, torch_archive

torch = pytest.importorskip("torch", reason="PyTorch's CPU wheel is for Python 3.11 only")

#: Photographs of skimage.data, which need not be installed.
SKIMAGE = Package(
    "scikit-image", "0.26.0", "74aa5518ccea28121f57a95374581d3b979839adc25bb03f289b1bc9b99c58af", 13_711_217
)
#: Photograph -> the class of ImageNet that it shows.
SHOWN = {
    "chelsea.png": 285,  # Egyptian cat
    "coffee.png": 967,  # espresso
    "motorcycle_left.png": 665,  # moped
    "china.jpg": 698,  # palace
}


def legacy(tensors, path):
    torch.save(tensors, path, _use_new_zipfile_serialization=False)
    return path


def test_tensors_are_those_that_pytorch_reads(tmp_path):
    """Every supported dtype, views (one transposed, two of one storage), a parameter, a scalar and an empty tensor."""
    base = torch.arange(30.0).reshape(5, 6)
    tensors = OrderedDict(
        base=base, turned=base[1:4, ::2].T, row=base[2], scalar=torch.tensor(7), empty=torch.zeros(0, 3),
        parameter=torch.nn.Parameter(torch.randn(3)), repeated=torch.ones(1).expand(4),
        **{str(dtype): torch.randn(7).mul(9).to(dtype) for dtype in
           (torch.float64, torch.float16, torch.int64, torch.int32, torch.uint8)},
    )  # fmt: skip
    ours = torch_archive.read(legacy(tensors, tmp_path / "tensors.pth"))
    theirs = torch.load(tmp_path / "tensors.pth", weights_only=True)
    assert list(ours) == list(theirs)
    for name, tensor in theirs.items():
        assert ours[name].dtype == tensor.detach().numpy().dtype
        np.testing.assert_array_equal(ours[name], tensor.detach().numpy())


class Harmful:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("place", range(5))
def test_harmful_pickles_are_not_executed(tmp_path, place):
    """The harmful call is put into each of the file's five pickles."""
    harm, file = tmp_path / "harm", tmp_path / "harmful.pth"
    pickles = [torch_archive.MAGIC, torch_archive.VERSION, {"little_endian": True}, {}, []]
    pickles[place] = {"little_endian": True, "weight": Harmful(harm)}
    file.write_bytes(b"".join(pickle.dumps(one, protocol=2) for one in pickles))
    with pytest.raises(ConfigError, match=r"harmful\.pth: no file of tensors .*: names posix\.mkdir, which no file of"):
        torch_archive.read(file)
    assert not harm.exists()
    with open(file, "rb") as opened:
        for _ in range(place + 1):
            pickle.load(opened)
    assert harm.exists(), "the standard library's reader should run it"


@pytest.mark.parametrize("called", ["builtins eval", "torch.nn Linear", "collections namedtuple", "numpy dtype"])
def test_other_names_are_refused_in_one_line(tmp_path, called):
    module, name = called.split()
    saved = f"c{module}\n{name}\n.".encode()
    head = [torch_archive.MAGIC, torch_archive.VERSION, {"little_endian": True}]
    (tmp_path / "file").write_bytes(b"".join(pickle.dumps(one, protocol=2) for one in head) + saved)
    with pytest.raises(ConfigError, match=f"names {module}.{name}, which no file of tensors needs$"):
        torch_archive.read(tmp_path / "file")


def test_an_invalid_file_is_one_line(tmp_path):
    whole = legacy({"weight": torch.randn(50)}, tmp_path / "whole").read_bytes()
    torch.save({"weight": torch.randn(5)}, tmp_path / "zip")
    model = torch.nn.Linear(2, 2)
    legacy([torch.zeros(2)], tmp_path / "list")
    legacy({"module": model.state_dict()}, tmp_path / "nested")
    (tmp_path / "cut").write_bytes(whole[:-3])
    (tmp_path / "text").write_text("weights")
    number = struct.pack("<q", 50)
    (tmp_path / "longer").write_bytes(whole.replace(number, struct.pack("<q", 60)))
    said = {
        "cut": "storage \\S+ is cut short", "zip": "", "text": "", "list": "", "missing": "No such file or directory",
        "nested": "a OrderedDict stands where a tensor was expected", "longer": "storage \\S+ is cut short",
    }  # fmt: skip
    for name, line in said.items():
        with pytest.raises(ConfigError, match=rf"^{tmp_path / name}: .*{line}$"):
            torch_archive.read(tmp_path / name)


@pytest.mark.parametrize(("offset", "shape", "strides"), [(0, (8,), (1,)), (2, (6,), (1,)), (0, (2, 2), (7, 1)),
                                                          (-1, (2,), (1,)), (6, (3,), (-1,))])  # fmt: skip
def test_a_view_beyond_its_storage_is_refused(offset, shape, strides):
    tensor = torch_archive.Tensor(torch_archive.Storage("0", "FloatStorage", 7), offset, shape, strides)
    with pytest.raises(ValueError, match="leaves its storage of 7 elements"):
        torch_archive._viewed(tensor, {"0": np.arange(7, dtype=np.float32)})


def test_a_missing_tensor_is_named():
    with pytest.raises(ConfigError, match=r"^mobilenet_v2: no tensor classifier\.1\.bias$"):
        mobilenet_v2.converted({})


def cropped(picture):
    """The middle 224 x 224 pixels after scaling the shorter side to 256, as in torchvision's evaluation."""
    picture, scale = picture.convert("RGB"), 256 / min(picture.size)
    width, height = (round(side * scale) for side in picture.size)
    left, top = (width - 224) // 2, (height - 224) // 2
    middle = (left, top, left + 224, top + 224)
    return np.asarray(picture.resize((width, height), Image.Resampling.BILINEAR).crop(middle))


def photographs():
    import sklearn.datasets

    of_sklearn = Path(sklearn.datasets.__file__).parent / "images"
    with zipfile.ZipFile(fetch(SKIMAGE)) as wheel:
        for name in SHOWN:
            inside = of_sklearn / name
            data = inside.read_bytes() if inside.exists() else wheel.read(f"skimage/data/{name}")
            yield cropped(Image.open(io.BytesIO(data)))


@pytest.mark.slow
@pytest.mark.data
@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the wheel of scikit-image is pinned for Python 3.11")
def test_real_photographs_are_classified_correctly():
    loaded = mobilenet_v2.load()
    assert sum(x.size for x in loaded.parameters.values()) == 3_504_872, "as torchvision counts"
    classify = lambda parameters, image: loaded.structure.merge(parameters, loaded.statistics).log_probabilities(
        {"image": image}
    )[0]
    probabilities = np.exp(jax.jit(classify)(loaded.parameters, jnp.asarray(np.stack(list(photographs())))))
    assert probabilities.argmax(axis=1).tolist() == list(SHOWN.values())
    np.testing.assert_allclose(probabilities.max(axis=1), [0.714, 0.992, 0.687, 0.697], atol=0.01)


@pytest.mark.long
@pytest.mark.data
def test_an_imported_run_provides_features_to_others(tmp_path):
    """The new run is a classifier of other classes on smaller images, with a shorter frozen network."""
    words = ("import", "mobilenet_v2", f"--workdir={tmp_path / 'imagenet'}")
    command = [sys.executable, "-m", "attention_research", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    (imported,) = json.loads((tmp_path / "imagenet/environment.json").read_text())["imported"]
    assert imported["sha256"] == mobilenet_v2.PACKAGE.sha256
    config = resolve({
        "kind": "images", "side": 32, "data": {"name": "mnist", "train_examples": 16},
        "model": {"kind": "image_classifier", "num_classes": 10, "width": 96, "features": {"kind": "mobilenet_v2"}},
        "training": {"steps": 1, "batch_size": 4, "learning_rate": 0.1, "initial_parts": ["features"],
                     "initial": str(tmp_path / "imagenet")},
    })  # fmt: skip
    state, _ = initial.start(Trainer(config), lambda line: None)
    loaded = mobilenet_v2.load()
    theirs = {**loaded.parameters, **loaded.statistics}
    assert set(state["parameters"]) == {"output.kernel", "output.bias"} and len(state["statistics"]) == 195
    assert all((np.asarray(x) == np.asarray(theirs[name])).all() for name, x in state["statistics"].items())
