"""Options that are on or off: checked when an evaluator is built."""

from __future__ import annotations

from typing import Any


def check_flags(**flags: Any) -> None:
    """See that options are bools: the text "no" would else switch one on.

    Args:
        flags: Name of the option -> what was given.

    Raises:
        ValueError: One is something else.

    Examples:
        >>> from evalframe.evaluators.flags import check_flags
        >>> check_flags(ignore_case="no")
        Traceback (most recent call last):
        ValueError: ignore_case must be True or False, not 'no'.
    """
    wrong = [
        f"{name} must be True or False, not {flag!r}."
        for name, flag in flags.items()
        if not isinstance(flag, bool)
    ]
    if wrong:
        raise ValueError(" ".join(wrong))
