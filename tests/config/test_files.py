"""Config files: variants, errors in them, loading speed."""

from __future__ import annotations

import pytest

from attention_research.config import ConfigError, build, build_model, load, packaged_configs, variants

FILE = """
from ml_collections import ConfigDict

VARIANTS = {"small": "one line", "large": "another"}

def get_config(variant):
    config = ConfigDict({"max_length": 16})
    config.model = {"width": 8 if variant == "small" else 32, "num_heads": 2}
    config.model.encoder = {"width": config.model.get_ref("width") * 2}
    config.training = {"steps": 5, "betas": (0.5, 0.75)}
    return config
"""


@pytest.fixture
def file(toy, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "configs" / "toys" / "toy.py"
    path.parent.mkdir(parents=True)
    path.write_text(FILE)
    return path


def refused(spec, *overrides):
    with pytest.raises(ConfigError) as caught:
        load(spec, overrides)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_load(file):
    config = load("configs/toys/toy.py:large", [("training.steps", "7")])
    assert config.resolved["model"]["width"] == 32 and config.resolved["model"]["encoder"]["width"] == 64
    assert config.given["training"] == {"steps": 7, "betas": [0.5, 0.75]}
    assert config.spec == "configs/toys/toy.py:large"
    assert load("configs/toys/toy.py").spec == "configs/toys/toy.py:small"
    assert variants("configs/toys/toy.py") == {"small": "one line", "large": "another"}


def test_a_file_or_a_variant_that_is_not_there(file):
    for path in ("configs/toys/toi.py", "configs/toys/toy", "configs/toys"):
        assert refused(path) == f"{path}: no such config file; did you mean configs/toys/toy.py?"
    assert refused("configs/toys/toy.py:smal") == "configs/toys/toy.py: no variant 'smal'; did you mean small?"
    assert refused("configs/toys/toy.py:zzz") == "configs/toys/toy.py: no variant 'zzz'; there are small, large"


LONG = {"name": "a" * 300, "folder": f"{'a' * 300}/b.py", "variant": f"{'a' * 300}.py:small"}


@pytest.mark.parametrize("spec", LONG.values(), ids=LONG)
def test_a_name_that_is_too_long_for_a_file_is_not_there(file, spec):
    assert refused(spec) == f"{spec.removesuffix(':small')}: no such config file"


def test_a_path_may_contain_colons(file):
    odd = file.parent / "c:d"
    odd.mkdir()
    for name in ("toy.py", "toy:small.py"):
        (odd / name).write_text(FILE)
    for spec, variant in (("toy.py", "small"), ("toy.py:large", "large"), ("toy:small.py", "small")):
        config = load(f"configs/toys/c:d/{spec}")
        assert config.spec == f"configs/toys/c:d/{spec.removesuffix(':large')}:{variant}"
        assert config.resolved["model"]["width"] == {"small": 8, "large": 32}[variant]
    assert refused("configs/toys/c:d/toy.py:smal") == "configs/toys/c:d/toy.py: no variant 'smal'; did you mean small?"
    said = "configs/toys/c:d/toi.py: no such config file; did you mean configs/toys/c:d/toy.py?"
    assert refused("configs/toys/c:d/toi.py:small") == refused("configs/toys/c:d/toi.py") == said


def test_a_signal_in_a_config_file_stays_a_signal(file):
    """Such as one to a worker, which saves and continues later."""
    file.write_text(
        "from attention_research.training.interruption import Interrupted\nraise Interrupted(15, 'stopped')"
    )
    with pytest.raises(SystemExit) as caught:
        load("configs/toys/toy.py")
    assert caught.value.code == 143


def test_a_packaged_config_is_named_without_a_path_from_any_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = load("translation/transformer:smoke")
    assert found.spec == "translation/transformer:smoke"
    assert load("configs/translation/transformer.py:smoke") == found  # its path in the repository, from elsewhere
    assert "translation/transformer" in packaged_configs() and "smoke" in variants("translation/transformer")
    for name in ("translation/transfomer", "translation/transfomer.py", "configs/translation/transfomer.py"):
        path = name.replace("transfomer", "transformer")
        path = path if path.startswith("configs/") else path.removesuffix(".py")
        assert refused(f"{name}:smoke") == f"{name}: no such config file; did you mean {path}?"
    assert refused("translation/transformer:smok").endswith("no variant 'smok'; did you mean smoke?")
    (tmp_path / "mine.py").write_text("")
    assert refused("mime.py") == "mime.py: no such config file; did you mean mine.py?"
    assert refused("../translation/transformer").startswith("../translation/transformer: no such config file")


OWN = """
from attention_research.config import config_file

VARIANTS = {"narrow": "half as wide"}

def get_config(variant):
    config = config_file("translation/transformer").get_config("smoke")
    config.model.width //= 2
    return config
"""


def test_a_config_of_ones_own_starts_from_a_packaged_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(OWN)
    base, mine = load("translation/transformer:smoke").resolved, load("mine.py").resolved
    assert mine["model"]["width"] * 2 == base["model"]["width"] and mine["data"] == base["data"]
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert load(f"{tmp_path}/mine.py:narrow").resolved == load("../mine.py").resolved == mine
    (tmp_path / "mine.py").write_text(OWN.replace("transformer", "transfomer"))
    near = "translation/transfomer: no such config file; did you mean translation/transformer?"
    assert refused("../mine.py") == f"../mine.py:7: {near}"


BROKEN = {
    "syntax": (FILE.replace("def get_config(variant):", "def get_config(variant)"), "configs/toys/toy.py:6: expected"),
    "import": ("import not_installed_anywhere", "configs/toys/toy.py:1: ModuleNotFoundError: No module named"),
    "no variants": (FILE.replace("VARIANTS", "variants"), "configs/toys/toy.py: a config file defines"),
    "numbers as variants": ("VARIANTS = {1: ''}\n\ndef get_config(variant): ...", "configs/toys/toy.py: a config"),
    "raises": (FILE.replace('"max_length": 16', '"max_length": 1 // 0'), "configs/toys/toy.py:7: ZeroDivisionError"),
    "leaves the program": ("import sys\nsys.exit(0)", "configs/toys/toy.py:2: ends the program (SystemExit: 0)"),
    "leaves the program later": (
        FILE.replace("    config =", "    exit()\n    config ="),
        "configs/toys/toy.py:7: ends the program (SystemExit: None)",
    ),
    "returns nothing": (FILE.replace("return config", "return None"), "configs/toys/toy.py: get_config('small') gave"),
    "typo": (FILE.replace('"steps"', '"stesp"'), "config.training.stesp: no such setting; did you mean config.tr"),
    "type": (FILE.replace('"steps": 5', '"steps": 5.5'), "config.training.steps: expected an int at least 1; got 5.5"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_mistake_in_the_file(file, name):
    source, message = BROKEN[name]
    file.write_text(source)
    assert refused("configs/toys/toy.py:small").startswith(message)


def test_sources_are_read_once_however_often_a_config_is_resolved(root, monkeypatch):
    """Each source is read once, which makes resolution quick. No test measures the time."""
    from attention_research.config import schema

    monkeypatch.chdir(root)
    resolved = lambda: load("configs/translation/transformer.py:cpu", [("model.self_attention.kind", "relative")])
    schema._signature.cache_clear()
    schema._tree.cache_clear()
    first = resolved().identity
    read, asked = schema._tree.cache_info().misses, schema._signature.cache_info().misses
    assert 0 < read < 60 and resolved().identity == first
    assert (schema._tree.cache_info().misses, schema._signature.cache_info().misses) == (read, asked)


CONFIGS = {
    "translation/transformer:cpu": ("max_length", "vocabulary_size"),
    "language_modelling/transformer:smoke": ("max_length", "vocabulary_size"),
    "images/residual:smoke": ("side", "channels"),
    "images/captions:smoke": ("side", "channels", "max_length", "vocabulary_size"),
}


@pytest.mark.parametrize("spec", CONFIGS)
def test_a_models_section_alone_builds_what_its_config_builds(spec):
    config = load(spec)
    root = {name: config.resolved[name] for name in CONFIGS[spec]}
    assert repr(build_model(config.given["model"], **root)) == repr(build(config.resolved["model"], "model"))


SECTION = {"width": 8, "num_heads": 2, "num_layers": 1, "feed_forward": {"hidden_width": 5}}
TEXT = {"max_length": 7, "vocabulary_size": 11}


@pytest.mark.parametrize(
    ("section", "root", "line"),
    [
        (SECTION, {"max_length": 7}, "model.vocabulary_size: missing; transformer needs it"),
        ({**SECTION, "num_heads": 3}, TEXT, "model.num_heads: 3 heads do not divide the width 8"),
        ({**SECTION, "witdh": 8}, TEXT, "model.witdh: no such setting; did you mean model.width?"),
        ({"kind": "transfomer"}, TEXT, "model.kind: no kind 'transfomer' of model; did you mean transformer?"),
        (SECTION, {**TEXT, "max_length": 0}, "model.max_length: from build_model.max_length: expected an int"),
        ([SECTION], TEXT, "model: expected a dict of settings"),
    ],
    ids=("missing", "heads", "setting", "kind", "length", "list"),
)
def test_a_mistake_in_a_section_alone_is_one_line(section, root, line):
    with pytest.raises(ConfigError) as caught:
        build_model(section, **root)
    assert str(caught.value).startswith(line) and "\n" not in str(caught.value)
