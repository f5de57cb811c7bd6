"""RNNsearch on generated sentences with known word alignment: in source order, locally reordered, or reversed.

    attention-research train    --config=configs/translation/recurrent_generated.py:local --workdir=runs/local
    attention-research evaluate --workdir=runs/local
    attention-research generate --workdir=runs/local --input="the big dog often sleeps"

variant   parameters  GFLOP/step  steps  time                             BLEU
monotone     481,408        2.66   1200  about 2 minutes on one core      not recorded
local        481,408        2.66   1200  about 2 minutes on one core      not recorded
reversed     481,408        2.66   1200  about 2 minutes on one core      not recorded
smoke         21,160        0.04      4  seconds                          0: it learns nothing

`inspect` prints these counts. GFLOP are those of one training step, here with the longest sentences. Times are
estimated from a few steps. `data.reordering_grammar` generates the sentences: BLEU measures whether words are
translated and ordered correctly, and is not comparable with that on a natural language.
"""

from ml_collections import ConfigDict

VARIANTS = {
    "monotone": "generated sentences of 4 to 20 words, translated word by word",
    "local": "the same, with adjectives after their nouns and adverbs after their verbs",
    "reversed": "the same, with the whole sentence reversed",
    "smoke": "seconds: shows that everything runs, learns nothing",
}


def get_config(variant: str) -> ConfigDict:
    """The config of a variant."""
    return smoke() if variant == "smoke" else cpu(variant)


def cpu(order: str) -> ConfigDict:
    """A bidirectional GRU and the decoder of RNNsearch (Bahdanau et al. 2015), a tenth of the paper's width; Adam."""
    config = ConfigDict({"max_length": 32, "vocabulary_size": 320})
    config.task = {"kind": "translation", "label_smoothing": 0.0}
    config.data = {
        "kind": "pairs",
        "name": f"generated_translation/{order}",
        "source_language": "source",
        "target_language": "target",
        "tokenizer": {"kind": "words"},
        "batching": {"kind": "buckets", "boundaries": (16,)},
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
        "steps": 1200,
        "batch_size": 32,
        "learning_rate": 0.003,
        "optimizer": {"kind": "adam", "b2": 0.999, "epsilon": 1e-8},
        "schedule": {"kind": "cosine", "warmup_steps": 100},
        "clip_norm": 1.0,
        "checkpoint_every": 1200,
        "eval_every": 400,
        "log_every": 20,
    }
    config.decoding = {"kind": "greedy", "extra_length": 16}
    config.evaluation = {"kind": "bleu"}
    return config


def smoke() -> ConfigDict:
    """A tenth of a percent of the work."""
    config = cpu("local")
    config.model.update(width=16, embedding_width=16)
    config.model.decoder.readout_width = 8
    config.model.alignment.score.attention_width = 8
    config.data.batching.boundaries = ()
    config.data.train_examples = 512
    config.training.update(steps=4, batch_size=16, checkpoint_every=4, eval_every=4, log_every=2, eval_batches=1)
    config.training.schedule.warmup_steps = 1
    config.evaluation.update(examples=16, batch_size=16)
    return config
