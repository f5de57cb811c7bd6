"""Compound-split BLEU: splitting by hand, BLEU by hand and by sacreBLEU on text that was split by hand."""

import math

import pytest
import sacrebleu

from attention_research.config import ConfigError, load
from attention_research.config.construction import build_experiment
from attention_research.tasks.compound_split_bleu import compound_split_bleu, split_compounds
from attention_research.tasks.evaluation import corpus_bleu

SPLITS = {
    "a compound": ("das Text-Format", "das Text ##AT##-##AT## Format"),
    "two hyphens": ("Preis-Leistungs-Verhältnis", "Preis ##AT##-##AT## Leistungs ##AT##-##AT## Verhältnis"),
    "a dash between spaces": ("ja - nein", "ja - nein"),
    "a hyphen at a word's end": ("Ein- und Ausgang", "Ein- und Ausgang"),
    "digits": ("3-4", "3 ##AT##-##AT## 4"),
    "each character serves once": ("a-b-c", "a ##AT##-##AT## b-c"),  # s{(\S)-(\S)}{..}g continues after the b
    "no hyphen": ("nichts", "nichts"),
}


@pytest.mark.parametrize("case", SPLITS, ids=[name.replace(" ", "-") for name in SPLITS])
def test_splitting(case):
    text, expected = SPLITS[case]
    assert split_compounds(text) == expected


HYPOTHESES = ["Das neue Text-Format ist gut, sagt Dr. Müller.", "Der Haupt-Bahnhof „liegt” z.B. im Süden der Stadt."]
REFERENCES = ["Das neue Text-Format ist schlecht, sagt Dr. Müller.", 'Der Bahnhof „liegt" z.B. im Süden der Stadt!']
#: Tokenised and split by hand. Moses keeps abbreviations whole, and the closing quotation mark becomes a plain one.
BY_HAND = (
    [
        "Das neue Text ##AT##-##AT## Format ist gut , sagt Dr. Müller .",
        'Der Haupt ##AT##-##AT## Bahnhof „ liegt " z.B. im Süden der Stadt .',
    ],
    [
        "Das neue Text ##AT##-##AT## Format ist schlecht , sagt Dr. Müller .",
        'Der Bahnhof „ liegt " z.B. im Süden der Stadt !',
    ],
)


def test_is_bleu_of_the_text_split_by_hand():
    score, signature = compound_split_bleu(HYPOTHESES, REFERENCES)
    plain = sacrebleu.BLEU(tokenize="none", force=True).corpus_score(BY_HAND[0], [BY_HAND[1]]).score
    assert score == pytest.approx(plain, abs=1e-9)
    assert "tok:moses-de-" in signature and "compound-split" in signature and "smooth:none" in signature


def test_is_the_formula_by_hand():
    """Papineni et al. 2002: matches of orders 1 to 4 counted by hand for one pair, five tokens against six."""
    score, _ = compound_split_bleu(["ein Text-Format hier"], ["ein Text-Format liegt hier"])
    # hypothesis: ein Text @-@ Format hier; reference: ein Text @-@ Format liegt hier
    precisions = [5 / 5, 3 / 4, 2 / 3, 1 / 2]
    expected = 100 * math.exp(1 - 6 / 5) * math.prod(precisions) ** 0.25
    assert score == pytest.approx(expected, abs=1e-9)


def test_no_match_of_an_order_is_zero_as_in_multi_bleu():
    score, _ = compound_split_bleu(["ein Haus"], ["ein Haus"])
    assert score == 0.0
    assert corpus_bleu(["ein Haus steht in der Stadt"], ["ein Haus sehe ich dort heute"])[0] > 0.0
    assert compound_split_bleu(["ein Haus steht in der Stadt"], ["ein Haus sehe ich dort heute"])[0] == 0.0


CONFIG = "configs/translation/transformer.py:smoke"


def test_it_is_reported_in_addition_to_sacrebleu(root, monkeypatch):
    """As an evaluation of a config: `bleu` and its signature equal those of the plain evaluation bit for bit."""
    monkeypatch.chdir(root)
    plain = build_experiment(load(CONFIG)).evaluation()
    both = build_experiment(load(CONFIG, [("evaluation.kind", "compound_split_bleu")])).evaluation()
    sources = ["the new text format", "the main station"]
    expected, found = (one.score(HYPOTHESES, REFERENCES, sources) for one in (plain, both))
    assert found.items() >= expected.items() and (both.split, both.examples) == ("test", 16)
    assert found.keys() - expected.keys() == {"compound_split_bleu", "compound_split_signature"}
    assert found["compound_split_bleu"] != found["bleu"] and found["signature"] != found["compound_split_signature"]
    assert plain.summary(expected) in both.summary(found) and "compound-split BLEU" in both.summary(found)


def test_a_language_without_a_tokenizer_is_one_line(root, monkeypatch):
    monkeypatch.chdir(root)
    overrides = [("evaluation.kind", "compound_split_bleu"), ("evaluation.language", "dee")]
    with pytest.raises(ConfigError, match="^config.evaluation.language: expected one of de, en, es, fr; got 'dee'$"):
        load(CONFIG, overrides)
