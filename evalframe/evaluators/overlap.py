"""Words that two texts have in common: counted as in a bag, or in their order.

shared         how many items two lists share, each as often as both have it
common_order   the length of their longest common subsequence
Overlap        precision, recall and F1 of a number of shared items
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

# Bits of one integer. Longer lists go through in blocks, so that memory stays bounded: the
# table of a block has at most as many integers of as many bits.
_BLOCK = 4_096


class Overlap(NamedTuple):
    """How much of two lists is in both; in the order in which evaluators give it."""

    f1: float
    precision: float
    recall: float

    @classmethod
    def of(cls, common: int, found: int, wanted: int) -> Overlap:
        """From the number of common items and the lengths of the two lists.

        F1 is 2 * common / (found + wanted), the harmonic mean of precision (common / found) and
        recall (common / wanted); all are 0.0 without common items.
        """
        if not common:
            return _NOTHING
        return cls(2 * common / (found + wanted), common / found, common / wanted)


_NOTHING = Overlap(0.0, 0.0, 0.0)


def shared(found: Sequence[Hashable], wanted: Sequence[Hashable]) -> int:
    """How many items are in both, each counted as often as both have it."""
    left: dict[Hashable, int] = {}
    for item in wanted:
        left[item] = left.get(item, 0) + 1
    common = 0
    for item in found:
        count = left.get(item)
        if count:
            left[item] = count - 1
            common += 1
    return common


def common_order(found: Sequence[Hashable], wanted: Sequence[Hashable]) -> int:
    """The length of the longest common subsequence.

    A row of the usual table is kept as the bits of an integer, and found from the one before by
    one addition (Hyyro 2004, "Bit-parallel LCS-length computation revisited").
    """
    carries = [0] * len(found)
    return sum(
        _block(found, wanted[start : start + _BLOCK], carries)
        for start in range(0, len(wanted), _BLOCK)
    )


def _block(found: Sequence[Hashable], wanted: Sequence[Hashable], carries: list[int]) -> int:
    """What a block of `wanted` adds; `carries` holds what its additions carry into the next."""
    places: dict[Hashable, int] = {}
    for place, item in enumerate(wanted):
        places[item] = places.get(item, 0) | 1 << place
    size = len(wanted)
    full = (1 << size) - 1
    row = full
    for step, item in enumerate(found):
        matches = row & places.get(item, 0)
        total = row + matches + carries[step]
        carries[step] = total >> size
        row = (total | row - matches) & full
    return size - row.bit_count()
