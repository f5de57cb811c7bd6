"""Online reading: equal to the process that sees everything, independent of unread words; delays by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attention_research.config import build_model
from attention_research.experiments.raffel2017 import monotonic as online
from attention_research.layers.structure import abstract

V, D, A = 23, 7, 11
SOURCE = np.array([[4, 9, 17, 8, 2, 0], [5, 6, 2, 0, 0, 0], [20, 4, 4, 19, 11, 2]], np.int32)
TARGET = np.array([[7, 6, 11, 4, 2], [9, 22, 5, 13, 2], [4, 2, 0, 0, 0]], np.int32)
KINDS = {
    "monotonic": {"kind": "monotonic", "attention_width": A},
    "mocha": {"kind": "mocha", "attention_width": A, "chunk_size": 3,
              "score": {"kind": "additive", "attention_width": 5}},
    "chunks_of_one": {"kind": "mocha", "attention_width": A, "chunk_size": 1, "score": {"kind": "dot"}},
}  # fmt: skip


@pytest.fixture(scope="module", params=KINDS)
def read(request):
    """(offline weights, online weights, stops, number of energies read, log p for SOURCE and with other ends)."""
    section = {"kind": "recurrent", "width": D, "cell": {"kind": "gru"}, "alignment": KINDS[request.param],
               "decoder": {"kind": "bahdanau", "readout_width": 5, "start": "zeros"}}  # fmt: skip
    constructor = build_model(section, max_length=13, vocabulary_size=V)
    structure, shapes, _ = abstract(lambda rngs: constructor(rngs=rngs))
    # Seeds for which the first row stops at three or more positions.
    rng = np.random.default_rng({"mocha": 28}.get(request.param, 12))
    parameters = {name: jnp.asarray(rng.standard_normal(x.shape) * 0.9, x.dtype) for name, x in sorted(shapes.items())}
    # Energies of both signs.
    parameters |= {"decoder.alignment.offset": jnp.float32(-0.2), "decoder.alignment.gain": jnp.float32(1.5)}

    def both(parameters, source):
        batch = {"source": source, "target": jnp.asarray(TARGET)}
        offline = structure.merge(parameters).log_likelihood(batch)[1]["decoder"]["alignment"]
        values, aux = online.online(structure.merge(parameters)).log_likelihood(batch)
        stops = online.positions(online.online(structure.merge(parameters)), {"tokens": source}, batch["target"])
        return offline, aux["decoder"]["alignment"], *stops, values["log_likelihood"]

    run = jax.jit(both)
    here = [np.asarray(x) for x in run(parameters, jnp.asarray(SOURCE))]
    return request.param, here, lambda source: [np.asarray(x) for x in run(parameters, jnp.asarray(source))]


def test_reading_stops_where_the_offline_process_stops(read):
    kind, (offline, weights, stops, reads, _), _ = read
    real = TARGET != 0
    np.testing.assert_allclose(weights[real], offline[real], atol=1e-6)
    lengths = (SOURCE != 0).sum(axis=1)
    for row, length in enumerate(lengths):
        assert np.all(np.diff(stops[row]) >= 0) and stops[row].max() <= length
        # Each energy up to 0 is read once, since the process continues from its position.
        assert reads[row, -1] == stops[row, -1] + np.sum(stops[row] < length)
        for step, stop in enumerate(stops[row]):
            looked = np.flatnonzero(weights[row, step])
            chunk = {"monotonic": 1, "mocha": 3, "chunks_of_one": 1}[kind]
            assert list(looked) == ([] if stop == length else list(range(max(0, stop - chunk + 1), stop + 1)))
    assert len(set(stops[real])) > 3 and len(set(stops[0])) > 2


def test_unread_words_do_not_change_the_output(read):
    """Changing the words after the position where a target word was written does not change its probability."""
    _, (*_, stops, _, before), run = read
    for place in (1, 2, 3, 4):
        changed = SOURCE.copy()
        changed[:, place:] = np.where(SOURCE[:, place:] != 0, 13, 0)
        after = run(changed)[-1]
        early = (stops < place) & (TARGET != 0)
        np.testing.assert_array_equal(after[early], before[early])
        if place == 1:
            assert early.any() and not np.array_equal(after[~early & (TARGET != 0)], before[~early & (TARGET != 0)])


def test_only_a_monotonic_alignment_reads_online():
    section = {"kind": "recurrent", "width": D, "alignment": {"kind": "global", "score": {"kind": "dot"}}}
    constructor = build_model(section, max_length=13, vocabulary_size=V)
    structure, shapes, _ = abstract(lambda rngs: constructor(rngs=rngs))
    model = structure.merge({name: jnp.zeros(x.shape, x.dtype) for name, x in shapes.items()})
    with pytest.raises(ValueError, match="GlobalAlignment is not monotonic"):
        online.online(model)


def test_average_lag_by_hand():
    """Wait-k on equal lengths lags k, and waiting for the end lags S. tau cuts the sum when the source is read."""
    assert online.average_lag([2, 3, 4, 4], 4) == pytest.approx(2.0)
    assert online.average_lag([5, 5], 5) == 5.0
    # pace 2: (1 - 0 + 3 - 2 + 5 - 4 + 6 - 6) / 4 if no step reads the seventh and eighth words
    assert online.average_lag([1, 3, 5, 6], 8) == pytest.approx(3 / 4)
    # tau = 3: (1 - 0 + 3 - 1 + 5 - 2) / 3
    assert online.average_lag([1, 3, 5, 5, 5], 5) == pytest.approx(2.0)


def test_delays_by_hand():
    """Row 0 read 1, 2 and 4 of 4 words. Row 1 found no position and therefore read everything."""
    stops = np.array([[0, 1, 3, 9], [2, 2, 2, 2]])
    target, source = np.array([[7, 8, 2, 0], [7, 2, 0, 0]]), np.array([[4, 5, 6, 2], [4, 2, 0, 0]])
    found = online.delays(stops, target, source)
    first = (1 + (2 - 4 / 3) + (4 - 8 / 3)) / 3
    assert found["average_lag"] == pytest.approx((first + 2.0) / 2)
    assert found["written_before_the_end"] == pytest.approx((2 / 3 + 0) / 2)
