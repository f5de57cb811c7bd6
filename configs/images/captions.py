"""Image captioning: a convolutional network and a decoder that attends to its feature map (Xu et al. 2015).

    attention-research train    --config=configs/images/captions.py:collages --workdir=runs/collages
    attention-research train    --config=configs/images/captions.py:collages --workdir=runs/hard \\
                                --config.model.alignment.kind=hard
    attention-research evaluate --workdir=runs/collages                    # BLEU-1 to 4, ROUGE-L, CIDEr
    attention-research generate --workdir=runs/collages --input=photo.png --attention=runs/seen.html

variant   parameters  GFLOP/step  steps
collages     214,185        2.26   1500
emoji        342,153        3.30   1500
stamps       342,153        5.86   1500
slots        137,640        1.79    800
smoke          3,907        0.01      4

`inspect` prints these counts. GFLOP are those of one training step. `collages` has pictures of one to four coloured
handwritten digits and takes a few minutes on two cores; the table of `experiments/xu2015/table1.py` gives the BLEU.
`slots` has a Transformer whose decoder attends to seven slots instead of the 36 cells (slot attention, Locatello et al.
2020): one run of 90 seconds on one core reached a BLEU-1 of 69. With `--config.model.encoder.kind=transformer`, which
keeps the cells, one run reached 81; the caption of another picture has 50. `emoji` names pictograms, and `stamps`
describes drawings and photographs. No number is comparable with one on COCO.
"""

from ml_collections import ConfigDict

VARIANTS = {
    "collages": "one to four coloured digits in nine cells, named in reading order: minutes on two cores",
    "emoji": "pictograms of 72 x 72 pixels and their English names",
    "stamps": "captioned drawings and photographs",
    "slots": "collages through slots that share out the picture: about a minute on one core",
    "smoke": "seconds: shows that everything runs, learns nothing",
}


def get_config(variant: str) -> ConfigDict:
    """The config of a variant."""
    return {"collages": collages, "emoji": emoji, "stamps": stamps, "slots": slots, "smoke": smoke}[variant]()


def captioner(*, side: int, max_length: int, vocabulary_size: int) -> ConfigDict:
    """Show, Attend and Tell: soft attention over a feature map of 1/8 of the picture's side; Adam, cosine schedule."""
    config = ConfigDict({"kind": "images_and_words", "side": side, "channels": 3})
    config.max_length, config.vocabulary_size = max_length, vocabulary_size
    config.task = {"kind": "captioning", "doubly_stochastic": 1.0}
    config.model = {
        "kind": "recurrent_captioner",
        "width": 128,
        "embedding_width": 64,
        "dropout_rate": 0.1,
        "alignment": {"kind": "global", "score": {"kind": "additive"}},
        "features": {"kind": "cnn", "width": 8, "num_layers": 4, "halvings": 3},
    }
    config.training = {
        "steps": 1500,
        "batch_size": 64,
        "learning_rate": 0.002,
        "optimizer": {"kind": "adam", "b2": 0.999, "epsilon": 1e-8},
        "schedule": {"kind": "cosine", "warmup_steps": 50},
        "clip_norm": 5.0,
        "checkpoint_every": 1500,
        "eval_every": 500,
        "log_every": 10,
        "keep": 1,
        "keep_best": 0,
    }
    config.decoding = {"kind": "beam", "beam_size": 4}
    config.evaluation = {"kind": "captions", "batch_size": 64, "examples": 500}
    return config


def collages() -> ConfigDict:
    """Nine cells of 16 x 16 pixels; captions have 4 to 19 words."""
    config = captioner(side=48, max_length=20, vocabulary_size=32)
    config.data = {"kind": "collages", "grid": 3, "min_objects": 1, "max_objects": 4}
    return config


def slots() -> ConfigDict:
    """Collages; the slots are exchangeable, so that a slot must say itself where its object is."""
    config = collages()
    config.task.doubly_stochastic = 0.0
    config.model = {
        "kind": "transformer_captioner",
        "width": 64,
        "num_layers": 1,
        "num_heads": 2,
        "dropout_rate": 0.0,
        "feed_forward": {"kind": "dense", "hidden_width": 128},
        "features": config.model.features,
        "encoder": {"kind": "slots", "positions": {"kind": "learned", "max_length": 36}},
    }
    config.training.update(steps=800, checkpoint_every=800, eval_every=200)
    return config


def emoji() -> ConfigDict:
    """Names of up to 11 words, from a vocabulary of a thousand words that occur at least twice in training."""
    config = captioner(side=72, max_length=12, vocabulary_size=1024)
    config.data = {"kind": "captions", "name": "emoji_names/en"}
    return config


def stamps() -> ConfigDict:
    """Captions of up to 19 words."""
    config = captioner(side=96, max_length=20, vocabulary_size=1024)
    config.data = {"kind": "captions", "name": "stamp_captions/en"}
    return config


def smoke() -> ConfigDict:
    """Few pictures, narrow layers, four steps."""
    config = collages()
    config.data.update(train_examples=64, held_out=32)
    config.model.update(width=8, embedding_width=8)
    config.model.features.update(width=2)
    config.training.update(steps=4, batch_size=8, checkpoint_every=4, eval_every=4, log_every=2, eval_batches=1)
    config.training.schedule.warmup_steps = 1
    config.decoding.beam_size = 2
    config.evaluation.examples = 16
    return config
