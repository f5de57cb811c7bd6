"""Variants that another installed package registers through entry points."""

import subprocess
import sys

import pytest

from attention_research import registry
from attention_research.cli import main
from attention_research.config import ConfigError, build, entry_points, resolve
from attention_research.config.schema import signature
from attention_research.training.workdir import load_config

CLASS = """
from attention_research.layers.attention.unscaled import UnscaledAttention
from .further import Base

class Mine(UnscaledAttention):
    "Nothing of its own."

class Other(Base):
    pass
"""
FURTHER = """
class Base:
    def __init__(self, *, rank: int = 3):
        self.rank = rank
"""
POINTS = """[attention_research.variants]
encoder_attention.mine = somewhere.attention:Mine
norm.other = somewhere.attention:Other
"""


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Installs a distribution with the given entry points; the registry is restored afterwards."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(entry_points, "ADDED", {})
    monkeypatch.setattr(registry, "FAMILIES", {family: dict(kinds) for family, kinds in registry.FAMILIES.items()})

    def add(points):
        package, about = tmp_path / "somewhere", tmp_path / "somewhere-1.dist-info"
        for folder in (package, about):
            folder.mkdir()
        (package / "__init__.py").write_text("raise RuntimeError('nothing is imported to read a signature')\n")
        (package / "attention.py").write_text(CLASS)
        (package / "further.py").write_text(FURTHER)
        (about / "METADATA").write_text("Metadata-Version: 2.1\nName: somewhere\nVersion: 1\n")
        (about / "entry_points.txt").write_text(points)
        entry_points.add_variants.cache_clear()
        return tmp_path

    yield add
    entry_points.add_variants.cache_clear()


def test_an_installed_class_is_a_kind_whose_signature_is_inherited(install):
    install(POINTS)
    entry_points.add_variants()
    assert list(signature("encoder_attention", "mine")) == list(signature("encoder_attention", "unscaled"))
    assert list(signature("norm", "other")) == ["rank"], "inherited from a base that a relative import names"


@pytest.mark.slow
def test_every_command_knows_it(install, root):
    folder = install(POINTS)
    (folder / "somewhere" / "__init__.py").write_text("")
    words = (
        "inspect",
        "--config=configs/translation/transformer.py:smoke",
        "--config.model.encoder.self_attention.kind=mine",
    )
    done = subprocess.run(
        [sys.executable, "-m", "attention_research", *words], capture_output=True, text=True, cwd=root,
        env={"PYTHONPATH": f"{folder}:{root}", "PATH": "/usr/bin:/bin", "JAX_PLATFORMS": "cpu"},
    )  # fmt: skip
    assert done.returncode == 0 and "parameters" in done.stdout, done.stderr


GIVEN = {
    "max_length": 13,
    "vocabulary_size": 29,
    "data": {"name": "bible_translate/fr-en", "source_language": "fr", "target_language": "en"},
    "model": {"width": 12, "num_heads": 3, "num_layers": 1, "feed_forward": {"hidden_width": 17}},
    "training": {"steps": 1, "batch_size": 1, "learning_rate": 1.0},
}


@pytest.mark.parametrize(
    ("point", "said"),
    [("encoder_attention.standard", "standard is a kind of encoder_attention already"),
     ("encoder_atention.mine", "no family 'encoder_atention'; did you mean encoder_attention?"),
     ("mine", "no family ''"), ("norm.mine", "expected module:Class; got 'somewhere.attention'")],
)  # fmt: skip
def test_conflicting_entry_points_are_refused_with_the_packages_name(install, point, said):
    value = "somewhere.attention" if point == "norm.mine" else "somewhere.attention:Mine"
    install(f"[attention_research.variants]\n{point} = {value}\n")
    with pytest.raises(ConfigError) as raised:
        resolve(GIVEN)
    assert f"the variant {point} of the installed package somewhere: {said}" in str(raised.value)


BROKEN = {
    "no module": ("norm.bad = nowhere.at_all:Mine", "the module nowhere.at_all"),
    "no class": ("norm.bad = somewhere.attention:Absent", "no class Absent"),
    "no Python": ("norm.bad = somewhere.damaged:Mine", "expected ':'"),
}


@pytest.mark.parametrize("words", [["kinds"], ["kinds", "--json"], ["kinds", "norm"]])
@pytest.mark.parametrize(("point", "said"), BROKEN.values(), ids=BROKEN)
def test_a_broken_package_is_left_out_of_the_lists(install, capsys, point, said, words):
    folder = install(f"{POINTS}{point}\n")
    (folder / "somewhere" / "damaged.py").write_text("class Mine\n")
    assert main(["list", *words]) == 0
    out, err = capsys.readouterr()
    assert "norm.other" in out and "norm.bad" not in out and err.count("\n") == 1
    assert err.startswith("left out: norm.bad of the installed package somewhere 1: ") and said in err


@pytest.mark.parametrize("point", ["nowhere.bad = somewhere.attention:Mine", "norm.bad = somewhere.attention"])
def test_a_wrong_entry_point_keeps_no_other_kind_from_the_lists(install, capsys, point):
    install(f"[attention_research.variants]\n{point}\n{POINTS.partition(chr(10))[2]}")
    assert main(["list", "kinds"]) == 0
    out, err = capsys.readouterr()
    assert "norm.other" in out and "encoder_attention.mine" in out and "bad" not in out
    assert err.startswith("left out: the variant ") and err.count("\n") == 1


def test_a_saved_config_is_built_with_it(install):
    folder = install(POINTS)
    (folder / "somewhere" / "__init__.py").write_text("")
    given = {**GIVEN, "model": {**GIVEN["model"], "encoder": {"self_attention": {"kind": "mine"}}}}
    built = build(resolve(given).resolved["model"]["encoder"]["self_attention"], "encoder_attention")
    assert built.target.__name__ == "Mine"
    for name in [name for name in sys.modules if name.split(".")[0] == "somewhere"]:
        del sys.modules[name]


def test_the_package_of_a_kind_is_recorded_and_named_when_it_is_gone(install, tmp_path, monkeypatch):
    folder = install(POINTS)
    given = {**GIVEN, "model": {**GIVEN["model"], "encoder": {"self_attention": {"kind": "mine"}}}}
    config = resolve(given)
    assert entry_points.origins(config.resolved) == {"encoder_attention.mine": "somewhere 1"}
    assert entry_points.origins(resolve(GIVEN).resolved) == {}
    run = tmp_path / "run"
    run.mkdir()
    (run / "config.json").write_text(config.to_json())
    (run / "environment.json").write_text('{"variants": {"encoder_attention.mine": "somewhere 1"}}')
    assert load_config(run) == config
    del registry.FAMILIES["encoder_attention"]["mine"]
    with pytest.raises(ConfigError) as raised:
        load_config(run)
    came = f"--workdir={run}: the kind mine of encoder_attention came from version 1 of the package somewhere, "
    assert str(raised.value) == f"{came}but version 1, which is installed, does not have it"
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry != str(folder)])
    with pytest.raises(ConfigError) as raised:
        load_config(run)
    assert str(raised.value).startswith(f"{came}which is not installed; install it (pip install somewhere")
    (run / "environment.json").unlink()
    assert load_config(run) == config, "a run of an earlier version"
