"""TFDS builder `shape_questions`: easy-VQA (Zhou 2019), simple questions about one drawn shape, with their answers.

5,000 generated images, 64 x 64 in colour, each show a circle, a rectangle or a triangle in one of eight colours. Each
image has 2 to 21 generated questions; in total there are 48,248 questions with 13 answers ("what color is the shape?",
"is there a triangle in the image?"). The data come from the registry package easy-vqa (MIT). The test split, 1,000
images, is that of the package; validation is the images of its training split whose number is 9 modulo 10.
"""

import json
import zipfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import tensorflow_datasets as tfds

from attention_research.data.registry_package import Package, fetch

PACKAGE = Package("easy-vqa", "1.0", "fcb51b309b78c7b00f97b64cdbcbcf5c105f94da1b39c0796cee5a787c4f650f", size=3_215_672)
FOLDER = "easy_vqa/data/"
TENTH = 10


def read(archive: Path, part: str) -> Iterator[tuple[int, bytes, list[dict[str, str]]]]:
    """(number, PNG file, [{"question", "answer"}]) of every image of "train" or "test"; with the questions in order."""
    with zipfile.ZipFile(archive) as zipped:
        questions = defaultdict(list)
        for question, answer, image in json.loads(zipped.read(f"{FOLDER}{part}/questions.json")):
            questions[image].append({"question": question, "answer": answer})
        for image in sorted(questions):
            yield image, zipped.read(f"{FOLDER}{part}/images/{image}.png"), questions[image]


class ShapeQuestions(tfds.core.GeneratorBasedBuilder):
    """Features `image` and `questions`, a sequence of `question` and `answer`; its key is the image's number."""

    VERSION = tfds.core.Version("1.0.0")

    def _info(self) -> tfds.core.DatasetInfo:
        asked = {name: tfds.features.Text() for name in ("question", "answer")}
        image = tfds.features.Image(shape=(64, 64, 3), encoding_format="png")
        features = tfds.features.FeaturesDict({"image": image, "questions": tfds.features.Sequence(asked)})
        return tfds.core.DatasetInfo(builder=self, description=__doc__, features=features)

    def _split_generators(self, dl_manager):
        archive = fetch(PACKAGE)
        train = list(read(archive, "train"))
        splits = {
            "train": [one for one in train if one[0] % TENTH != TENTH - 1],
            "validation": [one for one in train if one[0] % TENTH == TENTH - 1],
            "test": read(archive, "test"),
        }
        return {split: self._generate_examples(examples) for split, examples in splits.items()}

    def _generate_examples(self, examples) -> Iterator:
        for number, image, questions in examples:
            yield number, {"image": image, "questions": questions}
