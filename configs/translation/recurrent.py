"""Recurrent translation with and without attention, at the sizes of the papers, and RNNsearch for one machine.

    attention-research train --config=configs/translation/recurrent.py:cpu --workdir=runs/rnnsearch
    attention-research inspect --config=configs/translation/recurrent.py:bahdanau_50

variant          weights, no biases    updates  time                                  test BLEU
sutskever               384,000,000    703,125  10 days on 8 GPUs (the paper's)      30.59 (the paper's, one model)
bahdanau_50              80,401,000    288,000  4.6 days on one GPU (the paper's)    26.75 (the paper's)
bahdanau_encdec          68,540,000    600,000  4.5 days on one GPU (the paper's)    17.82 (the paper's)
luong                   222,001,000    421,875  7-10 days on one GPU (the paper's)   19.0 (the paper's)
britz                    58,327,552  2,500,000  not known here                       22.47 +- 0.27 (the paper's)
cpu                       1,804,416      1,000  minutes on one core                  experiments/bahdanau2015/results
strings                   1,164,416      4,000  five to ten minutes on one core      not recorded
quick                     1,804,416        200  under two minutes on one core        not recorded
smoke                        48,208          4  seconds                              0: it learns nothing

The systems of the papers need WMT text, which you must provide (`attention-research data prepare` says how). They were
not run here. There are two differences from the papers. Both languages share one vocabulary of words or pieces; each
embedding table has as many rows as in the paper. The loss is divided by the target tokens of the batch; Sutskever et
al. and Luong et al. divide it by its sentences. Their learning rates are therefore multiplied, and their clipping norms
divided, by the mean number of target words in a sentence, which gives the same update.
"""

from ml_collections import ConfigDict

VARIANTS = {
    "sutskever": "WMT14 En-Fr, reversed source, 4 LSTM layers of 1000 (Sutskever et al. 2014)",
    "bahdanau_50": "WMT14 En-Fr, RNNsearch-50 (Bahdanau et al. 2015)",
    "bahdanau_encdec": "WMT14 En-Fr, RNNencdec-50, the same without attention",
    "luong": "WMT14 En-De, 4 LSTM layers of 1000, local-p attention, input feeding (Luong et al. 2015)",
    "britz": "WMT15 En-De, bidirectional GRU of 512, additive attention of 512 (Britz et al. 2017)",
    "cpu": "Bible verses En-Fr, RNNsearch of width 128: minutes on one core",
    "strings": "interface strings Fr-En, RNNsearch of width 128: minutes on one core",
    "quick": "verses, fewer updates: under two minutes on one core",
    "smoke": "seconds: shows that everything runs, learns nothing",
}
#: Target words in a sentence: 348M / 12M (Sutskever et al., section 3.1), 110M / 4.5M (Luong et al., section 4.1).
FRENCH_WORDS, GERMAN_WORDS = 29.0, 24.4
_EN_FR = {"name": "wmt14_translate/fr-en", "source_language": "en", "target_language": "fr"}
_EN_DE = {"source_language": "en", "target_language": "de"}


def get_config(variant: str) -> ConfigDict:
    """The config of a variant."""
    made = {
        "sutskever": sutskever, "bahdanau_50": bahdanau_50, "bahdanau_encdec": bahdanau_encdec, "luong": luong,
        "britz": britz, "cpu": cpu, "strings": strings, "quick": quick, "smoke": smoke,
    }  # fmt: skip
    return made[variant]()


def _paper(vocabulary_size: int, max_length: int, data: dict) -> ConfigDict:
    config = ConfigDict({"max_length": max_length, "vocabulary_size": vocabulary_size})
    config.task = {"kind": "translation", "label_smoothing": 0.0}
    config.data = {**data, "tokenizer": {"kind": "words"}, "batching": {"kind": "buckets"}}
    config.evaluation = {"average": 1}
    return config


def sutskever() -> ConfigDict:
    """Section 3: U(-0.08, 0.08), plain SGD at 0.7 for 5 epochs (of 93,750 updates), then halved every half epoch; 7.5
    epochs, batch 128, norm clipped at 5; beam 12 without length normalisation."""
    config = _paper(80_000, 101, _EN_FR)
    config.model = {
        "kind": "recurrent",
        "width": 1000,
        "num_layers": 4,
        "embedding_width": 1000,
        "dropout_rate": 0.0,
        "reverse_source": True,
        "cell": {"kind": "lstm"},
        "encoder": {"kind": "unidirectional"},
        "decoder": {"kind": "fixed_vector"},
        "vocabulary": {"kind": "source_and_target", "source_vocabulary_size": 160_000},
        "initialization": {"kind": "uniform", "scale": 0.08},
    }
    config.training = {
        "steps": 703_125,
        "batch_size": 128,
        "learning_rate": 0.7 * FRENCH_WORDS,
        "clip_norm": 5.0 / FRENCH_WORDS,
        "optimizer": {"kind": "sgd"},
        "schedule": {"kind": "step", "boundaries": (468_750, 515_625, 562_500, 609_375, 656_250), "factor": 0.5},
        "checkpoint_every": 5000,
        "eval_every": 5000,
        "log_every": 100,
    }
    config.decoding = {"kind": "shrinking_beam", "beam_size": 12}
    return config


def bahdanau_50() -> ConfigDict:
    """Appendices A and B: RNNsearch on sentences of up to 50 words, Adadelta, batch 80, norm clipped at 1, 2.88e5
    updates (Table 2). The paper does not print the beam size; here it is 12. The learning rate is not rescaled: a
    clipped gradient has norm 1 whether the loss is divided by tokens or by sentences, and the step of Adadelta hardly
    depends on the scale of the gradient."""
    config = _paper(30_000, 51, _EN_FR)
    config.model = {
        "kind": "recurrent",
        "width": 1000,
        "num_layers": 1,
        "embedding_width": 620,
        "dropout_rate": 0.0,
        "cell": {"kind": "gru_reset_before"},
        "encoder": {"kind": "bidirectional"},
        "decoder": {"kind": "bahdanau", "readout_width": 500},
        "alignment": {"kind": "global", "score": {"kind": "additive", "attention_width": 1000}},
        "initialization": {"kind": "bahdanau"},
    }
    config.training = {
        "steps": 288_000,
        "batch_size": 80,
        "learning_rate": 1.0,
        "clip_norm": 1.0,
        "optimizer": {"kind": "adadelta"},
        "schedule": {"kind": "constant"},
        "checkpoint_every": 5000,
        "eval_every": 5000,
        "log_every": 100,
    }
    config.decoding = {"kind": "shrinking_beam", "beam_size": 12}
    return config


def bahdanau_encdec() -> ConfigDict:
    """RNNencdec-50: the encoder reads from left to right, and its last state is the context of every step."""
    config = bahdanau_50()
    config.model.encoder = {"kind": "unidirectional"}
    config.model.alignment = {"kind": "last_state"}
    config.training.steps = 600_000
    return config


def luong() -> ConfigDict:
    """Section 4.1, the models with dropout: U(-0.1, 0.1), SGD at 1, 12 epochs (of 35,156 updates), halved each epoch
    after 8, batch 128, norm clipped at 5; local-p attention with the general score, D = 10, and input feeding."""
    config = _paper(50_000, 51, {"name": "wmt14_translate/de-en", **_EN_DE})
    config.model = {
        "kind": "recurrent",
        "width": 1000,
        "num_layers": 4,
        "embedding_width": 1000,
        "dropout_rate": 0.2,
        "reverse_source": True,
        "cell": {"kind": "lstm"},
        "encoder": {"kind": "unidirectional"},
        "decoder": {"kind": "luong", "input_feeding": True},
        "alignment": {"kind": "local_predictive", "half_width": 10, "score": {"kind": "general"}},
        "initialization": {"kind": "uniform", "scale": 0.1},
    }
    config.training = {
        "steps": 421_875,
        "batch_size": 128,
        "learning_rate": 1.0 * GERMAN_WORDS,
        "clip_norm": 5.0 / GERMAN_WORDS,
        "optimizer": {"kind": "sgd"},
        "schedule": {"kind": "step", "boundaries": (281_250, 316_406, 351_562, 386_718), "factor": 0.5},
        "checkpoint_every": 5000,
        "eval_every": 5000,
        "log_every": 100,
    }
    config.decoding = {"kind": "shrinking_beam", "beam_size": 12}
    return config


def britz() -> ConfigDict:
    """Section 3: 32,000 pieces, 512 wide, one bidirectional layer, two decoder layers with the context as
    input, Adam at 1e-4, batch 128, dropout 0.2, beam 10 without length normalisation. The number of updates is quoted
    from memory."""
    config = _paper(32_000, 51, {"name": "wmt15_translate/de-en", **_EN_DE})
    config.data.tokenizer = {"kind": "sentencepiece"}
    config.model = {
        "kind": "recurrent",
        "width": 512,
        "num_layers": 2,
        "embedding_width": 512,
        "dropout_rate": 0.2,
        "cell": {"kind": "gru"},
        "encoder": {"kind": "bidirectional", "num_layers": 1},
        "decoder": {"kind": "luong", "input_feeding": True, "start": {"kind": "projected"}},
        "alignment": {"kind": "global", "score": {"kind": "additive", "attention_width": 512}},
    }
    config.training = {
        "steps": 2_500_000,
        "batch_size": 128,
        "learning_rate": 1e-4,
        "optimizer": {"kind": "adam", "b2": 0.999, "epsilon": 1e-8},
        "schedule": {"kind": "constant"},
        "checkpoint_every": 5000,
        "eval_every": 5000,
        "log_every": 100,
    }
    config.decoding = {"kind": "beam", "beam_size": 10, "alpha": 0.0}
    return config


def cpu() -> ConfigDict:
    """RNNsearch at an eighth of its width. Adam replaces Adadelta, which starts slowly, and pieces replace words, so
    that no word is unknown. Training uses verses of up to 32 pieces; the evaluation translates whole verses."""
    config = bahdanau_50()
    config.update(max_length=32, vocabulary_size=4000)
    config.data = {
        "name": "bible_translate/fr-en",
        "source_language": "en",
        "target_language": "fr",
        "batching": {"kind": "buckets", "boundaries": (32,)},
    }
    config.model.update(width=128, embedding_width=128, dropout_rate=0.1)
    config.model.decoder.readout_width = 64
    config.model.alignment.score.attention_width = 128
    config.model.initialization = {"kind": "as_built"}
    config.training = {
        "steps": 1000,
        "batch_size": 32,
        "learning_rate": 0.003,
        "clip_norm": 1.0,
        "optimizer": {"kind": "adam", "b2": 0.999, "epsilon": 1e-8},
        "schedule": {"kind": "linear", "warmup_steps": 50, "final": 0.1},
        "checkpoint_every": 1000,
        "eval_every": 500,
        "log_every": 20,
    }
    config.decoding = {"kind": "greedy", "extra_length": 50}
    config.evaluation = {"average": 1}
    return config


def strings() -> ConfigDict:
    """RNNsearch on interface strings, the task of `configs/translation/transformer.py:quick`. There are many buckets,
    because most strings are short. Test strings with a similar training string are also scored separately. Learning
    rate was chosen by the validation loss of the system of Luong et al. (`experiments/luong2015`): with dropout 0.1 its
    perplexity is 41 after 1,000 updates at 0.008, and 24 after 1,800 at 0.01; with dropout 0.2, 72 after 1,500 at
    0.002."""
    config = cpu()
    config.update(max_length=64, vocabulary_size=2000)
    config.data = {
        "name": "ui_translate/fr-en",
        "source_language": "fr",
        "target_language": "en",
        "batching": {"kind": "buckets", "boundaries": (8, 12, 16, 20, 28, 40, 64)},
    }
    config.model.dropout_rate = 0.2
    config.training.update(steps=4000, batch_size=64, learning_rate=0.01, checkpoint_every=4000, log_every=50)
    config.training.schedule = {"kind": "linear", "warmup_steps": 400}
    config.evaluation = {"average": 1, "near": 0.6}
    return config


def quick() -> ConfigDict:
    """A first look."""
    config = cpu()
    config.training.update(steps=200, checkpoint_every=200)
    return config


def smoke() -> ConfigDict:
    """The same path in seconds."""
    config = quick()
    config.model.update(width=16, embedding_width=16)
    config.model.decoder.readout_width = 8
    config.model.alignment.score.attention_width = 16
    config.update(vocabulary_size=1000)
    config.training.update(steps=4, batch_size=8, checkpoint_every=4, eval_every=4, log_every=2, eval_batches=1)
    config.evaluation = {"examples": 16, "batch_size": 16}
    return config
