"""`analyze` on models in which not every layer has attention weights: the numbers of the layers, and no rollout."""

from types import SimpleNamespace

import numpy as np
import pytest

from attention_research.analysis import attention, sample_passes
from attention_research.analysis.example_maps import example_maps
from attention_research.analysis.head_statistics import head_statistics
from attention_research.analysis.rollout import rollout
from attention_research.errors import ConfigError
from attention_research.workdirs import analysis, analysis_figures
from tests.small_transformer import small_transformer

pytest.importorskip("matplotlib", reason="matplotlib is not installed (the extra `report`)")
TARGETS = np.asarray([[5, 28, 9, 9, 2], [6, 8, 8, 3, 2]], np.int32)
CONVOLVED = {"kind": "lightweight_convolution", "kernel_width": 3}


class Tokenizer:
    def pieces(self, tokens):
        return [f"t{token}" for token in tokens]

    def decode(self, rows):
        return [" ".join(self.pieces(row)) for row in rows]


def trained(tmp_path, **model):
    """Like `training.evaluation.Trained`, for a random language model and two texts, or another model and two pairs."""
    section = {"kind": "transformer_decoder", "num_layers": 4, **model}
    structure, arrays = small_transformer(**section)
    batch = {"target": TARGETS} if section["kind"] == "transformer_decoder" else {"source": TARGETS, "target": TARGETS}
    data = SimpleNamespace(evaluation_batches=lambda split, rows, examples=None: iter([([0, 1], batch)]),
                           tokenizer=Tokenizer())  # fmt: skip
    resolved = {"model": section, "task": {"kind": "language_modelling"}, "data": {"kind": "text"}}
    return SimpleNamespace(
        config=SimpleNamespace(resolved=resolved, hash="h", spec="a config"), data=data, workdir=tmp_path,
        trainer=SimpleNamespace(structure=structure, parts=SimpleNamespace(model=SimpleNamespace(target=object))),
        model=lambda: arrays, selection="checkpoint 3", settings=SimpleNamespace(seed=0), continues=True,
        decoded=lambda prompts: [[5, 6, 2]], most_tokens=lambda: 13,
    )  # fmt: skip


@pytest.mark.slow
def test_negative_weights_have_no_rollout(tmp_path):
    """Talking heads mix the weights of the heads with factors of any sign."""
    run = trained(tmp_path, self_attention={"kind": "talking_heads"}, num_layers=2)
    parameters, statistics = run.model()
    mixed = {name: x - 1 if name.endswith("weight_scale") else x for name, x in parameters.items()}
    run.model = lambda: (mixed, statistics)
    found = analysis.analyze(run, tmp_path, ["heads", "rollout"])
    why = "decoder self-attention: some weights are negative, so that they are no shares of the input"
    assert "rollout" not in found and found["left_out"] == {"rollout": [why]}
    assert np.max(found["heads"]["decoder_self_attention"]["entropy"]) <= 1


@pytest.mark.slow
def test_every_figure_names_the_attention_and_its_axes(tmp_path, monkeypatch):
    drawn, save = {}, analysis_figures.save
    keep = lambda figure, path, line: (drawn.setdefault(path.stem, figure), save(figure, path, line))
    monkeypatch.setattr(analysis_figures, "save", keep)
    analysis.analyze(trained(tmp_path, num_layers=2), tmp_path, ["heads", "spectra", "rollout"])
    for what, title in (("heads", "Heads"), ("spectra", "Singular values"), ("rollout", "Rollout")):
        figure = drawn[f"{what}_decoder_self_attention"]
        titles = [figure.get_suptitle(), *(axes.get_title(loc="left") for axes in figure.axes)]
        assert f"{title}: decoder self-attention" in titles
        assert all(axes.get_xlabel() for axes in figure.axes) and figure.axes[0].get_ylabel()


@pytest.mark.slow
def test_layers_have_their_numbers_and_rollout_needs_all_of_them(tmp_path):
    """Abnar & Zuidema multiply the weights of every layer."""
    layers = {"kind": "interleaved", "interval": 2, "first": CONVOLVED, "last": {"kind": "standard"}}
    run = trained(tmp_path, self_attention=layers)
    found = analysis.analyze(run, tmp_path, ["heads", "spectra", "rollout"])
    key = "decoder_self_attention"
    assert found["heads"][key]["layers"] == found["spectra"][key]["layers"] == [2, 4]
    assert np.shape(found["heads"][key]["entropy"]) == (2, 3) and "rollout" not in found
    page = (tmp_path / "analysis.html").read_text()
    assert all(f">{layer}.1<" in page for layer in (2, 4)) and ">1.1<" not in page
    why = (
        "decoder self-attention: only layers 2, 4 of 4 have attention weights, so that a rollout would skip the others"
    )
    assert found["left_out"] == {"rollout": [why]} and why in page


@pytest.mark.slow
def test_the_largest_entropy_is_that_of_what_a_layer_sees(tmp_path):
    """Of its class, not of its place: an encoder may hide later positions, and a decoder may not."""
    mixed = {"kind": "interleaved", "interval": 2, "first": {"kind": "unmasked"}, "last": {"kind": "standard"}}
    sides = {"encoder": {"self_attention": {"kind": "one_sided"}}, "decoder": {"self_attention": mixed}}
    run = trained(tmp_path, kind="transformer", num_layers=2, **sides)
    found = analysis.analyze(run, tmp_path, ["heads"])["heads"]
    for side, causal in (("encoder", (True, True)), ("decoder", (False, True))):
        maps = [one for _, one in example_maps(run, (side, "self_attention"))]
        for layer, hides in enumerate(causal):
            of_layer = [one[layer : layer + 1] for one in maps]
            assert all(np.any(one[..., ~np.tri(one.shape[2], dtype=bool)]) != hides for one in of_layer)
            for name, values in head_statistics(of_layer, is_causal=hides).items():
                np.testing.assert_allclose(found[f"{side}_self_attention"][name][layer], values[0], rtol=1e-6)


def test_a_model_without_attention_has_no_numbers(tmp_path):
    why = (
        "^analyze: no heads, maps: it needs weights of attention between tokens, which the model, transformer_decoder, "
        "lacks; no rollout: it needs weights of self-attention between tokens, .*; commands that fit it: generate, "
    )
    with pytest.raises(ConfigError, match=why):
        analysis.analyze(trained(tmp_path, self_attention=CONVOLVED), tmp_path, ["heads", "maps", "rollout"])
    assert attention.layers_of({"decoder": {}}) == {}


def test_what_a_model_does_not_fit_is_named_when_it_is_requested(tmp_path, monkeypatch):
    """A transformer has no states of a decoder-only Transformer. By default, only what fits is analysed."""
    run = trained(tmp_path, kind="transformer", num_layers=1)
    monkeypatch.setattr(analysis, "_of_sample", lambda *_: ({"spectra": {}}, []))
    monkeypatch.setattr(analysis, "_of_passes", lambda *_: [])
    monkeypatch.setattr(analysis, "sample_passes", lambda *_, **__: [])
    why = ["it needs the states of a decoder-only Transformer, and the model is transformer"]
    assert analysis.analyze(run, tmp_path, ["spectra", "probe"]) == {"spectra": {}, "left_out": {"probe": why}}
    assert analysis.analyze(run, tmp_path) == {"spectra": {}}


def test_tokens_without_text_have_no_maps_but_numbers(tmp_path, monkeypatch):
    """As those of `recall`: there is no vocabulary to label them."""
    run = trained(tmp_path, num_layers=1)
    run.data.tokenizer, run.data.name = None, "recall"
    found = analysis.analyze(run, tmp_path, ["maps", "heads"])
    assert found["left_out"] == {"maps": ["the data, recall, have no text to label the tokens with"]}
    assert list(found["heads"]) == ["decoder_self_attention"] and not (tmp_path / "attention.html").exists()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["standard", "sigmoid"])
def test_rows_of_a_rollout_sum_to_1_also_for_long_texts(tmp_path, monkeypatch, kind):
    """What later tokens hold belongs to the sums, although they are not shown; sigmoids do not sum to 1."""
    run = trained(tmp_path, kind="transformer", num_layers=2, self_attention={"kind": kind})
    run.continues = False
    monkeypatch.setattr(sample_passes, "LONGEST", 3)
    seen = []
    monkeypatch.setattr(analysis.rollout, "rollout", lambda weights: seen.append(rollout(weights)) or seen[-1])
    found = analysis.analyze(run, tmp_path, ["rollout"])["rollout"]
    assert [one.shape for one in seen] == [(2, 5, 5)] * 2
    for one, numbers in zip(seen, found.values(), strict=True):
        np.testing.assert_allclose(one.sum(axis=-1), 1.0, rtol=1e-6)
        assert len(numbers["queries"]) == len(numbers["last_layer"]) == 3


@pytest.mark.slow
def test_source_and_text_of_one_stack_are_cut_apart(tmp_path, monkeypatch):
    """A map over both keeps the first tokens of either, as do the texts that are shown above it."""
    run = trained(tmp_path, kind="language_model", num_layers=1)
    run.continues = False
    run.data.evaluation_batches = lambda split, rows, examples=None: iter([([0], {"source": TARGETS[:1, ::-1],
                                                                                 "target": TARGETS[1:]})])  # fmt: skip
    monkeypatch.setattr(sample_passes, "LONGEST", 3)
    drawn, seen, draw = [], [], analysis_figures.draw_rollout
    monkeypatch.setattr(analysis_figures, "draw_rollout", lambda *given: drawn.append(given[:2]) or draw(*given))
    monkeypatch.setattr(analysis, "shortened", lambda one: seen.append(one) or sample_passes.shortened(one))
    numbers = analysis.analyze(run, tmp_path, ["rollout"])["rollout"]["decoder_self_attention"]
    ((shown, reached),), whole = drawn, seen[0]
    assert (whole.source_length, whole.weights.shape[2:], shown.source_length) == (5, (10, 10), 3)
    assert numbers["queries"] == shown.queries == ("t2", "t9", "t9", "t6", "t8", "t8")
    assert shown.keys[:4] == ("t2", "t9", "t9", whole.keys[5])
    places = np.array([0, 1, 2, 5, 6, 7])
    np.testing.assert_array_equal(shown.weights, whole.weights[:, :, places][..., places])
    np.testing.assert_array_equal(reached, rollout(whole.weights)[:, places][..., places])


@pytest.mark.slow
def test_what_has_no_place_among_the_tokens_is_left_out(tmp_path):
    """Distances of projected keys, and the second attention of a block."""
    twice = {"steps": tuple((kind, "residual", "norm") for kind in ("self_attention", "self_attention"))}
    run = trained(tmp_path, kind="transformer_decoder", num_layers=2, decoder=twice)
    found = analysis.analyze(run, tmp_path, ["heads", "rollout"])
    assert found["left_out"] == {
        "heads": ["decoder self attention 2: only its maps are shown"],
        "rollout": ["decoder self-attention: a block attends twice"],
    }
    run = trained(tmp_path, kind="transformer", num_layers=2, self_attention={"kind": "linformer", "rank": 3})
    run.continues = False
    found = analysis.analyze(run, tmp_path, ["heads"])
    titles = ("cross-attention", "encoder self-attention")
    why = "its keys are projections, which have no place among the tokens"
    assert sorted(found["left_out"]["heads"]) == [f"{title}: {why}" for title in titles]
    assert list(found["heads"]) == ["decoder_self_attention"]
