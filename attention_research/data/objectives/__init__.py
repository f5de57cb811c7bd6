"""What a model is asked to write of a piece of text: (source, target) from raw tokens, for pre-training."""
