"""A small set in the form of TFDS's coco_captions, written by TFDS: pictures of one colour each, with texts."""

import io
import random

from PIL import Image

from attention_research.data import sources

SIZES = {"train": 53, "val": 11, "test": 13}
WORDS = "red dog runs over the green hill While Two Cats sleep near a door".split()


def colour(split: str, number: int) -> tuple[int, int, int]:
    """A colour that no other picture has."""
    return 40 + 70 * list(SIZES).index(split), 4 * number, 255 - 3 * number


def png(split: str, number: int) -> io.BytesIO:
    """The picture, with its own side length."""
    file = io.BytesIO()
    Image.new("RGB", (20 + number % 9,) * 2, colour(split, number)).save(file, format="PNG")
    file.seek(0)
    return file


def texts() -> dict[str, list[dict]]:
    """split -> for each picture its captions (none to five), and its questions with their answers."""
    chance, made = random.Random(8), {}
    for split, size in SIZES.items():
        captions = [[sentence(chance) for _ in range(chance.randint(1, 5))] for _ in range(size)]
        captions[5] = []
        made[split] = [
            {"captions": [{"text": text} for text in one], "questions": [
                {"question": f"Is it number {number}?", "answer": ("no", "yes")[number % 2]},
                {"question": "What, then?", "answer": f"{split} {number % 3}"},
            ][: 1 + number % 2]}
            for number, one in enumerate(captions)
        ]  # fmt: skip
    return made


def sentence(chance: random.Random) -> str:
    """Two to twelve words and a full stop."""
    return " ".join(chance.choices(WORDS, k=chance.randint(2, 12))) + "."


def write(folder) -> dict[str, list[dict]]:
    """Writes the set into a TFDS folder and returns its texts."""
    import tensorflow_datasets as tfds

    made = texts()

    class CocoCaptions(tfds.core.GeneratorBasedBuilder, skip_registration=True):
        VERSION = tfds.core.Version("1.1.0")
        BUILDER_CONFIGS = [tfds.core.BuilderConfig(name="2014")]

        def _info(self):
            text = tfds.features.Text()
            of = {"captions": {"text": text}, "questions": {"question": text, "answer": text}}
            features = {"image": tfds.features.Image(shape=(None, None, 3), encoding_format="png")}
            features |= {name: tfds.features.Sequence(one) for name, one in of.items()}
            return tfds.core.DatasetInfo(builder=self, features=tfds.features.FeaturesDict(features))

        def _split_generators(self, dl_manager):
            return {split: self._generate_examples(split) for split in made}

        def _generate_examples(self, split):
            for number, one in enumerate(made[split]):
                yield number, {"image": png(split, number), **one}

    sources._tfds()  # this turns off progress bars and the search for descriptions
    CocoCaptions(data_dir=str(folder), file_format="array_record").download_and_prepare()
    return made
