"""The training, evaluation and decoding programs of published sizes lower for a GPU and for a TPU, from shapes alone.

Nothing is allocated and no accelerator is needed. What the programs compute there is not tested. JAX asks cuDNN for its
version while it lowers a program; on a machine without a GPU the Triton kernels are used instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attention_research.config import load, variants
from attention_research.models.sequences import source
from attention_research.tasks.evaluation_protocol import ReadsOutputs
from attention_research.training.trainer import Trainer
from tests.tiers import fast_are

#: From JAX 0.11 on, Triton kernels are lowered for the GPU that an abstract mesh names.
ANONYMOUS = jax.__version_info__ < (0, 11)
CARD = jax.sharding.AbstractDevice("NVIDIA H100 80GB HBM3", 132, "gpu")
MESH = jax.sharding.AbstractMesh((1,), ("data",), (jax.sharding.AxisType.Auto,), abstract_device=CARD)
KERNELS = {"cuda": "__gpu$xla.gpu.triton", "tpu": "@tpu_custom_call"}
#: Config and variant -> the number of attention kernels in the programs for (cuda, tpu) of training, evaluation and
#: decoding (or of an evaluation that reads the model). Layers are one scan: an attention is 1 kernel in the forward
#: pass and 4 in training. Packed rows use a [T S] mask, which Splash attention does not support; a distance bias is
#: dense on both platforms.
PROGRAMS: dict[str, tuple[tuple[int, int], ...]] = {
    "classification/long_range:listops_base": ((4, 4), (1, 1), (1, 1)),
    "classification/long_range:text_base": ((4, 4), (1, 1), (1, 1)),
    "classification/text:imdb": ((0, 0), (0, 0), (0, 0)),
    "copying/recurrent:cpu": ((0, 0), (0, 0), (0, 0)),
    "images/captions:collages": ((0, 0), (0, 0), (0, 0)),
    "images/questions:collages": ((0, 0), (0, 0), (0, 0)),
    "images/residual:cifar10": ((0, 0), (0, 0), (0, 0)),
    "images/vision_transformer:b16": ((4, 4), (1, 1), (1, 1)),
    "images/vision_transformer:b32": ((4, 4), (1, 1), (1, 1)),
    "images/vision_transformer:l16": ((4, 4), (1, 1), (1, 1)),
    "images/vision_transformer:l32": ((4, 4), (1, 1), (1, 1)),
    "images/vision_transformer:h14": ((4, 4), (1, 1), (1, 1)),
    "language_modelling/recurrent:cpu": ((0, 0), (0, 0), (0, 0)),
    "language_modelling/transformer:cpu": ((4, 4), (1, 1), (1, 1)),
    "language_modelling/transformer:masked": ((0, 0), (0, 0), (0, 0)),
    "naming/allamanis:allamanis": ((0, 0), (0, 0), (0, 0)),
    "naming/pointer_generator:see2017": ((0, 0), (0, 0), (0, 0)),
    "pronunciation/recurrent:cpu": ((0, 0), (0, 0), (0, 0)),
    "rationales/reviews:lei2016": ((0, 0), (0, 0), (0, 0)),
    "text_to_text/narang2021:gpu": ((4, 4), (1, 1), (1, 1)),
    "text_to_text/narang2021:paper": ((4, 4), (1, 1), (1, 1)),
    "text_to_text/t5_2020:paper": ((4, 4), (1, 1), (1, 1)),
    "translation/files:base": ((12, 0), (3, 2), (1, 1)),
    "translation/parsing:vaswani_parsing": ((12, 0), (3, 2), (1, 1)),
    "translation/recurrent:bahdanau_50": ((0, 0), (0, 0), (0, 0)),
    "translation/recurrent:bahdanau_encdec": ((0, 0), (0, 0), (0, 0)),
    "translation/recurrent:britz": ((0, 0), (0, 0), (0, 0)),
    "translation/recurrent:luong": ((0, 0), (0, 0), (0, 0)),
    "translation/recurrent:sutskever": ((0, 0), (0, 0), (0, 0)),
    "translation/recurrent_generated:monotone": ((0, 0), (0, 0), (0, 0)),
    "translation/transformer:vaswani_base": ((12, 0), (3, 2), (1, 1)),
    "translation/transformer:vaswani_big": ((12, 0), (3, 2), (1, 1)),
}
QUICK = ("language_modelling/transformer:cpu",)
#: One of each number of kernels. The other configs are long.
SLOW = (
    "classification/text:imdb", "images/vision_transformer:b16", "text_to_text/t5_2020:paper",
    "translation/recurrent:luong", "translation/transformer:vaswani_base",
)  # fmt: skip


def programs(config: Any) -> Iterator[tuple[Any, tuple]]:
    """Yields (function, argument shapes) of training, evaluation and decoding, at the config's largest batch."""
    trainer = Trainer(config, alone=True)
    step, start = trainer.step_and_start
    state = jax.eval_shape(start, 0)
    model, merge = (state["parameters"], state["statistics"]), trainer.structure.merge
    shapes = max(trainer.data.train_shapes(trainer.settings.batch_size), key=lambda s: sum(map(np.prod, s.values())))
    dtypes = {name: jnp.dtype(trainer.data.dtypes.get(name, "int32")) for name in shapes}
    batch = {name: jax.ShapeDtypeStruct(shape, dtypes[name]) for name, shape in shapes.items()}
    rows = {name: x for name, x in batch.items() if not name.endswith(("_segments", "_positions"))}
    yield step, (state, batch)
    yield lambda model, rows: trainer.task.loss(merge(*model), rows, None), (model, rows)
    evaluation, decoding = trainer.parts.evaluation(), trainer.parts.decoding()
    if isinstance(evaluation, ReadsOutputs):
        yield lambda model, rows: evaluation.outputs(merge(*model), rows), (model, rows)
    else:
        length = config.resolved["max_length"]
        yield lambda model, source: decoding(merge(*model), source, max_length=length), (model, dict(source(rows)))


def kernels(function: Any, arguments: tuple) -> tuple[int, int]:
    """The numbers of attention kernels in the programs for CUDA and TPU."""
    found = []
    for platform, kernel in KERNELS.items():
        with nullcontext() if ANONYMOUS else jax.sharding.use_abstract_mesh(MESH):
            text = jax.jit(function).trace(*arguments).lower(lowering_platforms=(platform,)).as_text()
        assert not [other for other in KERNELS.values() if other != kernel and other in text]
        found.append(text.count(kernel))
    return found[0], found[1]


def config_of(name: str) -> Any:
    file, _, variant = name.partition(":")
    return load(f"configs/{file}.py:{variant}")


@pytest.mark.parametrize("name", fast_are(QUICK, [*PROGRAMS], slow=SLOW))
def test_the_programs_of_a_config_lower_for_a_gpu_and_a_tpu(name, root, monkeypatch):
    monkeypatch.chdir(root)
    ((cuda, tpu), *others) = PROGRAMS[name]
    if not ANONYMOUS:  # the gradient under a named GPU does not run the forward kernel again
        cuda = cuda // 4 * 3
    assert tuple(kernels(*program) for program in programs(config_of(name))) == ((cuda, tpu), *others)


def test_every_gpu_and_paper_variant_is_among_them(root, monkeypatch):
    monkeypatch.chdir(root)
    files = [str(path.relative_to(root / "configs").with_suffix("")) for path in (root / "configs").glob("*/*.py")]
    named = {f"{file}:{one}" for file in files for one in variants(f"configs/{file}.py") if one in ("gpu", "paper")}
    assert named and named <= PROGRAMS.keys()
