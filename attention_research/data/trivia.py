"""TFDS builder `trivia/red`: quiz questions and their short answers, from one registry package.

The package Red-DiscordBot (GPL-3.0; downloaded and read, not redistributed) contains lists of questions for a chat
game: YAML files {question: [accepted answers]}, one for each topic ("startrek", "worldcapitals"). The questions are
answered without a text to look up, like WebQuestions in Roberts et al. (2020). The answer here is the first accepted
one. Of 14,655 questions, 2,418 are left out because they need a picture at an address, 134 because their answer has
more than five words (as in Lee et al. 2019), and 23 because they are copies. The other 12,080 have 39 topics.

Equal questions are in one split, and so are questions with the same answer that share at least half of their words
(`near_duplicates`). The split is by MD5, as in `reviews`. An answer may be in several splits, as in WebQuestions (Lewis
et al. 2021): 41 % of the test questions have an answer that occurs in training, and a small model can hardly know any
other answer.
"""

import re
import zipfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

import tensorflow_datasets as tfds
import yaml

from attention_research.data import near_duplicates
from attention_research.data.registry_package import Package, fetch

PACKAGE = Package(
    "Red-DiscordBot",
    "3.5.24",
    "3cbdbdd8bb0b6dbab1f5f909151f12dcd40798b06df8beb791fd22b9e1b2c8bd",
    size=5_970_180,
)
FOLDER = "redbot/cogs/trivia/data/lists/"
#: Keys of a list that are not questions.
ABOUT = ("$schema", "AUTHOR", "CONFIG", "DESCRIPTION")
#: Questions with the same answer that share at least this fraction of their words are in one split.
SHARE = 0.5
_MAX_ANSWER = 5
_ADDRESS = re.compile(r"https?://|www\.")

#: topic, question, answer
Example = tuple[str, str, str]


def questions(text: str) -> Iterator[tuple[str, list[str]]]:
    """(question, its accepted answers) of a list, as written.

    >>> list(questions("AUTHOR: Ann\\nHow many clans were there?:\\n- Seven\\n- 7\\nIs 12 even?:\\n- yes"))
    [('How many clans were there?', ['Seven', '7']), ('Is 12 even?', ['yes'])]
    """
    for question, answers in yaml.load(text, Loader=yaml.BaseLoader).items():  # every scalar is a string
        if question not in ABOUT:
            yield " ".join(question.split()), [" ".join(answer.split()) for answer in answers]


def keep(question: str, answer: str) -> bool:
    """Whether a question needs no picture and its answer has at most five words."""
    return not _ADDRESS.search(question) and len(answer.split()) <= _MAX_ANSWER


def read(archive: Path) -> Iterator[Example]:
    """Every distinct kept question with its first answer, with the topics in order."""
    seen = set()
    with zipfile.ZipFile(archive) as zipped:
        for name in sorted(name for name in zipped.namelist() if name.startswith(FOLDER) and name.endswith(".yaml")):
            for question, (answer, *_) in questions(zipped.read(name).decode()):
                distinct = near_duplicates.words(question), near_duplicates.words(answer)
                if keep(question, answer) and distinct not in seen:
                    seen.add(distinct)
                    yield PurePosixPath(name).stem, question, answer


def links(examples: Sequence[Example]) -> Iterator[near_duplicates.Link]:
    """The pairs of questions that must be in one split."""
    yield from near_duplicates.equal(near_duplicates.words(question) for _, question, _ in examples)
    answered = defaultdict(list)
    for index, (_, _, answer) in enumerate(examples):
        answered[near_duplicates.words(answer)].append(index)
    for found in answered.values():
        for one, other in near_duplicates.alike([examples[index][1] for index in found], 1, SHARE):
            yield found[one], found[other]


class Trivia(tfds.core.GeneratorBasedBuilder):
    """Features `topic`, `question` and `answer`; the key of an example is its topic and number."""

    VERSION = tfds.core.Version("1.0.0")
    BUILDER_CONFIGS = [tfds.core.BuilderConfig(name="red", description="questions and answers of 1 to 5 words")]

    def _info(self) -> tfds.core.DatasetInfo:
        names = ("topic", "question", "answer")
        features = tfds.features.FeaturesDict({name: tfds.features.Text() for name in names})
        return tfds.core.DatasetInfo(builder=self, description=__doc__, features=features)

    def _split_generators(self, dl_manager):
        examples = list(read(fetch(PACKAGE)))
        where = near_duplicates.splits([question for _, question, _ in examples], links(examples))
        splits: dict[str, list] = {"train": [], "validation": [], "test": []}
        for number, ((topic, question, answer), split) in enumerate(zip(examples, where, strict=True)):
            example = {"topic": topic, "question": question, "answer": answer}
            splits[split].append((f"{topic}.{number}", example))
        return {split: self._generate_examples(examples) for split, examples in splits.items()}

    def _generate_examples(self, examples):
        yield from examples
