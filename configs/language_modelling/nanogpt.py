"""A language model of characters with the recipe of nanoGPT (Karpathy 2022) for a CPU, on eight plays of Shakespeare.

    attention-research train    --config=configs/language_modelling/nanogpt.py:cpu --workdir=runs/nanogpt
    attention-research evaluate --workdir=runs/nanogpt               # nats a character of the validation text
    attention-research generate --workdir=runs/nanogpt --input="ROMEO"

variant  parameters  GFLOP/step   steps  time            nats per character
cpu         806,144        3.97   2,000  5 to 8 minutes  1.973, three seeds (published, on another edition: 1.88)
long        814,336       22.80  10,000  not recorded    not recorded
smoke         5,216        0.00       4  seconds         it learns nothing

`cpu` is the command that nanoGPT's README gives for a CPU: 4 layers of width 128 with 4 heads, windows of 64
characters, 12 to a batch, without dropout and biases, GELU, one table for input and output, learned positions, layer
norm before each branch, GPT-2's initialization, AdamW with decay 0.1 on matrices, gradients clipped at norm 1, and a
cosine from 0.001 to 0.0001 after 100 steps of warm-up. nanoGPT has 65 or, on this text, 78 tokens; here there are three
more (padding, beginning, end), which do not occur in the text. The score is the logarithm of the perplexity. Its
README has 1.88 for char-rnn's edition of the plays, which no package registry has. A 7-gram model is better than this
model: the number is a check of the recipe, not of the quality. `long` trains on 27 times as many characters, in windows
of 128.
"""

from ml_collections import ConfigDict

VARIANTS = {
    "cpu": "nanoGPT's recipe for a CPU: minutes on one core",
    "long": "the same model on longer windows and larger batches, for five times as many steps",
    "smoke": "seconds: shows that everything runs, learns nothing",
}


def get_config(variant: str) -> ConfigDict:
    """The config of a variant."""
    return {"cpu": cpu, "long": long, "smoke": smoke}[variant]()


def cpu() -> ConfigDict:
    """Every setting of the original program, where it has one."""
    config = ConfigDict({"max_length": 64, "vocabulary_size": 81})
    config.task = {"kind": "translation", "label_smoothing": 0.0}
    config.data = {"kind": "windows", "name": "shakespeare/plays", "tokenizer": {"kind": "characters"}}
    config.model = {
        "kind": "transformer_decoder",
        "num_layers": 4,
        "width": 128,
        "num_heads": 4,
        "dropout_rate": 0.0,
        "self_attention": {"kind": "standard", "use_bias": False},
        "feed_forward": {"kind": "dense", "hidden_width": 512, "activation": "gelu_exact", "use_bias": False},
        "norm": {"kind": "layer_norm_no_bias"},
        "positions": {"kind": "learned"},
        "vocabulary": {"kind": "unscaled_no_bias"},
        "initialization": {"kind": "gpt2"},
    }
    config.training = {
        "steps": 2000,
        "batch_size": 12,
        "learning_rate": 0.001,
        "optimizer": {"kind": "adamw", "b1": 0.9, "b2": 0.99, "weight_decay": 0.1},
        "schedule": {"kind": "cosine", "warmup_steps": 100, "initial": 1 / 101, "final": 0.1},
        "clip_norm": 1.0,
        "checkpoint_every": 2000,
        "eval_every": 250,
        "log_every": 50,
        "eval_batches": 146,  # the whole validation text
        "keep_best": 0,
    }
    config.evaluation = {"kind": "characters", "split": "validation", "batch_size": 64}
    return config


def long() -> ConfigDict:
    """32 windows of 128 characters in a batch, 10,000 steps."""
    config = cpu()
    config.max_length = 128
    config.training.update(steps=10_000, batch_size=32, checkpoint_every=5000, eval_every=1000, eval_batches=28)
    return config


def smoke() -> ConfigDict:
    """Small in every dimension."""
    config = cpu()
    config.max_length = 16
    config.model.update(num_layers=2, width=16, num_heads=2)
    config.model.feed_forward.hidden_width = 24
    config.training.update(steps=4, batch_size=4, checkpoint_every=4, eval_every=4, log_every=2, eval_batches=1)
    config.evaluation.update(examples=16, batch_size=16)
    return config
