"""Dosovitskiy et al. 2021 (ViT), section 4.3: a Vision Transformer and a small CNN by the number of training images.

    attention-research reproduce dosovitskiy2020/data_size --scale=cpu

The paper asks it of 9 to 300 million images of JFT; here from scratch on Fashion-MNIST, at a scale of its own. The CNN
is three 3 x 3 convolutions with batch norm (`layers.vision.cnn`) and the mean over its last map; beside it the same
with attention over the cells of that map (`pooling` "qkv"): the notes' "on CNN features". All take as many steps
whatever the number of images, with one optimizer and a learning rate of their own (`RATES`).
"""

from __future__ import annotations

from typing import Any

from attention_research.studies import Row, Scale, Study, evaluate, measure, train
from attention_research.studies.columns import FLOPS, PARAMETERS, STEPS_PER_SECOND, Column, fixed
from attention_research.studies.competence import Competence

from .data_size_figures import draw_rollout, draw_sizes
from .data_size_verdict import ACCURACY, AUGMENTED, MAJORITY, MAPPED, NAMES, SIZES, applies
from .image_rollout import measure_rollout

CONFIG = "configs/images/vision_transformer.py"
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


STUDY = Study(
    rows=rows(),
    scales={
        "smoke": Scale(f"{CONFIG}:smoke", seeds=1, jobs=2, settings={"examples": 32, "pictures": 4}),
        "cpu": Scale(f"{CONFIG}:cpu", seeds=3, jobs=2, replicas=True, settings={"examples": 512, "pictures": 8}),
        "gpu": Scale(f"{CONFIG}:cpu", GPU, seeds=3, settings={"examples": 2048, "pictures": 8}),
    },
    columns=(
        PARAMETERS,
        FLOPS,
        STEPS_PER_SECOND,
        Column(ACCURACY, "accuracy", fixed(1), better="higher"),
        Column(MAJORITY, "always one class", fixed(1), spread=False),
    ),
    claims="../claims.csv",
    # Fashion-MNIST: a linear classifier has 84 %, the nearest neighbours 85, small convolutional networks 90 and more.
    competence=(Competence("cnn_16000", "evaluate.accuracy", line=88, higher=True),),
    verdicts={"attention-beyond-rnn": applies},
    figures=(draw_sizes, draw_rollout),
    notes=(
        "Accuracy: Fashion-MNIST, 2,000 of its test images, from scratch; the same steps for any number of images. The "
        "seeds of a row were trained as replicas.",
    ),
)
