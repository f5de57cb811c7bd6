"""The cost of attention by length: time and memory of one layer, forward and backward, for T = 512 to 4096.

    attention-research reproduce ablation/length --scale=cpu

The layer is one self-attention layer with its four projections, in float32 with batch size 1. Every measurement has its
own process. The rank of Linformer is below the length here. Time is the median over repeated calls of the compiled
gradient of a random projection of the output with respect to all parameters and the input. Memory is the increase of
the peak resident size of the process by that call (on an accelerator: of the peak memory of the device).
"""

from attention_research.studies import Row, Scale, Study, measure
from attention_research.studies.columns import Column, significant


def _layer(kind: str, length: int, width: int, num_heads: int, settings: dict):
    """Returns make(rngs) -> (attention, the modules that a stack of layers owns for it)."""
    from attention_research.layers.attention.multi_head import owned_by_stack
    from attention_research.registry import lookup
    from attention_research.signatures import Constructor

    sizes = {"width": width, "num_heads": num_heads, "head_width": None}
    if kind == "linformer":
        sizes |= {"max_length": length, "sharing": "headwise"}
    if kind == "t5":
        sizes |= {"num_buckets": 32, "max_distance": 128}
    constructor = Constructor(lookup("encoder_attention", kind), {**sizes, **settings})
    return lambda rngs: (constructor(rngs=rngs), owned_by_stack(constructor, rngs))


def _gradient(modules, x, direction):
    """The gradient of `<attention(x), direction>` with respect to all parameters and x."""
    import jax
    import jax.numpy as jnp

    def projected(modules, x):
        attention, shared = modules
        return jnp.sum(attention(x, shared=shared)[0] * direction)

    return jax.grad(projected, argnums=(0, 1))(modules, x)


def measure_attention(*, kind: str, length: int, width: int, num_heads: int, seconds: float, seed: int, **settings):
    """Measures "milliseconds", "megabytes", "repeats" and "compile_seconds" of forward and backward of one layer."""
    import jax
    import jax.numpy as jnp
    from flax import nnx

    from attention_research.accounting.clock import measure_call

    make = _layer(kind, length, width, num_heads, settings)
    keys = jax.random.split(jax.random.key(seed), 3)
    modules = jax.jit(lambda key: make(nnx.Rngs(key)))(keys[0])
    x, direction = (jax.random.normal(key, (1, length, width), jnp.float32) for key in keys[1:])
    return measure_call(_gradient, modules, x, direction, seconds=seconds)


def count_attention(*, kind: str, length: int, width: int, num_heads: int, seconds: float, **settings):
    """Counts "parameters" and "flops" of the program of `measure_attention`, from shapes only."""
    import jax
    import jax.numpy as jnp
    from flax import nnx

    from attention_research.accounting.flops import count_flops

    make = _layer(kind, length, width, num_heads, settings)
    modules = jax.eval_shape(lambda: make(nnx.Rngs(0)))
    x = jax.ShapeDtypeStruct((1, length, width), jnp.float32)
    parameters = sum(leaf.size for leaf in jax.tree.leaves(modules))
    return {"parameters": parameters, "flops": count_flops(_gradient, modules, x, x).matmul}


SIZES = {"width": 512, "num_heads": 8, "seconds": 1.0}
SIZE_NOTE = "One layer of width 512 with 8 heads, batch 1, float32; forward and backward."

STUDY = Study(
    rows=(
        Row("reference", "scaled dot product, dense", settings={"kind": "standard", "implementation": "reference"}),
        Row("standard", "scaled dot product", settings={"kind": "standard"}),
        Row("unscaled", "unscaled", settings={"kind": "unscaled"}),
        Row("relative", "relative (Shaw), k=16", settings={"kind": "relative", "max_distance": 16}),
        Row("t5", "T5 bias", settings={"kind": "t5"}),
        Row("linformer_64", "Linformer, rank 64", settings={"kind": "linformer", "rank": 64}),
        Row("linformer_128", "Linformer, rank 128", settings={"kind": "linformer", "rank": 128}),
        Row("linformer_256", "Linformer, rank 256", settings={"kind": "linformer", "rank": 256}),
    ),
    scales={
        "smoke": Scale(seeds=1, jobs=2, points=(32, 64), settings={"width": 32, "num_heads": 2, "seconds": 0.0}),
        "quick": Scale(seeds=2, points=(512, 1024, 2048), settings={**SIZES, "seconds": 0.5}, note=SIZE_NOTE),
        "cpu": Scale(seeds=3, points=(512, 1024, 2048, 4096), settings=SIZES, note=SIZE_NOTE),
        "gpu": Scale(seeds=3, points=(512, 1024, 2048, 4096, 8192, 16384), settings=SIZES, note=SIZE_NOTE),
    },
    stages=(measure(measure_attention),),
    count=count_attention,
    axis="length",
    axis_name="T",
    competence=(),
    columns=(
        Column("measure.milliseconds", "ms", significant(3), at_points=True, better="lower"),
        Column("measure.milliseconds", "ms ~ T^p", significant(3), fitted=True),
        Column("measure.megabytes", "MB", significant(3), at_points=True, better="lower"),
        Column("measure.megabytes", "MB ~ T^p", significant(3), fitted=True),
    ),
    notes=("Linformer's projections are shared headwise and have exactly the measured length.",),
)
