"""What a clone weighs: its files, their bytes, and each recorded picture."""

from attention_research.analysis.picture_file import MOST_BYTES


def test_pictures_are_small(root):
    pictures = [path for folder in ("experiments", "docs") for path in (root / folder).rglob("*.png")]
    assert {str(path.relative_to(root)) for path in pictures if path.stat().st_size > MOST_BYTES} == set()
    assert len(pictures) > 50
