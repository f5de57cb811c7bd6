"""Models for naming functions and for summaries, most of which can copy words of the source."""
