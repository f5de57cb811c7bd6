"""The measurements of `lectures/heads` on a trained run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

#: A head can be removed if no link loses more accuracy than this without it.
SPARED = 0.01
#: The number of the sentence whose maps are drawn.
DRAWN = 1


def measure_blanks(*, workdir: Path, seed: int, examples: int = 256, **_: Any) -> dict[str, Any]:
    """Measures the heads of a trained run on test examples. Heads and offsets are chosen on validation examples.

    Returns the accuracy of each link; "best_LINK" and "best_LINK_untrained", the pointing accuracy of the best head,
    with its fixed-offset baseline; the weight on the deciding word, of the best head and averaged over heads; the
    "divergence" of trained heads, of untrained heads and of copies; attention distances by encoder layer; "pruned", the
    largest loss of accuracy of a link without each head; and the maps of the best heads.
    """
    import numpy as np

    from attention_research.analysis.head_statistics import divergence, head_statistics
    from attention_research.analysis.teacher_forced import untrained
    from attention_research.data.blanks import LINKS
    from attention_research.training.evaluation import Trained
    from attention_research.training.fitting import at_best

    from . import pointing

    del seed
    trained = Trained(workdir)
    found: dict[str, Any] = {}
    best: dict[str, Any] = {}
    for ending, arrays in (("", trained.model()), ("_untrained", untrained(trained))):
        validated, held_out = (_pointing(trained, arrays, split, examples) for split in ("validation", "test"))
        maps = {place: [one for _, one in sample] for place, sample in held_out.samples.items()}
        for link in LINKS:
            place = max(maps, key=lambda place: validated.at[place][link]["accuracy"].max())
            choosing, heads = validated.at[place][link], held_out.at[place][link]
            found[f"best_{link}{ending}"] = at_best(-choosing["accuracy"], heads["accuracy"])
            found[f"mass_{link}{ending}"] = at_best(-choosing["mass"], heads["mass"])
            found[f"mean_mass_{link}{ending}"] = float(np.mean([held_out.at[one][link]["mass"].mean() for one in maps]))
            layers = (split.at[pointing.ENCODER][link]["accuracy"] for split in (validated, held_out))
            found[f"by_layer_{link}{ending}"] = [at_best(-one, other) for one, other in zip(*layers, strict=True)]
            where = np.unravel_index(choosing["accuracy"].argmax(), choosing["accuracy"].shape)
            best[f"{link}{ending}"] = (place, where)
        statistics = head_statistics(maps[pointing.ENCODER])
        found[f"distances{ending}"] = statistics["distance"].mean(axis=1).tolist()
        found[f"divergence{ending}"] = float(divergence(maps[pointing.ENCODER]).mean())
        if not ending:
            copies = [np.repeat(one[:, :1], one.shape[1], axis=1) for one in maps[pointing.ENCODER]]
            found["divergence_copies"] = float(divergence(copies).mean())
            offsets = pointing.fixed_offset(validated.gold, held_out.gold)
            found |= {f"offset_{link}": share for link, share in offsets.items()}
            found["maps"] = _drawn(trained, held_out.samples, best)
    found |= {"first_distance": found["distances"][0], "last_distance": found["distances"][-1]}
    return {**found, **_pruned(trained, examples)}


class _Pointing(NamedTuple):
    """For a split: by place, the tokens of the examples with their maps; the gold links; `pointing.pointing` by
    place."""

    samples: dict[Any, list[Any]]
    gold: list[Any]
    at: dict[Any, Any]


def _pointing(trained: Any, arrays: Any, split: str, examples: int) -> _Pointing:
    from attention_research.analysis.example_maps import example_maps

    from . import pointing

    samples = {
        place: list(example_maps(trained, place, arrays, split=split, examples=examples))
        for place in (pointing.ENCODER, pointing.CROSS)
    }
    gold = [pointing.links_of(trained, tokens["source"]) for tokens, _ in samples[pointing.ENCODER]]
    at = {
        place: pointing.pointing([one for _, one in sample], gold, written=place == pointing.CROSS)
        for place, sample in samples.items()
    }
    return _Pointing(samples, gold, at)


def _drawn(trained: Any, samples: Any, best: Any) -> list[dict[str, Any]]:
    """Returns the maps of the best heads for the two distant links on one held-out sentence."""
    drawn = []
    for link in ("entity", "syntax"):
        place, (layer, head) = best[link]
        tokens, maps = samples[place][min(DRAWN, len(samples[place]) - 1)]
        words = {name: trained.data.tokenizer.pieces([int(t) for t in ids]) for name, ids in tokens.items()}
        rows = words["source"] if place[0] == "encoder" else words["target"]
        title = f"{link}: {place[0]}, layer {layer + 1}, head {head + 1}"
        drawn.append({"title": title, "source": words["source"], "target": rows, "weights": maps[layer, head].tolist()})
    return drawn


def _pruned(trained: Any, examples: int) -> dict[str, Any]:
    """Returns "accuracy_LINK"; "pruned", place -> [L][N], the largest loss of a link without the head; and "spared"."""
    from . import pointing

    parameters, statistics = trained.model()
    accuracy = pointing.accuracy(trained, examples=examples)
    whole = accuracy((parameters, statistics))
    count = trained.config.resolved["model"]["num_heads"]
    names = [name for name in parameters if name.endswith("attention.output.kernel")]
    losses: dict[str, list[list[float]]] = {}
    for name in sorted(names):
        place = " ".join((name.split(".")[0], name.split(".")[-3]))
        losses[place] = []
        for layer in range(parameters[name].shape[0]):
            row = []
            for head in range(count):
                without = pointing.without_head(parameters, name, layer, head, count)
                left = accuracy((without, statistics))
                row.append(max(whole[link] - left[link] for link in whole))
            losses[place].append(row)
    every = [loss for place in losses.values() for row in place for loss in row]
    spared = sum(loss <= SPARED for loss in every) / len(every)
    return {**{f"accuracy_{link}": share for link, share in whole.items()}, "pruned": losses, "spared": spared}


def measure_distances(*, workdir: Path, seed: int, examples: int = 64, **_: Any) -> dict[str, Any]:
    """Returns "distances" and "distances_untrained" in tokens, by layer of a language model, and those of the first and
    the last layer."""
    from attention_research.analysis.example_maps import example_maps
    from attention_research.analysis.head_statistics import divergence, head_statistics
    from attention_research.analysis.teacher_forced import untrained
    from attention_research.training.evaluation import Trained

    del seed
    trained, found = Trained(workdir), {}
    for ending, arrays in (("", trained.model()), ("_untrained", untrained(trained))):
        place = ("decoder", "self_attention")
        maps: Sequence[Any] = [one for _, one in example_maps(trained, place, arrays, examples=min(examples, 64))]
        found[f"distances{ending}"] = head_statistics(maps, is_causal=True)["distance"].mean(axis=1).tolist()
        found[f"divergence{ending}"] = float(divergence(maps).mean())
    return {**found, "first_distance": found["distances"][0], "last_distance": found["distances"][-1]}
