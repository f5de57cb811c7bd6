"""Pre-training objectives: they turn raw tokens into (source, target)."""
