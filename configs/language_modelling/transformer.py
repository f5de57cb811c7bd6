"""Causal and masked Transformer language models of film reviews, with various positions (Haviv et al. 2022).

    attention-research train    --config=configs/language_modelling/transformer.py:cpu --workdir=runs/lm
    attention-research evaluate --workdir=runs/lm                # perplexity, and that of a unigram model
    attention-research train    --config=configs/language_modelling/transformer.py:cpu --workdir=runs/nopos \\
        --config.model.positions.kind=none

variant  parameters  GFLOP/step  steps  time                        perplexity
cpu         331,136        4.83  1,000  4 minutes a seed, one core  not recorded; a trigram model has 45 (`floors_of`)
masked      211,856        3.36  3,000  5 minutes a seed, one core  3.67 +- 0.09 of hidden characters (lectures/masking)
smoke         7,856        0.01      4  seconds                     it learns nothing

`floors_of` in `attention_research/tasks/floors` computes the perplexity of the trigram model. Blocks are pre-norm, with
sinusoidal positions by default. `positions.kind` is sinusoidal, learned or none; the `self_attention.kind` t5, alibi,
rotary or relative is used with `positions.kind=none`. A sequence is a part of running text of `max_length` tokens; no
state is carried from one sequence to the next. `masked` hides 15 % of the characters of a sequence from an encoder with
a learned bias for each distance. With sinusoids, it predicts only the frequencies of the characters for thousands of
updates.
"""

from ml_collections import ConfigDict

VARIANTS = {
    "cpu": "causal, on film reviews: minutes on one core",
    "masked": "an encoder that fills in hidden tokens (Devlin et al. 2019)",
    "smoke": "seconds: shows that everything runs, learns nothing",
}


def get_config(variant: str) -> ConfigDict:
    """The config of a variant."""
    return {"cpu": cpu, "masked": masked, "smoke": smoke}[variant]()


def cpu() -> ConfigDict:
    """Four layers of width 64, sequences of 128 tokens; Adam, with a warm-up and a linear decay to 0."""
    config = ConfigDict({"max_length": 128, "vocabulary_size": 2048})
    config.task = {"kind": "text_to_text"}
    config.data = {"kind": "text", "name": "reviews/imdb", "sentinels": 1, "objective": {"kind": "language_model"}}
    config.model = {
        "kind": "transformer_decoder",
        "num_layers": 4,
        "width": 64,
        "num_heads": 4,
        "dropout_rate": 0.0,
        "feed_forward": {"kind": "dense", "hidden_width": 256, "activation": "gelu"},
        "decoder": {"steps": pre_norm("self_attention", "feed_forward"), "final_norm": True},
    }
    config.training = {
        "steps": 1000,
        "batch_size": 16,
        "learning_rate": 0.003,
        "optimizer": {"kind": "adam"},
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


def masked() -> ConfigDict:
    """The same blocks without a causal mask; the model predicts 15 % of the characters."""
    config = cpu()
    config.vocabulary_size = 176  # 171 kinds of characters occur in the film reviews
    config.data.tokenizer = {"kind": "characters"}
    config.data.objective = {"kind": "masked_tokens"}
    config.model.kind = "transformer_encoder"
    config.model.positions = {"kind": "none"}
    config.model.self_attention = {"kind": "relative_bias"}
    config.training.update(steps=3000, checkpoint_every=1000)
    config.training.schedule.warmup_steps = 300
    config.model.encoder = config.model.decoder
    del config.model.decoder
    return config


def smoke() -> ConfigDict:
    """Small in every dimension."""
    config = cpu()
    config.max_length, config.vocabulary_size = 32, 211
    config.data.name = "reviews/rotten_tomatoes"
    config.model.update(num_layers=2, width=16, num_heads=2)
    config.model.feed_forward.hidden_width = 32
    config.training.update(steps=4, batch_size=4, checkpoint_every=4, eval_every=4, log_every=2, eval_batches=1)
    config.evaluation.update(examples=16, batch_size=16)
    return config


def pre_norm(*layers: str) -> tuple[tuple[str, ...], ...]:
    """x + Dropout(f(N(x))) for each layer f."""
    return tuple(("norm", layer, "dropout", "residual") for layer in layers)
