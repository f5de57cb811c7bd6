"""Letters to phonemes with recurrent attention: the CMU Pronouncing Dictionary. Both sides are in the same order.

    attention-research train    --config=configs/pronunciation/recurrent.py:cpu --workdir=runs/pronunciation
    attention-research evaluate --workdir=runs/pronunciation                    # error rate, and that of the baseline
    attention-research generate --workdir=runs/pronunciation --input="m o n o t o n i c"

variant  parameters  GFLOP/step  steps  time                              phoneme error rate, %
cpu         435,088        5.13   2000  about 3 minutes on one core       not recorded
smoke        11,320        0.03      4  seconds                           it learns nothing

`inspect` prints these counts. GFLOP are those of one training step, here with the longest words. The time is estimated
from a few steps. The error rate is the number of edits per phoneme on held-out words, against the closest pronunciation
of the word. A baseline that replaces each letter by one fixed sound has 43.1. BLEU is not used, because it is not
meaningful for sounds. experiments/raffel2017/results records other encoders and attention.
"""

from ml_collections import ConfigDict

VARIANTS = {
    "cpu": "letters to 39 phonemes, one GRU layer of 128 each side: about 3 minutes on one core",
    "smoke": "seconds: shows that everything runs, learns nothing",
}


def get_config(variant: str) -> ConfigDict:
    """The config of a variant."""
    return {"cpu": cpu, "smoke": smoke}[variant]()


def cpu() -> ConfigDict:
    """A bidirectional GRU and the decoder of RNNsearch (Bahdanau et al. 2015), a tenth of the paper's width; Adam."""
    config = ConfigDict({"max_length": 32, "vocabulary_size": 80})
    config.task = {"kind": "translation", "label_smoothing": 0.0}
    config.data = {
        "kind": "pairs",
        "name": "pronunciation/en",
        "source_language": "letters",
        "target_language": "phonemes",
        "tokenizer": {"kind": "words"},
        "batching": {"kind": "buckets", "boundaries": (12,)},
    }
    config.model = {
        "kind": "recurrent",
        "width": 128,
        "embedding_width": 64,
        "dropout_rate": 0.1,
        "cell": {"kind": "gru"},
        "encoder": {"kind": "bidirectional"},
        "decoder": {"kind": "bahdanau", "readout_width": 64},
        "alignment": {"kind": "global", "score": {"kind": "additive", "attention_width": 64}},
    }
    config.training = {
        "steps": 2000,
        "batch_size": 64,
        "learning_rate": 0.003,
        "optimizer": {"kind": "adam", "b2": 0.999, "epsilon": 1e-8},
        "schedule": {"kind": "cosine", "warmup_steps": 100},
        "clip_norm": 1.0,
        "checkpoint_every": 2000,
        "eval_every": 500,
        "log_every": 50,
    }
    config.decoding = {"kind": "greedy", "extra_length": 8}
    config.evaluation = {"kind": "error_rate", "batch_size": 256}
    return config


def smoke() -> ConfigDict:
    """A tenth of a percent of the work."""
    config = cpu()
    config.model.update(width=16, embedding_width=16)
    config.model.decoder.readout_width = 8
    config.model.alignment.score.attention_width = 8
    config.data.batching.boundaries = ()
    config.data.train_examples = 512
    config.training.update(steps=4, batch_size=16, checkpoint_every=4, eval_every=4, log_every=2, eval_batches=1)
    config.training.schedule.warmup_steps = 1
    config.evaluation.update(examples=16, batch_size=16)
    return config
