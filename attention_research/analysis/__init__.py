"""What a trained model does inside: attention weights as pictures and as a page; alignments, heads, spectra, probes."""
