"""A decoder-only language model of 2024 to 2026, on the film reviews of `transformer.py`.

    attention-research train    --config=configs/language_modelling/modern.py:cpu --workdir=runs/modern
    attention-research evaluate --workdir=runs/modern                # perplexity, and that of a unigram model
    attention-research train    --config=configs/language_modelling/modern.py:cpu --workdir=runs/hybrid \\
        --config.model.self_attention.kind=interleaved \\
        --config.model.self_attention.first.kind=gated_deltanet --config.model.self_attention.last.kind=rotary

variant   parameters   GFLOP/step   steps   time                       perplexity of test reviews (one seed)
cpu          330,432         4.83    1000   2.2 minutes of one core    121
muon         330,432         5.13    1000   2.7 minutes of one core    111
hybrid       396,504         6.50    1000   6.7 minutes of one core    155
smoke          7,539         0.01       4   seconds                    it learns nothing

These runs are short. On the same pieces, a bigram model has a perplexity of 92 and a trigram model 45 (`floors_of` in
`attention_research/tasks/floors`). The runs compare recipes at equal steps, and are not good language models.

Blocks are x + f(N(x)) with root mean square norms N, attention with rotary positions, normalized queries and keys and
half as many key heads as query heads, and SwiGLU. There is no dropout, and no bias but that of the output. Input and
output share one table; `vocabulary.kind` untied gives the output its own. `muon` updates matrices with Muon, and all
else with AdamW. `hybrid` has three layers of Gated DeltaNet to one of attention, as in Qwen3-Next.
"""

from ml_collections import ConfigDict

VARIANTS = {
    "cpu": "AdamW: minutes on one core",
    "muon": "Muon in place of AdamW",
    "hybrid": "three layers with a state (Gated DeltaNet) to one of attention",
    "smoke": "seconds: shows that everything runs, learns nothing",
}


def get_config(variant: str) -> ConfigDict:
    """The config of a variant."""
    return {"cpu": cpu, "muon": muon, "hybrid": hybrid, "smoke": smoke}[variant]()


def cpu() -> ConfigDict:
    """Four layers of width 64, sequences of 128 tokens, as many parameters as `transformer.py:cpu` within 1 %."""
    config = ConfigDict({"max_length": 128, "vocabulary_size": 2048})
    config.task = {"kind": "text_to_text"}
    config.data = {"kind": "text", "name": "reviews/imdb", "sentinels": 1, "objective": {"kind": "language_model"}}
    config.model = {
        "kind": "transformer_decoder",
        "num_layers": 4,
        "width": 64,
        "num_heads": 4,
        "dropout_rate": 0.0,
        "self_attention": attention(),
        "feed_forward": {"kind": "gated", "hidden_width": 192, "activation": "swish", "use_bias": False},
        "norm": {"kind": "rms_norm"},
        "positions": {"kind": "none"},
        "vocabulary": {"kind": "unscaled"},
        "decoder": {"steps": pre_norm("self_attention", "feed_forward"), "final_norm": True},
    }
    config.training = {
        "steps": 1000,
        "batch_size": 16,
        "learning_rate": 0.003,
        "optimizer": {"kind": "adamw", "weight_decay": 0.1, "b2": 0.95},
        "schedule": {"kind": "linear", "warmup_steps": 100},
        "clip_norm": 1.0,
        "checkpoint_every": 500,
        "eval_every": 500,
        "log_every": 50,
        "eval_batches": 16,
        "keep_best": 0,
    }
    config.evaluation = {"kind": "perplexity", "split": "test", "examples": 512, "batch_size": 32}
    return config


def muon() -> ConfigDict:
    """The same model with Muon."""
    config = cpu()
    config.training.optimizer = {"kind": "muon"}
    return config


def hybrid() -> ConfigDict:
    """Layers 1 to 3 have a state, layer 4 attention."""
    config = cpu()
    config.model.self_attention = {
        "kind": "interleaved",
        "interval": 4,
        "first": {"kind": "gated_deltanet"},
        "last": attention(),
    }
    return config


def smoke() -> ConfigDict:
    """Small in every dimension."""
    config = cpu()
    config.max_length, config.vocabulary_size = 32, 211
    config.data.name = "reviews/rotten_tomatoes"
    config.model.update(num_layers=2, width=16, num_heads=2)
    config.model.self_attention.num_key_value_heads = 1
    config.model.feed_forward.hidden_width = 24
    config.training.update(steps=4, batch_size=4, checkpoint_every=4, eval_every=4, log_every=2, eval_batches=1)
    config.evaluation.update(examples=16, batch_size=16)
    return config


def attention() -> dict:
    """Rotary attention with normalized queries and keys, and two key heads."""
    return {"kind": "rotary", "query_key_norm": "rms", "num_key_value_heads": 2, "use_bias": False}


def pre_norm(*layers: str) -> tuple[tuple[str, ...], ...]:
    """x + f(N(x)) for each layer f."""
    return tuple(("norm", layer, "residual") for layer in layers)
