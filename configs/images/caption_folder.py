"""Trains a captioner on your own pictures: a folder of pictures with a file of captions in it.

    attention-research train    --config=configs/images/caption_folder.py:cpu --workdir=runs/mine \\
                                --config.data.folder=photos
    attention-research generate --workdir=runs/mine --input=photo.png --attention=runs/seen.html

Each line of photos/captions.tsv is the name of a picture, a tab and a caption; a picture with several captions has
several lines. `--config.data.captions=photos/captions.jsonl` reads lines {"file_name": "dog.png", "captions": ["a
dog"]}. A hash of the names selects a twentieth of the pictures for validation and a twentieth for test. To choose these
yourself, give caption files with `--config.data.validation=FILE --config.data.test=FILE`.

variant   parameters  GFLOP/step  steps
cpu          342,153        5.86   1500
smoke          4,451       0.004      4

`inspect` prints these counts once your files exist. GFLOP are those of one training step. `cpu` takes minutes on two
cores, `smoke` seconds. The model is that of `captions.py` (Xu et al. 2015). The BLEU depends on your pictures: from a
few hundred, as in the variant `stamps` of `captions.py`, a model learns little more than frequent words.
"""

from ml_collections import ConfigDict

VARIANTS = {
    "cpu": "your pictures in 96 x 96 pixels, captions of up to 19 words: minutes on two cores",
    "smoke": "seconds: shows that everything runs, learns nothing",
}


def get_config(variant: str) -> ConfigDict:
    """The config of a variant."""
    return {"cpu": cpu, "smoke": smoke}[variant]()


def cpu() -> ConfigDict:
    """Show, Attend and Tell: soft attention over a feature map of 1/8 of the picture's side; Adam, cosine schedule."""
    config = ConfigDict({"kind": "images_and_words", "side": 96, "channels": 3})
    config.max_length, config.vocabulary_size = 20, 1024
    config.task = {"kind": "captioning", "doubly_stochastic": 1.0}
    config.data = {"kind": "caption_folder", "folder": "photos"}
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
        "checkpoint_every": 500,
        "eval_every": 500,
        "log_every": 10,
        "keep": 1,
        "keep_best": 1,
    }
    config.decoding = {"kind": "beam", "beam_size": 4}
    config.evaluation = {"kind": "captions", "batch_size": 64, "examples": 500}
    return config


def smoke() -> ConfigDict:
    """Small pictures, narrow layers, four steps."""
    config = cpu()
    config.side, config.vocabulary_size = 24, 64
    config.model.update(width=8, embedding_width=8)
    config.model.features.update(width=2)
    config.training.update(steps=4, batch_size=8, checkpoint_every=4, eval_every=4, log_every=2, eval_batches=1)
    config.training.schedule.warmup_steps = 1
    config.decoding.beam_size = 2
    config.evaluation.examples = 16
    return config
