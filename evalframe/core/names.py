"""The words for what a column means: roles, their aliases, and near misses.

A role is given by the user (`input="question"`), or taken from a column of that name, or
else from a column named like one of the role's aliases.
"""

from __future__ import annotations

from collections.abc import Iterable

ROLES = ("input", "output", "dataset_output", "metadata")

ROW = "dataset_row"

# retrieval_context is no role of the mapping, but it has an alias, which works both ways.
ALIASES: dict[str, tuple[str, ...]] = {
    "input": ("query", "attributes.input.value"),
    "output": ("actual_output", "generated_output", "experiment_output"),
    "dataset_output": ("expected", "expected_output", "reference", "attributes.output.value"),
    "metadata": ("additional_metadata", "attributes.metadata"),
    "retrieval_context": ("contexts",),
    ROW: ("row",),
}

# Columns that built-in evaluators read. Each is a thing of its own, and no misspelling of another
# name: `context` is what is true, `contexts` what was retrieved.
OTHERS = ("context", "tools_called", "expected_tools", "weights", "variables")

_CANONICAL = {alias: name for name, aliases in ALIASES.items() for alias in aliases}

_SHORTEST_MISSPELLING = 5


def canonical(name: str) -> str:
    """The name that `name` is an alias of, or `name` itself."""
    return _CANONICAL.get(name, name)


def misspelt(name: str, known: Iterable[str]) -> str | None:
    """The known name of which `name` is a misspelling: one edit or one swap away.

    Short names differ by one letter too easily (`x`, `y`), so both must have five or more.
    """
    if len(name) < _SHORTEST_MISSPELLING or name in OTHERS:
        return None
    for candidate in known:
        if len(candidate) >= _SHORTEST_MISSPELLING and _one_edit_apart(name, candidate):
            return candidate
    return None


def _one_edit_apart(a: str, b: str) -> bool:
    """Whether one insertion, deletion, substitution or swap of neighbours turns a into b."""
    if a == b or abs(len(a) - len(b)) > 1:
        return False
    start = 0
    while start < min(len(a), len(b)) and a[start] == b[start]:
        start += 1
    rest_a, rest_b = a[start:], b[start:]
    if len(a) == len(b):
        swapped = rest_a[1::-1] + rest_a[2:]
        return rest_a[1:] == rest_b[1:] or swapped == rest_b
    longer, shorter = (rest_a, rest_b) if len(a) > len(b) else (rest_b, rest_a)
    return longer[1:] == shorter
