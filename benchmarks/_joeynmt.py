"""JoeyNMT 2.3 (PyPI) for `benchmarks.translate`: environment, data files, config and translations."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from ._interleaved import log

#: The arguments of successive pip installs. The requirements of JoeyNMT include packages that are not needed here.
INSTALLED = (
    ("torch==2.13.0",),
    ("sacrebleu", "sentencepiece==0.2.0", "subword-nmt", "tensorboard", "datasets", "packaging"),
    ("importlib-metadata", "matplotlib", "pyyaml"),
    ("--no-deps", "joeynmt==2.3.0"),
)
SPLITS = {"train": "train", "dev": "validation", "test": "test"}
SPACE = "\u2581"


def environment(folder: Path) -> Path:
    """The Python of a virtual environment with JoeyNMT in this folder. Creates the environment if necessary."""
    python = folder.absolute() / "bin" / "python"
    if not python.exists() or not installed(python):
        log(f"installing JoeyNMT in {folder}")
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        for packages in INSTALLED:
            subprocess.run([python, "-m", "pip", "install", "-q", *packages], check=True, stdout=sys.stderr)
        subprocess.run([python, "-m", "joeynmt", "--help"], check=True, stdout=subprocess.DEVNULL)
    return python


def installed(python: Path) -> dict[str, str]:
    """The versions of JoeyNMT and PyTorch in an environment, or {} if JoeyNMT is not installed."""
    program = (
        "import importlib.metadata as m, json, sys; "
        "print(json.dumps({name: m.version(name) for name in ('joeynmt', 'torch')}))"
    )
    done = subprocess.run([python, "-c", program], capture_output=True, text=True)
    return json.loads(done.stdout) if done.returncode == 0 else {}


def write_data(data: Any, folder: Path) -> dict[str, int]:
    """Writes the pairs of `data` as lines of pieces separated by spaces, and the vocabulary.

    Returns the number of pairs of each split. As in our program, training pairs with more than `data.max_length` tokens
    on one side are left out.
    """
    folder.mkdir(parents=True)
    pieces = data.tokenizer.pieces
    (folder / "pieces.txt").write_text("\n".join(pieces(range(4, data.tokenizer.size))) + "\n", encoding="utf-8")
    counts = {}
    for name, split in SPLITS.items():
        sides = [data.read(texts) for texts in data.text(split)]
        pairs = list(zip(*sides, strict=True))
        if name == "train":
            pairs = [pair for pair in pairs if max(map(len, pair)) <= data.max_length]
        for language, tokens in zip(data.languages, zip(*pairs, strict=True), strict=True):
            lines = [" ".join(pieces(line[:-1])) for line in tokens]  # without the end of sentence
            (folder / f"{name}.{language}").write_text("\n".join(lines) + "\n", encoding="utf-8")
        counts[split] = len(pairs)
    return counts


def config(ours: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The config of JoeyNMT with the model, data and optimizer of our resolved config."""
    training, model, data = ours["training"], ours["model"], ours["data"]
    every = training["eval_every"]
    width = model["width"]
    side = lambda key: {"lang": data[key], "level": "word", "lowercase": False, "voc_file": str(folder / "pieces.txt")}
    half = {
        "type": "transformer",
        "num_layers": model["num_layers"],
        "num_heads": model["num_heads"],
        "embeddings": {"embedding_dim": width, "scale": True, "dropout": model["dropout_rate"]},
        "hidden_size": width,
        "ff_size": model["feed_forward"]["hidden_width"],
        "dropout": model["dropout_rate"],
        "layer_norm": "pre",
        "activation": "relu",
    }
    return {
        "name": "translate",
        "joeynmt_version": "2.3.0",
        "model_dir": str(folder / "model"),
        "use_cuda": False,
        "random_seed": training["seed"],
        "data": {
            **{name: str(folder / name) for name in SPLITS},
            "dataset_type": "plain",
            "src": side("source_language"),
            "trg": side("target_language"),
        },
        "model": {
            "initializer": "xavier_uniform",
            "embed_initializer": "xavier_uniform",
            "tied_embeddings": True,
            "tied_softmax": True,
            "encoder": half,
            "decoder": half,
        },
        "training": {
            "optimizer": "adamw",
            "adam_betas": [training["optimizer"]["b1"], training["optimizer"]["b2"]],
            "weight_decay": training["optimizer"]["weight_decay"],
            "learning_rate": training["learning_rate"],
            "scheduling": "warmupinversesquareroot",
            "learning_rate_warmup": training["schedule"]["warmup_steps"],
            "label_smoothing": ours["task"]["label_smoothing"],
            "loss": "crossentropy",
            "batch_size": training["batch_size"],
            "batch_type": "sentence",
            "normalization": "tokens",
            "epochs": 1_000_000,
            "updates": training["steps"],
            "validation_freq": every,
            "logging_freq": training["log_every"],
            "early_stopping_metric": "ppl",
            "print_valid_sents": [],
            "keep_best_ckpts": 1,
            "shuffle": True,
        },
        "testing": {
            "batch_size": ours["evaluation"]["batch_size"],
            "batch_type": "sentence",
            "beam_size": 1,
            "max_output_length": ours["max_length"],
            "eval_metrics": ["bleu"],
        },
    }


def write_configs(ours: dict[str, Any], folder: Path) -> tuple[Path, Path]:
    """Writes the config for training and that for testing, which has only the test pairs. (JSON is valid YAML.)"""
    to_train = config(ours, folder)
    to_test = {**to_train, "data": {key: x for key, x in to_train["data"].items() if key not in ("train", "dev")}}
    paths = folder / "train.yaml", folder / "test.yaml"
    for path, document in zip(paths, (to_train, to_test), strict=True):
        path.write_text(json.dumps(document, indent=1), encoding="utf-8")
    return paths


def translations(path: Path) -> list[str]:
    """Reads the translations of JoeyNMT and joins their pieces to text."""
    lines = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    return [" ".join("".join(line.split()).replace(SPACE, " ").split()) for line in lines]
