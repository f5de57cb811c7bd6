"""The Vision Transformer, Dosovitskiy et al. 2021 (arXiv 2010.11929): the published sizes, and one for two cores.

    attention-research inspect  --config=configs/images/vision_transformer.py:b16 --json
    attention-research train    --config=configs/images/vision_transformer.py:cpu --workdir=runs/vit
    attention-research evaluate --workdir=runs/vit                         # accuracy and macro-F1

variant   parameters  GFLOP/step  side  patch  layers  width
b16       86,567,656     430,702   224     16      12    768
b32       88,224,232     107,413   224     32      12    768
l16      304,326,632   1,511,506   224     16      24   1024
l32      306,535,400     376,656   224     32      24   1024
h14      632,045,800   4,109,866   224     14      32   1280
cpu           60,730         1.3    28      4       3     48
smoke          4,682         0.0    28      7       2     16

`inspect` prints the parameters, with the head of 1,000 classes, and the GFLOP of one training step (of 4,096 images at
the published sizes). Table 1 of the paper has 86, 307 and 632 million parameters: 632 is the count of H/14, 307 that of
L/32 (306.5) and not of L/16, and 86 that of B/16 without the head (85.8). The published sizes are trained on ImageNet
alone, as in appendix B.1 (Table 3), and need an accelerator; the accuracies in the paper are those of models
pre-trained on 14 or 303 million images. `cpu` reads Fashion-MNIST. `experiments/dosovitskiy2020/data_size.py` measures
its accuracy against the number of training images, compared with a convolutional network. It takes four minutes on one
core; `smoke` takes seconds and learns nothing.
"""

from ml_collections import ConfigDict

VARIANTS = {
    "b16": "ViT-B/16 on ImageNet; for an accelerator",
    "b32": "ViT-B/32, patches of 32 pixels",
    "l16": "ViT-L/16",
    "l32": "ViT-L/32",
    "h14": "ViT-H/14",
    "cpu": "Fashion-MNIST, 49 patches, three layers of width 48: four minutes on one core",
    "smoke": "seconds: shows that everything runs, learns nothing",
}
PRE_NORM = (("norm", "self_attention", "dropout", "residual"), ("norm", "feed_forward", "dropout", "residual"))


def get_config(variant: str) -> ConfigDict:
    """The config of a variant."""
    return {"b16": b16, "b32": b32, "l16": l16, "l32": l32, "h14": h14, "cpu": cpu, "smoke": smoke}[variant]()


def vit(*, side: int, channels: int, patch: int, layers: int, width: int, heads: int, hidden: int) -> ConfigDict:
    """Pre-norm blocks with exact GELU, learned positions, a class token."""
    config = ConfigDict({"kind": "images", "side": side, "channels": channels})
    config.task = {"kind": "classification"}
    config.model = {
        "kind": "vision_transformer",
        "patch_side": patch,
        "max_length": (side // patch) ** 2 + 1,
        "num_layers": layers,
        "width": width,
        "num_heads": heads,
        "feed_forward": {"kind": "dense", "hidden_width": hidden, "activation": "gelu_exact"},
        "encoder": {"steps": PRE_NORM, "final_norm": True},
    }
    config.evaluation = {"kind": "classification", "batch_size": 128}
    return config


def published(*, patch: int, layers: int, width: int, heads: int, hidden: int) -> ConfigDict:
    """ImageNet at 224 pixels: Adam, batches of 4,096, weight decay 0.3, a warm-up of 10,000 steps (Table 3)."""
    config = vit(side=224, channels=3, patch=patch, layers=layers, width=width, heads=heads, hidden=hidden)
    config.data = {"kind": "images", "name": "imagenet2012"}
    config.model.update(num_classes=1000, dropout_rate=0.1)
    config.training = {
        "steps": 93_835,
        "batch_size": 4096,
        "learning_rate": 0.003,
        "optimizer": {"kind": "adamw", "b2": 0.999, "epsilon": 1e-8, "weight_decay": 0.3},
        "schedule": {"kind": "cosine", "warmup_steps": 10_000},
        "clip_norm": 1.0,
        "checkpoint_every": 5000,
        "eval_every": 5000,
        "log_every": 100,
        "keep": 1,
    }
    return config


def b16() -> ConfigDict:
    """Base, of Table 1."""
    return published(patch=16, layers=12, width=768, heads=12, hidden=3072)


def b32() -> ConfigDict:
    """Base with a quarter of the patches."""
    return published(patch=32, layers=12, width=768, heads=12, hidden=3072)


def l16() -> ConfigDict:
    """Large, of Table 1."""
    return published(patch=16, layers=24, width=1024, heads=16, hidden=4096)


def l32() -> ConfigDict:
    """Large with a quarter of the patches."""
    return published(patch=32, layers=24, width=1024, heads=16, hidden=4096)


def h14() -> ConfigDict:
    """Huge, of Table 1."""
    return published(patch=14, layers=32, width=1280, heads=16, hidden=5120)


def cpu() -> ConfigDict:
    """Clothes of 28 x 28 pixels in patches of 4 x 4."""
    config = vit(side=28, channels=1, patch=4, layers=3, width=48, heads=3, hidden=96)
    config.data = {"kind": "images", "name": "fashion_images"}
    config.model.update(num_classes=10, dropout_rate=0.1)
    config.model.encoder.unroll = True
    config.training = {
        "steps": 4000,
        "batch_size": 64,
        "learning_rate": 0.01,
        "optimizer": {"kind": "adamw", "b2": 0.999, "epsilon": 1e-8, "weight_decay": 0.05},
        "schedule": {"kind": "cosine", "warmup_steps": 100},
        "clip_norm": 1.0,
        "checkpoint_every": 4000,
        "eval_every": 4000,
        "log_every": 50,
        "eval_batches": 4,
        "keep": 1,
        "keep_best": 0,
    }
    config.evaluation.examples = 2000
    return config


def smoke() -> ConfigDict:
    """16 patches, four steps."""
    config = cpu()
    config.model.update(patch_side=7, max_length=17, num_layers=2, width=16, num_heads=2)
    config.model.feed_forward.hidden_width = 16
    config.training.update(steps=4, batch_size=8, checkpoint_every=4, eval_every=4, log_every=2, eval_batches=1,
                           schedule={"kind": "constant"})  # fmt: skip
    config.evaluation.update(batch_size=16, examples=32)
    return config
