"""The trained rows of `dosovitskiy2020/table1`: a Vision Transformer and a small CNN by the number of training images.

The CNN is three 3 x 3 convolutions with batch norm (`layers.vision.cnn`) and the mean over its last map; beside it the
same with attention over the cells of that map (`pooling` "qkv"): the notes' "on CNN features". All take as many steps
whatever the number of images, with one optimizer and a learning rate of their own (`RATES`).
"""

from __future__ import annotations

from typing import Any

from attention_research.analysis.image_rollout import measure_rollout
from attention_research.studies import Row, evaluate, measure, train

CONFIG = "configs/images/vision_transformer.py"
SIZES = (250, 1000, 4000, 16_000)
#: Sizes that are also trained on with flips and shifts, and those of attention over a CNN's map.
AUGMENTED = (250, 4000)
MAPPED = (250, 16_000)
NAMES = {"vit": "ViT", "cnn": "CNN", "cnn_attention": "CNN, attention over its map"}
FLIPS = {"data.augmentation": "flip_and_shift"}
#: Of 0.001, 0.003, 0.01 and 0.03 the best on validation with 4,000 images, one seed (ViT 80.2, 82.6, 83.7, 74.6 %; CNN
#: 78.6, 82.3, 84.4, 84.8 %); the CNN's for both of its heads.
RATES = {"vit": 0.01, "cnn": 0.03, "cnn_attention": 0.03}


def cnn(width: int, num_layers: int = 3, **more: Any) -> dict[str, Any]:
    """The model's section."""
    features = {"kind": "cnn", "num_layers": num_layers, "halvings": 2}
    return {"model": {"kind": "image_classifier", "num_classes": 10, "width": width, "features": features, **more}}


#: Model -> scale -> what it changes in the scale's config.
MODELS: dict[str, dict[str, dict[str, Any]]] = {
    "vit": {"smoke": {}, "cpu": {}, "gpu": {}},
    "cnn": {"smoke": cnn(4), "cpu": cnn(16), "gpu": cnn(64, 6)},
    "cnn_attention": {"smoke": cnn(4, pooling={"kind": "qkv"}), "cpu": cnn(16, pooling={"kind": "qkv"}),
                      "gpu": cnn(64, 6, pooling={"kind": "qkv"})},
}  # fmt: skip
GPU = {"model.num_layers": 8, "model.width": 192, "model.num_heads": 6, "model.feed_forward.hidden_width": 768,
       "training.steps": 20_000, "training.batch_size": 256}  # fmt: skip


def trained_row(model: str, size: int, *, augmented: bool = False) -> Row:
    """A model on so many images; of the ViT with the most, also what its attention reads."""
    shown = model == "vit" and size == SIZES[-1]
    images = {"data.train_examples": size, "training.learning_rate": RATES[model], **(FLIPS if augmented else {})}
    at = {scale: {**changes, **images} for scale, changes in MODELS[model].items()}
    at["smoke"]["data.train_examples"] = 64
    smoked = size == SIZES[-1] and model != "cnn_attention"
    return Row(
        f"{model}_{size}{'_augmented' if augmented else ''}",
        f"{NAMES[model]}, {size:,} images{', flipped and shifted' if augmented else ''}",
        at=at,
        scales=("smoke", "cpu", "gpu") if smoked else ("cpu", "gpu"),
        stages=(train, evaluate, *([measure(measure_rollout)] if shown else [])),
    )


def rows() -> tuple[Row, ...]:
    """The ViT and the CNN at every size, and augmented at two; attention over the CNN's map at two."""
    plain = [trained_row(model, size) for model in ("vit", "cnn") for size in SIZES]
    mapped = [trained_row("cnn_attention", size) for size in MAPPED]
    augmented = [trained_row(model, size, augmented=True) for model in ("vit", "cnn") for size in AUGMENTED]
    return (*plain, *mapped, *augmented)
