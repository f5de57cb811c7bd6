"""Importers for Hugging Face checkpoints: they load a checkpoint folder as one of our models, or write it as a run.

For each model type, one module defines our config for it and maps its tensors to our arrays.
"""

from attention_research.weights.checkpoint import Loaded, import_folder, load

__all__ = ["Loaded", "import_folder", "load"]
