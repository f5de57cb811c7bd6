"""Names functions from their bodies, by the pointer-generator with coverage: See, Liu & Manning 2017.

    attention-research train    --config=configs/naming/pointer_generator.py:cpu --workdir=runs/pointer
    attention-research evaluate --workdir=runs/pointer     # F1 at 1 and 5, exact match, sub-tokens never seen

variant  parameters  GFLOP/step    steps  time                  F1
see2017  21,501,265       51.15  230,000  3 to 4 days on a GPU  none: ROUGE 39.5, 17.3, 36.4 (its news articles)
cpu         663,473        4.52    1,500  minutes on one core   experiments/see2017/results
smoke        11,509        0.01        4  seconds               0: it learns nothing

`inspect` prints the parameters and the GFLOP of one training step. `see2017` has the paper's sizes and recipe; `cpu`
has width 64 and states of width 96. The paper summarises CNN / Daily Mail, which this package does not download. All
variants read the Python standard library instead (data kind naming). `--config.model.coverage=false
--config.task.kind=translation` turns coverage off, and `--config.model.copies=false` turns copying off as well.
"""

from ml_collections import ConfigDict

VARIANTS = {
    "see2017": "the paper's sizes: embeddings 128, states 256, 50,000 words, sources of 400, Adagrad's rate",
    "cpu": "width 64, states 96: minutes on one core",
    "smoke": "seconds: shows that everything runs, learns nothing",
}


def get_config(variant: str) -> ConfigDict:
    """The config of a variant."""
    return {"see2017": see2017, "cpu": cpu, "smoke": smoke}[variant]()


def see2017() -> ConfigDict:
    """Section 5, with Adam instead of Adagrad (rate 0.15, accumulator from 0.1); norm clipped at 2, batch 16.

    The paper's targets are summaries of up to 100 words, with beams of 4 and at least 35 words. Here a target is a name
    of at most 8 tokens.
    """
    config = ConfigDict({"max_length": 400, "vocabulary_size": 50_000})
    config.task = {"kind": "coverage", "weight": 1.0}
    config.data = {"kind": "naming", "batching": {"kind": "buckets", "boundaries": (50, 100, 200, 400)}}
    config.model = {
        "kind": "pointer_generator",
        "max_length": 8,
        "width": 128,
        "coverage": True,
        "cell": {"kind": "lstm", "width": 256},
    }
    config.training = {
        "steps": 230_000,
        "batch_size": 16,
        "learning_rate": 1e-3,
        "clip_norm": 2.0,
        "optimizer": {"kind": "adam", "b1": 0.9, "b2": 0.999, "epsilon": 1e-8},
        "schedule": {"kind": "constant"},
        "checkpoint_every": 1000,
        "eval_every": 1000,
        "log_every": 100,
    }
    config.decoding = {"kind": "beam", "beam_size": 4, "alpha": 0.0, "extra_length": 8}
    config.evaluation = {"kind": "naming"}
    return config


def cpu() -> ConfigDict:
    """Bodies of at most 127 sub-tokens, 2,000 sub-tokens in the vocabulary, as in `allamanis.py:cpu`."""
    config = see2017()
    config.update(max_length=128, vocabulary_size=2000)
    config.data.batching.boundaries = (32, 64, 128)
    config.model.update(width=64, dropout_rate=0.2)
    config.model.cell.width = 96
    config.training.update(
        steps=1500, batch_size=32, learning_rate=2e-3, checkpoint_every=1500, eval_every=500, log_every=50
    )
    config.training.schedule = {"kind": "cosine", "warmup_steps": 100}
    config.evaluation.update(examples=1000)
    return config


def smoke() -> ConfigDict:
    """A tenth of a percent of the work."""
    config = cpu()
    config.update(max_length=32, vocabulary_size=300)
    config.data.update(train_examples=400)
    config.data.batching.boundaries = (32,)
    config.model.update(width=16)
    config.model.cell.width = 8
    config.training.update(steps=4, batch_size=16, checkpoint_every=4, eval_every=4, log_every=2, eval_batches=1)
    config.evaluation.update(examples=16, batch_size=16, suggestions=2)
    return config
