"""`analyze`: analyses the attention of a trained run over a sample of a split; writes numbers, figures and one page.

maps      attention weights of one example, by layer and head
heads     entropy, distance, and weight on the own, previous and first position of each head; the divergence between
          the heads of a layer
rollout   how much of each input token of the first example reaches each position (Abnar & Zuidema 2020)
spectra   singular values of the attention maps by layer and head (Linformer, figure 1)
probe     how well a probe predicts the position from the states of each layer of a causal language model (Haviv et al.
          2022)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from attention_research.analysis import head_statistics, position_probe, rollout, spectra
from attention_research.analysis.attention import AXES, PLACES, AttentionMap, labels
from attention_research.analysis.example_maps import SEQUENCES, example_maps
from attention_research.errors import ConfigError, RunError
from attention_research.studies import document
from attention_research.studies.figures import Figure
from attention_research.tokens import BOS
from attention_research.training.evaluation import Trained
from attention_research.training.workdir import write_json, write_text, writing
from attention_research.workdirs import analysis_figures as pictures
from attention_research.workdirs import offers

WHAT = ("maps", "heads", "rollout", "spectra", "probe")
Place = tuple[str, str]
#: The number of tokens after which one example's maps are cut, since the figure labels every token.
LONGEST = 48


def analyze(
    trained: Trained, folder: Path, what: Sequence[str], *, split: str = "test", examples: int = 64
) -> dict[str, Any]:
    """Writes numbers (analysis.json), figures and analysis.html into `folder`, and returns the numbers.

    Raises ConfigError for a name that is not in `WHAT`, and if no requested analysis fits the model.
    """
    unknown = [one for one in what if one not in WHAT]
    if unknown:
        raise ConfigError(f"--what={unknown[0]}: expected some of {', '.join(WHAT)}")
    offers.check(trained.config.resolved, "analyze")
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    found, figures = _of_maps(trained, folder, [one for one in what if one != "probe"], split, examples)
    if "probe" in what and trained.config.resolved["model"]["kind"] == "transformer_decoder":
        found["probe"] = position_probe.of_run(trained, 0, examples=examples, probed=2 * examples)
        figures.append(pictures.draw_probe(found["probe"], folder / "probe.png"))
    if not found:
        states_only = list(what) == ["probe"]
        part = "the states of a decoder-only Transformer" if states_only else "attention between tokens"
        raise offers.lacking(trained.config.resolved, "analyze", f"{part}, which {', '.join(what)} would look at")
    write_json(folder / "analysis.json", found)
    facts = {**_facts(trained), "data": f"{examples} examples of {split}"}
    write_text(folder / "analysis.html", page(facts, found, figures))
    return found


def _facts(trained: Trained) -> dict[str, str]:
    """The run, config and checkpoint that the numbers come from."""
    return {"run": trained.workdir.resolve().name, "config": trained.config.hash, "read": str(trained.selection)}


def _of_maps(
    trained: Trained, folder: Path, what: Sequence[str], split: str, examples: int
) -> tuple[dict[str, Any], list[Figure]]:
    found: dict[str, Any] = {}
    figures: list[Figure] = []
    shown: list[AttentionMap] = []
    for place, (title, rows, columns) in PLACES.items() if what else ():
        try:
            sample = list(example_maps(trained, place, split=split, examples=examples))
        except RunError:  # the model has no such attention
            continue
        sample = [one for one in sample if one[1].shape[3] > 1]
        if not sample:
            continue
        key, maps = "_".join(place), [maps for _, maps in sample]
        square = SEQUENCES[place][0] == SEQUENCES[place][1] and all(one.shape[2] == one.shape[3] for one in maps)
        if "heads" in what:
            numbers = head_statistics.head_statistics(maps, is_causal=columns == "read")
            apart = head_statistics.divergence(maps)
            found.setdefault("heads", {})[key] = {**_lists(numbers), "divergence": apart.tolist()}
            figures.append(pictures.draw_heads(title, numbers, folder / f"heads_{key}.png"))
        if "spectra" in what:
            curves = spectra.mean_spectrum(maps)
            ranks = np.apply_along_axis(spectra.rank_for, 2, curves)
            found.setdefault("spectra", {})[key] = {"rank_for_90_percent": ranks.tolist()}
            figures.append(pictures.draw_spectra(title, curves, folder / f"spectra_{key}.png"))
        one = _cut(trained, *sample[0], place)
        if "maps" in what:
            found.setdefault("maps", {})[key] = {"queries": one.queries, "keys": one.keys}
            shown.append(one)
        if "rollout" in what and square:
            reached = rollout.rollout(one.weights)
            names = list(one.queries)
            found.setdefault("rollout", {})[key] = {"tokens": names, "last_layer": reached[-1].round(4).tolist()}
            figures.append(pictures.draw_rollout(title, reached, names, rows, folder / f"rollout_{key}.png"))
    if shown:
        figures.insert(0, pictures.draw_maps(shown, _facts(trained), folder / "maps.png"))
    return found, figures


def _cut(trained: Trained, tokens: Mapping[str, np.ndarray], weights: np.ndarray, place: Place) -> AttentionMap:
    """The maps of one example, cut to the first `LONGEST` tokens, with the tokens as labels."""
    title, rows, columns = PLACES[place]
    named = lambda name: labels(trained.data.tokenizer, [int(token) for token in tokens[name][:LONGEST]])
    names = {"source": named("source") if "source" in tokens else [], "written": [], "read": []}
    if "target" in tokens:
        names["written"] = named("target")
        names["read"] = [*labels(trained.data.tokenizer, [BOS]), *names["written"][:-1]]
    cut = np.asarray(weights[:, :, :LONGEST, :LONGEST], np.float32)
    return AttentionMap(title, AXES[rows], AXES[columns], tuple(names[rows]), tuple(names[columns]), cut)


def _lists(numbers: Mapping[str, np.ndarray]) -> dict[str, Any]:
    return {name: values.tolist() for name, values in numbers.items()}


def page(facts: Mapping[str, str], found: Mapping[str, Any], figures: Sequence[Figure]) -> str:
    """The page as HTML: facts, figures, and a table of all heads."""
    parts = ["<h1>What attention does</h1>", document.facts(facts)]
    parts += ["<h2>Pictures</h2>", *map(document.picture, figures)]
    for key, numbers in found.get("heads", {}).items():
        names = head_statistics.STATISTICS
        lines = [["layer and head", *names]]
        for layer, heads in enumerate(numbers[names[0]]):
            for head in range(len(heads)):
                lines.append([f"{layer + 1}.{head + 1}", *(f"{numbers[name][layer][head]:.3f}" for name in names)])
        parts += [f"<h2>{key.replace('_', ' ')}</h2>", document.grid(lines, "Means over the sample, head by head")]
    return document.document("What attention does", parts)
