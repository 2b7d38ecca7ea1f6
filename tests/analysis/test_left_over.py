"""What a user is told of a run that a limit has ended: how much is left, and how to go on."""

import numpy as np
import pandas as pd
import pytest

from evalframe.analysis.left_over import left_over

BUDGET = "skipped: budget"
REASON = "max_cost= or max_requests= was reached: "
MISSING = "To go on, run the result again with only='missing'."
ALL = "To replace what stayed, only='all' makes all cells anew once more."


def told(*, cells=0, outputs=0, stayed=0, only=None):
    """The one text for so much that was left, without its reason."""
    size = max(cells, outputs, 1)
    columns = {"eval.e.error": cells, "task.error": outputs}
    frame = pd.DataFrame({name: [BUDGET] * n + [None] * (size - n) for name, n in columns.items()})
    due = {name: np.ones(size, bool) for name in columns}
    (note,) = left_over(frame, due, {"cell": {BUDGET: stayed}}, only)
    assert note.startswith(REASON)
    return note.removeprefix(REASON)


@pytest.mark.parametrize(
    ("amounts", "text"),
    [
        pytest.param({"cells": 1}, "1 cell was left", id="a-cell"),
        pytest.param({"cells": 2}, "2 cells were left", id="cells"),
        pytest.param({"outputs": 1}, "1 task output was left", id="an-output"),
        pytest.param({"cells": 1200}, "1,200 cells were left", id="many"),
        pytest.param(
            {"cells": 1, "outputs": 1}, "1 cell and 1 task output were left", id="one-of-each"
        ),
        pytest.param({"stayed": 1}, "1 cell stayed as before.", id="one-stayed"),
        pytest.param(
            {"cells": 1, "stayed": 2},
            "1 cell was left ('skipped: budget'), and 2 cells stayed as before.",
            id="both",
        ),
    ],
)
def test_one_is_singular(amounts, text):
    """Numbers and verbs agree."""
    assert told(**amounts).startswith(text)


@pytest.mark.parametrize("only", [None, "missing", "failed", "stale", "all"])
def test_what_was_left_is_missing_in_a_run_with_any_word(only):
    """The next run makes it without asking again for the rest."""
    assert told(cells=1, only=only) == f"1 cell was left ('skipped: budget'). {MISSING}"


@pytest.mark.parametrize(
    ("only", "way"),
    [
        ("missing", MISSING),
        ("failed", "To go on, run the result again with only='missing' and with only='failed'."),
        ("stale", "To go on, run the result again with only='stale'."),
        ("all", f"{MISSING} {ALL}"),
        (None, f"{MISSING} {ALL}"),
    ],
)
def test_what_stayed_beside_what_was_left_is_run_again_with_its_own_word(only, way):
    """Stale takes in what is missing; after all, nothing tells old verdicts from new ones."""
    assert told(cells=2, stayed=2, only=only).endswith(f"2 cells stayed as before. {way}")


@pytest.mark.parametrize(
    ("only", "way"),
    [
        ("failed", "To go on, run the result again with only='failed'."),
        ("stale", "To go on, run the result again with only='stale'."),
        ("all", ALL),
    ],
)
def test_where_all_stayed_nothing_is_missing(only, way):
    """A word that would find nothing is not named."""
    assert told(stayed=2, only=only) == f"2 cells stayed as before. {way}"


def test_nothing_is_said_where_nothing_was_left():
    """Nor of what an earlier run left in rows that were not to be made."""
    frame = pd.DataFrame({"eval.e.error": [BUDGET, None]})

    assert left_over(frame, {"eval.e.error": np.array([False, True])}, {}, "failed") == []
