"""The forms of 7,010 French verbs, from the tables of the program Verbiste in one registry package (mlconjug3).

    p a r l e r IND-PRS 1SG    p a r l e          the infinitive and the features, and the form
    v e n i r PTCP-PST F-PL    v e n u e s

This is morphological inflection, the task of the SIGMORPHON shared tasks (Cotterell et al. 2016). The features are
named as in UniMorph. They follow the letters, so that the stem can be written before they are read. There are 50 pairs
of features: six persons of four tenses of the indicative, of the conditional and of two tenses of the subjunctive;
three persons of the imperative; the present participle; and the past participle by gender and number.

Of the 349,511 forms, a quarter is kept, chosen by MD5 of the verb and the features: 78,753 for training, 4,581 for
validation and 4,145 for test. The split is by verb: MD5 modulo 20 is 0 for test and 1 for validation. Verbs with a
common stem, such as "venir" and "devenir", may be in different splits. Forms that a verb does not have are left out,
such as the first person of an impersonal verb. So are five verbs whose infinitive is not that of their template. Three
of four verbs follow the regular template in -er.
"""

import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from attention_research.data.by_hash import share_of
from attention_research.data.registry_package import Package

PACKAGE = Package(
    "mlconjug3",
    "4.0.1",
    "fbac083da0be5ca670bbde736111d0740867c39ae70da2ba345b369a5c9c3136",
    size=5_462_274,
)
_FOLDER = "mlconjug3/data/conjug_manager"
VERBS, ENDINGS = f"{_FOLDER}/verbs-fr.json", f"{_FOLDER}/conjugation-fr.json"

_PERSONS = ("1SG", "2SG", "3SG", "1PL", "2PL", "3PL")
#: (mood, tense) in the tables -> (their names in UniMorph, the names of the forms in their order)
TENSES: dict[tuple[str, str], tuple[str, tuple[str, ...]]] = {
    ("Indicatif", "Présent"): ("IND-PRS", _PERSONS),
    ("Indicatif", "Imparfait"): ("IND-PST-IPFV", _PERSONS),
    ("Indicatif", "Passé Simple"): ("IND-PST-PFV", _PERSONS),
    ("Indicatif", "Futur"): ("IND-FUT", _PERSONS),
    ("Conditionnel", "Présent"): ("COND", _PERSONS),
    ("Subjonctif", "Présent"): ("SBJV-PRS", _PERSONS),
    ("Subjonctif", "Imparfait"): ("SBJV-PST", _PERSONS),
    ("Imperatif", "Imperatif Présent"): ("IMP", ("2SG", "1PL", "2PL")),
    ("Participe", "Participe Passé"): ("PTCP-PST", ("M-SG", "M-PL", "F-SG", "F-PL")),
    ("Participe", "Participe Présent"): ("PTCP-PRS", ("ANY",)),
}
#: One of this many forms is kept.
KEPT = 4


def forms(verbs: dict[str, Any], endings: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """(verb, features, form) of every form, from the two tables.

    The first table gives a root and a template for each verb, the second the endings of each template.
    """
    for verb, entry in verbs.items():
        table = endings[entry["template"]]
        if entry["root"] + table["Infinitif"]["Infinitif Présent"] != verb:
            continue
        for (mood, tense), (name, persons) in TENSES.items():
            given = table[mood][tense]
            listed = [ending for _, ending in given] if isinstance(given, list) else [given]
            for person, ending in zip(persons, listed, strict=True):
                if ending is not None:
                    yield verb, f"{name} {person}", entry["root"] + ending


def read_forms(archive: Path) -> Iterator[tuple[str, str, str]]:
    """(verb, features, form) of every form in the package."""
    with zipfile.ZipFile(archive) as zipped:
        verbs, endings = (json.loads(zipped.read(name).decode()) for name in (VERBS, ENDINGS))
    yield from forms(verbs, endings)


def kept(verb: str, features: str) -> bool:
    """Whether the form is one of the quarter of all forms that are used."""
    return share_of(f"{verb} {features}", KEPT) == 0
