"""Items that two lists have in common: `evalframe.evaluators.overlap`."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rapidfuzz.distance import LCSseq

from evalframe.evaluators.overlap import Overlap, common_order, shared

lists = st.lists(st.sampled_from("abcd"), max_size=12)


def longest(a, b):
    """The length of the longest common subsequence, by its recursion."""
    table = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            best = max(table[i][j + 1], table[i + 1][j])
            table[i + 1][j + 1] = table[i][j] + 1 if x == y else best
    return table[-1][-1]


@given(lists, lists)
def test_shared_items_are_those_of_the_smaller_bag(a, b):
    """Each as often as both lists have it."""
    assert shared(a, b) == sum((Counter(a) & Counter(b)).values())


@given(lists, lists)
def test_the_common_order_is_the_longest_common_subsequence(a, b):
    """As its table says."""
    assert common_order(a, b) == longest(a, b)


@pytest.mark.parametrize("sizes", [(9_000, 5_000), (4_096, 4_097), (8_192, 100)], ids=str)
def test_long_lists_go_through_in_blocks(sizes):
    """What one block carries is added to the next: rapidfuzz finds the same length."""
    draw = np.random.default_rng(7)
    a, b = (draw.integers(60, size=size).tolist() for size in sizes)

    assert common_order(a, b) == common_order(b, a) == LCSseq.similarity(a, b)


def test_a_list_is_wholly_in_its_own_order():
    """Beyond a block as well."""
    assert common_order(range(10_000), range(10_000)) == 10_000


@pytest.mark.parametrize(
    ("counts", "overlap"),
    [
        pytest.param((2, 4, 2), (4 / 6, 0.5, 1.0), id="some"),
        pytest.param((3, 3, 3), (1.0, 1.0, 1.0), id="all"),
        pytest.param((0, 4, 2), (0.0, 0.0, 0.0), id="none"),
        pytest.param((0, 0, 0), (0.0, 0.0, 0.0), id="nothing-to-share"),
    ],
)
def test_precision_recall_and_f1_come_from_counts(counts, overlap):
    """Shared items, items of the output, items of the reference; never a division by zero."""
    assert Overlap.of(*counts) == overlap
