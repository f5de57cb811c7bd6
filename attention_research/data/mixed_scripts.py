"""SentencePiece whose pieces may mix letters with other signs: `(NP` can be one piece, as `▁don't` can.

SentencePiece splits text between scripts before it looks for pieces, so that a bracket never joins its label. The
linearised trees of Vinyals et al. 2015 have one token for a bracket and its label.
"""

from attention_research.data.tokenizer import SentencePiece


class MixedScripts(SentencePiece):
    """`SentencePiece` without the split between scripts."""

    def settings(self) -> dict:
        """Those of `SentencePiece`, and that one."""
        return super().settings() | {"split_by_unicode_script": False}
