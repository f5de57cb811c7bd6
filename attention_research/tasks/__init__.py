"""What a batch means: loss, metrics, generation, evaluation."""
