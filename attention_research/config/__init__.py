"""Reads config files and overrides and builds objects from them. The signature of a constructor is its schema.

``load`` reads a file, applies overrides, fills in defaults and inherited settings, and validates the result. ``build``
imports the classes. JAX is not imported before ``build``. No other package of the project imports ml_collections.
"""

from attention_research.config.construction import build, build_experiment, build_model
from attention_research.config.errors import ConfigError, SchemaError
from attention_research.config.files import config_file, load, packaged_configs, variants
from attention_research.config.identity import EXECUTION_LEAVES
from attention_research.config.record import Config, changes, difference, resolve
from attention_research.config.schema import REQUIRED, settings
from attention_research.config.scope import FLOWS

__all__ = [
    "EXECUTION_LEAVES", "FLOWS", "REQUIRED", "Config", "ConfigError", "SchemaError", "build", "build_experiment",
    "build_model", "changes", "config_file", "difference", "load", "packaged_configs", "resolve", "settings",
    "variants",
]  # fmt: skip
