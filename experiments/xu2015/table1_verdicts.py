"""The verdicts of `xu2015/table1`."""

from __future__ import annotations

import statistics

from attention_research.studies.results import Results
from attention_research.studies.verdicts import (
    CONDITION,
    FAILED,
    HELD,
    UNTESTED,
    Verdict,
    clearly_above,
    compare,
    conclude,
)

BLEU = "evaluate.bleu_4"
NAMED = "measure.named"


def side_by_side(results: Results) -> Verdict:
    """Soft and hard trained alike: their scores and how noisy their gradients are, with the printed ones."""
    scores = {row: [results.mean(row, f"evaluate.bleu_{n}") for n in range(1, 5)] for row in ("soft", "hard")}
    if any(None in values for values in scores.values()):
        return Verdict(UNTESTED, "soft or hard attention is not trained")
    said = [f"{row}: BLEU-1 to 4 {', '.join(f'{value:.1f}' for value in values)}" for row, values in scores.items()]
    said.append(compare(results, "soft", "hard", BLEU, higher=True).text)
    for row in scores:
        noise = results.mean(row, "measure.noise")
        said += [f"{row}: gradient noise {noise:.2g}"] if noise is not None else []
    said.append("printed BLEU-4, soft and hard: Flickr8k 19.5 and 21.3, Flickr30k 19.1 and 19.9, COCO 24.3 and 25.0")
    return Verdict(HELD, "; ".join(said))


def regions(results: Results) -> Verdict:
    """Objects named right by soft attention against one vector of the picture, seen once and at every word."""
    return conclude(
        {
            name: compare(results, "soft", row, NAMED, higher=True)
            for row, name in (("once", "seen once"), ("every_word", "seen at every word"))
        }
    )


def features(results: Results) -> Verdict:
    """BLEU-4 over frozen features of a classifier, against frozen ones as drawn, and against ones that are trained."""
    found = {"frozen": results.values("frozen", BLEU), "pretrained": results.values("pretrained", "captions.bleu_4"),
             "joint": results.values("soft", BLEU)}  # fmt: skip
    if min(map(len, found.values())) < 2:
        return Verdict(UNTESTED, "; ".join(f"{name}: {len(values)} seeds" for name, values in found.items()))
    said = [f"{name}: BLEU-4 {statistics.fmean(values):.1f}" for name, values in found.items()]
    better = clearly_above(found["pretrained"], found["frozen"])
    joint = clearly_above(found["joint"], found["pretrained"])
    said.append(f"pretrained above drawn: {'clear' if better else 'not clear'}")
    said.append(f"trained with the captioner above pretrained: {'clear' if joint else 'not clear'}")
    if not better:
        return Verdict(FAILED, "; ".join(said))
    because = "; ".join(said)
    if joint:
        return Verdict(CONDITION, f"better than features as drawn, not than ones trained with the captioner; {because}")
    return Verdict(HELD, because)


def cross(results: Results) -> Verdict:
    """A Transformer names objects clearly better than looking at none allows, and only its cross-attention sees."""
    named, other = results.values("transformer", NAMED), results.values("once", NAMED)
    if not named:
        return Verdict(UNTESTED, "the Transformer is not trained")
    floors = results.values("transformer", "evaluate.other_bleu_4")
    bleu = results.values("transformer", BLEU)
    said = [f"objects named {100 * statistics.fmean(named):.1f} %"]
    said.append(f"BLEU-4 {statistics.fmean(bleu):.1f} against {statistics.fmean(floors):.1f} of another's caption")
    said += [f"recurrent with one vector {100 * statistics.fmean(other):.1f} %"] if other else []
    cuts = results.values("cut", "measure.cut")
    if not cuts:
        return Verdict(UNTESTED, "; ".join([*said, "what is left without cross-attention is not measured"]))
    said.append(f"largest change of log p with the picture: {max(cuts):.2g} with cross-attention cut, "
                f"{min(results.values('cut', 'measure.whole')):.2g} without")  # fmt: skip
    good = clearly_above(bleu, floors) and max(cuts) == 0
    return Verdict(HELD if good else FAILED, "; ".join(said))


VERDICTS = {
    "caption-hard-against-soft": side_by_side,
    "caption-looks-once": regions,
    "caption-pretrained-features": features,
    "caption-by-cross-attention": cross,
}
