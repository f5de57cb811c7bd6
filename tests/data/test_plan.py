"""The order of training: pure in (seed, step), complete in every epoch, packed by first-fit."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attention_research.data import plan
from attention_research.data.batching import Buckets, Packed

LENGTHS = np.random.default_rng(3).integers(1, 47, size=(307, 2))
KINDS = {"buckets": Buckets(boundaries=(7, 13, 29), max_length=47), "packed": Packed(max_length=47)}
BATCH = 5


@pytest.fixture(params=KINDS)
def kind(request):
    return KINDS[request.param]


def examples_of(steps):
    return [example for step in steps for row in step.rows for example in row]


def test_every_example_once_an_epoch(kind):
    order = kind.plan(LENGTHS, 17, BATCH)
    for epoch in range(3):
        steps = [order[epoch * order.steps_per_epoch + index] for index in range(order.steps_per_epoch)]
        assert sorted(examples_of(steps)) == list(range(len(LENGTHS)))
        assert all(len(step.rows) == BATCH for step in steps)
        empty = [sum(not row for row in step.rows) for step in steps]
        assert sum(count > 0 for count in empty) <= 1 and max(empty) < BATCH


def test_a_step_is_the_same_in_any_order_of_access(kind):
    forward = kind.plan(LENGTHS, 17, BATCH)
    steps = range(3 * forward.steps_per_epoch)
    in_order = {step: forward[step] for step in steps}
    fresh = kind.plan(LENGTHS, 17, BATCH)
    for step in np.random.default_rng(1).permutation(steps):
        assert fresh[int(step)] == in_order[int(step)]


def test_seeds_and_epochs_differ(kind):
    first, other = kind.plan(LENGTHS, 17, BATCH), kind.plan(LENGTHS, 18, BATCH)
    n = first.steps_per_epoch
    orders = [examples_of(first[i] for i in range(n)), examples_of(first[i] for i in range(n, 2 * n))]
    orders.append(examples_of(other[i] for i in range(n)))
    assert all(a != b for a, b in itertools.combinations(orders, 2))


def test_hosts_slices_concatenate_to_the_whole(kind):
    order = kind.plan(LENGTHS, 17, 6)
    for step, hosts in itertools.product(range(order.steps_per_epoch), (1, 2, 3, 6)):
        whole = order[step]
        parts = [whole.host(host, hosts) for host in range(hosts)]
        assert sum((part.rows for part in parts), ()) == whole.rows
        assert {(part.source_length, part.target_length) for part in parts} == {
            (whole.source_length, whole.target_length)
        }


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 29), st.integers(1, 29)), min_size=1, max_size=80), st.integers(1, 9))
def test_buckets_have_the_smallest_shape_that_holds(pairs, batch_size):
    lengths, boundaries = np.array(pairs), (3, 7, 13, 29)
    epoch = plan.bucket_epoch(lengths, boundaries, batch_size, np.random.default_rng(0))
    assert len(epoch) == -(-len(pairs) // batch_size)
    mixed = 0
    for step in (epoch[index] for index in range(len(epoch))):
        assert step.source_length == step.target_length
        smallest = [min(b for b in boundaries if b >= max(pairs[row[0]])) for row in step.rows if row]
        assert step.source_length == max(smallest)
        mixed += len(set(smallest)) > 1
    # Only the remainder of a bucket moves to a larger one: at most one mixed batch at each boundary between buckets.
    assert mixed <= len(boundaries) - 1


def textbook_first_fit(lengths, source_length, target_length, order):
    """Puts each example into the first row with room, with all rows open."""
    rows = []
    for example in order:
        for row in rows:
            source, target = lengths[row + [example]].sum(axis=0)
            if source <= source_length and target <= target_length:
                row.append(example)
                break
        else:
            rows.append([example])
    return rows


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 13), st.integers(1, 11)), min_size=1, max_size=60), st.integers(0, 5))
def test_packing_is_first_fit(pairs, seed):
    lengths = np.array(pairs)
    order = np.random.default_rng(seed).permutation(len(pairs))
    packed = plan.first_fit(lengths, 13, 11, order, open_rows=100)
    assert packed == textbook_first_fit(lengths, 13, 11, order.tolist())


def test_packing_with_few_open_rows_still_fits_and_loses_nothing():
    rows = plan.first_fit(LENGTHS, 47, 53, np.arange(len(LENGTHS)), open_rows=3)
    assert sorted(sum(rows, [])) == list(range(len(LENGTHS)))
    sums = np.array([LENGTHS[row].sum(axis=0) for row in rows])
    assert (sums <= [47, 53]).all() and any(len(row) > 1 for row in rows)
