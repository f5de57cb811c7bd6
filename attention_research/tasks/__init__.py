"""Tasks (loss and metrics of a batch) and evaluations (scores of a trained model)."""
