"""Generated sentences with their trees, from a small probabilistic grammar of English-like rules and words.

No registry package contains a treebank of real sentences with a free licence, so these sentences replace the Wall
Street Journal of Vaswani et al. 2017, section 6.3. An F1 on them measures whether a model closes the brackets that it
opened and finds long constituents; it says nothing about English. Verbs agree with their subjects across the words in
between. Clauses, relative clauses, prepositional phrases and coordinations recurse. "with", "near" and "in" attach to
nouns or to verbs, as in English, so that no parser can be perfect.

A symbol is its Penn label and, after a dash, a suffix that only the grammar uses (`NP-sg` has the label NP).
"""

import random
from collections.abc import Iterator

from attention_research.data.trees import Tree, sentence

SEED, SENTENCES, MAX_WORDS, MAX_DEPTH = 1412, 24_000, 40, 9

#: symbol -> (weight, right-hand side). From depth `MAX_DEPTH` on, the first rule is taken, which does not recurse.
RULES: dict[str, tuple[tuple[float, str], ...]] = {
    "S": (
        (0.40, "NP-sg VP-sg .-end"),
        (0.30, "NP-pl VP-pl .-end"),
        (0.10, "PP-verb ,-comma NP-sg VP-sg .-end"),
        (0.10, "SBAR-when ,-comma NP-pl VP-pl .-end"),
        (0.10, "S-clause ,-comma CC S-clause .-end"),
    ),
    "S-clause": ((0.5, "NP-sg VP-sg"), (0.5, "NP-pl VP-pl")),
    "NP-any": ((0.55, "NP-sg"), (0.45, "NP-pl")),
    "NP-sg": (
        (0.40, "DT-sg NN"),
        (0.16, "DT-sg JJ NN"),
        (0.10, "NNP"),
        (0.08, "PRP-sg"),
        (0.16, "NP-base-sg PP-noun"),
        (0.06, "NP-base-sg SBAR-who-sg"),
        (0.04, "NP-base-sg ,-comma NP-name ,-comma"),
    ),
    "NP-pl": (
        (0.34, "DT-pl NNS"),
        (0.14, "DT-pl JJ NNS"),
        (0.12, "JJ NNS"),
        (0.08, "PRP-pl"),
        (0.16, "NP-base-pl PP-noun"),
        (0.08, "NP-base-pl SBAR-who-pl"),
        (0.08, "NP-base-sg CC-and NP-base-sg"),
    ),
    "NP-base-sg": ((0.6, "DT-sg NN"), (0.4, "DT-sg JJ NN")),
    "NP-base-pl": ((0.6, "DT-pl NNS"), (0.4, "CD NNS")),
    "NP-name": ((1.0, "NNP"),),
    "PP-noun": ((0.5, "IN-of NP-any"), (0.5, "IN-both NP-any")),
    "PP-verb": ((0.5, "IN-when NP-any"), (0.5, "IN-both NP-any")),
    "SBAR-who-sg": ((0.7, "WHNP S-gap-sg"), (0.3, "WHNP S-gap-object")),
    "SBAR-who-pl": ((0.7, "WHNP S-gap-pl"), (0.3, "WHNP S-gap-object")),
    "S-gap-sg": ((1.0, "VP-sg"),),
    "S-gap-pl": ((1.0, "VP-pl"),),
    "S-gap-object": ((0.5, "NP-sg VP-gap-sg"), (0.5, "NP-pl VP-gap-pl")),
    "VP-gap-sg": ((1.0, "VBZ-object"),),
    "VP-gap-pl": ((1.0, "VBP-object"),),
    "WHNP": ((1.0, "WP"),),
    "SBAR-that": ((1.0, "IN-that S-clause"),),
    "SBAR-when": ((1.0, "IN-while S-clause"),),
    "ADJP": ((0.5, "JJ"), (0.3, "RB-very JJ"), (0.2, "JJ PP-noun")),
    "ADVP": ((0.7, "RB"), (0.3, "RB-very RB")),
}
for _number, _verb, _be in (("sg", "VBZ", "is"), ("pl", "VBP", "are")):
    RULES[f"VP-{_number}"] = (
        (0.16, _verb),
        (0.24, f"{_verb}-object NP-any"),
        (0.14, f"{_verb}-object NP-any PP-verb"),
        (0.10, f"{_verb} PP-verb"),
        (0.08, f"{_verb} ADVP"),
        (0.08, f"{_verb}-that SBAR-that"),
        (0.06, f"{_verb}-{_be} ADJP"),
        (0.06, f"{_verb}-{_be} VP-ing"),
        (0.05, "MD VP-base"),
        (0.03, f"VP-{_number} CC-and VP-{_number}"),
    )
RULES["VP-ing"] = ((0.4, "VBG"), (0.4, "VBG-object NP-any"), (0.2, "VBG-object NP-any PP-verb"))
RULES["VP-base"] = ((0.4, "VB"), (0.4, "VB-object NP-any"), (0.2, "RB-not VB-object NP-any"))

_NOUNS = "dog cat doctor farmer teacher king river garden letter house market soldier ship tower road village bird tree"
_ALONE, _WITH_OBJECT = "sleep walk wait listen return rest sing", "help visit follow paint answer remember clean open"
_SAYING = "know think say claim"


def _endings(verbs: str) -> dict[str, str]:
    """tag -> the forms of the given regular verbs."""
    endings = {"VBZ": "s", "VBP": "", "VB": "", "VBG": "ing"}
    return {tag: " ".join(verb + ending for verb in verbs.split()) for tag, ending in endings.items()}


#: tag -> its words, all equally probable
WORDS = {
    symbol: words.split()
    for symbol, words in {
        "NN": _NOUNS,
        "NNS": " ".join(noun + "s" for noun in _NOUNS.split()),
        "NNP": "John Mary Paris London Anna Peter",
        "PRP-sg": "he she it",
        "PRP-pl": "they we you",
        "DT-sg": "the a this every",
        "DT-pl": "the these some all",
        "CD": "two three seven",
        "JJ": "old young small big green quiet happy poor strange tired",
        "RB": "slowly often here quickly today",
        "RB-very": "very quite",
        "RB-not": "not",
        "IN-of": "of about",
        "IN-both": "with near in",
        "IN-when": "after before during",
        "IN-that": "that",
        "IN-while": "while because if",
        "WP": "who",
        "CC": "and but",
        "CC-and": "and or",
        "MD": "can will must",
        ",-comma": ",",
        ".-end": ". . . !",
        "VBZ-is": "is",
        "VBP-are": "are",
        **_endings(_ALONE),
        **{f"{tag}-object": words for tag, words in _endings(_WITH_OBJECT).items()},
        **{f"{tag}-that": words for tag, words in _endings(_SAYING).items() if tag in ("VBZ", "VBP")},
    }.items()
}


def label(symbol: str) -> str:
    """The Penn label of a symbol.

    >>> label("NP-base-sg"), label(".-end")
    ('NP', '.')
    """
    return symbol.split("-")[0]


def generate(chance: random.Random, symbol: str = "S", depth: int = 0) -> Tree:
    """A random tree for a symbol. A constituent whose only child has the same label is replaced by the child."""
    if symbol in WORDS:
        words = WORDS[symbol]
        return Tree(label(symbol), (words[int(chance.random() * len(words))],))
    rules = RULES[symbol]
    right = rules[0][1] if depth >= MAX_DEPTH else _drawn(chance, rules)
    children = tuple(generate(chance, child, depth + 1) for child in right.split())
    if len(children) == 1 and children[0].label == label(symbol):
        return children[0]
    return Tree(label(symbol), children)


def _drawn(chance: random.Random, rules: tuple[tuple[float, str], ...]) -> str:
    point = chance.random() * sum(weight for weight, _ in rules)
    for weight, right in rules:
        point -= weight
        if point < 0:
            return right
    return rules[-1][1]


def trees() -> Iterator[Tree]:
    """`SENTENCES` trees of different sentences of at most `MAX_WORDS` words, the same in every call."""
    chance = random.Random(SEED)
    seen: set[str] = set()
    while len(seen) < SENTENCES:
        tree = generate(chance)
        words = sentence(tree)
        if words not in seen and words.count(" ") < MAX_WORDS:
            seen.add(words)
            yield tree
