"""Data sets by name: any TFDS translation set, and one line for every wrong name."""

import subprocess
import sys
import tempfile

import numpy as np
import pytest

from attention_research.config import ConfigError
from attention_research.data import names, sources
from attention_research.data.labelled import LabelledData
from attention_research.errors import RunError


def segments(batch, side):
    """[B T]: 0 is padding, 1 and up are the examples of a row. A plain batch has one for each row."""
    return batch.get(f"{side}_segments", (batch[side] != 0).astype(np.int32))


@pytest.mark.parametrize(
    "name, hint",
    [
        ("bible_translate/fr-em", "bible_translate/fr-en"),
        ("bible_translate", "bible_translate/fr-en"),
        ("bible_translat/de-en", "bible_translate/de-en"),
        ("wmt14_translate/fr-de", "wmt14_translate/fr-en"),
        ("wmt41_translate/fr-en", "wmt14_translate/fr-en"),
        ("opsu/x", "opus/CONFIG"),
        ("imagenet", ""),
    ],
)
def test_an_unknown_name_is_one_line(name, hint):
    with pytest.raises(ConfigError, match=rf"^data.name: no such data set: '{name}'; did you mean [^\n]*{hint}\?$"):
        names.check_name(name)


@pytest.mark.parametrize(
    ("kind", "name", "line"),
    [
        ("pairs", "fashion_image", "no such data set: 'fashion_image'; data.kind=pairs reads pairs of texts: "),
        ("pairs", "bible_translate/fr-em", "no such data set: 'bible_translate/fr-em'; did you mean bible_"),
        ("images", "fashion_image", "no such data set: 'fashion_image'; did you mean fashion_images?"),
        ("pairs", "bible", "no such data set: 'bible'; did you mean bible_translate/fr-en?"),
        ("labelled", "new", "no such data set: 'new'; did you mean news/bbc?"),
        (None, "bible", "no such data set: 'bible'; did you mean bible_translate/fr-en?"),
        ("images", "pronunciation/en", "pronunciation/en is not a set of images with one label each; data.kind=images "
         "reads images with one label each: fashion_images, digit_images, "),
        ("labelled", "trivia", "no such data set: 'trivia'; data.kind=labelled reads texts with one label each: "),
        ("labelled", "reviews/imbd", "no such data set: 'reviews/imbd'; did you mean reviews/imdb?"),
        ("captions", "emoji_names/it", "no such data set: 'emoji_names/it'; did you mean emoji_names/"),
        ("captions", "digit_images", "digit_images is not a set of images with captions; data.kind=captions reads "
         "images with captions: stamp_captions/en, emoji_names/en, coco_captions and 3 more (attention-research list "
         "datasets)"),
        ("image_questions", "xxx", "no such data set: 'xxx'; data.kind=image_questions reads questions about images: "
         "shape_questions"),
    ],
)  # fmt: skip
def test_a_kind_of_data_names_only_sets_that_it_reads(kind, name, line):
    with pytest.raises(ConfigError) as caught:
        names.check_section({"kind": kind, "name": name})
    said = str(caught.value)
    assert said.startswith(f"config.data.name: {line}") and "\n" not in said and len(said) < 400


def test_every_set_of_ours_is_read_by_a_kind():
    """Every builder of ours is listed, and every listed builder exists."""
    read = {builder for _, builders in names.READ_BY.values() for builder in builders}
    ours = {name.split("/")[0] for name in names.OWN}
    assert ours <= read
    assert read <= ours | {*names.TFDS_BUILDERS, *names.IMAGE_BUILDERS, *names.TEXT_BUILDERS}


@pytest.mark.slow
def test_the_sets_have_the_features_that_their_kinds_read():
    def needed(kind, features):
        texts = [name for name, one in features.items() if type(one).__name__ == "Text"]
        return {
            "pairs": len(texts) > 1,
            "text_to_text": len(texts) > 1,
            "text": "text" in texts,
            "windows": "text" in texts,
            "running_text": "text" in texts,
            "labelled": {"text", "label"} <= features.keys(),
            "images": {"image", "label"} <= features.keys(),
            "captions": {"image", "captions"} <= features.keys(),
            "image_questions": {"image", "questions"} <= features.keys(),
        }[kind]

    for name in names.OWN:
        features = sources.builder(name).info.features
        for kind, (_, builders) in names.READ_BY.items():
            if name.split("/")[0] in builders:
                assert needed(kind, features), (kind, name)


@pytest.mark.parametrize("name", [*names.dataset_names(), "wmt16_translate/de-en", "wmt14_translate/fr-en:1.0.0"])
def test_known_names(name):
    names.check_name(name)


def test_names_need_neither_tfds_nor_jax():
    code = (
        "import sys; from attention_research.data import names; names.check_name('bible_translate/fr-en');"
        "print(sorted({'jax', 'numpy', 'tensorflow_datasets', 'grain'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_an_unknown_config_of_a_tfds_builder(data_home):
    line = r"^data.name: TFDS has no set 'wmt16_translate/de-em'; did you mean wmt16_translate/de-en\?$"
    with pytest.raises(ConfigError, match=line):
        sources.builder("wmt16_translate/de-em")


def test_a_missing_set_tells_how_to_provide_it(data_home, monkeypatch):
    monkeypatch.setenv("TFDS_DATA_DIR", str(data_home / "none"))
    with pytest.raises(RunError) as caught:
        sources.open_split("wmt14_translate/fr-en", "train")
    line = str(caught.value)
    assert "\n" not in line and line.startswith("wmt14_translate/fr-en is not on this machine; prepare it with TFDS")
    assert str(data_home / "tfds") in line and "array_record" in line


@pytest.mark.slow
def test_nothing_is_left_in_the_temporary_folder(bible_data, tmp_path, monkeypatch):
    """For a prepared set, and for one that is not prepared."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert len(sources.open_split("bible_translate/fr-en", "test")) > 100
    assert not sources.builder("wmt14_translate/fr-en").info.splits
    assert list(tmp_path.iterdir()) == []


def test_a_wrong_language_is_one_line(data_home, pair_data):
    data = pair_data("wmt14_translate/fr-en", source_language="it")
    with pytest.raises(ConfigError, match=r"^data.source_language: wmt14_translate/fr-en has no 'it'; it has en, fr$"):
        data.prepare()


@pytest.mark.parametrize("packed", [False, True], ids=["buckets", "packed"])
def test_wmt14_mock_data_goes_through_to_a_batch(data_home, packed, pair_data):
    """TFDS's own mock: random text as str. The input of a training step is checked in full."""
    import tensorflow_datasets as tfds

    with tfds.testing.mock_data(num_examples=19):
        data = pair_data("wmt14_translate/fr-en", max_length=53, pieces=8000, packed=packed).prepare()
        french, english = data.text("train")
        step, batch = next(data.train_batches(seed=1, batch_size=4))
    assert step == 0 and len(french) == 19 and all(isinstance(text, str) for text in french + english)
    assert {name: value.shape for name, value in batch.items()} in data.train_shapes(4)
    assert data.tokenizer.size <= 8000
    pairs = set(zip(french, english, strict=True))
    for row in range(4):
        for segment in range(1, segments(batch, "source")[row].max() + 1):
            ids = [batch[s][row][segments(batch, s)[row] == segment] for s in ("source", "target")]
            assert tuple(data.tokenizer.decode(ids)) in pairs


def test_bytes_and_line_breaks_become_text(made_up):
    made_up["train"][0] = {"fr": "un\u00e9\n  deux".encode(), "en": "one\ttwo"}
    texts = sources.open_split("wmt14_translate/fr-en", "train")
    assert texts[0] == {"fr": "un\u00e9 deux", "en": "one two"} and len(texts) == len(made_up["train"])
    assert len(list(texts)) == len(texts)


@pytest.mark.slow
@pytest.mark.data
def test_a_missing_split_of_the_real_bible(bible_data):
    line = r"^bible_translate/fr-en has no split 'valid'; it has train, validation, test$"
    with pytest.raises(ConfigError, match=line):
        sources.open_split("bible_translate/fr-en", "valid")


POINTS = """[attention_research.datasets]
poems/en = poems
"""
POEMS = """
import tensorflow_datasets as tfds

LABELS = {"poems/en": ("short", "long")}


class Poems(tfds.core.GeneratorBasedBuilder):
    "Lines of two lengths."

    VERSION = tfds.core.Version("1.0.0")
    BUILDER_CONFIGS = [tfds.core.BuilderConfig(name="en", description="lines")]

    def _info(self):
        features = tfds.features.FeaturesDict({name: tfds.features.Text() for name in ("text", "label")})
        return tfds.core.DatasetInfo(builder=self, features=features)

    def _split_generators(self, dl_manager):
        return {split: self._generate_examples(split) for split in ("train", "validation", "test")}

    def _generate_examples(self, split):
        for n in range(11):
            yield n, {"text": " ".join([split, *["word"] * n]), "label": "long" if n > 5 else "short"}
"""


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Installs a distribution with the given entry points and the module `poems`."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def add(points):
        about = tmp_path / "somewhere-1.dist-info"
        about.mkdir(exist_ok=True)
        (tmp_path / "poems.py").write_text(POEMS)
        (about / "METADATA").write_text("Metadata-Version: 2.1\nName: somewhere\nVersion: 1\n")
        (about / "entry_points.txt").write_text(points)
        names.added.cache_clear()

    yield add
    names.added.cache_clear()


def test_a_set_of_another_package_is_built_and_labelled(install, data_home):
    install(POINTS)
    assert names.dataset_names()["poems/en"] == "built by the installed module poems"
    assert sources.prepare_dataset("poems/en", lambda line: None) == {"train": 11, "validation": 11, "test": 11}
    data = LabelledData(name="poems/en", max_length=5, vocabulary_size=7)
    assert data.classes == ("short", "long") and sorted(data.labels("test")) == [0] * 6 + [1] * 5
    with pytest.raises(ConfigError, match=r"no such data set: 'poems/fr'; did you mean poems/en\?"):
        names.check_name("poems/fr")


@pytest.mark.parametrize(
    ("points", "line"),
    [
        (POINTS.replace("poems/en", "news/mine"), "there is a builder news already; give it another name"),
        (POINTS.replace("poems/en", "mnist"), "there is a builder mnist already; give it another name"),
        (POINTS.replace("poems/en", "Poems/en"), "a name is builder or builder/config, of a-z, 0-9 and _"),
    ],
)
def test_a_name_that_is_taken_is_one_line(install, points, line):
    install(points)
    with pytest.raises(ConfigError, match=rf"^the data set [^\n]* of the installed package somewhere: {line}$"):
        names.check_name("bible_translate/fr-en")


def test_a_module_that_cannot_be_imported_is_one_line(install, data_home):
    install(POINTS.replace("= poems", "= no_such_module"))
    line = r"^the data set poems: its module no_such_module cannot be imported: [^\n]*$"
    with pytest.raises(ConfigError, match=line):
        sources.builder("poems/en")
    assert not sources.builder("bible_translate/fr-en").info.splits, "other sets should not change"
