"""Text classification from one vector per text: static weights, learned weights, or attention.

    attention-research train    --config=configs/classification/text.py:imdb --workdir=runs/imdb
    attention-research train    --config=configs/classification/text.py:imdb --workdir=runs/imdb-weights \\
                                --config.model.pooling.kind=token_weight
    attention-research evaluate --workdir=runs/imdb                        # accuracy and macro-F1

variant          parameters  MFLOP/step  steps  test accuracy, seed 0
imdb                512,130         4.2   1000  87.5
rotten_tomatoes     512,130         1.1   1000  73.7
bbc                 512,325         4.3   1000  95.2
frequent            512,130         0.6   1000  84.0
rare                512,130         0.6   1000  80.2
dissimilar           12,418        28.5   3000  100.0 (X X^T: 51.3, and 83.9 with learned embeddings)
smoke                   210         0.2      4  learns nothing

`inspect` prints the parameters. MFLOP are those of one training step, which `inspect` rounds to 0.00 GFLOP. The time
is half a minute to a minute on one busy core. The splits are ours, by text, so that these numbers are not comparable
with published ones.
"""

from ml_collections import ConfigDict

VARIANTS = {
    "imdb": "film reviews, 2 classes, 8,000 words",
    "rotten_tomatoes": "sentences of film reviews, 2 classes, 8,000 words",
    "bbc": "news stories, 5 classes, 8,000 words",
    "frequent": "generated: frequent words determine the class",
    "rare": "generated: rare words determine the class",
    "dissimilar": "generated: pairs of unlike words determine the class; random embeddings, queries, keys and values",
    "smoke": "seconds: shows that everything runs, learns nothing",
}


def get_config(variant: str) -> ConfigDict:
    """The config of a variant."""
    found = {
        "imdb": imdb,
        "rotten_tomatoes": rotten_tomatoes,
        "bbc": bbc,
        "frequent": frequent,
        "rare": rare,
        "dissimilar": dissimilar,
        "smoke": smoke,
    }
    return found[variant]()


def text(name: str, *, max_length: int, num_classes: int = 2) -> ConfigDict:
    """The mean of learned embeddings and a linear layer; words that occur at least twice."""
    config = ConfigDict({"max_length": max_length, "vocabulary_size": 8000})
    config.task = {"kind": "classification"}
    config.data = {
        "kind": "labelled",
        "name": name,
        "tokenizer": {"kind": "words", "minimum_count": 2},
        "boundaries": (32, 64, 128),
    }
    config.model = {"kind": "text_classifier", "width": 64, "num_classes": num_classes, "dropout_rate": 0.2}
    config.training = {
        "steps": 1000,
        "batch_size": 64,
        "learning_rate": 0.003,
        "schedule": {"kind": "constant"},
        "optimizer": {"kind": "adam", "b2": 0.999, "epsilon": 1e-8},
        "checkpoint_every": 1000,
        "eval_every": 250,
        "log_every": 50,
        "keep": 1,
        "keep_best": 0,
    }
    config.evaluation = {"kind": "classification", "batch_size": 256}
    return config


def imdb() -> ConfigDict:
    """Whole reviews, truncated at 256 tokens."""
    return text("reviews/imdb", max_length=256)


def rotten_tomatoes() -> ConfigDict:
    """Sentences of at most 64 tokens."""
    return text("reviews/rotten_tomatoes", max_length=64)


def bbc() -> ConfigDict:
    """News stories, truncated at 256 tokens."""
    return text("news/bbc", max_length=256, num_classes=5)


def frequent() -> ConfigDict:
    """Texts of 30 words."""
    return text("labelled_generated/frequent", max_length=32)


def rare() -> ConfigDict:
    """Texts of 30 words."""
    return text("labelled_generated/rare", max_length=32)


def dissimilar() -> ConfigDict:
    """Six words per text. The embeddings are random and frozen: only queries and keys can match unlike words."""
    config = text("labelled_generated/dissimilar", max_length=8)
    config.data.boundaries = ()
    config.vocabulary_size = 40
    config.model.update(dropout_rate=0.0, embedding={"kind": "random_frozen", "scale": 4.0}, pooling={"kind": "qkv"})
    config.training.update(steps=3000, checkpoint_every=3000, eval_every=1000)
    return config


def smoke() -> ConfigDict:
    """The smallest set, few words, four steps."""
    config = dissimilar()
    config.model.update(width=8)
    config.training.update(steps=4, batch_size=16, checkpoint_every=4, eval_every=4, log_every=2, eval_batches=1)
    config.evaluation.update(examples=64)
    return config
