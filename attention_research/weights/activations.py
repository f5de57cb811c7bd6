"""Maps the names of activations in Hugging Face configs to our names."""

from __future__ import annotations

from attention_research.data.hugging_face_folder import CheckpointFolder
from attention_research.errors import ConfigError

ACTIVATIONS = {
    "gelu": "gelu_exact",
    "gelu_new": "gelu",
    "gelu_pytorch_tanh": "gelu",
    "relu": "relu",
    "silu": "swish",
    "swish": "swish",
}


def activation(folder: CheckpointFolder, key: str) -> str:
    """Our name of the activation under a key of config.json. Raises ConfigError for an unknown activation.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> temporary = TemporaryDirectory()
    >>> path = Path(temporary.name, "config.json")
    >>> size = path.write_text('{"model_type": "bert", "hidden_act": "gelu_new"}')
    >>> activation(CheckpointFolder(path.parent), "hidden_act")
    'gelu'
    """
    name = folder.config[key]
    if name not in ACTIVATIONS:
        known = ", ".join(ACTIVATIONS)
        raise ConfigError(f"{folder.path / 'config.json'}: {key} is {name!r}; expected one of {known}")
    return ACTIVATIONS[name]
