"""The names of data sets and the paths of local ones. Uses only the standard library, so that checks are fast.

Our own sets are listed in full. A set of TFDS has the form `builder/config`; only TFDS knows the configs of a builder
(`sources` asks it). Another package adds sets by entry points (`added`):

    [project.entry-points."attention_research.datasets"]
    "poems/en" = "my_package.poems"

The module defines a TFDS builder of that name. It may define `PACKAGE`, the archive to download before the set is
built, and `LABELS`, set name -> classes in the order of their numbers, as the modules of our own sets do.
"""

import difflib
import importlib.metadata
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from attention_research.errors import ConfigError

_LANGUAGES = (("fr", "French"), ("de", "German"), ("es", "Spanish"))
_ORDERS = (
    ("monotone", "in the source's order"),
    ("local", "with adjectives and adverbs moved"),
    ("reversed", "from its end"),
)
#: The sets that this package builds -> a description.
OWN = (
    {
        f"bible_translate/{language}-en": f"Bible verses, {name} and English, split by chapter (public-domain texts)"
        for language, name in _LANGUAGES
    }
    | {
        f"ui_translate/{language}-en": f"interface strings, {name} and English, split by component (Home Assistant)"
        for language, name in _LANGUAGES
    }
    | {
        "parse_generated/en": "generated sentences (en) and their linearised constituency trees (tree); no real text",
        "parse_generated/short": "those of parse_generated/en whose trees have at most 31 symbols",
        "pronunciation/en": "English words, letter by letter, and their 39 phonemes (CMU Pronouncing Dictionary)",
        "pronunciation/en_stress": "the same, vowels with their stress",
        "pronunciation/en_sphinx": "every line of the dictionary, without stress, in the split of g2p-seq2seq",
        "inflection/fr": "French verbs with the features of a form, letter by letter, and the form (Verbiste)",
        "generated_translation/local_names": "those of generated_translation/local with rare names, which stay",
        "reviews/imdb": "whole film reviews, negative or positive, split by text (IMDB's training half)",
        "reviews/rotten_tomatoes": "sentences of film reviews, negative or positive, split by text",
        "news/bbc": "news stories of five classes, split by text (BBC, 2004 and 2005)",
        "shakespeare/plays": "eight plays as two texts, of 1,003,854 and 111,540 characters (Project Gutenberg)",
        "headlines/bbc": "the same stories without their titles, and the titles; versions of a story in one split",
        "brown/words": "the Brown corpus in its order, 1,161,192 words, split as in Bengio et al. 2003",
        "trivia/red": "12,080 quiz questions of 39 topics and their short answers (Red, a chat program)",
        "dialogue/chitchat": "replies and the two turns before them, split by conversation (Chit-Chat Challenge, 2018)",
        "described_programs/python": "generated descriptions of small Python functions, and their code",
        "run_lengths/free": "generated pairs whose two lengths, 2 to 12 and 1 to 12 words, are independent",
        "articles/adjectives": "generated sentences, up to 8 adjectives between an article and its noun, translated",
        "fashion_images": "70,000 small grey photographs of clothes, ten classes (Fashion-MNIST)",
        "digit_images": "5,000 handwritten digits (a part of MNIST)",
        "stamp_captions/en": "538 photographs and drawings to stamp with, and their captions (Tux Paint)",
        "shape_questions": "questions about a drawn shape, and their answers, 5,000 images (easy-VQA)",
        "labelled_generated/frequent": "generated texts of two classes that frequent words tell; no real text",
        "labelled_generated/rare": "generated texts of two classes that rare words tell; no real text",
        "labelled_generated/dissimilar": "generated texts of two classes that pairs of unlike words tell; no real text",
    }
    | {
        f"emoji_names/{language}": f"drawings of emoji and their names in {name}, twins in one split (Twemoji, Unicode)"
        for language, name in (("en", "English"), *_LANGUAGES)
    }
    | {
        f"generated_translation/{order}{length}": f"generated sentences of {words}, their translation {how}, and its "
        "word alignment; no real text"
        for order, how in _ORDERS
        for length, words in (("", "4 to 20 words"), ("_long", "4 to 60 words"))
    }
)
#: TFDS sets that the papers use -> a description.
PAPERS = {
    f"wmt14_translate/{language}-en": f"WMT 2014, {name} and English (TFDS; not fetched by this package)"
    for language, name in (("cs", "Czech"), ("de", "German"), ("fr", "French"), ("hi", "Hindi"), ("ru", "Russian"))
}
#: TFDS image sets that the papers use -> a description.
PAPER_IMAGES = {
    "cifar10": "60,000 colour photographs, ten classes (TFDS; not fetched by this package)",
    "imagenet2012": "ImageNet, 1.3 million photographs, 1,000 classes (TFDS; not fetched by this package)",
    "coco_captions": "photographs and five captions each (TFDS; not fetched by this package)",
}
#: The translation builders of TFDS.
TFDS_BUILDERS = (
    *(f"wmt{year}_translate" for year in (13, 14, 15, 16, 17, 18, 19)),
    *("wmt_t2t_translate", "ted_hrlr_translate", "ted_multi_translate", "para_crawl", "opus", "flores"),
)
#: Builders of TFDS with a feature `image`; some have configs.
IMAGE_BUILDERS = ("mnist", "fashion_mnist", "cifar10", "cifar100", "imagenet2012", "coco_captions")
#: Image sets with one label per image, ours and those of TFDS.
LABELLED_IMAGES = ("fashion_images", "digit_images", *IMAGE_BUILDERS[:-1])
#: Builders of TFDS with a feature `text`; some have no configs.
TEXT_BUILDERS = ("c4", "wiki40b", "wikipedia", "lm1b", "imdb_reviews")
_OF_TFDS = (*TFDS_BUILDERS, *IMAGE_BUILDERS, *TEXT_BUILDERS)
_PAIRS = (
    *("bible_translate", "ui_translate", "generated_translation", "pronunciation", "parse_generated", "headlines"),
    *("trivia", "dialogue", "described_programs", "run_lengths", "articles", "inflection"),
)
_LABELLED_TEXTS = ("reviews", "news", "labelled_generated")
_UNLABELLED_TEXTS = ("shakespeare", "brown")
#: `data.kind` -> (what it reads, the builders of such sets). A kind that is absent here is not checked.
READ_BY = {
    "pairs": ("pairs of texts", (*_PAIRS, *TFDS_BUILDERS)),
    "text_to_text": ("texts", (*_PAIRS, *_LABELLED_TEXTS, *TFDS_BUILDERS)),
    "text": ("texts", (*_LABELLED_TEXTS, *_UNLABELLED_TEXTS, *TEXT_BUILDERS)),
    "windows": ("texts", (*_LABELLED_TEXTS, *_UNLABELLED_TEXTS, *TEXT_BUILDERS)),
    "running_text": ("texts", (*_LABELLED_TEXTS, *_UNLABELLED_TEXTS, *TEXT_BUILDERS)),
    "labelled": ("texts with one label each", _LABELLED_TEXTS),
    "images": ("images with one label each", LABELLED_IMAGES),
    "captions": ("images with captions", ("stamp_captions", "emoji_names", "coco_captions")),
    "image_questions": ("questions about images", ("shape_questions",)),
}
#: The sets of images among them.
_OF_IMAGES = ("images", "captions", "image_questions")
#: An error lists at most this many sets.
_LISTED = 8
#: The entry-point group in which other packages name their sets.
GROUP = "attention_research.datasets"
_FORM = re.compile(r"(?P<builder>[a-z0-9_]+)(?P<config>/[\w.\-]+)?(:\d+\.\d+\.\d+)?")


@cache
def added() -> dict[str, str]:
    """Set name -> the module of its builder, for the sets of other installed packages.

    Raises `ConfigError`, one line with the name of the package, for a name that is not valid or already used.
    """
    found: dict[str, str] = {}
    for point in importlib.metadata.entry_points(group=GROUP):
        where = f"the data set {point.name} of the installed package {point.dist.name if point.dist else point.value}"
        form = _FORM.fullmatch(point.name)
        if form is None or form[3]:
            raise ConfigError(f"{where}: a name is builder or builder/config, of a-z, 0-9 and _")
        if form["builder"] in _builders(OWN | PAPERS | PAPER_IMAGES) or form["builder"] in _OF_TFDS:
            raise ConfigError(f"{where}: there is a builder {form['builder']} already; give it another name")
        if found.setdefault(point.name, point.value) != point.value:
            raise ConfigError(f"{where}: {found[point.name]} has a set of that name; uninstall one of the two")
    return found


def own_sets() -> dict[str, str]:
    """Set name -> a one-line description, for the sets that this package and other installed packages build."""
    return OWN | {name: f"built by the installed module {module}" for name, module in added().items()}


def modules() -> dict[str, str]:
    """Builder -> the module that defines it, for `own_sets`."""
    ours = {builder: f"attention_research.data.{builder}" for builder in _builders(OWN)}
    return ours | {name.split("/")[0]: module for name, module in added().items()}


def dataset_names() -> dict[str, str]:
    """Set name -> a one-line description, for every set that is known by its full name."""
    return own_sets() | PAPERS | PAPER_IMAGES


def is_known(name: str) -> bool:
    """Whether the name can be a set of translations, texts or images. For a TFDS builder that no paper uses, only the
    name of the builder is checked."""
    form = _FORM.fullmatch(name)
    builder = form["builder"] if form else ""
    whole = own_sets() | PAPERS
    if builder in _builders(whole):
        return name.split(":")[0] in whole
    with_config = form is not None and form["config"] is not None
    return builder in (*TEXT_BUILDERS, *IMAGE_BUILDERS) or (builder in TFDS_BUILDERS and with_config)


def _builders(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(name.split("/")[0] for name in names))


def check_name(name: str, key: str = "data.name", kind: str | None = None) -> None:
    """Raises `ConfigError` with the nearest valid name, unless the name can be that of a set.

    With a `kind` of data, only sets that this kind reads are named. A kind that reads texts refuses sets of images, and
    a kind that reads images refuses all other sets.
    """
    valid = [*dataset_names(), *(f"{builder}/CONFIG" for builder in TFDS_BUILDERS), *TEXT_BUILDERS, *IMAGE_BUILDERS]
    known = is_known(name)
    if kind not in READ_BY:
        if not known:
            nearest = _nearest(name, valid, cutoff=0.0)[0]
            raise ConfigError(f"{key}: no such data set: {name!r}; did you mean {nearest}?")
        return
    what, builders = READ_BY[kind]
    builder = name.split("/")[0].split(":")[0]
    of_kind = (*builders, *_builders(added()))
    of_images = [each for one in _OF_IMAGES for each in READ_BY[one][1]]
    if known and (builder in of_kind or (kind not in _OF_IMAGES and builder not in of_images)):
        return
    fitting = [one for one in dict.fromkeys([*valid, *added()]) if one.split("/")[0] in of_kind]
    listed_builders = {each for _, several in READ_BY.values() for each in several}
    unlisted = [one for one in valid if one.split("/")[0] not in listed_builders]  # may fit any kind
    near = [] if known else _nearest(name, [*fitting, *unlisted])
    wrong = f"{name} is not a set of {what}" if known else f"no such data set: {name!r}"
    if near:
        raise ConfigError(f"{key}: {wrong}; did you mean {near[0]}?")
    firsts = {one.split("/")[0]: one for one in reversed(fitting)}  # of each builder
    listed = [*reversed(firsts.values())][:_LISTED]
    more = len(fitting) - len(listed)
    others = f" and {more} more (attention-research list datasets)" if more else ""
    raise ConfigError(f"{key}: {wrong}; data.kind={kind} reads {what}: {', '.join(listed)}{others}")


def _nearest(name: str, valid: Sequence[str], cutoff: float = 0.6) -> list[str]:
    """The valid names that begin with the name, and the most similar one, if it is similar enough."""
    begun = [one for one in valid if name and one.startswith(name)]
    return [*begun, *difflib.get_close_matches(name, valid, n=1, cutoff=cutoff)]


def check_files(files: Mapping[str, Sequence[str]], key: str = "config.data") -> None:
    """Raises `ConfigError` with the nearest existing file, unless all files exist; `files` is split -> paths."""
    for split, paths in files.items():
        for path in map(Path, paths):
            if not path.is_file():
                there = [_from_here(file) for file in sorted(path.parent.glob("*")) if file.is_file()]
                nearest = difflib.get_close_matches(_from_here(path), there, n=1)
                hint = f"; did you mean {nearest[0]}?" if nearest else f" (in {path.parent.absolute()})"
                raise ConfigError(f"{key}.{split}: no such file: {_from_here(path)}{hint}")


def _from_here(path: Path) -> str:
    """A path below the current folder as a relative path; any other path unchanged."""
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


def caption_file(folder: Path, file: str) -> str:
    """The path of a caption file: in the folder of the pictures if it exists there, otherwise the given path."""
    inside = folder / file
    return str(inside if inside.exists() or not Path(file).exists() else Path(file).absolute())


def check_folder(folder: str, files: Mapping[str, str], key: str = "config.data") -> None:
    """Raises `ConfigError` with the nearest existing name, unless a folder of pictures and its files exist.

    `files`: setting -> path of a caption file.
    """
    place = Path(folder)
    if not place.is_dir():
        there = [str(path) for path in place.parent.glob("*") if path.is_dir()]
        nearest = difflib.get_close_matches(folder, there, n=1)
        hint = f"; did you mean {nearest[0]}?" if nearest else f" (in {place.parent.absolute()})"
        raise ConfigError(f"{key}.folder: no such folder: {folder}{hint}")
    for setting, file in files.items():
        if not Path(file).is_file():
            there = [str(path) for path in Path(file).parent.glob("*") if path.suffix in (".tsv", ".jsonl", ".gz")]
            nearest = difflib.get_close_matches(file, there, n=1)
            hint = f"; did you mean {nearest[0]}?" if nearest else ""
            raise ConfigError(f"{key}.{setting}: no such file: {file}{hint}")


def check_section(section: Mapping[str, Any], key: str = "config.data") -> None:
    """Raises `ConfigError` for a mistake in a resolved data section that can be found without reading data."""
    if "name" in section:
        check_name(section["name"], f"{key}.name", section["kind"])
    if section["kind"] in ("files", "text_files"):
        check_files({split: section[split] for split in ("train", "validation", "test")}, key)
    if section["kind"] == "caption_folder":
        place = Path(section["folder"])
        named = {name: section[name] for name in ("captions", "validation", "test") if section[name] is not None}
        check_folder(section["folder"], {name: caption_file(place, file) for name, file in named.items()}, key)
