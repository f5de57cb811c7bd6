"""Errors in checkpoint folders: read as by the tokenizers of Hugging Face, or refused in one line."""

import json

import numpy as np
import pytest
from safetensors.numpy import save_file

from attention_research.data.hugging_face import HuggingFaceTokenizer
from attention_research.data.hugging_face_folder import CheckpointFolder
from attention_research.errors import ConfigError
from attention_research.weights import load

tokenizers = pytest.importorskip("tokenizers", reason="the extra `weights` is not installed")
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "a", "cat", "dog", "sat", "on", "mat", "##s", "and", ","]
TEXT = "the cats sat on a mat , and the DOG café"
V = 23


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ATTENTION_RESEARCH_DATA", str(tmp_path / "cache"))


def written(tmp_path, vocabulary, **config):
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"model_type": "bert", "vocab_size": V, **config}))
    (folder / "vocab.txt").write_bytes(vocabulary)
    return folder


def lines(*inside, end="\n", place=6):
    return "".join(f"{word}{end}" for word in [*WORDS[:place], *inside, *WORDS[place:]]).encode()


VOCABULARIES = {
    "plain": lines(),
    "Windows": lines(end="\r\n"),
    "no last line end": lines().removesuffix(b"\n"),
    "a token twice": lines("the", "mat"),
    "a token three times": lines("cat", "cat", "sat"),
    "blank lines": lines("", "", "dog"),
    "U+2028": lines("x\u2028y", "\u2029z"),
    "U+0085": lines("x\x85y"),
    "form feeds": lines("x\x0cy", "x\x1cy", "x\x0by"),
    "a carriage return": lines("x\ry"),
    "spaces at the end": lines("bird  "),
}


@pytest.mark.parametrize("case", VOCABULARIES)
def test_a_vocabulary_of_lines_is_numbered_as_theirs(tmp_path, case):
    """Compared with the package `tokenizers` on the same file, and with Transformers if it is installed."""
    folder = written(tmp_path, VOCABULARIES[case], pad_token_id=0)
    ours = HuggingFaceTokenizer(folder=str(folder), vocabulary_size=40).fit(())
    theirs = [tokenizers.BertWordPieceTokenizer(str(folder / "vocab.txt")).encode(TEXT, add_special_tokens=False).ids]
    try:
        from transformers import BertTokenizer
    except ImportError:
        pass
    else:
        theirs.append(BertTokenizer.from_pretrained(str(folder))(TEXT, add_special_tokens=False)["input_ids"])
    (ids,) = ours.encode([TEXT])
    for expected in theirs:
        assert [ours._numbering.theirs[token] for token in ids[:-1]] == expected


@pytest.mark.parametrize("said", [{}, {"do_lower_case": False}, {"strip_accents": False}, {"strip_accents": True}])
def test_settings_of_the_folders_tokenizer_are_followed(tmp_path, said):
    transformers = pytest.importorskip("transformers", reason="Hugging Face Transformers is not installed")
    folder = written(tmp_path, lines("café", "cafe", "DOG"), pad_token_id=0)
    (folder / "tokenizer_config.json").write_text(json.dumps(said))
    ours = HuggingFaceTokenizer(folder=str(folder), vocabulary_size=40).fit(())
    theirs = transformers.BertTokenizer.from_pretrained(str(folder))(TEXT, add_special_tokens=False)["input_ids"]
    assert [ours._numbering.theirs[token] for token in ours.encode([TEXT])[0][:-1]] == theirs


#: Content of config.json -> the file and the key that the error names.
CONFIGS = {
    "negative padding": ({"pad_token_id": -1}, "config.json: pad_token_id is -1; expected 0 to 22 (vocab_size is 23)"),
    "padding behind the end": ({"pad_token_id": V}, "config.json: pad_token_id is 23; expected 0 to 22"),
    "a list": ({"pad_token_id": [0]}, "config.json: pad_token_id is [0]; expected 0 to 22"),
    "true": ({"pad_token_id": True}, "config.json: pad_token_id is True; expected 0 to 22"),
    "unknown behind the end": ({"unk_token_id": 99}, "config.json: unk_token_id is 99; expected 0 to 22"),
    "no size": ({"vocab_size": None}, "config.json: no key 'vocab_size'"),
    "a text for a size": ({"vocab_size": "23"}, "config.json: vocab_size is '23'; expected a whole number from 1 up"),
    "nothing": ({"vocab_size": 0}, "config.json: vocab_size is 0; expected a whole number from 1 up"),
    "a small size": ({"vocab_size": 9}, "vocab.txt: token 'sat' has the id 9; expected 0 to 8, as vocab_size"),
}


@pytest.mark.parametrize("case", CONFIGS)
def test_a_wrong_number_is_one_line(tmp_path, case):
    changes, line = CONFIGS[case]
    folder = written(tmp_path, lines(), **changes)
    refused(folder, f"{folder}/{line}", lambda: HuggingFaceTokenizer(folder=str(folder), vocabulary_size=40).fit(()))


def refused(folder, line, call):
    with pytest.raises(ConfigError) as caught:
        call()
    assert line in str(caught.value) and "\n" not in str(caught.value)


MODEL = {"type": "WordPiece", "unk_token": "[UNK]", "vocab": {word: i for i, word in enumerate(WORDS)}}
#: Name of a file, its content -> the error message.
FILES = {
    "no model": ("tokenizer.json", {"version": "1.0"}, "tokenizer.json: no key 'model'"),
    "no vocabulary": ("tokenizer.json", {"model": {}}, "tokenizer.json: no model.vocab and added_tokens as"),
    "an added token without an id": ("tokenizer.json", {"model": MODEL, "added_tokens": [{"content": "x"}]},
                                     "tokenizer.json: no model.vocab and added_tokens as"),
    "an added token behind the end": ("tokenizer.json", {"model": MODEL, "added_tokens": [{"content": "x", "id": 77}]},
                                      "tokenizer.json: token 'x' has the id 77; expected 0 to 22"),
    "an invalid id": ("vocab.json", {"[PAD]": "0"}, "vocab.json: token '[PAD]' has the id '0'; expected 0 to 22"),
    "a list": ("tokenizer.json", [1], "tokenizer.json: a JSON list; expected an object with keys"),
    "no JSON": ("vocab.json", None, "vocab.json: no JSON ("),
    "no unknown token": ("vocab.txt", "[PAD]\n[CLS]\n[SEP]\nthe\n", "the vocabulary has no token [UNK]"),
    "Latin 1": ("vocab.txt", b"[PAD]\ncaf\xe9\n", "vocab.txt is not UTF-8 text: byte 0xe9 in line 2"),
    "another kind of model": ("tokenizer.json", {"model": {**MODEL, "type": "Runes"}},
                              "its vocabulary cannot be read ("),
}  # fmt: skip


@pytest.mark.parametrize("case", FILES)
def test_a_wrong_vocabulary_is_one_line(tmp_path, case):
    name, content, line = FILES[case]
    folder = written(tmp_path, lines())
    if isinstance(content, (str, bytes)):
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    else:
        (folder / name).write_text("{" if content is None else json.dumps(content))
    refused(folder, line, lambda: HuggingFaceTokenizer(folder=str(folder), vocabulary_size=40).fit(()))


SIZES = {"hidden_size": 4, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 3,
         "max_position_embeddings": 7,
         "hidden_dropout_prob": 0.1, "hidden_act": "gelu", "layer_norm_eps": 1e-6}  # fmt: skip


def tensors(layers=2):
    """A BERT without a head."""
    shapes = {"embeddings.word_embeddings.weight": (V, 4), "embeddings.position_embeddings.weight": (7, 4),
              "embeddings.token_type_embeddings.weight": (2, 4), "embeddings.LayerNorm.weight": (4,),
              "embeddings.LayerNorm.bias": (4,)}  # fmt: skip
    for i in range(layers):
        layer = f"encoder.layer.{i}"
        for name, shape in (*((f"attention.self.{part}", (4, 4)) for part in ("query", "key", "value")),
                            ("attention.output.dense", (4, 4)), ("intermediate.dense", (3, 4)),
                            ("output.dense", (4, 3))):  # fmt: skip
            shapes |= {f"{layer}.{name}.weight": shape, f"{layer}.{name}.bias": shape[:1]}
        for name in ("attention.output.LayerNorm", "output.LayerNorm"):
            shapes |= {f"{layer}.{name}.weight": (4,), f"{layer}.{name}.bias": (4,)}
    return {name: np.ones(shape, np.float32) for name, shape in shapes.items()}


def of(name, array):
    return lambda folder, found: save_file({**found, name: array}, folder / "model.safetensors")


def truncated(folder, found):
    save_file(found, folder / "model.safetensors")
    (folder / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes()[:-40])


def index(document):
    return lambda folder, found: (folder / "model.safetensors.index.json").write_text(json.dumps(document))


def config(**changes):
    def write(folder, found):
        save_file(found, folder / "model.safetensors")
        said = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({k: v for k, v in {**said, **changes}.items() if v is not None}))

    return write


TABLE, KERNEL = "embeddings.word_embeddings.weight", "encoder.layer.1.intermediate.dense.weight"
WEIGHTS = {
    "truncated": (truncated, "model.safetensors: no safetensors file ("),
    "fewer rows": (of(TABLE, np.ones((V - 2, 4), np.float32)),
                   f"tensor {TABLE} has the shape (21, 4), which does not fit (21 rows where vocab_size in"),
    "more rows": (of(TABLE, np.ones((V + 9, 4), np.float32)), "32 rows where vocab_size in config.json is 23"),
    "whole numbers": (of(KERNEL, np.ones((3, 4), np.int8)), f"tensor {KERNEL} is of int8; expected floats"),
    "a layer of another shape": (of(KERNEL, np.ones((5, 4), np.float32)),
                                 f"tensor {KERNEL} gives the shape (4, 5), that of layer 0 (4, 3)"),
    "a scalar tensor": (of(TABLE, np.ones((), np.float32)), f"tensor {TABLE} has the shape (), which does not fit ("),
    "a missing tensor": (lambda folder, found: save_file({k: x for k, x in found.items() if k != KERNEL},
                                                         folder / "model.safetensors"), f"no tensor {KERNEL}"),
    "a missing file of several": (index({"weight_map": {KERNEL: "model-00002.safetensors"}}),
                                  "weight_map names model-00002.safetensors, which is not in the folder"),
    "no map": (index({"metadata": {}}), "model.safetensors.index.json: no key 'weight_map'"),
    "an invalid map": (index({"weight_map": [1]}), "weight_map: expected the name of a file for each tensor"),
    "a layer too many": (of("encoder.layer.2.intermediate.dense.weight", np.ones((3, 4), np.float32)),
                         "tensor encoder.layer.2.intermediate.dense.weight is of layer 3; config.json has 2 layers"),
    "an adapter": (of("encoder.layer.0.attention.self.query.lora_A.weight", np.ones((1, 4), np.float32)),
                   "lora_A.weight is part of an adapter; merge it into the weights first"),
    "no width": (config(hidden_size=None), "config.json: no key 'hidden_size'"),
    "no layers": (config(num_hidden_layers=0), "config.json: num_hidden_layers is 0; expected a whole number"),
    "no activation": (config(hidden_act=None), "config.json: no key 'hidden_act'"),
    "a list of activations": (config(hidden_act=["gelu"]), "config.json and the tensors are not those of one model"),
}  # fmt: skip


@pytest.mark.parametrize("case", WEIGHTS)
def test_wrong_weights_are_one_line(tmp_path, case):
    write, line = WEIGHTS[case]
    folder = written(tmp_path, lines(), **SIZES)
    write(folder, tensors())
    refused(folder, line, lambda: load(folder))


def test_the_unchanged_folder_is_valid(tmp_path):
    folder = written(tmp_path, lines(), **SIZES)
    save_file({**tensors(), "embeddings.position_ids": np.arange(7)}, folder / "model.safetensors")
    assert len(load(folder).parameters) > 10


def test_tensors_without_a_place_are_listed(tmp_path):
    folder = written(tmp_path, lines(), **SIZES)
    head, positions = np.ones((2, 4), np.float32), np.arange(7)
    save_file(
        {**tensors(), "classifier.weight": head, "embeddings.position_ids": positions}, folder / "model.safetensors"
    )
    assert load(folder).unread == ("classifier.weight",)


def test_a_start_token_is_needed(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    said = {"model_type": "t5", "vocab_size": V, "eos_token_id": 1, "pad_token_id": 0}
    (folder / "config.json").write_text(json.dumps(said))
    refused(folder, "no key 'decoder_start_token_id'", lambda: CheckpointFolder(folder).numbering)
