"""Analysis of trained models: pictures and pages of attention weights, alignments, heads, spectra and probes."""
