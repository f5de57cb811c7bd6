"""Predicts ratings and the words that justify them: Lei, Barzilay & Jaakkola 2016, on generated and real reviews.

    attention-research train    --config=configs/rationales/reviews.py:cpu --workdir=runs/rationale
    attention-research evaluate --workdir=runs/rationale      # error, fraction selected, precision against gold, F1

variant  parameters  GFLOP/step   steps  time                           reviews
cpu          45,122        0.91   1,000  about 90 seconds on one core   generated, one rated aspect of three
real        229,442        0.68   1,000  about 90 seconds on one core   Rotten Tomatoes, 8,530 sentences
lei2016   4,642,402      251.82  10,000  for an accelerator; not run    IMDB, 25,000 reviews; the paper's sizes
smoke         2,402        0.01       4  seconds; it learns nothing     generated

`inspect` prints the parameters and the GFLOP of one training step. The scores are in experiments/lei2016/results.
Generated reviews have one sentence for each aspect, so that the gold words and the correlation of the ratings are
known. Their numbers are not comparable with those of the paper, which are on BeerAdvocate. Real reviews are positive or
negative, and have no gold words. BLEU is not used.
"""

from ml_collections import ConfigDict

VARIANTS = {
    "lei2016": "IMDB reviews, the released code's sizes: width 200, batch 256, Adam 0.0005",
    "cpu": "generated reviews, width 48: about 90 seconds on one core",
    "real": "Rotten Tomatoes sentences, width 48: about 90 seconds on one core",
    "smoke": "seconds: shows that everything runs, learns nothing",
}


def get_config(variant: str) -> ConfigDict:
    """The config of a variant."""
    return {"lei2016": lei2016, "cpu": cpu, "real": real, "smoke": smoke}[variant]()


def lei2016() -> ConfigDict:
    """The settings of the released code (github.com/taolei87/rcnn).

    The released code multiplies the error by 10; here both penalties are divided by 10 instead. Its embeddings are
    pre-trained and fixed; here they are learned. Its L2 penalty of 1e-6 is left out.
    """
    config = ConfigDict({"max_length": 256, "vocabulary_size": 20_000})
    config.task = {"kind": "rationale", "sparsity": 0.00003, "coherence": 0.00006}
    config.data = {"kind": "labelled", "name": "reviews/imdb", "boundaries": (128, 256)}
    config.model = {"kind": "rationale", "width": 200, "embedding_width": 200, "num_layers": 2, "dropout_rate": 0.1}
    config.training = {
        "steps": 10_000,
        "batch_size": 256,
        "learning_rate": 0.0005,
        "schedule": {"kind": "constant"},
        "optimizer": {"kind": "adam", "b2": 0.999, "epsilon": 1e-8},
        "checkpoint_every": 1000,
        "eval_every": 500,
        "log_every": 50,
    }
    config.evaluation = {"kind": "rationale"}
    return config


def cpu() -> ConfigDict:
    """The same system, narrower, on 8,000 generated reviews of about 50 words."""
    config = lei2016()
    config.update(max_length=64, vocabulary_size=160)
    config.task.update(sparsity=0.0005, coherence=0.001, baseline="batch_mean")
    config.data = {"kind": "generated_reviews", "aspect": "appearance", "correlation": 0.0}
    config.model.update(width=48, embedding_width=48)
    config.training.update(
        steps=1000, batch_size=64, learning_rate=0.001, checkpoint_every=1000, eval_every=500, log_every=25
    )
    return config


def real() -> ConfigDict:
    """Rotten Tomatoes sentences of at most 48 words, positive or negative. Shorter texts, so words cost more."""
    config = cpu()
    config.update(max_length=48, vocabulary_size=4000)
    config.task.update(sparsity=0.001, coherence=0.002)
    config.data = {"kind": "labelled", "name": "reviews/rotten_tomatoes", "boundaries": (48,)}
    return config


def smoke() -> ConfigDict:
    """A tenth of a percent of the work."""
    config = cpu()
    config.data.train_examples = 64
    config.model.update(width=8, embedding_width=8)
    config.training.update(steps=4, batch_size=16, checkpoint_every=4, eval_every=4, log_every=2, eval_batches=1)
    config.evaluation.update(examples=16, batch_size=16)
    return config
