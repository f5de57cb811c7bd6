"""The verdicts of `xu2015/table1`."""

from __future__ import annotations

import statistics

from attention_research.studies.comparisons import UNMEASURED, within
from attention_research.studies.results import Results
from attention_research.studies.verdicts import (
    FIGURE,
    UNTESTED,
    Case,
    Verdict,
    against,
    between,
    compare,
    conclude,
    decide,
    margin_of,
)

BLEU = "evaluate.bleu_4"
NAMED = "measure.named"


def side_by_side(results: Results) -> Verdict:
    """Compares the scores and the gradient noise of soft and hard attention under the same training.

    The text also gives published scores. The claim says that both exist, not which one is better.
    """
    scores = {row: [results.mean(row, f"evaluate.bleu_{n}") for n in range(1, 5)] for row in ("soft", "hard")}
    if any(None in values for values in scores.values()):
        return Verdict(UNTESTED, "soft or hard attention is not trained")
    said = [f"{row}: BLEU-1 to 4 {', '.join(f'{value:.1f}' for value in values)}" for row, values in scores.items()]
    said.append(compare(results, "soft", "hard", BLEU, higher=True).said)
    for row in scores:
        noise = results.mean(row, "measure.noise")
        said += [f"{row}: gradient noise {noise:.2g}"] if noise is not None else []
    said.append("published BLEU-4, soft and hard: Flickr8k 19.5 and 21.3, Flickr30k 19.1 and 19.9, COCO 24.3 and 25.0")
    return Verdict(FIGURE, said)


def regions(results: Results) -> Verdict:
    """Soft attention names more objects correctly than one image vector, given once or at every word."""
    return conclude(
        {
            name: compare(results, "soft", row, NAMED, higher=True)
            for row, name in (("once", "seen once"), ("every_word", "seen at every word"))
        }
    )


def features(results: Results) -> Verdict:
    """BLEU-4 with frozen features of a classifier is above that with frozen random features, and not below that with
    features trained with the captioning model by more than the margin of the claim.

    The margin, 3 %, is the published difference between soft and hard attention on COCO (BLEU-4 24.3 and 25.0), both of
    which the paper calls state of the art.
    """
    found = {"frozen": results.values("frozen", BLEU), "pretrained": results.values("pretrained", "captions.bleu_4"),
             "joint": results.values("soft", BLEU)}  # fmt: skip
    if min(map(len, found.values())) < 2:
        return Verdict(UNTESTED, [f"{name}: {len(values)} seeds" for name, values in found.items()])
    margin = margin_of(results, "caption-pretrained-features")
    numbers = lambda row, other: (row, other, found[row], found[other], "BLEU-4")
    return conclude({
        "pretrained against drawn": between(*numbers("pretrained", "frozen")),
        "pretrained against trained jointly": within(*numbers("pretrained", "joint"), margin, higher=True),
    })  # fmt: skip


def cross(results: Results) -> Verdict:
    """A Transformer names objects clearly better than is possible without the image, and the image reaches the words
    only through cross-attention."""
    named, other = results.values("transformer", NAMED), results.values("once", NAMED)
    if not named:
        return Verdict(UNTESTED, "the Transformer is not trained")
    above = conclude({"BLEU-4": against(results, "transformer", BLEU, "evaluate.other_bleu_4")})
    said = [f"objects named {100 * statistics.fmean(named):.1f} %"]
    said += [f"recurrent with one vector {100 * statistics.fmean(other):.1f} %"] if other else []
    cuts = results.values("cut", "measure.cut")
    through = Case(UNMEASURED)
    if cuts:
        whole = min(results.values("cut", "measure.whole"))
        numbers = f"log p changes by {max(cuts):.2g} with the image if cross-attention is cut, by {whole:.2g} if not"
        through = Case.ruled(max(cuts) == 0, numbers)
    return decide({**above.cases, "the image reaches the words only through cross-attention": through}, *said)


VERDICTS = {
    "caption-hard-against-soft": side_by_side,
    "caption-looks-once": regions,
    "caption-pretrained-features": features,
    "caption-by-cross-attention": cross,
}
