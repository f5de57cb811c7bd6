"""A table of positions that is shorter than the rows is refused with its path, before JAX is imported."""

import pytest

from attention_research.config import ConfigError, load

TRANSLATION, CAUSAL = "translation/transformer:smoke", "language_modelling/transformer:smoke"
MASKED, RECURRENT = "language_modelling/transformer:masked", "language_modelling/recurrent:smoke"
LINFORMER = {"kind": "linformer", "rank": 4}
#: Case -> (config, override, the section whose table is too short, its length, the length of the rows).
SHORT = {
    "a model": (TRANSLATION, ("model.max_length", 7), "encoder.positions", 7, 64),
    "a decoder": (TRANSLATION, ("model.decoder.positions.max_length", 40), "decoder.positions", 40, 64),
    "keys of a source": (
        TRANSLATION, ("model.decoder.cross_attention", {**LINFORMER, "max_length": 63}), "decoder.cross_attention",
        63, 64),
    "an encoder": (
        MASKED, ("model.self_attention", {**LINFORMER, "max_length": 50}), "encoder.self_attention", 50, 128),
    "blocks": (
        MASKED, ("model.self_attention", {"kind": "bigbird", "block_size": 8, "max_length": 120}),
        "encoder.self_attention", 120, 128),
    "positions in attention": (
        CAUSAL, ("model.self_attention", {"kind": "positional", "max_length": 31}), "decoder.self_attention", 31, 32),
    "a filter": (
        CAUSAL, ("model.self_attention", {"kind": "hyena", "max_length": 8}), "decoder.self_attention", 8, 32),
    "a recurrent model": (RECURRENT, ("model.max_length", 9), "", 9, 64),
}  # fmt: skip


@pytest.mark.parametrize("case", SHORT)
def test_a_table_that_is_shorter_than_the_rows_is_refused(case):
    config, override, section, rows, length = SHORT[case]
    path = ".".join(filter(None, ("config.model", section, "max_length")))
    with pytest.raises(ConfigError) as caught:
        load(config, [override])
    wanted = f"{path}: {rows} positions are too few for rows of {length} tokens; set it to {length} or more"
    assert str(caught.value) == wanted


#: The last block has room for all positions; a scale that only names a length; shorter rows.
LONG_ENOUGH = {
    "the last block": (MASKED, [("model.self_attention", {"kind": "bigbird", "block_size": 8, "max_length": 121})]),
    "a scale": (CAUSAL, [("model.self_attention", {"kind": "length_scaled", "max_length": 8})]),
    "shorter rows": (CAUSAL, [("model.max_length", 8), ("data.max_length", 8)]),
    "shorter buckets": (
        TRANSLATION, [("model.max_length", 32), ("data.batching.max_length", 32), ("data.max_length", 32)]),
    "short targets": (
        "text_to_text/t5_2020:smoke",
        [("model.max_length", 14), ("model.positions.kind", "sinusoidal"), ("model.encoder.positions.max_length", 64)]),
    "packed positions": (
        TRANSLATION, [("data.batching", {"kind": "packed", "max_length": 128}), ("model.max_length", 64)]),
}  # fmt: skip


@pytest.mark.parametrize("case", LONG_ENOUGH)
def test_a_table_that_is_long_enough_is_not(case):
    config, overrides = LONG_ENOUGH[case]
    load(config, overrides)


@pytest.mark.parametrize("kind", ["buckets", "packed"])
def test_rows_hold_the_longest_example(kind):
    short = lambda length: [("data.batching", {"kind": kind, "max_length": length}), ("data.max_length", 64)]
    with pytest.raises(ConfigError) as caught:
        load(TRANSLATION, short(63))
    said = "rows of 63 tokens are too short for examples of up to 64 tokens (data.max_length); set it to 64 or more"
    assert str(caught.value) == f"config.data.batching.max_length: {said}"
    load(TRANSLATION, short(64))
