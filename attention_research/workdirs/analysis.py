"""`analyze`: analyses the attention of a trained run over a sample of a split; writes numbers, figures and pages.

- `maps`: the attention weights of some examples, by layer and head, on a separate page. The decoder reads the reference
  in one pass, and the output of the model in another.
- `heads`: for each head the entropy, the distance, and the weight on the own, the previous and the first position; the
  divergence between the heads of a layer.
- `rollout`: how much of each input token of the first example reaches each position (Abnar & Zuidema 2020). Left out if
  a layer has no attention weights.
- `spectra`: the singular values of the attention maps, by layer and head (Linformer, figure 1).
- `probe`: how well a probe predicts the position from the states of each layer of a causal language model (Haviv et al.
  2022).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from attention_research.analysis import head_statistics, position_probe, rollout, spectra
from attention_research.analysis.attention import INPUT, PLACES, Attention, AttentionMap, Layers, Pass
from attention_research.analysis.attention_page import page as attention_page
from attention_research.analysis.example_maps import SEQUENCES, every_place, example_maps
from attention_research.analysis.sample_passes import sample_passes, shortened, shown_places
from attention_research.config.errors import nearest
from attention_research.errors import ConfigError, RunError
from attention_research.models.architecture import masked_layers
from attention_research.studies import document
from attention_research.studies.figures import Figure
from attention_research.training.evaluation import Trained
from attention_research.training.workdir import write_json, write_text, writing
from attention_research.workdirs import analysis_figures as pictures
from attention_research.workdirs import offers

WHAT = ("maps", "heads", "rollout", "spectra", "probe")
#: The page of the examples, beside analysis.html.
EXAMPLES_PAGE = "attention.html"


def analyze(
    trained: Trained, folder: Path, what: Sequence[str] | None = None, *, split: str = "test", examples: int = 64
) -> dict[str, Any]:
    """Writes numbers (analysis.json), figures and analysis.html into `folder`, and returns the numbers.

    `what` are some of `WHAT` (None: all that fit the model). "left_out" of the numbers says why one of them has no
    result. With "maps", also writes attention.html, on which one chooses example, text, layer, head and token.
    Raises ConfigError for a name that is not in `WHAT`, for a split without examples, and if no requested analysis fits
    the model.
    """
    requested, what = what is not None, WHAT if what is None else what
    unknown = [one for one in what if one not in WHAT]
    if unknown:
        close = nearest(unknown[0], WHAT)
        hint = f"; did you mean {close}?" if close else ""
        raise ConfigError(f"--what={unknown[0]}: expected some of {', '.join(WHAT)}{hint}")
    offers.check(trained.config.resolved, "analyze")
    _check_split(trained.data, split)
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    line = _line(trained, f"{examples} examples of {split}")
    found, figures = _of_sample(trained, folder, what, split, examples, line)
    if {"maps", "rollout"} & {*what} and trained.data.tokenizer is not None:
        passes = sample_passes(trained, split=split, examples=examples)
        figures = _of_passes(trained, folder, what, passes, found, _line(trained, f"an example of {split}")) + figures
    if "probe" in what and trained.config.resolved["model"]["kind"] == "transformer_decoder":
        found["probe"] = position_probe.of_run(trained, 0, examples=examples, probed=2 * examples, split=split)
        figures.append(pictures.draw_probe(found["probe"], folder / "probe.png", line))
    left_out = _left_out(trained, what, found)
    if not found.keys() - {"left_out"}:
        raise offers.no_analysis(trained.config.resolved, left_out)
    if requested and left_out:
        found["left_out"] = left_out
    write_json(folder / "analysis.json", found)
    facts = {**_facts(trained), "data": f"{examples} examples of {split}"}
    write_text(folder / "analysis.html", page(facts, found, figures))
    return found


def _left_out(trained: Trained, what: Sequence[str], found: Mapping[str, Any]) -> dict[str, list[str]]:
    """Analysis -> why it has no result, or no result for a part of the model."""
    model, data = trained.config.resolved["model"]["kind"], trained.data
    reasons = dict.fromkeys(WHAT, f"it needs weights of attention between tokens, which the model, {model}, lacks")
    reasons["rollout"] = f"it needs weights of self-attention between tokens, which the model, {model}, lacks"
    reasons["probe"] = f"it needs the states of a decoder-only Transformer, and the model is {model}"
    if {"maps", "rollout"} & {*what} and data.tokenizer is None:
        reasons |= dict.fromkeys(("maps", "rollout"), f"the data, {data.name}, have no text to label the tokens with")
    return {one: [reasons[one]] for one in what if one not in found} | found.get("left_out", {})


def _check_split(data: Any, split: str) -> None:
    try:
        some = next(iter(data.evaluation_batches(split, 1, examples=1)), None)
    except ConfigError as error:
        raise ConfigError(f"--split={split}: {error}") from None
    if some is None:
        raise ConfigError(f"--split={split}: the {split} split of {data.name} is empty")


def _facts(trained: Trained) -> dict[str, str]:
    """The run, config and checkpoint that the numbers come from."""
    return {"run": trained.workdir.resolve().name, "config": trained.config.hash, "read": str(trained.selection)}


def _line(trained: Trained, sample: str) -> str:
    """The line below the figures: run, config, seed, checkpoint, and the examples that were read."""
    name = ", ".join(filter(None, (trained.workdir.resolve().name, trained.config.spec)))
    return f"{name}, seed {trained.settings.seed}, {trained.selection}; {sample}"


def _of_sample(
    trained: Trained, folder: Path, what: Sequence[str], split: str, examples: int, line: str
) -> tuple[dict[str, Any], list[Figure]]:
    """The statistics of all heads over the sample, with the decoder reading the reference."""
    found: dict[str, Any] = {}
    figures: list[Figure] = []
    there = every_place(trained, split=split) if {"heads", "spectra"} & {*what} else {}
    again = [f"{part} {name.replace('_', ' ')}" for part, name in there.keys() - PLACES.keys()]
    if "heads" in what and again:
        found["left_out"] = {"heads": [f"{name}: only its maps are shown" for name in sorted(again)]}
    for place, (title, _, _) in PLACES.items() if {"heads", "spectra"} & {*what} else ():
        try:
            pairs = [*example_maps(trained, place, split=split, examples=examples)]
        except RunError:  # the model has no such attention
            continue
        projected = any(one.shape[3] != len(tokens[SEQUENCES[place][1]]) for tokens, one in pairs)
        maps = [one for _, one in pairs if one.shape[3] > 1]
        if not maps:
            continue
        key, layers = "_".join(place), there[place]
        if "heads" in what and projected:
            found.setdefault("left_out", {}).setdefault("heads", []).append(
                f"{title}: its keys are projections, which have no place among the tokens"
            )
        elif "heads" in what:
            numbers = _by_layer(maps, _is_causal(trained, place, layers))
            apart = head_statistics.divergence(maps)
            found.setdefault("heads", {})[key] = {
                "layers": [*layers.numbers], **_lists(numbers), "divergence": apart.tolist(),
            }  # fmt: skip
            figures.append(pictures.draw_heads(title, numbers, layers, folder / f"heads_{key}.png", line))
        if "spectra" in what:
            curves = spectra.mean_spectrum(maps)
            ranks = np.apply_along_axis(spectra.rank_for, 2, curves)
            found.setdefault("spectra", {})[key] = {
                "layers": [*layers.numbers], "rank_for_90_percent": ranks.tolist(),
            }  # fmt: skip
            figures.append(pictures.draw_spectra(title, curves, layers, folder / f"spectra_{key}.png", line))
    return found, figures


def _is_causal(trained: Trained, place: tuple[str, str], layers: Layers) -> list[bool]:
    """Whether each of these layers hides later positions. The place decides if the part is not a stack of blocks."""
    masked = masked_layers(trained.trainer.structure.merge(*trained.model()), *place)
    return [masked[number - 1] if masked else PLACES[place][2] == "read" for number in layers.numbers]


def _by_layer(maps: Sequence[Float[np.ndarray, "L N T S"]], is_causal: Sequence[bool]) -> dict[str, np.ndarray]:
    """`head_statistics` of layers, of which only some may hide later positions."""
    found: dict[str, np.ndarray] = {}
    for causal in sorted(set(is_causal)):
        chosen = np.flatnonzero(np.asarray(is_causal) == causal)
        numbers = head_statistics.head_statistics([one[chosen] for one in maps], is_causal=causal)
        for name, values in numbers.items():
            found.setdefault(name, np.zeros((len(is_causal), values.shape[1])))[chosen] = values
    return found


def _of_passes(
    trained: Trained, folder: Path, what: Sequence[str], passes: Sequence[Pass], found: dict[str, Any], line: str
) -> list[Figure]:
    """Adds the numbers of these passes to `found`, writes their page, and draws those of the first example."""
    figures: list[Figure] = []
    whole = [one for one in passes if one.example == 1]
    passes = [dataclasses.replace(one, maps=tuple(map(shortened, one.maps))) for one in passes]
    first = [one for one in passes if one.example == 1]
    if "maps" in what and passes:
        found["maps"] = [_read(one) for one in passes]
        write_text(folder / EXAMPLES_PAGE, attention_page(Attention(tuple(passes), _facts(trained))))
        for one in first:
            figures.append(pictures.draw_maps(one, _facts(trained), folder / f"maps_{one.of.replace(' ', '_')}.png"))
    keys = {title: "_".join(place) for place, (title, *_) in PLACES.items()}
    for shown in whole[0].maps if "rollout" in what and whole else ():
        square = shown.weights.shape[2] == shown.weights.shape[3] and shown.title in keys
        if square and "self_attention" in keys[shown.title] and not shown.columns.startswith("projections"):
            if (why := _no_rollout(shown, whole[0].maps)) is not None:
                found.setdefault("left_out", {}).setdefault("rollout", []).append(why)
                continue
            key, reached = keys[shown.title], rollout.rollout(shown.weights)
            rows, columns = shown_places(shown)
            shown, reached = shortened(shown), reached[:, rows][..., columns]
            numbers = {"queries": shown.queries, "keys": shown.keys, "last_layer": reached[-1].round(4).tolist()}
            found.setdefault("rollout", {})[key] = numbers
            figures.append(pictures.draw_rollout(shown, reached, folder / f"rollout_{key}.png", line))
    return figures


def _no_rollout(shown: AttentionMap, others: Sequence[AttentionMap]) -> str | None:
    """Why there is no rollout of these maps; None if there is one."""
    if any(other.title.startswith(f"{shown.title} ") for other in others):
        return f"{shown.title}: a block attends twice"
    if shown.has_negative:
        return f"{shown.title}: some weights are negative, so that they are no shares of the input"
    if shown.layers.whole:
        return None
    numbers = ", ".join(map(str, shown.layers.numbers))
    there = f"only layers {numbers} of {shown.layers.depth} have attention weights"
    return f"{shown.title}: {there}, so that a rollout would skip the others"


def _read(one: Pass) -> dict[str, Any]:
    """The entry of a pass in the numbers: what it read, and the axes of its maps."""
    maps = {each.title: {"queries": each.queries, "keys": each.keys} for each in one.maps}
    reads = None if one.of == INPUT else one.of
    return {"example": one.example, "decoder_reads": reads, "sentences": one.sentences, "maps": maps}


def _lists(numbers: Mapping[str, np.ndarray]) -> dict[str, Any]:
    return {name: values.tolist() for name, values in numbers.items()}


def page(facts: Mapping[str, str], found: Mapping[str, Any], figures: Sequence[Figure]) -> str:
    """The page as HTML: facts, figures, and a table of all heads."""
    parts = ["<h1>What attention does</h1>", document.facts(facts)]
    if "maps" in found:
        parts += [
            f'<p><a href="{EXAMPLES_PAGE}">All weights of {found["maps"][-1]["example"]} examples</a>, to choose text, '
            "layer, head and token.</p>"
        ]
    parts += [f"<p>No {what}: {escape(why)}.</p>" for what, all_ in found.get("left_out", {}).items() for why in all_]
    parts += ["<h2>Pictures</h2>", *map(document.picture, figures)]
    for key, numbers in found.get("heads", {}).items():
        names = head_statistics.STATISTICS
        lines = [["layer and head", *names]]
        for layer, number in enumerate(numbers["layers"]):
            for head in range(len(numbers[names[0]][layer])):
                lines.append([f"{number}.{head + 1}", *(f"{numbers[name][layer][head]:.3f}" for name in names)])
        parts += [f"<h2>{key.replace('_', ' ')}</h2>", document.grid(lines, "Means over the sample, head by head")]
    return document.document("What attention does", parts)
