"""Recurrent language models (Mikolov et al. 2010; Zaremba et al. 2014) on the English side of a translation set.

    attention-research train    --config=configs/language_modelling/recurrent.py:cpu --workdir=runs/rnnlm
    attention-research evaluate --workdir=runs/rnnlm                # perplexity, and that of a unigram model

variant  parameters  GFLOP/step  steps  time                 perplexity
cpu         779,168        9.51    600  minutes on one core  not recorded
smoke        38,224        0.22      4  seconds              it learns nothing

`inspect` prints the parameters and the GFLOP of one training step. `cpu` has two LSTM layers of width 128. Each verse
is a separate text. Zaremba et al. carry the state from one text to the next over the Penn Treebank; here it is not
carried, so the perplexities are not comparable. `--config.model.vocabulary.kind=untied` gives the output a separate
matrix, and `--config.model.cell.kind=gru` selects another cell.
"""

from ml_collections import ConfigDict

VARIANTS = {
    "cpu": "Bible verses in English, 2 LSTM layers of 128, tied vocabulary: minutes on one core",
    "smoke": "seconds: shows that everything runs, learns nothing",
}


def get_config(variant: str) -> ConfigDict:
    """The config of a variant."""
    return {"cpu": cpu, "smoke": smoke}[variant]()


def cpu() -> ConfigDict:
    """Adam at a constant rate, with clipped gradients. The French side of the pairs is not used."""
    config = ConfigDict({"max_length": 64, "vocabulary_size": 4000})
    config.task = {"kind": "translation", "label_smoothing": 0.0}
    config.data = {
        "name": "bible_translate/fr-en",
        "source_language": "fr",
        "target_language": "en",
        "batching": {"kind": "buckets", "boundaries": (32, 64)},
    }
    config.model = {
        "kind": "recurrent_language_model",
        "width": 128,
        "num_layers": 2,
        "dropout_rate": 0.1,
        "cell": {"kind": "lstm"},
        "vocabulary": {"kind": "shared_with_bias"},
    }
    config.training = {
        "steps": 600,
        "batch_size": 32,
        "learning_rate": 0.003,
        "schedule": {"kind": "constant"},
        "clip_norm": 1.0,
        "checkpoint_every": 600,
        "eval_every": 200,
        "log_every": 20,
    }
    config.evaluation = {"kind": "perplexity"}
    return config


def smoke() -> ConfigDict:
    """A tenth of a percent of the work."""
    config = cpu()
    config.update(vocabulary_size=2000)
    config.data.batching.boundaries = (64,)
    config.model.width = 16
    config.training.update(steps=4, batch_size=16, checkpoint_every=4, eval_every=4, log_every=2, eval_batches=1)
    config.evaluation = {"kind": "perplexity", "examples": 16, "batch_size": 16}
    return config
