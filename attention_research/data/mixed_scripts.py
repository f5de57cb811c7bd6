"""SentencePiece with pieces that may mix letters and other characters, such as `(NP` or `▁don't`.

By default, SentencePiece splits text between scripts before it builds pieces, so that a bracket and its label are
separate pieces. The linearised trees of Vinyals et al. 2015 have one token for a bracket and its label.
"""

from attention_research.data.tokenizer import SentencePiece


class MixedScripts(SentencePiece):
    """`SentencePiece` without the split between scripts."""

    def settings(self) -> dict:
        """The settings of `SentencePiece`, without the split between scripts."""
        return super().settings() | {"split_by_unicode_script": False}
