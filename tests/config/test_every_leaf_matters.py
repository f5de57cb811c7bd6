"""Every setting must have an effect: each is changed to another valid value, and something must change with it.

A probe of the setting's section must change: the jaxpr of the parameters' initialisation, of the loss, of decoding or
of the train step, the optimizer's update, the schedule, or the batches of training or evaluation. An error while
tracing counts as a change, since it shows that the setting was read. Settings that only decide when something happens
are listed in BEHAVIOUR with the test of their effect.

All settings of the first config are checked. For every other kind in the registry the settings of its own section are
checked, with the section placed where its family has a place.
"""

from __future__ import annotations

import ast
import re
from functools import cache, cached_property
from itertools import chain
from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest
from flax import nnx

from attention_research import registry
from attention_research.config import Config, ConfigError, build_experiment, resolve
from attention_research.config.annotations import Choice, Optional, Scalar, Section, Tuple
from attention_research.config.schema import signature
from attention_research.data import sources
from attention_research.layers.structure import split
from attention_research.training import run
from attention_research.training.trainer import Trainer
from tests.tiers import fast_are

ROOT = Path(__file__).parents[2]
STOP = "tests/training/test_stop_at.py::test_a_run_ends_after_three_good_validations_and_does_nothing_more"
RUN, CHECKPOINTS, INITIAL = (f"tests/training/test_{name}.py::" for name in ("run", "checkpoints", "initial"))
#: Leaf -> the test of the effect that its docstring states.
BEHAVIOUR = {
    "training.checkpoint_every": f"{CHECKPOINTS}test_the_newest_the_scheduled_and_the_best_stay",
    "training.keep": f"{CHECKPOINTS}test_the_newest_the_scheduled_and_the_best_stay",
    "training.chosen_checkpoint": "tests/training/test_selection.py::test_a_run_may_be_read_at_its_best_checkpoint",
    "training.keep_best": f"{CHECKPOINTS}test_the_newest_the_scheduled_and_the_best_stay",
    "training.best_by": "tests/training/test_evaluations.py::test_a_run_keeps_the_best_by_its_metric",
    "training.track": "tests/training/test_workdir.py::test_tensorboard_has_the_lines_of_the_log_once_after_a_resume",
    "training.log_every": f"{RUN}test_wmt14_trains_from_packed_rows",
    "training.eval_every": f"{RUN}test_wmt14_trains_from_packed_rows",
    "training.varied": "tests/training/test_replicas.py::test_every_replica_is_its_single_run",
    "training.initial": f"{INITIAL}test_parameters_come_from_the_other_run_and_the_rest_is_new",
    "training.initial_checkpoint": f"{INITIAL}test_parameters_come_from_the_other_run_and_the_rest_is_new",
    "training.initial_parts": f"{INITIAL}test_a_part_comes_from_the_other_run_and_the_rest_is_random",
    "training.stop_at": STOP,
    "training.stop_by": STOP,
    "training.stop_checks": STOP,
    "training.eval_batches": "tests/config/test_every_leaf_matters.py::test_eval_batches_bound_an_evaluation",
    "evaluation.average": "tests/training/test_averaging.py::test_the_newest_on_the_schedule_are_averaged",
    "evaluation.near": "tests/training/test_run.py::test_near_and_far_sources_are_scored_separately",
}
BASE = {
    "max_length": 13,
    "vocabulary_size": 29,
    "data": {"name": "bible_translate/fr-en", "source_language": "fr", "target_language": "en",
             "batching": {"boundaries": (5, 9)}},
    "model": {"width": 12, "num_heads": 3, "num_layers": 1, "feed_forward": {"hidden_width": 17}},
    "training": {"steps": 100, "batch_size": 4, "learning_rate": 0.5, "schedule": "cosine",
                 "optimizer": {"kind": "sgd", "momentum": 0.5}},
    "evaluation": {"examples": 7},
}  # fmt: skip
#: Settings that a kind requires.
NEEDED = {
    "linformer": {"rank": 5},
    "bigbird": {"block_size": 2},
    "sinkhorn": {"block_size": 2},
    "position_scaled": {"interval": 2},
    "indexed": {"index_rotary_width": 4},
    "transformer_xl_memory": {"segment_length": 3},
    "scaled_rotary": {"factor": 4.0, "original_length": 5, "method": "dynamic"},
    "native_sparse": {"block_size": 2, "num_blocks": 2, "window": 1},
    "step": {"boundaries": (3, 7)},
    "switch": {"num_experts": 3, "expert": {"hidden_width": 17}},
    "every": {"interval": 1, "feed_forward": {"kind": "dense", "hidden_width": 19}},
    "one": {"layer": 1, "feed_forward": {"kind": "dense", "hidden_width": 19}},
    "switch_released": {"num_experts": 3, "expert": {"hidden_width": 17}},
    "mixture_of_experts": {"num_experts": 3, "expert": {"hidden_width": 17}},
    "recurrent": {"width": 12, "num_layers": 2, "decoder": {"start": "projected"}},
    "latent_alignment": {"width": 12, "num_layers": 2},
    "bahdanau": {"readout_width": 5},
    "reduced_rank": {"attention_width": 5},
    "recurrent_language_model": {"width": 12, "num_layers": 2},
    "feed_forward_language_model": {"width": 12},
    "adaptive_input": {"cluster_sizes": (5, 7, 17), "cluster_widths": (12, 5, 3)},
    "adaptive_softmax": {"cluster_sizes": (5, 7, 17), "cluster_widths": (12, 5, 3)},
    "funnel": {"num_layers": 6},
    "softcap": {"cap": 1.5},
    "linformer_pooled": {"cell_width": 3},
    "linformer_convolved": {"cell_width": 3},
    "query_key_l2": {"typical_length": 5},
    "latent": {"latent_width": 5, "rotary_width": 4, "query_latent_width": 7},
    "sliding_window": {"window": 2},
    "sliding_window_rotary": {"window": 2},
    "streaming": {"window": 2, "num_sinks": 2},
    "perceiver": {"blocks": 2},
    "longer": {"task": "reversing", "train_examples": 60, "held_out": 20},
    "copying": {"train_examples": 60},
    "agreement": {"train_examples": 60},
    "equations": {"operation": "s5", "train_fraction": 0.5},
    "universal": {"before": 0, "after": 0},
    "text_to_text": {"name": "bible_translate/fr-en", "source": ("fr",), "target": "en"},
    "files": {split: (f"{split}.fr", f"{split}.en") for split in ("train", "validation", "test")},
    "text": {"name": "reviews/imdb", "max_length": 31, "sentinels": 7},
    "windows": {"name": "shakespeare/plays"},
}
#: Families and models that are slow to check.
RECURRENT = {
    "recurrent", "latent_alignment", "recurrent_language_model", "recurrent_encoder", "recurrent_decoder",
    "decoder_start", "alignment", "alignment_transition", "score", "recurrent_vocabulary", "initialization",
    "recurrent_cell",
}  # fmt: skip
#: Kinds that take seconds to trace: experts, and kinds whose family has another member in the fast tests.
LONG = {
    "mixture_of_experts", "switch_released", "switch", "evolved", "branched", "branched_t5", "positional",
    "relative_keys", "relative_values", "relative_bias", "relative_keys_bias", "cross_relative_keys",
    "cross_relative_bias", "cross_relative_keys_bias", "unscaled", "unmasked", "one_sided", "t5_scaled", "ring",
    "one_sided_relative_bias", "block_local",
    "bigbird", "reformer", "sinkhorn", "dense_synthesizer", "dense_synthesizer_plus", "factorized_synthesizer",
    "random_synthesizer", "random_synthesizer_plus", "random_synthesizer_plus_alpha", "funnel", "perceiver", "slots",
    "isab", "copying", "agreement",
    "transparent", "adafactor", "shared_transformer", "transformer_decoder", "prefix", "t5", "hugging_face_beam",
    "shrinking_beam", "adaptive_universal", "linformer", "language_model", "sampling", "performer",
    "bert", "t5_untied_output", "t5_untied_encoder", "t5_untied", "factorized_shared", "adaptive_input",
    "partial_rms_norm", "low_rank_synthesizer", "dynamic_convolution", "dense_synthesizer_plus_alpha", "learned_normed",
    "product_key_memory", "relative", "alibi", "linear", "dot_synthesizer", "concatenated", "layer_norm_simple",
    "retnet", "gla", "mamba2", "deltanet", "gated_deltanet", "kda",
    "sparsemax", "entmax15", "entmax", "talking_heads", "length_scaled", "position_scaled", "exclusive",
    "tensor_product",
    "kerple",
    "scaled_rotary", "stick_breaking", "forgetting",
    "forgetting_pro", "fire", "contextual", "xpos", "path", "multi_token", "selective",
    "moba", "native_sparse", "indexed",
    "linformer_pooled", "linformer_convolved", "gated", "gated_rotary",
    "softcap", "sigmoid", "query_key_l2", "temperature", "differential", "latent", "sliding_window",
    "sliding_window_rotary", "streaming", "transformer_xl", "transformer_xl_memory", "sink", "detach_norm",
    "layer_norm_no_bias", "unscaled_no_bias",
    "shared_with_bias", "untied", "adaptive_softmax", "mixture_of_softmaxes", "inverse_sqrt",
    "lightning", "mlstm", "rwkv7", "based", "log_linear", "hyena", "mamba",
}  # fmt: skip
#: Kinds that need data of their own or several layers, which these probes do not have -> the test of their effect.
ELSEWHERE = {
    **{
        (family, kind): "tests/layers/test_layers_that_differ.py"
        for family in ("attention", "encoder_attention", "causal_attention", "prompted_attention")
        for kind in ("interleaved", "value_residual", "cross_layer", "yoco")
        if kind in registry.FAMILIES[family]
    },
    ("stack", "reversible"): "tests/models/test_reversible_stack.py",
    ("data", "naming"): "tests/data/test_naming.py",
    ("tokenizer", "from_run"): "tests/data/test_from_run.py",
    ("tokenizer", "hugging_face"): "tests/weights/test_imported_vocabulary.py",
    ("data", "blanks"): "tests/data/test_blanks.py",
    ("data", "labelled"): "tests/data/test_labelled.py",
    ("data", "listops"): "tests/data/test_long_range_data.py",
    ("data", "pixels"): "tests/data/test_long_range_data.py",
    ("data", "images"): "tests/data/test_images.py",
    ("data", "pathfinder"): "tests/data/test_long_range_data.py",
    ("data", "collages"): "tests/data/test_collages.py",
    ("data", "collage_questions"): "tests/data/test_collages.py",
    ("data", "captions"): "tests/data/test_captions.py",
    ("data", "caption_folder"): "tests/data/test_caption_folder.py",
    ("data", "image_questions"): "tests/data/test_image_questions.py",
    ("data", "matching"): "tests/data/test_long_range_data.py",
    ("tokenizer", "bytes"): "tests/data/test_long_range_data.py",
    ("data", "windows"): "tests/data/test_windows.py",
    ("data", "text_files"): "tests/data/test_text_files.py",
    ("tokenizer", "characters"): "tests/data/test_windows.py",
    ("evaluation", "characters"): "tests/data/test_windows.py",
    ("model", "encoder_classifier"): "tests/models/test_encoder_classifiers.py",
    ("model", "pair_classifier"): "tests/models/test_encoder_classifiers.py",
    ("data", "placed_digits"): "tests/data/test_placed_digits.py",
    ("model", "vision_transformer"): "tests/models/test_vision_transformer.py",
    ("model", "image_classifier"): "tests/models/test_image_classifier.py",
    ("model", "image_question_classifier"): "tests/models/test_image_question_classifier.py",
    ("model", "recurrent_captioner"): "tests/models/test_captioners.py",
    ("model", "transformer_captioner"): "tests/models/test_captioners.py",
    ("task", "captioning"): "tests/models/test_captioners.py",
    ("experiment", "images"): "tests/config/test_image_experiments.py",
    ("experiment", "images_and_words"): "tests/config/test_image_experiments.py",
    ("data", "generated_reviews"): "tests/data/test_generated_reviews.py",
    ("data", "equations"): "tests/data/test_equations.py",
    ("data", "induction"): "tests/data/test_induction.py",
    ("data", "recall"): "tests/data/test_recall.py",
    ("data", "running_text"): "tests/data/test_running_text.py",
    ("task", "answers"): "tests/tasks/test_answers.py",
    ("evaluation", "answers"): "tests/tasks/test_answers.py",
    ("data", "associative_recall"): "tests/data/test_associative_recall.py",
    ("model", "query_model"): "tests/models/test_query_model.py",
    ("data", "adding"): "tests/data/test_series.py",
    ("data", "copy_memory"): "tests/data/test_series.py",
    ("experiment", "series"): "tests/models/test_series_networks.py",
    ("model", "series"): "tests/models/test_series_networks.py",
    ("series_network", "recurrent"): "tests/models/test_series_networks.py",
    ("series_network", "temporal_convolution"): "tests/models/test_series_networks.py",
    ("series_network", "transformer"): "tests/models/test_series_networks.py",
    ("task", "regression"): "tests/tasks/test_series_tasks.py",
    ("task", "position_classes"): "tests/tasks/test_series_tasks.py",
    ("evaluation", "regression"): "tests/tasks/test_series_tasks.py",
    ("evaluation", "position_classes"): "tests/tasks/test_series_tasks.py",
    ("task", "coverage"): "tests/models/test_copying_models.py",
    ("task", "classification"): "tests/tasks/test_classification.py",
    ("task", "rationale"): "tests/tasks/test_rationale.py",
    ("evaluation", "perplexity"): "tests/tasks/test_perplexity.py",
    ("evaluation", "text_to_text"): "tests/tasks/test_text_to_text.py",
    ("evaluation", "label_likelihood"): "tests/tasks/test_label_likelihood.py",
    ("evaluation", "naming"): "tests/tasks/test_naming_scores.py",
    ("evaluation", "classification"): "tests/tasks/test_classification.py",
    ("evaluation", "rationale"): "tests/tasks/test_rationale.py",
    ("evaluation", "captions"): "tests/tasks/test_caption_scores.py",
    ("model", "conv_attention"): "tests/models/test_copying_models.py",
    ("model", "copy_attention"): "tests/models/test_copying_models.py",
    ("model", "pointer_generator"): "tests/models/test_copying_models.py",
    ("model", "text_classifier"): "tests/models/test_classifiers.py",
    ("model", "cloze_classifier"): "tests/models/test_cloze_classifier.py",
    ("model", "rationale"): "tests/models/test_rationales.py",
    ("model", "soft_attention_ratings"): "tests/models/test_rationales.py",
}
for family, test in (("pooling", "test_classifiers"), ("embedding", "test_classifiers"),
                     ("rationale_generator", "test_rationales")):  # fmt: skip
    ELSEWHERE.update({(family, kind): f"tests/models/{test}.py" for kind in registry.FAMILIES[family]})
for family in ("image_features", "image_gate", "shortcut", "image_reader", "image_alignment", "caption_decoder",
               "caption_vocabulary"):  # fmt: skip
    shared = {"fixed_vector", "global", "last_state"}  # kinds of recurrent translators too, checked there
    ELSEWHERE.update({(family, kind): "tests/config/test_image_experiments.py"
                      for kind in registry.FAMILIES[family] if kind not in shared})  # fmt: skip
#: Other values of settings that are names: leaf -> values.
NAMES = {
    "data.name": ["bible_translate/de-en"],
    "data.source_language": ["de"],
    "data.target_language": ["de"],
    "data.prefix": ["translate French to English: "],
    "data.source": [["de"], ["de", "fr"]],
    "data.target": ["de"],
    "evaluation.split": ["validation"],
    # Only longrope takes divisors: tests/layers/test_softmax_kinds.py.
    **{
        f"model.{side}self_attention.{name}_divisors": [[1.5]]
        for side in ("", "encoder.", "decoder.")
        for name in ("short", "long")
    },
    "data.tokenizer.minimum_count": [17, 10**6],
    **{f"data.{split}": [["other.fr", "other.en"]] for split in ("train", "validation", "test")},
}
KEY = jax.random.key(0)
BATCH = {name: jax.ShapeDtypeStruct((4, 9), jnp.int32) for name in ("source", "target")}
PARAMETERS = {
    "vocabulary.table": jax.ShapeDtypeStruct((7, 3), jnp.float32),
    "norm.scale": jax.ShapeDtypeStruct((3,), jnp.float32),
    "stack.segments.0.query.kernel": jax.ShapeDtypeStruct((2, 5, 3), jnp.float32),
}


def text_of(function, *arguments):
    """The jaxpr and its constants, without the addresses of functions."""
    closed = jax.make_jaxpr(lambda *given: function(*given))(*arguments)
    numbers = [x for x in closed.consts if not jax.dtypes.issubdtype(x.dtype, jax.dtypes.extended)]
    return re.sub(r"0x[0-9a-f]+", "", str(closed)), [np.asarray(x).tobytes() for x in numbers]


class Probes:
    """The effects of a config. Each is computed at its first use."""

    def __init__(self, config: Config):
        self.config, self.parts = config, build_experiment(config)
        self.settings, self.task = self.parts.training(), self.parts.task()

    def see(self, name):
        try:
            return getattr(self, name)
        except Exception as error:
            return f"raises {type(error).__name__}"

    @cached_property
    def built(self):
        """((structure, parameters, statistics), text of their initialisation), from one trace."""
        kept = []
        text = text_of(lambda key: kept.append(self.parts.model(rngs=nnx.Rngs(key))) or split(kept[0])[1:], KEY)
        structure, parameters, statistics = split(kept[0])
        shapes = lambda arrays: {name: jax.ShapeDtypeStruct(x.shape, x.dtype) for name, x in arrays.items()}
        return (structure, shapes(parameters), shapes(statistics)), text

    @property
    def structure(self):
        return self.built[0]

    @property
    def start(self):
        return self.built[1]

    @cached_property
    def loss(self):
        structure, *model = self.structure
        return text_of(
            lambda model, batch, key: self.task.loss(structure.merge(*model), batch, key),
            model, BATCH, KEY,
        )  # fmt: skip

    @cached_property
    def decode(self):
        structure, *model = self.structure
        kind, length = (self.config.resolved["model"][name] for name in ("kind", "max_length"))
        if kind == "transformer_encoder":  # generates nothing
            return ()
        if kind in ("transformer_decoder", "recurrent_language_model", "feed_forward_language_model"):  # has no source
            first = lambda model: model.step(model.start(4), jnp.zeros(4, jnp.int32))[:2]
            return text_of(lambda model: first(structure.merge(*model)), model)
        decode = lambda model, source: self.parts.decoding()(structure.merge(*model), source, max_length=length)
        return text_of(decode, model, {"tokens": BATCH["source"]})

    @cached_property
    def step(self):
        execution = Trainer(self.config).execution
        batch = execution.place({name: np.zeros(x.shape, x.dtype) for name, x in BATCH.items()})
        copies = (1,) * (self.config.resolved["parallel"]["strategy"] == "pmap")
        state = jax.tree.map(lambda x: jax.ShapeDtypeStruct((*copies, *x.shape), x.dtype), execution.abstract)
        return text_of(execution.step, state, batch)

    @cached_property
    def schedule(self):
        with jax.numpy_dtype_promotion("standard"):
            return text_of(self.settings.schedule(12), jax.ShapeDtypeStruct((), jnp.int32))

    @cached_property
    def optimizer(self):
        with jax.numpy_dtype_promotion("standard"):
            optimizer = self.settings.optimizer(12)
            state = jax.eval_shape(optimizer.init, PARAMETERS)
            return text_of(optimizer.update, PARAMETERS, state, PARAMETERS)

    @cached_property
    def data(self):
        data = self.parts.data().prepare()
        batches = [data.batch_at(self.settings.data_seed, step, self.settings.batch_size) for step in range(4)]
        return [data.fingerprint, *map(bytes_of, batches), *self.rows(data, "validation", 4, 6)]

    @cached_property
    def evaluation(self):
        evaluation, data = self.parts.evaluation(), self.parts.data().prepare()
        scores = evaluation.score(["l'homme d'abord va - bien"], ["l'homme d'abord va bien"], ["a b c d e"])
        return [scores, *self.rows(data, evaluation.split, evaluation.batch_size, evaluation.examples)]

    @staticmethod
    def rows(data, split, batch_size, examples):
        return [bytes_of({"ids": ids, **batch}) for ids, batch in data.evaluation_batches(split, batch_size, examples)]


def bytes_of(batch):
    return {name: (x.shape, np.asarray(x).tobytes()) for name, x in batch.items()}


#: Section -> the probes that may show its settings, the cheapest first.
LADDERS = {
    "": ("start", "data"),
    "task": ("loss",),
    "data": ("data",),
    "model": ("start", "loss", "decode"),
    "training": ("schedule", "optimizer", "data", "step"),
    "parallel": ("step",),
    "decoding": ("decode",),
    "evaluation": ("evaluation",),
}


def sections(section, family="experiment", path=""):
    """(path, family, section) of a resolved section and all below it."""
    yield path, family, section
    for name, setting in signature(family, section["kind"]).items():
        if setting.section is not None and section[name] is not None and not setting.named:
            yield from sections(section[name], setting.section.family, f"{path}.{name}".lstrip("."))


def leaves(config, but=()):
    """(path, annotation, value) of every leaf; the value of a child section is its kind. Skips sections of `but`."""
    for path, family, section in sections(config.resolved):
        if target(family, section["kind"]) not in but:
            for name, setting in signature(family, section["kind"]).items():
                if setting.named:  # `tests/training/test_evaluations.py`
                    continue
                value = section[name]["kind"] if setting.section and section[name] else section[name]
                yield f"{path}.{name}".lstrip("."), setting.section or setting.annotation, value


def target(family, kind):
    return registry.FAMILIES[family][kind]


def classes(config):
    return {target(family, section["kind"]) for _, family, section in sections(config.resolved)}


def others(path, annotation, value):
    """Other values that may be valid, ordered by how likely they are to change a probe."""
    if path in NAMES:
        return NAMES[path]
    match annotation:
        case Optional(Choice(values)):
            return [other for other in (*values, None) if other != value]
        case Optional(inner):
            return {int: [3, 5, 1], float: [0.25]}[inner.base] if value is None else [*others(path, inner, value), None]
        case Choice(values):
            return [other for other in values if other != value]
        case Section(family):
            return [other for kind in registry.FAMILIES[family] if kind != value for other in as_section(kind)]
        case Tuple():  # change the last step of a block's first branch, or the last item
            head, *tail = value
            return [[head[:-1], *tail]] if isinstance(head, list) else [value[:-1], [*value[:-1], value[-1] + 1]]
        case Scalar(base) if base is bool:
            return [not value]
        case Scalar(base) if base is int:
            return [other for other in (value + 1, 3, 2 * value, value - 1, value // 2) if other != value]
        case Scalar(base) if base is float:
            return [other for other in (value * 1.5, value / 2, value + 0.25) if other != value]
    raise AssertionError(f"{path}: give NAMES another value")


def as_section(kind):
    """Candidate sections of a kind: with its required settings alone, or merged over the existing section."""
    return [{"kind": kind, **NEEDED.get(kind, {})}, kind]


def dead(config, but=(), within="", but_under=()):
    """The leaves whose other values change nothing. Leaves with only one valid value are left out."""
    found = []
    for path, annotation, value in leaves(config, but):
        if not path.startswith(within) or path.startswith(but_under):
            continue
        options = others(path, annotation, value) if path not in BEHAVIOUR else []
        valid = [changed for changed in (with_value(config, path, other) for other in options) if changed]
        if valid and not any(shows(config, changed, path) for changed in valid):
            found.append(path)
    return found


def with_value(config, path, value):
    try:
        return config.override([(path, value)])
    except ConfigError:
        return None


@cache
def probes(config):
    return Probes(config)


def shows(config, changed, path):
    """Whether another config's probes differ."""
    base, changed = probes(config), Probes(changed)
    for name in LADDERS.get(path.split(".")[0], LADDERS[""]):
        assert not isinstance(base.see(name), str), f"the {name} of {path}'s config {base.see(name)}"
        if base.see(name) != changed.see(name):
            return True
    return False


@pytest.fixture(scope="module", autouse=True)
def texts(tmp_path_factory):
    """Sentences that are a function of (name, language, split) in place of data sets and files."""
    folder = tmp_path_factory.mktemp("texts")

    def sentences(*names):
        rng = np.random.default_rng([ord(letter) for letter in "".join(names)])
        words = ["".join(rng.choice(list("abcdefg"), rng.integers(1, 5))) for _ in range(12)]
        return [" ".join(rng.choice(words, rng.integers(1, 9))) for _ in range(40)]

    def split_of(name, split):
        columns = [sentences(name, feature, split) for feature in ("de", "en", "fr", "text")]
        return [dict(zip(("de", "en", "fr", "text"), row, strict=True)) for row in zip(*columns, strict=True)]

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ATTENTION_RESEARCH_DATA", str(folder / "cache"))
        patch.chdir(folder)
        patch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # for speed; other tests check shapes
        patch.setattr(sources, "prepare", lambda name, report: None)
        patch.setattr(sources, "stamp", lambda name: None)
        patch.setattr(sources, "languages", lambda name: ("de", "en", "fr", "text"))
        patch.setattr(sources, "split_names", lambda name: ("train", "validation", "test"))
        patch.setattr(sources, "open_split", split_of)
        for split in ("train", "validation", "test", "other"):
            for language in ("fr", "en"):
                (folder / f"{split}.{language}").write_text("\n".join(sentences(split, language)) + "\n")
        yield


FIRST = resolve(BASE)


def set_at(config, path, kind):
    """The config with a section of another kind."""
    valid = [config for config in (with_value(config, path, section) for section in as_section(kind)) if config]
    assert valid, f"give NEEDED what {kind} requires"
    return valid[0]


#: Model -> the first config with that model. Only sections that earlier configs do not have are checked.
MODELS: dict[str, Config] = {}
#: Family -> the first config and path that hold one of its sections.
PLACES: dict[str, tuple[Config, str]] = {}
WALKED = classes(FIRST)
for model in registry.FAMILIES["model"]:
    if ("model", model) in ELSEWHERE:
        continue
    config = FIRST if model == FIRST.resolved["model"]["kind"] else set_at(FIRST, "model", model)
    if config is not FIRST:
        MODELS[model] = config
    for path, family, _ in sections(config.resolved):
        PLACES.setdefault(family, (config, path))
#: Texts have 31 tokens, so the tables of the model have as many positions.
PLACES["data"] = (FIRST.override([("model.max_length", 31)]), "data")
PLACES["objective"] = (set_at(*PLACES["data"], "text"), "data.objective")
PLACES["prefix_attention"] = (set_at(*PLACES["prompted_stack"], "prefix"), "model.decoder.self_attention")
#: Family -> its path in an encoder-only and in a decoder-only model.
INSIDE = {"attention": "model.self_attention", "feed_forward": "model.feed_forward", "norm": "model.norm",
          "positions": "model.positions"}  # fmt: skip
#: Kinds with a setting that only decoding reads.
DECODED = {"switch_released", "mixture_of_experts"}
#: Kinds with a setting that only layers above the first read.
ABOVE = {"rwkv7"}
#: The other kinds, each class once: class -> its family and kind.
OTHERS = {}
of_models = WALKED.union(*map(classes, MODELS.values()))
for family, kind in [(family, kind) for family, kinds in registry.FAMILIES.items() for kind in kinds]:
    if target(family, kind) not in of_models and family in PLACES and (family, kind) not in ELSEWHERE:
        OTHERS.setdefault(target(family, kind), (family, kind))


def place(family, kind):
    """The config and path for a kind: if possible in a model with one stack, which traces in half the time."""
    path = INSIDE.get(family) if kind not in DECODED else None
    for small in (MODELS["transformer_encoder"], MODELS["transformer_decoder"]):
        if path and any(with_value(small, path, section) for section in as_section(kind)):
            return small, path
    return PLACES[family]


def of_kind(family, kind):
    config, path = place(family, kind)
    return set_at(config.override([("model.num_layers", 2)]) if kind in ABOVE else config, path, kind)


def before(model):
    """The classes in the configs that come before this model's config."""
    earlier = list(MODELS)[: list(MODELS).index(model)]
    return WALKED.union(*(classes(MODELS[one]) for one in earlier))


SECTIONS = ("data", "model.encoder", "model.decoder", "model", "")


@pytest.mark.parametrize("section", fast_are(["data"], {section or "rest": section for section in SECTIONS}))
def test_every_leaf_of_the_first_config(section):
    deeper = [other for other in SECTIONS if other != section and other.startswith(section)]
    assert dead(FIRST, within=section, but_under=tuple(deeper)) == []


#: The families of kinds of attention.
ATTENTIONS = {family for family in registry.FAMILIES if family.endswith("attention")}


def slow_where(*names):
    """Recurrent models take a second to trace, and some kinds take longer. Of these, kinds of attention are long."""
    if not {*names} & (RECURRENT | LONG):
        return []
    return [pytest.mark.long if {*names} & ATTENTIONS else pytest.mark.slow]


#: Model -> the setting that only says which rows are too long, which tests/config/test_lengths.py tests.
LIMITS = {"recurrent_language_model": ["model.max_length"]}


@pytest.mark.parametrize("model", [pytest.param(one, marks=slow_where(one)) for one in MODELS])
def test_every_leaf_of_every_other_model(model):
    assert dead(MODELS[model], but=before(model)) == LIMITS.get(model, [])


@pytest.mark.parametrize(
    ("family", "kind"), [pytest.param(*other, marks=slow_where(*other)) for other in OTHERS.values()]
)
def test_every_leaf_of_every_other_kind(family, kind):
    assert dead(of_kind(family, kind), but=classes(place(family, kind)[0])) == []


def test_every_kind_is_checked():
    walked = WALKED.union(*map(classes, MODELS.values()), *(classes(of_kind(*other)) for other in OTHERS.values()))
    named = {(family, kind) for family, kinds in registry.FAMILIES.items() for kind in kinds}
    assert {target(*one) for one in named - ELSEWHERE.keys()} <= walked
    assert {one for one in named if target(*one) not in walked} == set(ELSEWHERE)


def test_unchecked_kinds_are_tested_elsewhere():
    for (family, kind), test in ELSEWHERE.items():
        assert (ROOT / test).is_file() and kind in registry.FAMILIES[family], test


def test_behaviour_names_leaves_and_tests_that_exist():
    paths = {path for path, _, _ in leaves(FIRST)}
    for leaf, test in BEHAVIOUR.items():
        file, name = test.split("::")
        tree = ast.parse((ROOT / file).read_text())
        assert leaf in paths, leaf
        assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, test


def test_eval_batches_bound_an_evaluation(monkeypatch):
    """An evaluation reads eval_batches of batch_size rows of the validation split, however they are grouped."""
    asked = []
    data = SimpleNamespace(evaluation_batches=lambda split, rows, examples: asked.append((split, rows, examples)))
    settings = FIRST.override([("training.eval_batches", 7), ("training.accumulation_steps", 2)])
    trainer = Trainer(settings)
    monkeypatch.setattr(run, "mean_losses", lambda step, model, batches: {})
    log = SimpleNamespace(write=lambda **line: None)
    trainer.data = data
    run._validate(run.FurtherEvaluations(trainer), {"parameters": {}, "statistics": {}}, log, 1)
    assert asked == [("validation", 2, 28)]


@pytest.mark.slow
def test_probes_are_deterministic():
    """Two readings of one config are equal. Otherwise every leaf would seem to have an effect."""
    first, again = Probes(FIRST), Probes(resolve(BASE))
    for name in set(chain.from_iterable(LADDERS.values())):
        assert not isinstance(first.see(name), str) and first.see(name) == again.see(name), name


@pytest.mark.slow
def test_a_dead_leaf_is_found(tmp_path, monkeypatch):
    (tmp_path / "norm_with_a_dead_leaf.py").write_text(DEAD)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setitem(registry.FAMILIES["norm"], "dead", "norm_with_a_dead_leaf:Norm")
    monkeypatch.setitem(registry.FAMILIES["optimizer"], "dead", "norm_with_a_dead_leaf:Optimizer")
    config = FIRST.override([("model.encoder.norm", "dead"), ("training.optimizer", "dead")])
    assert {path for path, _, _ in leaves(config, but=classes(FIRST))} == {
        "model.encoder.norm.width", "model.encoder.norm.epsilon", "model.encoder.norm.unread",
        "training.optimizer.momentum", "training.optimizer.unread",
    }  # fmt: skip
    assert dead(config, but=classes(FIRST)) == ["model.encoder.norm.unread", "training.optimizer.unread"]


DEAD = """
from flax import nnx
from attention_research.layers.norms.layer_norm import LayerNorm
from attention_research.training.optimizers import SGD
from attention_research.signatures import Positive, PositiveFloat

class Norm(LayerNorm):
    def __init__(self, *, width: Positive, epsilon: PositiveFloat = 1e-6, unread: bool = False, rngs: nnx.Rngs):
        super().__init__(width=width, epsilon=epsilon, rngs=rngs)

class Optimizer(SGD):
    def __init__(self, *, momentum: PositiveFloat = 0.5, unread: bool = False):
        super().__init__(momentum=momentum)
"""
