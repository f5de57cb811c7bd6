"""Constituency parsing as translation, from a sentence to its linearised tree: Vaswani et al. 2017, section 6.3.

    attention-research train    --config=configs/translation/parsing.py:cpu --workdir=runs/parsing
    attention-research evaluate --workdir=runs/parsing                  # F1, and that of one bracket around all words
    attention-research generate --workdir=runs/parsing --input="every dog who visits the king sleeps ."

variant          parameters  GFLOP/step   steps  time                                       F1
vaswani_parsing 100,384,768      17,755    100K  the paper does not say                     91.3 (the paper's, Table 4)
cpu               1,916,928         6.1    2500  5.7 minutes on one core of an AMD EPYC     58.7 +- 9.9
smoke               101,888         0.4       4  seconds                                    0: it learns nothing

`inspect` prints these counts. GFLOP are those of one training step. The F1 of the paper is on section 23 of the Wall
Street Journal; it was not run here, because the text must be bought. `vaswani_parsing` reads it as pairs of files:
sentences, and their trees as `data.trees.linearised` writes them. (With 17M sentences parsed by other parsers and
32,000 pieces, the paper reports 92.7.) `cpu` and `smoke` parse short trees that a small grammar generates; their F1 is
not comparable with that on the Wall Street Journal. On this data, one bracket around all words has 29.4, and 2 layers
(`--config.model.num_layers=2`) reach 95.7 +- 1.1 in half the time (experiments/vaswani2017/results/table4).
"""

from ml_collections import ConfigDict

VARIANTS = {
    "vaswani_parsing": "WSJ (your files), 4+4 layers, width 1024, 16K pieces (the paper's parser)",
    "cpu": "short generated trees, 4+4 layers, width 128: about 6 minutes on one core",
    "smoke": "seconds: shows that everything runs, learns nothing",
}


def get_config(variant: str) -> ConfigDict:
    """The config of a variant."""
    return {"vaswani_parsing": vaswani_parsing, "cpu": cpu, "smoke": smoke}[variant]()


def vaswani_parsing() -> ConfigDict:
    """Section 6.3: 4 layers of width 1024, 16K pieces, beam 21, alpha 0.3, at most 300 tokens more than the input.

    "All other parameters remained unchanged" from the base model: 8 heads, which are 128 wide here, as in the row of
    Table 3 with that width; feed-forward layers of 2048; 100K steps of about 25,000 tokens per side (48 packed
    sequences of 512); the last 5 checkpoints averaged. The paper chose dropout and learning rate on section 22 and does
    not print them; here they are those of the base model.
    """
    config = ConfigDict({"max_length": 512, "vocabulary_size": 16_000})
    config.task = {"kind": "translation", "label_smoothing": 0.1}
    config.data = {
        "kind": "files",
        "train": ("wsj/02-21.words", "wsj/02-21.trees"),
        "validation": ("wsj/22.words", "wsj/22.trees"),
        "test": ("wsj/23.words", "wsj/23.trees"),
        "tokenizer": {"kind": "mixed_scripts"},
        "batching": {"kind": "packed"},
    }
    config.model = {
        "kind": "transformer",
        "num_layers": 4,
        "width": 1024,
        "num_heads": 8,
        "dropout_rate": 0.1,
        "feed_forward": {"kind": "dense", "hidden_width": 2048},
    }
    config.training = {
        "steps": 100_000,
        "batch_size": 48,
        "learning_rate": 1.0,
        "schedule": {"kind": "noam", "warmup_steps": 4000},
        "checkpoint_every": 1500,
        "eval_every": 5000,
        "log_every": 100,
        "keep": 5,
    }
    config.decoding = {"kind": "beam", "beam_size": 21, "alpha": 0.3, "extra_length": 300}
    config.evaluation = {"kind": "parseval", "average": 5}
    return config


def cpu() -> ConfigDict:
    """The paper's system at width 128 on 13,259 short generated trees. A piece is a word or a bracket with its label.

    The learning rate is a quarter of the paper's: half of it, or no dropout, gave a higher validation loss.
    """
    config = vaswani_parsing()
    config.update(max_length=32, vocabulary_size=512)
    config.data = {
        "kind": "pairs",
        "name": "parse_generated/short",
        "source_language": "en",
        "target_language": "tree",
        "tokenizer": {"kind": "mixed_scripts"},
        "batching": {"kind": "buckets", "boundaries": (16, 32)},
    }
    config.model.update(width=128, num_heads=4, encoder={"unroll": True}, decoder={"unroll": True})
    config.model.feed_forward.hidden_width = 512
    config.training.update(
        steps=2500, batch_size=16, learning_rate=0.25, checkpoint_every=2500, eval_every=500, log_every=50, keep=2
    )
    config.training.schedule.warmup_steps = 500
    config.evaluation = {"kind": "parseval", "examples": 256}
    return config


def smoke() -> ConfigDict:
    """A tenth of a percent of the work."""
    config = cpu()
    config.model.update(width=32, encoder={}, decoder={})
    config.model.feed_forward.hidden_width = 64
    config.data.batching.boundaries = ()
    config.training.update(steps=4, batch_size=16, checkpoint_every=4, eval_every=4, log_every=2, eval_batches=1)
    config.decoding.beam_size = 3
    config.evaluation.update(examples=16, batch_size=16)
    return config
