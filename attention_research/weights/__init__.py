"""The weights door: a Hugging Face checkpoint folder as one of our models, and as a run's folder.

One file a model type says which of our configs it is and which of their tensors each of our arrays is.
"""

from attention_research.weights.checkpoint import Loaded, import_folder, load

__all__ = ["Loaded", "import_folder", "load"]
