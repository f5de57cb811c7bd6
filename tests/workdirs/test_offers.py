"""Every command on every kind of run works, or reports in one line what the model lacks and which command fits it."""

import json
from types import SimpleNamespace

import pytest

from attention_research import registry
from attention_research.cli import main
from attention_research.config import ConfigError, load
from attention_research.training import evaluation
from attention_research.training.run import train
from attention_research.workdirs import offers
from tests.tiers import slow_are

WRITE = {"generate", "analyze", *offers.EVERY}
#: Kind of model -> the commands that it offers. Every new kind must be entered here.
OFFERED = {
    **dict.fromkeys(
        ("transformer", "shared_transformer", "language_model", "transformer_decoder", "recurrent_language_model",
         "feed_forward_language_model", "latent_alignment", "conv_attention", "copy_attention", "pointer_generator",
         "recurrent", "recurrent_captioner", "transformer_captioner"), WRITE),
    "transformer_encoder": WRITE - {"generate"},
    "query_model": WRITE - {"generate"},
    **dict.fromkeys(
        ("text_classifier", "encoder_classifier", "pair_classifier", "cloze_classifier", "image_classifier",
         "image_question_classifier", "vision_transformer", "rationale", "soft_attention_ratings", "series"),
        set(offers.EVERY)),
}  # fmt: skip
#: One config for each kind of task and of data.
CONFIGS = {
    "masked language model": "language_modelling/transformer.py:masked",
    "classification": "classification/text.py:smoke",
    "long range arena": "classification/long_range.py:smoke",
    "pairs of texts": "classification/long_range.py:retrieval",
    "pixels": "classification/long_range.py:image",
    "pathfinder": "classification/long_range.py:pathfinder",
    "residual network": "images/residual.py:smoke",
    "vision transformer": "images/vision_transformer.py:smoke",
    "image questions": "images/questions.py:smoke",
    "rationales": "rationales/reviews.py:smoke",
}


@pytest.mark.parametrize("kind", registry.FAMILIES["model"])
def test_every_kind_of_model_offers_its_commands(kind):
    assert set(offers.ability({"model": {"kind": kind}})[1]) == OFFERED[kind]


MISFITS = [
    (name, words)
    for name in CONFIGS
    for words in (["generate", "--input=a"], ["generate", "--input=none.txt"], ["analyze"])
    if words != ["analyze"] or name != "masked language model"
]


@pytest.mark.parametrize(("name", "words"), MISFITS, ids=[f"{name}-{words[-1]}" for name, words in MISFITS])
def test_a_command_that_does_not_fit_is_one_line(name, words, tmp_path, capsys, monkeypatch, root):
    monkeypatch.chdir(root)
    config = load(f"configs/{CONFIGS[name]}")
    (tmp_path / "config.json").write_text(config.to_json())
    kind = config.resolved["model"]["kind"]
    assert main([words[0], f"--workdir={tmp_path}", *words[1:]]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and err.startswith(f"error: {words[0]}: this run's model, {kind}, ")
    assert all(one in err for one in OFFERED[kind])


def test_data_without_text_take_no_new_text(tmp_path, capsys, monkeypatch, root):
    monkeypatch.chdir(root)
    config = load("configs/language_modelling/recall.py")
    (tmp_path / "config.json").write_text(config.to_json())
    assert main(["generate", f"--workdir={tmp_path}", "--input=a b"]) == 2
    out, err = capsys.readouterr()
    line = "error: generate: this run's data, recall, have no text, so that new text cannot be encoded; commands that"
    assert out == "" and err.startswith(line) and err.count("\n") == 1
    assert "fit it: evaluate" in str(offers.no_analysis(config.resolved, {"maps": ["a reason"]}))
    assert offers.takes_input(load("configs/language_modelling/transformer.py").resolved)
    assert offers.takes_input(load("configs/images/captions.py").resolved)


@pytest.mark.parametrize("words", [["generate", "--input=a"], ["analyze"], ["evaluate"]])
def test_a_kind_that_this_version_lacks_is_one_line(words, tmp_path, capsys, root):
    saved = json.loads(load(root / "configs/translation/transformer.py:smoke").to_json())
    for config in (saved["given"], saved["resolved"]):
        config["model"]["kind"] = "transformr"
    (tmp_path / "config.json").write_text(json.dumps(saved))
    assert main([words[0], f"--workdir={tmp_path}", *words[1:]]) == 2
    line = "error: config.model.kind: no kind 'transformr' of model; did you mean transformer?\n"
    assert capsys.readouterr().err == line


MISMATCHES = {
    ("bleu", "transformer_decoder"): "has no encode;",
    ("bleu", "transformer_encoder"): "has no start and no step;",
    ("captions", "image_classifier"): "has no encode and no start and no step;",
    ("classification", "transformer"): "has no log_probabilities;",
    ("perplexity", "vision_transformer"): "has no log_likelihood;",
    ("rationale", "text_classifier"): "has no read;",
}


@pytest.mark.parametrize(("scored", "model"), MISMATCHES)
def test_an_evaluation_that_does_not_fit_the_model_is_one_line(scored, model):
    parts = SimpleNamespace(model=SimpleNamespace(target=registry.lookup("model", model)))
    config = SimpleNamespace(resolved={"evaluation": {"kind": scored}, "evaluations": {}, "model": {"kind": model}})
    trained = SimpleNamespace(
        config=config, trainer=SimpleNamespace(parts=parts, config=config), data=None, further={},
        evaluation=registry.lookup("evaluation", scored)(),
        model=lambda replica: None,
    )  # fmt: skip
    expected = f"^evaluation.kind={scored}: needs .*, but {model} {MISMATCHES[scored, model]}"
    with pytest.raises(ConfigError, match=expected):
        evaluation._evaluate_one(trained, 0)


def test_every_evaluation_of_a_config_fits_its_model(root, monkeypatch):
    monkeypatch.chdir(root)
    for spec in CONFIGS.values():
        said = load(f"configs/{spec}").resolved
        model = registry.lookup("model", said["model"]["kind"])
        assert all(hasattr(model, name) for name in registry.lookup("evaluation", said["evaluation"]["kind"]).needs)


FEW = (
    "training.steps=2", "training.batch_size=4", "training.checkpoint_every=2", "training.eval_every=2",
    "training.log_every=1", "training.eval_batches=1", "evaluation.examples=4", "evaluation.batch_size=4",
)  # fmt: skip
GENERATED = ("data.name=generated_translation/local", "data.source_language=source", "data.target_language=target")
TINY = ("max_length=32", "vocabulary_size=64", "data.tokenizer.kind=words")
#: Cases that need no download: name -> (config, overrides, exit status of the commands that fail).
WALKED = {
    "copying": ("copying/recurrent.py:smoke", ("data.train_examples=64",), {}),
    "recurrent language model": (
        "language_modelling/recurrent.py:smoke", (*GENERATED, *TINY, "data.batching.boundaries=32"), {"analyze": 2}),
    "captions": ("images/captions.py:smoke", (), {"analyze": 2, "--tokenizer": 2}),
    "long range arena": ("classification/long_range.py:smoke", (), {"generate": 2, "analyze": 2, "--tokenizer": 2}),
    "rationales": ("rationales/reviews.py:smoke", (), {"generate": 2, "analyze": 2, "--tokenizer": 2}),
}  # fmt: skip


@pytest.mark.parametrize("name", slow_are(["copying", "long range arena"], [*WALKED]))
def test_every_command_works_or_says_what_is_missing(name, tmp_path, capsys, monkeypatch, root):
    from PIL import Image

    monkeypatch.chdir(root)
    spec, overrides, refused = WALKED[name]
    run, picture = tmp_path / "run", tmp_path / "picture.png"
    train(load(f"configs/{spec}", [tuple(one.split("=")) for one in (*FEW, *overrides)]), run, lambda line: None)
    Image.new("RGB", (20, 20), (200, 30, 30)).save(picture)
    given = picture if name == "captions" else "a b"
    file, workdir = tmp_path / "model.safetensors", f"--workdir={run}"
    commands = {
        "evaluate": ["evaluate", workdir], "report": ["report", run], "compare": ["compare", run, run],
        "status": ["status", run], "export": ["export", workdir, file],
        "--tokenizer": ["export", workdir, file, "--tokenizer"],
        "generate": ["generate", workdir, f"--input={given}"],
        "analyze": ["analyze", workdir, "--examples=4", "--what=maps,heads"],
    }  # fmt: skip
    for command, words in commands.items():
        capsys.readouterr()
        status = main(list(map(str, words)))
        out, err = capsys.readouterr()
        assert status == refused.get(command, 0), (command, err)
        assert bool(out) == (status == 0) and err.count("error:") == (status != 0), (command, err)
