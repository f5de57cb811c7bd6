"""Letters to phonemes with a Transformer: the CMU Pronouncing Dictionary, a translation task learned in minutes.

    attention-research train    --config=configs/pronunciation/transformer.py:quick --workdir=runs/sounds
    attention-research evaluate --workdir=runs/sounds                         # error rates, and those of the baselines
    attention-research generate --workdir=runs/sounds --input="a t t e n t i o n" --attention=attention.html

variant  parameters  GFLOP/step  steps  time                                  phoneme error rate, %
cpu       1,399,296        71.8   4000  not recorded                          not recorded
quick       936,448        24.0   1200  4 to 6 minutes, one core (busy)       13.5 +- 0.2
smoke        24,064        0.09      4  seconds                               it learns nothing

`inspect` prints these counts. GFLOP are those of one training step, here with the longest words. The error rate is the
number of edits per phoneme on held-out words, against the closest pronunciation of the word. The variant `quick` is the
row "scaled dot product" of experiments/ablation/results/attention/quick/table.md (five seeds).
"""

from ml_collections import ConfigDict

VARIANTS = {
    "cpu": "letters to 39 phonemes, 3+3 layers of width 128: about 15 minutes on one core",
    "quick": "the same with 2+2 layers: about 5 minutes on one core",
    "smoke": "seconds: shows that everything runs, learns nothing",
}


def get_config(variant: str) -> ConfigDict:
    """The config of a variant."""
    return {"cpu": cpu, "quick": quick, "smoke": smoke}[variant]()


def cpu() -> ConfigDict:
    """Pre-norm blocks (Xiong et al. 2020), AdamW, a cosine schedule after 10 % warm-up, gradients clipped at norm 1."""
    config = ConfigDict({"max_length": 32, "vocabulary_size": 80})
    config.task = {"kind": "translation", "label_smoothing": 0.1}
    config.data = {
        "name": "pronunciation/en",
        "source_language": "letters",
        "target_language": "phonemes",
        "tokenizer": {"kind": "words"},
        "batching": {"kind": "buckets", "boundaries": (8, 10, 13)},
    }
    config.model = {
        "kind": "transformer",
        "num_layers": 3,
        "width": 128,
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
    config.training = {
        "steps": 4000,
        "batch_size": 256,
        "learning_rate": 0.002,
        "optimizer": {"kind": "adamw"},
        "schedule": {"kind": "cosine", "warmup_steps": 400},
        "clip_norm": 1.0,
        "checkpoint_every": 1000,
        "eval_every": 500,
        "log_every": 50,
    }
    config.decoding = {"kind": "greedy", "extra_length": 8}
    config.evaluation = {"kind": "error_rate", "batch_size": 256}
    return config


def pre_norm(*layers: str) -> tuple[tuple[str, ...], ...]:
    """x + Dropout(f(LN(x))) for each layer f."""
    return tuple(("norm", layer, "dropout", "residual") for layer in layers)


def quick() -> ConfigDict:
    """Two layers, half the batch and fewer updates, for short studies. Two batch widths compile faster than four."""
    config = cpu()
    config.model.num_layers = 2
    config.data.batching.boundaries = (12,)
    config.training.update(steps=1200, batch_size=128, checkpoint_every=1200, eval_every=400, log_every=20)
    config.training.schedule.warmup_steps = 120
    return config


def smoke() -> ConfigDict:
    """A tenth of a percent of the work."""
    config = quick()
    config.model.update(num_layers=1, width=32)
    config.model.feed_forward.hidden_width = 64
    config.data.batching.boundaries = ()
    config.data.train_examples = 512
    config.training.update(steps=4, batch_size=16, checkpoint_every=4, eval_every=4, log_every=2, eval_batches=1)
    config.training.schedule.warmup_steps = 1
    config.evaluation.update(examples=16, batch_size=16)
    return config
