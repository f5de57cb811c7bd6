"""TFDS builder `dialogue/chitchat`: turns of written conversations, and the replies.

From the registry package chitchat-dataset (MIT): 7,168 conversations of the Chit-Chat Challenge of Brigham Young
University (2018), between students, on any topic. The text is downloaded and read, but not redistributed. It has not
been checked for rude or private content. Consecutive messages of one person are one turn. An example is a turn of at
most `REPLY` words with the last `HISTORY` words of the one or two turns before it; each of these turns begins with
`SPEAKER`. All turns of a conversation are in one split, by MD5 of its id.
"""

import json
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import tensorflow_datasets as tfds

from attention_research.data.by_hash import split_of
from attention_research.data.registry_package import Package, fetch

PACKAGE = Package(
    "chitchat-dataset",
    "0.9.0",
    "7bf89f36645e2d5ec87d53370c8e851b5a688479c7beb7079cb4c87fc5acea3e",
    size=8_105_664,
)
MEMBER = "chitchat_dataset/dataset.json"
TURNS, HISTORY, REPLY = 2, 24, 20
SPEAKER = "|"


def turns(conversation: Mapping[str, Any]) -> list[str]:
    """The turns of a conversation, each on one line, without empty turns.

    >>> turns({"messages": [[{"text": "hi"}, {"text": "all  well?"}], [{"text": ""}], [{"text": "yes"}]]})
    ['hi all well?', 'yes']
    """
    lines = (" ".join(" ".join(one["text"] for one in turn).split()) for turn in conversation["messages"])
    return [line for line in lines if line]


def answered(said: list[str]) -> Iterator[tuple[str, str]]:
    """(history, reply) of every turn that is short enough and has a previous turn.

    >>> list(answered(["hi", "hello you", "yes"]))
    [('| hi', 'hello you'), ('| hi | hello you', 'yes')]
    """
    for place, reply in enumerate(said):
        if place and len(reply.split()) <= REPLY:
            before = " ".join(f"{SPEAKER} {turn}" for turn in said[max(0, place - TURNS) : place])
            yield " ".join(before.split()[-HISTORY:]), reply


def read(archive: Path) -> Iterator[tuple[str, str, str, str]]:
    """(conversation id, key, history, reply), in the order of the file."""
    with zipfile.ZipFile(archive) as zipped:
        conversations = json.loads(zipped.read(MEMBER))
    for name, conversation in conversations.items():
        for number, (history, reply) in enumerate(answered(turns(conversation))):
            yield name, f"{name}.{number}", history, reply


class Dialogue(tfds.core.GeneratorBasedBuilder):
    """Features `history` and `reply`; the key of an example is its conversation id and number."""

    VERSION = tfds.core.Version("1.0.0")
    BUILDER_CONFIGS = [tfds.core.BuilderConfig(name="chitchat", description=f"replies of at most {REPLY} words")]

    def _info(self) -> tfds.core.DatasetInfo:
        features = tfds.features.Translation(languages=("history", "reply"))
        return tfds.core.DatasetInfo(builder=self, description=__doc__, features=features)

    def _split_generators(self, dl_manager):
        splits: dict[str, list] = {"train": [], "validation": [], "test": []}
        for name, key, history, reply in read(fetch(PACKAGE)):
            splits[split_of(name)].append((key, {"history": history, "reply": reply}))
        return {split: self._generate_examples(examples) for split, examples in splits.items()}

    def _generate_examples(self, examples):
        yield from examples
