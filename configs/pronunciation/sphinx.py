"""Letters to phonemes at the sizes of g2p-seq2seq (CMU Sphinx, 2016 to 2019), on its split of the whole dictionary.

    attention-research train    --config=configs/pronunciation/sphinx.py:gru --workdir=runs/gru
    attention-research evaluate --workdir=runs/gru            # error rates by phoneme, by word and by line

variant      parameters  GFLOP/step   steps  time                       error rate of words, %
gru             143,504        1.89  80,000  2.4 hours for three seeds  33.0 +- 0.5 (published: 39.6)
transformer   3,975,168      227.74   4,500  not recorded               not recorded (published: 30.2, by line)
smoke            11,864        0.03       4  seconds                    it learns nothing

`inspect` prints these counts. GFLOP are those of one training step, here with the longest words. The record is that of
experiments/g2p2018; the published numbers are from the README of g2p-seq2seq. `gru` has two layers of 64 GRU cells on
each side, reads the word from its end, and attends with additive scores; `transformer` has 3+3 layers of width 256, 4
heads and feed-forward layers of 512. Training words are those of `pronunciation/en_sphinx`. The training is our own:
the released program uses stochastic gradient descent for the first and tensor2tensor's schedule, for some 780 epochs
instead of 10, for the second.
"""

from ml_collections import ConfigDict

VARIANTS = {
    "gru": "2+2 layers of 64 GRU cells with additive attention, 80,000 updates",
    "transformer": "3+3 layers of width 256, 10 epochs",
    "smoke": "seconds: shows that everything runs, learns nothing",
}


def get_config(variant: str) -> ConfigDict:
    """The config of a variant."""
    return {"gru": gru, "transformer": transformer, "smoke": smoke}[variant]()


def base() -> ConfigDict:
    """What both systems share: the data, Adam with a cosine schedule, the best checkpoint by validation, greedy."""
    config = ConfigDict({"max_length": 36, "vocabulary_size": 80})
    config.task = {"kind": "translation", "label_smoothing": 0.0}
    config.data = {
        "name": "pronunciation/en_sphinx",
        "source_language": "letters",
        "target_language": "phonemes",
        "tokenizer": {"kind": "words"},
        "batching": {"kind": "buckets", "boundaries": (10, 16)},
    }
    config.training = {
        "learning_rate": 0.002,
        "optimizer": {"kind": "adam", "b2": 0.999, "epsilon": 1e-8},
        "clip_norm": 1.0,
        "log_every": 100,
        "chosen_checkpoint": "best",
    }
    config.decoding = {"kind": "greedy", "extra_length": 8}
    config.evaluation = {"kind": "error_rate", "batch_size": 256}
    return config


def gru() -> ConfigDict:
    """The size "2 x 64" and its number of updates: 44 epochs in batches of 64 lines."""
    config = base()
    config.model = {
        "kind": "recurrent",
        "width": 64,
        "embedding_width": 64,
        "num_layers": 2,
        "dropout_rate": 0.0,
        "reverse_source": True,
        "cell": {"kind": "gru"},
        "encoder": {"kind": "unidirectional"},
        "decoder": {"kind": "luong"},
        "alignment": {"kind": "global", "score": {"kind": "additive", "attention_width": 64}},
    }
    config.training.update(steps=80_000, batch_size=64, eval_every=4000, checkpoint_every=4000)
    config.training.schedule = {"kind": "cosine", "warmup_steps": 1000}
    return config


def transformer() -> ConfigDict:
    """The size "3 x 256" in pre-norm blocks, and 10 epochs in batches of 256 lines."""
    config = base()
    config.model = {
        "kind": "transformer",
        "num_layers": 3,
        "width": 256,
        "num_heads": 4,
        "dropout_rate": 0.1,
        "feed_forward": {"kind": "dense", "hidden_width": 512},
        "encoder": {"unroll": True, "steps": pre_norm("self_attention", "feed_forward"), "final_norm": True},
        "decoder": {
            "unroll": True,
            "steps": pre_norm("self_attention", "cross_attention", "feed_forward"),
            "final_norm": True,
        },
    }
    config.data.batching.boundaries = (8, 10, 13)
    config.training.update(steps=4500, batch_size=256, eval_every=450, checkpoint_every=450)
    config.training.optimizer = {"kind": "adamw"}
    config.training.schedule = {"kind": "cosine", "warmup_steps": 450}
    return config


def pre_norm(*layers: str) -> tuple[tuple[str, ...], ...]:
    """x + Dropout(f(LN(x))) for each layer f."""
    return tuple(("norm", layer, "dropout", "residual") for layer in layers)


def smoke() -> ConfigDict:
    """A tenth of a percent of the work."""
    config = gru()
    config.model.update(width=16, embedding_width=16)
    config.model.alignment.score.attention_width = 8
    config.data.batching.boundaries = ()
    config.data.train_examples = 512
    config.training.update(steps=4, batch_size=16, checkpoint_every=4, eval_every=4, log_every=2, eval_batches=1)
    config.training.schedule.warmup_steps = 1
    config.evaluation.update(examples=16, batch_size=16)
    return config
