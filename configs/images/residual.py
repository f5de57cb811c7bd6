"""Image classification with residual networks, plain or with attention in their blocks (He et al. 2015; Hu; Woo).

    attention-research train    --config=configs/images/residual.py:fashion --workdir=runs/fashion
    attention-research train    --config=configs/images/residual.py:fashion --workdir=runs/gated \\
                                --config.model.features.gate.kind=squeeze_excitation
    attention-research evaluate --workdir=runs/fashion                     # accuracy and macro-F1

variant   parameters  GFLOP/step  steps
fashion       67,906        0.65   5000
placed        19,218        1.40   2400
cifar10      269,722       28.28  64000
smoke          1,320        0.00      4

`inspect` prints these counts. GFLOP are those of one training step. `--config.model.features.depth=56` selects the deep
network, and `--config.model.features.shortcut.kind=none` the one without shortcuts. `fashion` takes two minutes and
`placed` four on two cores; the tables of `experiments/he2015/degradation.py` and `experiments/woo2018/cbam.py` give the
accuracy. `cifar10` is the network of the paper, which reports an error of 8.75 %, an accuracy of 91.25 %. It needs
`cifar10` prepared by TFDS on this machine; its time is for an accelerator.
"""

from ml_collections import ConfigDict

VARIANTS = {
    "fashion": "20 layers on pictures of clothes, 14 x 14 pixels: two minutes on two cores",
    "placed": "8 layers on pictures of 36 x 36 pixels with one digit somewhere among clutter: minutes on two cores",
    "cifar10": "He et al. 2015, section 4.2: 20 layers on CIFAR-10; for an accelerator",
    "smoke": "seconds: shows that everything runs, learns nothing",
}


def get_config(variant: str) -> ConfigDict:
    """The config of a variant."""
    return {"fashion": fashion, "placed": placed, "cifar10": cifar10, "smoke": smoke}[variant]()


def residual(*, side: int, channels: int, width: int, depth: int) -> ConfigDict:
    """A network and optimizer as in the paper: momentum 0.9, weight decay 1e-4, learning rate 0.1."""
    config = ConfigDict({"kind": "images", "side": side, "channels": channels})
    config.model = {
        "kind": "image_classifier",
        "num_classes": 10,
        "width": width,
        "features": {"kind": "resnet", "depth": depth},
    }
    config.training = {
        "learning_rate": 0.1,
        "optimizer": {"kind": "sgd", "momentum": 0.9, "weight_decay": 0.0001},
        "keep": 1,
        "keep_best": 0,
    }
    config.evaluation = {"kind": "classification", "batch_size": 128}
    return config


def fashion() -> ConfigDict:
    """Fashion-MNIST at half its side, at half the paper's width. The blocks are unrolled, because on a CPU convolutions
    in a loop run on only one core."""
    config = residual(side=14, channels=1, width=8, depth=20)
    config.data = {"kind": "images", "name": "fashion_images"}
    config.model.features.unroll = True
    config.training.update(steps=5000, batch_size=64, checkpoint_every=5000, eval_every=500, log_every=20)
    config.training.schedule = {"kind": "step", "boundaries": (2500, 3750)}
    config.evaluation.examples = 2000
    return config


def placed() -> ConfigDict:
    """One coloured digit in one of nine cells, and fragments of digits in most of the others."""
    config = fashion()
    config.side, config.channels = 36, 3
    config.data = {"kind": "placed_digits", "grid": 3}
    config.model.features.depth = 8
    config.training.update(steps=2400, checkpoint_every=2400, eval_every=400, log_every=5)
    config.training.schedule.boundaries = (1200, 1800)
    return config


def cifar10() -> ConfigDict:
    """As in the paper: padded by 4 pixels, cropped, flipped; the rate is divided by 10 at 1/2 and 3/4 of the steps."""
    config = residual(side=32, channels=3, width=16, depth=20)
    config.data = {"kind": "images", "name": "cifar10", "augmentation": "flip_and_shift"}
    config.training.update(steps=64_000, batch_size=128, checkpoint_every=2000, eval_every=2000, log_every=100)
    config.training.schedule = {"kind": "step", "boundaries": (32_000, 48_000)}
    return config


def smoke() -> ConfigDict:
    """Eight layers of two channels, four steps."""
    config = fashion()
    config.side = 7
    config.model.update(width=2)
    config.model.features.update(depth=8)
    config.training.update(steps=4, batch_size=8, checkpoint_every=4, eval_every=4, log_every=2, eval_batches=1)
    config.training.schedule = {"kind": "constant"}
    config.evaluation.examples = 32
    return config
