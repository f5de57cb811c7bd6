"""Auxiliary losses, expert balance and ponder cost: equal however the layers are run, part of the loss, and logged.

Also those of the indexer of sparse attention, in every model that takes it.
"""

import functools
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attention_research.config import build_model, load, schema
from attention_research.data.associative_recall import drawn
from attention_research.layers.structure import abstract, initializer, path_name
from attention_research.models.sequences import sequence, shift_right, visible
from attention_research.registry import FAMILIES
from attention_research.tasks.answers import Answers
from attention_research.tasks.captioning import Captioning
from attention_research.tasks.classification import Classification
from attention_research.tasks.position_classes import PositionClasses
from attention_research.tasks.regression import Regression
from attention_research.tasks.translation import Translation
from attention_research.training.metrics_log import read_metrics
from attention_research.training.replicas import side_by_side
from attention_research.training.run import train
from tests.tiers import fast_are

B, S, T, LAYERS = 4, 11, 7, 3
V, SIDE = 29, 5
INDEXED = {"kind": "indexed", "top_k": 3, "num_index_heads": 2, "index_width": 5}
IMAGES = {"kind": "cnn", "width": 3, "num_layers": 2, "halvings": 1}
SIDES = ("encoder", "decoder")


def feed_forward(kind, weight):
    """Small experts with too few places for all tokens."""
    groups = {} if kind == "switch" else {"group_size": S}
    settings = {"kind": kind, "num_experts": 3, "expert": {"hidden_width": 5}, "capacity_factor": 0.6, **groups}
    return {**settings, "balance_weight": weight}


def every(kind, weight):
    return {"layout": {"kind": "every", "interval": LAYERS, "feed_forward": feed_forward(kind, weight)}}


def pondering(weight):
    return {"stack": {"kind": "adaptive_universal", "threshold": 0.8, "ponder_weight": weight}}


#: Three kinds of experts, in segments of one and of two layers; adaptive computation with experts and without.
CASES = {
    "experts": lambda weight: {
        "encoder": every("switch_released", weight),
        "decoder": {**every("mixture_of_experts", weight), "feed_forward": feed_forward("switch", weight)},
    },
    "pondering": lambda weight: {
        "encoder": pondering(weight),
        "decoder": {**pondering(weight), "feed_forward": feed_forward("switch", weight)},
    },
}
EXPERTS = "feed_forward.loss.balance"
LOSSES = {
    "experts": {f"encoder.segment_1.{EXPERTS}", f"decoder.segment_0.{EXPERTS}", f"decoder.segment_1.{EXPERTS}"},
    "pondering": {f"decoder.segment_0.{EXPERTS}", *(f"{side}.segment_0.loss.ponder" for side in SIDES)},
}
#: The parameters that the auxiliary losses train.
ROUTERS = {"experts": ("encoder.stack.segments.1", "decoder.stack.segments.0", "decoder.stack.segments.1"),
           "pondering": ("decoder.stack.segments.0",)}  # fmt: skip
HALTING = {"experts": (), "pondering": [f"{side}.stack.halting.{x}" for side in SIDES for x in ("kernel", "bias")]}
SLOW = pytest.mark.slow
WAYS = {
    "rematerialised": {"remat": True},
    "unrolled": {"unroll": True},
    "unrolled_rematerialised": {"unroll": True, "remat": True},
}


@pytest.fixture(scope="module")
def batch():
    rng = np.random.default_rng(0)
    made = {"source": rng.integers(4, 29, (B, S)), "target": rng.integers(4, 29, (B, T))}
    for row, (source, target) in enumerate([(11, 7), (10, 5), (9, 3), (2, 1)]):
        made["source"][row, source:], made["target"][row, target:] = 0, 0
    return {name: jnp.asarray(x, jnp.int32) for name, x in made.items()}


@pytest.fixture(scope="module")
def model(small):
    """model(case, weight of its losses, **settings of encoder and decoder) -> (structure, parameters)."""

    def made(case, weight=1.0, **how):
        sides = {side: {**settings, **how} for side, settings in CASES[case](weight).items()}
        return small(num_layers=LAYERS, dropout_rate=0.0, positions={"kind": "none"}, **sides)

    return made


def under_loss(aux):
    """Name -> auxiliary loss."""
    leaves = jax.tree_util.tree_flatten_with_path(aux)[0]
    return {path_name(path): x for path, x in leaves if ".loss." in f".{path_name(path)}"}


def measured(structure):
    """(state, batch) -> ((the task's loss, its metrics and each auxiliary loss), its gradient)."""

    def step(state, batch):
        def total(parameters):
            found = structure.merge(parameters).log_likelihood(batch, key=state["key"])
            loss, sums = Translation().loss(SimpleNamespace(log_likelihood=lambda batch, key: found), batch, None)
            return loss, (sums, under_loss(found[1]))

        return jax.value_and_grad(total, has_aux=True)(state["parameters"])

    return step


@pytest.fixture(scope="module")
def scanned(model, batch):
    """scanned(case) -> (its compiled step, its state, the step's result)."""

    @functools.cache
    def of(case):
        structure, parameters = model(case)
        step, state = jax.jit(measured(structure)), {"parameters": parameters, "key": jax.random.key(7)}
        return step, state, step(state, batch)

    return of


def assert_same(ours, theirs):
    for one, other in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5 * max(1.0, np.abs(other).max()))


# The layers one by one


def applied(side, x, inputs, key):
    """(y, auxiliary losses), layer by layer, with keys drawn as in `layers.stack`."""
    found = {}
    for number, blocks in enumerate(side.stack.segments):
        repeat = side.stack.repeats[number]
        keys = jax.random.split(jax.random.fold_in(jax.random.split(key)[1], number), repeat)
        for l in range(repeat):
            x, aux = jax.tree.map(lambda array, l=l: array[l], blocks)(x, inputs, key=keys[l])
            for name, loss in under_loss(aux).items():
                found.setdefault(f"segment_{number}.{name}", []).append(loss)
    return x, {name: jnp.stack(losses) for name, losses in found.items()}


def halted(side, x, inputs, key):
    """(output, auxiliary losses) of one layer that is applied repeatedly, with the halting of Graves 2016."""
    stack, block = side.stack, jax.tree.map(lambda array: array[0], side.stack.segments[0])
    keys = jax.random.split(jax.random.fold_in(jax.random.split(key)[1], 0), LAYERS)
    output, so_far, ponder = jnp.zeros_like(x), jnp.zeros(x.shape[:2]), jnp.zeros(x.shape[:2])
    running, found = jnp.ones(x.shape[:2], bool), {}
    for l in range(LAYERS):
        state = x + np.sqrt(x.shape[-1]) * stack.step_table[l]
        p = jax.nn.sigmoid(stack.halting(state))[..., 0]
        halts, rest = running & (so_far + p > 0.8), 1 - so_far
        weight = jnp.where(halts, rest, jnp.where(running, p, 0.0))
        ponder += running.astype(jnp.float32) + jnp.where(halts, rest, 0.0)
        running, so_far = running & ~halts, so_far + weight
        x, aux = block(state, inputs, key=keys[l])
        output = weight[..., None] * x + (1 - weight[..., None]) * output
        for name, loss in under_loss(aux).items():
            found.setdefault(f"segment_0.{name}", []).append(loss)
    losses = {name: jnp.stack(losses) for name, losses in found.items()}
    return output, {**losses, "segment_0.loss.ponder": jnp.mean(ponder, axis=1)}


#: The other case with experts is quicker.
QUICK = [pytest.param(case, marks=[SLOW] * (case == "experts")) for case in CASES]


@pytest.mark.slow
@pytest.mark.parametrize("case", QUICK)
def test_auxiliary_losses_equal_those_of_single_layers(case, model, batch, scanned):
    layers = {"experts": applied, "pondering": halted}[case]

    def one_by_one(parameters, key):
        built, keys = model(case)[0].merge(parameters), jax.random.split(key)
        source, target = sequence(batch, "source"), sequence(batch, "target")
        x = built.vocabulary.source(source["tokens"])
        looks = {"mask": visible(source, source), "shared": built.encoder.shared}
        real = {"tokens": {"real": source["tokens"] != 0}}
        memory, of_encoder = layers(built.encoder, x, {"self_attention": looks, **real}, keys[0])
        crosses = {"mask": visible(target, source), "shared": built.decoder.cross_shared, "memory": memory}
        looks = {"mask": None, "is_causal": True, "shared": built.decoder.self_shared}
        inputs = {
            "self_attention": looks, "cross_attention": crosses, "tokens": {"real": target["tokens"] != 0},
        }  # fmt: skip
        x = built.vocabulary.target(shift_right(target))
        _, of_decoder = layers(built.decoder, x, inputs, keys[1])
        sides = {"encoder": of_encoder, "decoder": of_decoder}
        return {f"{side}.{name}": loss for side, found in sides.items() for name, loss in found.items()}

    _, state, ((_, (_, losses)), _) = scanned(case)
    want = jax.jit(one_by_one)(state["parameters"], state["key"])
    assert losses.keys() == want.keys() == LOSSES[case]
    for name, loss in want.items():
        np.testing.assert_allclose(losses[name], loss, rtol=1e-4, err_msg=name)
        assert loss.shape[-1] == B and (loss > 0).all()


@SLOW
@pytest.mark.parametrize("case", CASES)
def test_the_optimised_loss_contains_them_and_their_gradients(case, model, batch, scanned):
    """A weight of 0 removes the losses and nothing else.

    The losses affect the gradient of all routers and halting units.
    """
    _, state, ((loss, (sums, losses)), gradients) = scanned(case)
    (without, (sums_without, _)), gradients_without = jax.jit(measured(model(case, 0.0)[0]))(state, batch)
    tokens = np.sum(np.asarray(batch["target"]) != 0, axis=1)
    named = {}
    for path, x in losses.items():
        name = path.split(".")[-1]
        named[name] = named.get(name, 0.0) + float(np.sum(np.asarray(x).reshape(-1, B) * tokens))
    everything = sum(named.values())
    assert float(loss - without) == pytest.approx(everything, rel=1e-3) and everything > 10
    for name, value in {**named, "auxiliary_loss": everything}.items():
        assert float(sums[name]) == pytest.approx(value, rel=1e-5) and float(sums_without[name]) == 0
    same = {name for name in sums if sums[name] == sums_without[name]}
    assert same == {"negative_log_likelihood", "dropped"} and 0 < float(sums["dropped"]) < tokens.sum()
    lost = {name: np.abs(gradients[name] - gradients_without[name]) for name in gradients}
    for name in HALTING[case]:
        assert lost[name].max() > 1e-2, name
    for segment in ROUTERS[case]:
        of_layers = lost[f"{segment}.feed_forward.router.kernel"].max(axis=(1, 2))
        assert (of_layers > 1e-2).all(), segment


@SLOW
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("way", WAYS)
def test_losses_and_gradients_are_the_same_in_every_way(case, way, model, batch, scanned):
    _, state, want = scanned(case)
    structure, parameters = model(case, **WAYS[way])
    assert all((parameters[name] == x).all() for name, x in state["parameters"].items())
    assert_same(jax.jit(measured(structure))(state, batch), want)


@SLOW
@SLOW
@pytest.mark.parametrize("case", CASES)
def test_replicas_have_each_their_own(case, batch, scanned):
    """Two replicas in one program: the model, and one with other weights and another key."""
    step, state, want = scanned(case)
    other = {"parameters": {name: 1.1 * x for name, x in state["parameters"].items()}, "key": jax.random.key(8)}
    both = jax.tree.map(lambda *arrays: jnp.stack(arrays), state, other)
    found = jax.jit(side_by_side(step, lambda seed: seed)[0])(both, batch)
    for replica, alone in enumerate((want, step(other, batch))):
        assert_same(jax.tree.map(lambda x, r=replica: x[r], found), alone)


# Logging

RUN = (
    ("data.name", "wmt14_translate/fr-en"), ("data.source_language", "fr"), ("data.target_language", "en"),
    ("max_length", 31), ("vocabulary_size", 8000), ("model.width", 8), ("model.num_heads", 2), ("model.num_layers", 2),
    ("model.decoder.stack", "adaptive_universal"),
    ("model.decoder.feed_forward", {"kind": "switch_released", "num_experts": 2, "expert": {"hidden_width": 8}}),
    ("model.decoder.feed_forward.capacity_factor", 0.6), ("model.decoder.feed_forward.group_size", 31),
    ("task.label_smoothing", 0.0), ("training.steps", 2), ("training.batch_size", 4), ("training.log_every", 1),
    ("training.checkpoint_every", 2), ("training.eval_every", 2), ("training.eval_batches", 1),
    ("training.keep_best", 0), ("training.replicas", 2),
)  # fmt: skip


@SLOW
@pytest.mark.usefixtures("mock_data")
def test_a_run_logs_auxiliary_losses_by_name_and_in_sum(tmp_path):
    """For each replica, in training and validation. Without smoothing the loss is the sum of likelihood and these."""
    train(load("configs/translation/transformer.py:vaswani_base", RUN), tmp_path)
    lines = read_metrics(tmp_path)
    assert [(line["split"], line["replica"]) for line in lines] == [
        *[("train", 0), ("train", 1)] * 2, ("validation", 0), ("validation", 1)
    ]  # fmt: skip
    for line in lines:
        assert line["balance"] > 0 and line["ponder"] > 0 and 0 <= line["dropped"] < 1
        assert line["auxiliary_loss"] == pytest.approx(line["balance"] + line["ponder"], rel=1e-5)
        assert line["loss"] == pytest.approx(line["negative_log_likelihood"] + line["auxiliary_loss"], rel=1e-5)
    assert max(line["dropped"] for line in lines) > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", [pytest.param("switch", marks=SLOW), "switch_released", pytest.param("mixture_of_experts", marks=SLOW)]
)
def test_longer_padding_changes_no_likelihood_and_no_balance(kind, small, batch):
    """Padding does not take an expert's place in the encoder or the decoder.

    Every token finds a place here, since the number of places depends on the padded length.
    """
    settings = {"kind": kind, "num_experts": 3, "expert": {"hidden_width": 5}, "capacity_factor": 3.0}
    if kind != "switch":
        settings |= {"evaluation_capacity_factor": 3.0, "group_size": B * (S + 5)}
    structure, parameters = small(num_layers=2, dropout_rate=0.0, positions={"kind": "none"}, feed_forward=settings)
    of = jax.jit(lambda parameters, batch: structure.merge(parameters).log_likelihood(batch))
    (values, aux), (longer, longer_aux) = (
        of(parameters, {name: jnp.pad(x, ((0, 0), (0, more))) for name, x in batch.items()}) for more in (0, 5)
    )
    real = np.asarray(batch["target"] != 0)
    got, want = longer["log_likelihood"][:, :T], values["log_likelihood"]
    np.testing.assert_allclose(np.where(real, got, 0), np.where(real, want, 0), atol=1e-5)
    balances = under_loss(aux)
    assert len(balances) == 2
    for name, balance in under_loss(longer_aux).items():
        np.testing.assert_allclose(balance, balances[name], rtol=1e-5, err_msg=name)


@pytest.mark.parametrize("kind", ["language_model", "language_model:indexed", "prefix", "transformer_captioner"])
def test_padding_of_a_text_has_no_part_in_the_loss_of_experts_and_indexers(kind, batch):
    """In decoders that read the source in their own sequence, or an image."""
    experts = {"kind": "switch", "num_experts": 3, "expert": {"hidden_width": 5}, "capacity_factor": 3.0}
    dense = {"hidden_width": 5}
    section = {
        "width": 12, "num_heads": 3, "num_layers": 1, "dropout_rate": 0.0, "positions": {"kind": "none"},
        **{
            "language_model": {"kind": "language_model", "feed_forward": experts},
            "language_model:indexed": {"kind": "language_model", "feed_forward": dense, "self_attention": INDEXED},
            "prefix": {"kind": "language_model", "feed_forward": experts, "decoder": {"kind": "prefix"}},
            "transformer_captioner": {
                "kind": kind, "features": IMAGES, "feed_forward": dense,
                "decoder": {"feed_forward": experts},
            },
        }[kind],
    }  # fmt: skip
    make = build_model(section, max_length=13, vocabulary_size=V, side=SIDE, channels=3)
    structure, *_ = abstract(lambda rngs: make(rngs=rngs))
    parameters, statistics = jax.jit(initializer(lambda rngs: make(rngs=rngs)))(jax.random.key(0))
    of = jax.jit(lambda batch: under_loss(structure.merge(parameters, statistics).log_likelihood(batch)[1]))
    other = (
        {"image": jnp.full((B, SIDE, SIDE, 3), 7, jnp.uint8)} if "captioner" in kind else {"source": batch["source"]}
    )
    short, longer = (of({**other, "target": jnp.pad(batch["target"], ((0, 0), (0, more)))}) for more in (0, 5))
    assert len(short) == 1
    for name, loss in short.items():
        np.testing.assert_allclose(longer[name], loss, rtol=1e-5, err_msg=name)


# Every model

LAYERED = {"num_layers": 2, "num_heads": 3, "dropout_rate": 0.0, "feed_forward": {"hidden_width": 17}}
NETWORK = {"kind": "transformer", **LAYERED, "self_attention": INDEXED}
#: Models that take causal attention -> (the task, the section).
CAUSAL = {
    "transformer": (Translation(), {**LAYERED, "decoder": {"self_attention": INDEXED}}),
    "transformer_decoder": (Translation(), {**LAYERED, "self_attention": INDEXED}),
    "language_model": (Translation(), {**LAYERED, "self_attention": INDEXED}),
    "transformer_captioner": (
        Captioning(),
        {**LAYERED, "decoder": {"self_attention": INDEXED}, "features": IMAGES,
         "encoder": {"positions": {"kind": "sinusoidal", "max_length": 9}}},
    ),
    "query_model": (Answers(), {"network": NETWORK}),
    "series": (PositionClasses(), {"channels": 3, "outputs": 5, "network": NETWORK}),
}  # fmt: skip

#: Its decoder uses the attention of its encoder, which is never the indexed one.
WITHOUT_INDEXER = {"shared_transformer"}


def families(family, kind, found=()):
    """The families of all sections that may stand below the section of a kind."""
    for setting in schema.signature(family, kind).values():
        if setting.section is not None and setting.family not in found:
            found = {*found, setting.family}
            for child in FAMILIES[setting.family]:
                found = families(setting.family, child, found)
    return found


def images_and_series(rng):
    series = jnp.asarray(rng.standard_normal((B, T, 3)), jnp.float32)
    return {"image": jnp.asarray(rng.integers(0, 256, (B, SIDE, SIDE, 3)), jnp.uint8), "series": series}


def of_model(kind, section):
    """(structure, random parameters, statistics)."""
    sizes = {"max_length": S, "vocabulary_size": V, "side": SIDE, "channels": 3}
    make = build_model({"kind": kind, "width": 12, **section}, **sizes)
    structure, shapes, _ = abstract(lambda rngs: make(rngs=rngs))
    start = initializer(lambda rngs: make(rngs=rngs))
    rng = np.random.default_rng(1)
    value = lambda name, x: rng.standard_normal(x.shape) * (x.shape[-1] ** -0.5) + name.endswith("scale")
    parameters = {name: jnp.asarray(value(name, x), x.dtype) for name, x in sorted(shapes.items())}
    return structure, parameters, jax.jit(lambda key: start(key)[1])(jax.random.key(0))


@pytest.mark.parametrize("kind", fast_are(["query_model"], [*CAUSAL]))
def test_the_loss_of_every_model_trains_the_indexer(kind, batch):
    """Only its auxiliary loss does."""
    task, section = CAUSAL[kind]
    structure, parameters, statistics = of_model(kind, section)
    rng = np.random.default_rng(2)
    batch = {**batch, **images_and_series(rng)}
    if kind == "query_model":
        batch = jax.tree.map(jnp.asarray, drawn(rng, B, length=S, pairs=2, vocabulary_size=V, power=0.3))
    if kind == "series":
        batch["target"] = batch["target"] % 5
    loss = lambda parameters: task.loss(structure.merge(parameters, statistics), batch, None)
    gradients, sums = jax.jit(jax.grad(loss, has_aux=True))(parameters)
    indexer = {name: np.abs(x).max() for name, x in gradients.items() if "self_attention.index_" in name}
    assert len(indexer) == 5 and all(size > 1e-6 for size in indexer.values()), indexer
    assert float(sums["auxiliary_loss"]) == pytest.approx(float(sums["indexer"])) and sums["indexer"] > 0


def test_every_model_with_causal_attention_is_walked():
    takes = {kind for kind in FAMILIES["model"]
             if {"causal_attention", "prompted_attention"} & set(families("model", kind))}  # fmt: skip
    assert takes == CAUSAL.keys() | WITHOUT_INDEXER


# Tasks without a mask of tokens: a loss of a row counts as often as its labels


def classifies(**section):
    return Classification(), {**LAYERED, "num_classes": 5, "feed_forward": feed_forward("switch", 1.0), **section}


EXPERT_NETWORK = {"kind": "transformer", **LAYERED, "feed_forward": feed_forward("switch", 1.0)}
#: Models with experts -> (the task, the section).
LABELLED = {
    "encoder_classifier": classifies(readout_width=7),
    "pair_classifier": classifies(readout_width=7),
    "cloze_classifier": classifies(),
    "vision_transformer": classifies(patch_side=1, max_length=SIDE**2 + 1),
    "image_question_classifier": classifies(
        readout_width=7, features=IMAGES, places={"kind": "learned", "max_length": 9}
    ),
    "series:classes": (PositionClasses(), {"channels": 3, "outputs": 5, "network": EXPERT_NETWORK}),
    "series:regression": (Regression(), {"channels": 3, "network": EXPERT_NETWORK}),
}
#: The labels of a row: one each, without the row that only fills the batch, or one for each position.
LABELS = {"series:classes": (T, T - 2, 0, 1)}


@pytest.mark.parametrize("case", fast_are(["encoder_classifier", "series:classes"], [*LABELLED]))
def test_a_task_without_a_token_mask_has_the_auxiliary_losses_of_its_model(case, batch):
    task, section = LABELLED[case]
    structure, parameters, statistics = of_model(case.split(":")[0], section)
    rng = np.random.default_rng(2)
    counts = np.array(LABELS.get(case, (1, 1, 0, 1)))
    batch = {
        "source": batch["source"], "other": batch["source"][::-1], **images_and_series(rng),
        "label": jnp.array([3, 0, -1, 4]), "value": jnp.array([0.5, -1.0, jnp.nan, 2.0]),
        "target": jnp.where(np.arange(T) < counts[:, None], 3, -1),
    }  # fmt: skip
    method = "log_probabilities" if isinstance(task, Classification) else "values"

    def losses(parameters):
        model = structure.merge(parameters, statistics)
        found, aux = getattr(model, method)(batch)
        if case == "pair_classifier":
            aux = [model.vector(batch[side], batch, None)[1] for side in ("source", "other")]
        without = SimpleNamespace(**{method: lambda batch, key: (found, {})})
        total, sums = task.loss(model, batch, None)
        return total - task.loss(without, batch, None)[0], (sums, [*under_loss({"model": aux}).values()])

    (extra, (sums, rows)), gradients = jax.jit(jax.value_and_grad(losses, has_aux=True))(parameters)
    assert len(rows) == (2 if case == "pair_classifier" else 1)
    expected = sum(float(np.sum(np.asarray(one, np.float64) * counts)) for one in rows)
    assert expected > 1 and float(extra) == pytest.approx(expected, rel=1e-3)
    assert float(sums["auxiliary_loss"]) == float(sums["balance"]) == pytest.approx(expected, rel=1e-5)
    assert 0 < float(sums["dropped"]) < counts.sum()
    (router,) = (x for name, x in gradients.items() if name.endswith("router.kernel"))
    assert (np.abs(router).max((1, 2)) > 1e-4).all()
