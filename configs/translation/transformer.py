"""Transformer translation: Vaswani et al. 2017 at the sizes of the paper, and the same system for one machine.

    attention-research train --config=configs/translation/transformer.py:cpu --workdir=runs/fr-en
    attention-research inspect --config=configs/translation/transformer.py:vaswani_base

variant       parameters  GFLOP/step   steps  time                                            test BLEU
vaswani_base  63,082,496      10,914    100K  12 hours on 8 P100 (the paper's)             27.3 (the paper's, Table 2)
vaswani_big  214,245,376      34,817    300K  3.5 days on 8 P100 (the paper's)             28.4 (the paper's, Table 2)
cpu            1,438,208        37.5    4000  14.6 minutes on one thread of an AMD EPYC             29.1
quick          1,182,208        31.3    1000  a quarter of that                            not recorded
vaswani_cpu    1,437,696        18.8     450  5.5 minutes on one core of an AMD EPYC   3.0: it has not learned the task
smoke             85,376         0.6       4  seconds                                      0: it learns nothing

`inspect` prints these counts. GFLOP are those of one training step. The two models of the paper, on WMT14
English-German, were not run here: you must provide the data (`attention-research data prepare` says how). `cpu` and
`quick` translate user interface strings from French to English, with a recipe for small budgets. Their BLEU and time
come from benchmarks/README.md, "A whole job". Copying the source gives 13.7 BLEU, and a translation memory 26.9: such
strings are formulaic, and their BLEU is not comparable with that on WMT14. `vaswani_cpu` is the paper's recipe on Bible
verses, for studies of that recipe.
"""

from ml_collections import ConfigDict

VARIANTS = {
    "vaswani_base": "WMT14 En-De, 6+6 layers, width 512, 100K steps (the paper's base model)",
    "vaswani_big": "WMT14 En-De, 6+6 layers, width 1024, 300K steps (the paper's big model)",
    "cpu": "interface strings Fr-En, 2+2 layers, width 128, a recipe for small budgets: minutes on one core",
    "quick": "the same, smaller vocabulary and fewer steps",
    "vaswani_cpu": "Bible verses Fr-En, 2+2 layers, width 128, the paper's recipe: minutes on one core",
    "smoke": "seconds: shows that everything runs, learns nothing",
}


def get_config(variant: str) -> ConfigDict:
    """The config of a variant."""
    made = {
        "vaswani_base": vaswani_base, "vaswani_big": vaswani_big, "cpu": cpu, "quick": quick,
        "vaswani_cpu": vaswani_cpu, "smoke": smoke,
    }  # fmt: skip
    return made[variant]()


def vaswani_base() -> ConfigDict:
    """Sections 5.1-5.4: about 25,000 tokens per side in a batch (96 packed sequences of 256), Noam, smoothing 0.1.

    Section 6.1: a checkpoint every 10 minutes (1,500 steps of 0.4 s), the last 5 averaged, beam 4.
    """
    config = ConfigDict({"max_length": 256, "vocabulary_size": 37000})
    config.task = {"kind": "translation", "label_smoothing": 0.1}
    config.data = {
        "name": "wmt14_translate/de-en",
        "source_language": "en",
        "target_language": "de",
        "batching": {"kind": "packed"},
    }
    config.model = {
        "kind": "transformer",
        "num_layers": 6,
        "width": 512,
        "num_heads": 8,
        "dropout_rate": 0.1,
        "feed_forward": {"kind": "dense", "hidden_width": 2048},
    }
    config.training = {
        "steps": 100_000,
        "batch_size": 96,
        "learning_rate": 1.0,
        "schedule": {"kind": "noam", "warmup_steps": 4000},
        "checkpoint_every": 1500,
        "eval_every": 5000,
        "log_every": 100,
        "keep": 5,
    }
    config.decoding = {"kind": "beam", "beam_size": 4, "alpha": 0.6, "extra_length": 50}
    config.evaluation = {"average": 5}
    return config


def vaswani_big() -> ConfigDict:
    """Table 3, last row: 1024 wide, 16 heads, dropout 0.3, 300K steps; the last 20 checkpoints averaged."""
    config = vaswani_base()
    config.model.update(width=1024, num_heads=16, dropout_rate=0.3)
    config.model.feed_forward.hidden_width = 4096
    config.training.update(steps=300_000, keep=20)
    config.evaluation.average = 20
    return config


def cpu() -> ConfigDict:
    """A recipe for small budgets: pre-norm blocks (Xiong et al. 2020), AdamW, a linear decay from 0.003 after 10 %
    warm-up. There are many buckets, because most strings are short. Test strings with a similar training string are
    also scored separately."""
    config = vaswani_base()
    config.update(max_length=64, vocabulary_size=4000)
    config.data = {
        "name": "ui_translate/fr-en",
        "source_language": "fr",
        "target_language": "en",
        "batching": {"kind": "buckets", "boundaries": (8, 12, 16, 20, 28, 40, 64)},
    }
    config.model.update(num_layers=2, width=128, num_heads=4)
    config.model.feed_forward.hidden_width = 512
    config.model.encoder = {"unroll": True, "steps": pre_norm("self_attention", "feed_forward"), "final_norm": True}
    config.model.decoder = {
        "unroll": True,
        "steps": pre_norm("self_attention", "cross_attention", "feed_forward"),
        "final_norm": True,
    }
    config.training = {
        "steps": 4000,
        "batch_size": 64,
        "learning_rate": 0.003,
        "optimizer": {"kind": "adamw"},
        "schedule": {"kind": "linear", "warmup_steps": 400},
        "checkpoint_every": 1000,
        "eval_every": 500,
        "log_every": 50,
    }
    config.decoding = {"kind": "greedy", "extra_length": 50}
    config.evaluation = {"average": 1, "near": 0.6}
    return config


def pre_norm(*layers: str) -> tuple[tuple[str, ...], ...]:
    """x + Dropout(f(LN(x))) for each layer f."""
    return tuple(("norm", layer, "dropout", "residual") for layer in layers)


def vaswani_cpu() -> ConfigDict:
    """The paper's system at 2+2 layers on 27,750 verse pairs; unrolled layers are faster for a shallow stack on a CPU.

    Half the paper's learning rate: of the factors 0.25, 0.5 and 1, it gave this system the lowest validation loss, with
    seed 0.
    """
    config = vaswani_base()
    config.update(max_length=64, vocabulary_size=4000)
    config.data = {
        "name": "bible_translate/fr-en",
        "source_language": "fr",
        "target_language": "en",
        "batching": {"kind": "buckets", "boundaries": (32, 64)},
    }
    config.model.update(num_layers=2, width=128, num_heads=4)
    config.model.feed_forward.hidden_width = 512
    config.model.encoder = {"unroll": True}
    config.model.decoder = {"unroll": True}
    config.training.update(
        steps=450, batch_size=32, learning_rate=0.5, checkpoint_every=450, eval_every=150, log_every=20, keep=2
    )
    config.training.schedule.warmup_steps = 200
    config.decoding = {"kind": "greedy", "extra_length": 50}
    config.evaluation.average = 1
    return config


def quick() -> ConfigDict:
    """A quarter of the updates, half the vocabulary."""
    config = cpu()
    config.vocabulary_size = 2000
    config.training.update(steps=1000, checkpoint_every=1000)
    config.training.schedule.warmup_steps = 100
    return config


def smoke() -> ConfigDict:
    """A tenth of a percent of the work, on verses."""
    config = vaswani_cpu()
    config.vocabulary_size = 2000
    config.model.update(num_layers=1, width=32)
    config.model.feed_forward.hidden_width = 64
    config.data.batching.boundaries = (64,)
    config.training.update(steps=4, batch_size=16, checkpoint_every=4, eval_every=4, log_every=2, eval_batches=1)
    config.training.schedule.warmup_steps = 100
    config.evaluation = {"examples": 16, "batch_size": 16}
    return config
