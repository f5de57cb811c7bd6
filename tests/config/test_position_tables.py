"""A table of positions that is shorter than a row that it reads is refused, for every model, task, data and objective.

Each case is a config. Every section with a table below the model is a member. A table of one position must be refused
with its path and the number of positions that it needs. With that number the config must load, and with one less it
must not. The oracle is the program: with that number its loss and its decoding can be traced, with one less it fails.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache

import jax
import pytest

from attention_research.cli import main
from attention_research.config import Config, ConfigError, load, packaged_configs, resolution, variants
from attention_research.config.schema import signature
from attention_research.constraints import lengths, table
from attention_research.constraints.lengths import READS
from attention_research.constraints.section import Section
from attention_research.registry import FAMILIES
from attention_research.training.generating import continues, translator
from attention_research.training.trainer import Trainer
from tests.tiers import fast_are

TRANSLATION, T5, WINDOWS = (
    "translation/transformer:smoke",
    "text_to_text/t5_2020:smoke",
    "language_modelling/nanogpt:smoke",
)
LABELLED = {"kind": "labelled", "name": "reviews/rotten_tomatoes", "tokenizer": "bytes"}
TOPICS = {
    "kind": "text_to_text", "name": "reviews/rotten_tomatoes", "source": ["text"], "target": "label",
    "target_length": 5,
}  # fmt: skip
PLACED = ("model.positions.kind", "learned")
ENCODER = {"kind": "transformer", "positions": {"kind": "learned", "max_length": 5000}}
NETWORK = {"kind": "transformer", "num_layers": 1, "num_heads": 1, "positions": "learned"}


def objective(kind: str, **settings: object) -> tuple[str, list]:
    return T5, [("data.objective", {"kind": kind, **settings}), PLACED]


def short(config: str, overrides: list) -> tuple[str, list]:
    """A model that writes at most 3 tokens. The lengths of its rows are those of the data alone."""
    tables = [(f"model.{side}.positions", {"kind": "learned", "max_length": 64}) for side in ("encoder", "decoder")]
    return config, [*overrides, ("model.max_length", 3), *tables]


def model(kind: str, **settings: object) -> tuple[str, object]:
    return "model", {"kind": kind, "width": 8, "num_layers": 2, "num_heads": 2, **settings}


HIDDEN = {"feed_forward": {"kind": "dense", "hidden_width": 8}}
READOUT = {**HIDDEN, "readout_width": 8}
LONG_RANGE = "classification/long_range:smoke"
#: Case -> (config, overrides).
CASES: dict[str, tuple[str, list]] = {
    "pairs": (TRANSLATION, []),
    "pairs, shared": (TRANSLATION, [("model.kind", "shared_transformer")]),
    "pairs, packed": (TRANSLATION, [("data.batching", {"kind": "packed", "max_length": 100}), ("data.max_length", 50)]),
    "pairs, cut": (TRANSLATION, [("data.batching.max_length", 40), ("data.max_length", 40), ("model.max_length", 40)]),
    "pairs, transparent": (TRANSLATION, [("model.encoder.kind", "transparent")]),
    "pairs, evolved": (TRANSLATION, [("model.encoder.kind", "evolved"), ("model.decoder.kind", "evolved")]),
    "pairs, funnel": (TRANSLATION, [("model.encoder", {"kind": "funnel", "blocks": 2, "num_layers": 2})]),
    "pairs, perceiver": (TRANSLATION, [("model.encoder", {"kind": "perceiver", "num_latents": 7})]),
    "pairs, many latents": (TRANSLATION, [("model.encoder", {"kind": "perceiver", "num_latents": 70})]),
    "pairs, slots": (TRANSLATION, [("model.encoder", {"kind": "slots", "num_slots": 6})]),
    "files": ("translation/files:smoke", []),
    "files, packed": ("translation/files:smoke", [("data.batching", {"kind": "packed", "max_length": 64})]),
    "files, recurrent": ("language_modelling/recurrent:smoke", []),
    "longer": ("compositional/transformer:smoke", []),
    "span corruption": objective("span_corruption"),
    "span corruption, short texts": short(*objective("span_corruption")),
    "many spans, short texts": short(*objective("span_corruption", noise_density=0.3, mean_span_length=4.0)),
    "prefix language model, short texts": short(*objective("prefix_language_model")),
    "prefix language model": objective("prefix_language_model"),
    "BERT's objective": objective("bert_style"),
    "deshuffling": objective("deshuffling"),
    "nothing but the target": objective("language_model"),
    "a prefix and its rest": (
        T5, [("data.objective", "prefix_language_model"), model("language_model", **HIDDEN)]),
    "masked tokens": ("language_modelling/transformer:masked", [PLACED]),
    "text": ("language_modelling/transformer:smoke", []),
    "topics": (T5, [("data", TOPICS), PLACED]),
    "topics, packed": (T5, [("data", {**TOPICS, "max_length": 50, "batching": {"kind": "packed", "max_length": 64}}),
                            PLACED]),
    "topics in one stack": (T5, [("data", TOPICS), model("language_model", **HIDDEN)]),
    "topics after a prefix": (T5, [("data", TOPICS), model("language_model", decoder="prefix", **HIDDEN)]),
    "windows": ("language_modelling/nanogpt:smoke", []),
    "running text": ("language_modelling/brown:smoke", [model("language_model", **HIDDEN)]),
    "running text after more": (
        "language_modelling/brown:smoke", [model("language_model", max_length=20, **HIDDEN), ("data.context", 20)]),
    "recall": ("language_modelling/recall:smoke", []),
    "induction": ("language_modelling/induction:smoke", [PLACED]),
    "queries": ("language_modelling/associative_recall:smoke", [("model.network.positions.kind", "learned")]),
    "equations": ("arithmetic/equations:smoke", []),
    "one text": (LONG_RANGE, []),
    "a labelled text": (
        "classification/text:smoke", [model("encoder_classifier", **READOUT)]),
    "a cloze": (LONG_RANGE, [model("cloze_classifier", num_classes=10, **HIDDEN), ("vocabulary_size", 30)]),
    "two texts": ("classification/long_range:retrieval", [("model.width", 8)]),
    "pixels": ("classification/long_range:image", []),
    "pathfinder": ("classification/long_range:pathfinder", []),
    "captions": ("images/captions:slots", [("model.encoder", ENCODER)]),
    "captions, odd": (
        "images/captions:slots",
        [("side", 51), ("model.features", {"kind": "resnet", "width": 4, "depth": 8}),
         ("model.encoder", ENCODER)]),
    "captions, slots": ("images/captions:slots", []),
    "captions of a released network": (
        "images/captions:slots",
        [("model.features", {"kind": "mobilenet_v2", "stride": 8}),
         ("model.encoder", ENCODER)]),
    "captions of a folder": (
        "images/caption_folder:smoke",
        [model("transformer_captioner", features={"kind": "cnn", "width": 2}, encoder=ENCODER, **HIDDEN)]),
    "questions": ("images/questions:smoke", []),
    "questions about shapes": ("images/questions:shapes", [("model.width", 8)]),
    "patches": ("images/vision_transformer:smoke", []),
    "patches without a class token": (
        "images/vision_transformer:smoke", [("model.pooling", "mean"), ("model.max_length", 16)]),
    "series": ("series/memory:smoke", [("model.network", {**NETWORK, **HIDDEN})]),
    "series of classes": ("series/memory:copy", [("model.network", {**NETWORK, **HIDDEN}), ("max_length", 30)]),
}  # fmt: skip
#: A kind with a table for each family in which there is one.
TABLES = {
    "positions": {"kind": "learned"},
    "encoder_attention": {"kind": "random_synthesizer"},
    "causal_attention": {"kind": "random_synthesizer"},
    "prompted_attention": {"kind": "hyena"},
    "cross_attention": {"kind": "linformer", "rank": 1},
}
#: Kinds that only take a number from `max_length`: a bias and a scale at the start.
NO_TABLE = ("sigmoid", "length_scaled")
#: Cases that are tried with all kinds with a table, and not only with those of `TABLES`.
WITH_ALL_KINDS = ("pairs", "topics in one stack")
NEEDED = re.compile(r"(?P<path>[\w.]+): (?P<given>\d+) positions are too few for .*; set it to (?P<needed>\d+) or more")


def resolved_sections(config: Config) -> list[Section]:
    found: list[Section] = []
    resolution._resolve(resolution.Scope.root(config.given), found)
    return found


@cache
def sections(case: str) -> list[Section]:
    return resolved_sections(load(*CASES[case]))


def tables(family: str, *, every: bool) -> list[dict]:
    """Sections of a family with a table: one, or one for each kind."""
    if not every:
        return [TABLES[family]] if family in TABLES else []
    kinds = [kind for kind in FAMILIES[family] if "max_length" in signature(family, kind) and kind not in NO_TABLE]
    more = {"linformer": {"rank": 1}, "sinkhorn": {"block_size": 1}, "bigbird": {"block_size": 1}}
    return [{"kind": kind, **more.get(kind, {})} for kind in kinds]


def members(case: str) -> Iterator[tuple[str, dict]]:
    """(path below the config, section) of each table that the model of the case may have."""
    there = sections(case)
    (kind,) = (one.kind for one in there if one.family == "model")
    if "" in READS[kind]:
        yield "model", {}
    packed = any(one.kind == "packed" for one in there if one.family == "batching")
    for one in there:
        path, above = one.path.removeprefix("config."), one.path.rpartition(".")[0]
        default = above in ("config.model", "config.model.network") and not path.endswith(".places")
        attention = one.family.endswith("attention")
        if default or not path.startswith("model.") or not (attention or one.family == "positions"):
            continue  # the settings in the model's own section are only the defaults of its parts
        if attention and (packed or kind == "shared_transformer"):
            continue  # tables in attention are refused, or cannot differ between encoder and decoder
        yield from ((path, section) for section in tables(one.family, every=case in WITH_ALL_KINDS))


def given(case: str, path: str, section: dict, length: int) -> tuple[str, list]:
    config, overrides = CASES[case]
    said = [(f"{path}.max_length", length)] if path == "model" else [(path, {**section, "max_length": length})]
    return config, [*overrides, *said]


def refused(case: str, path: str, section: dict, length: int) -> int:
    """The number of positions for which the refusal of a table of this length asks."""
    with pytest.raises(ConfigError) as caught:
        load(*given(case, path, section, length))
    said = NEEDED.fullmatch(str(caught.value))
    assert said is not None, str(caught.value)
    assert (said["path"], int(said["given"])) == (f"config.{path}.max_length", length)
    return int(said["needed"])


@pytest.mark.parametrize("case", CASES)
def test_the_number_in_the_message_is_the_smallest_that_is_accepted(case):
    there = list(members(case))
    assert there
    for member in there:
        needed = refused(case, *member, 1)
        load(*given(case, *member, needed))
        assert refused(case, *member, needed - 1) == needed


@pytest.mark.parametrize("case", fast_are((), CASES.keys()))
def test_the_program_needs_this_number_of_positions(case, monkeypatch):
    needed = [refused(case, *member, 1) for member in members(case)]
    others = tuple(one for one in table.CONSTRAINTS if one[2] is not lengths.a_table_for_each_position)
    monkeypatch.setattr(table, "CONSTRAINTS", others)
    for member, length in zip(members(case), needed, strict=True):
        trace(given(case, *member, length))
        with pytest.raises((ValueError, TypeError)):  # of the layer, or of JAX for the shapes
            trace(given(case, *member, length - 1))


def trace(config: tuple[str, list]) -> None:
    """Traces the losses of the longest batch and the decoding of the longest source, without memory."""
    trainer = Trainer(load(*config), alone=True)
    state = jax.eval_shape(trainer.step_and_start[1], 0)
    weights, shapes = (state["parameters"], state["statistics"]), trainer.data.train_shapes(2)[-1]
    said = trainer.config.resolved["data"]
    if (said.get("batching") or {}).get("kind") == "packed":  # evaluation has one example a row
        width = next(one for one in trainer.data.batching.evaluation_lengths() if one >= said["max_length"])
        shapes = {"source": (2, width), "target": (2, min(width, trainer.data.target_length or width))}
    jax.eval_shape(trainer.losses, weights, trainer.arrays(shapes))
    kind = trainer.config.resolved["model"]["kind"]
    if "decoder" in READS[kind] and ("image" in shapes or hasattr(trainer.data, "read")):
        source = {"image": shapes["image"]} if "image" in shapes else {"tokens": (2, said["max_length"])}
        assert "image" in shapes or continues(trainer) or "source" in shapes
        jax.eval_shape(translator(trainer, trainer.parts.decoding()), weights, trainer.arrays(source))


def reached(family: str, kind: str, found: set[str]) -> set[str]:
    """The families of all sections that may stand below a section."""
    for setting in signature(family, kind).values():
        if setting.section is not None and setting.family not in found:
            found.add(setting.family)
            for below in FAMILIES[setting.family]:
                reached(setting.family, below, found)
    return found


def test_the_rows_of_every_model_with_a_table_are_known():
    with_tables = {kind for kind in FAMILIES["model"] if not TABLES.keys().isdisjoint(reached("model", kind, set()))}
    assert {*with_tables, "recurrent_language_model"} == READS.keys()


def combination(there: list[Section]) -> tuple[str | None, ...]:
    kinds = {one.family: one.kind for one in reversed(there)}
    return tuple(kinds.get(family) for family in ("task", "model", "data", "objective", "batching"))


def test_every_combination_of_the_configs_is_a_case():
    """Of task, model, data, objective and batching; sources of text and of pictures are read by the same code."""
    known = {combination(sections(case)) for case in CASES}
    specs = [f"{name}:{variant}" for name in packaged_configs() for variant in variants(name)]
    there = {spec: combination(resolved_sections(load(spec))) for spec in specs}
    assert {spec for spec, one in there.items() if one[1] in READS and one not in known} == set()


@pytest.mark.parametrize("case", ["span corruption", "topics", "captions", "two texts", "a cloze"])
def test_the_command_says_it_in_one_line_and_writes_nothing(case, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(Trainer, "__init__", lambda *_: pytest.fail("a model is traced"))
    config, overrides = CASES[case]
    words = [f"--config.{path}={value if isinstance(value, str) else json.dumps(value)}" for path, value in overrides]
    words += ["--config.model.encoder.positions.max_length=3"]
    assert main(["train", f"--config={config}", f"--workdir={tmp_path / 'run'}", *words]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert NEEDED.fullmatch(line.removeprefix("error: ")), line
    assert not (tmp_path / "run").exists()
