"""What cells belong to: an evaluator's code, and what it reads of each row.

Fingerprints are what a frame shows of that. The keys of a journal tell the samples of a model
apart, too: a row without one must not ask for the very sample that another row has taken over.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np

from evalframe.core.binding import Binding
from evalframe.core.code_forms import is_users_class
from evalframe.core.columns import chunked
from evalframe.core.fingerprint import of_cell
from evalframe.engines.inputs import Inputs
from evalframe.engines.occurrences import Occurrences
from evalframe.engines.plan import Plan, PlannedEvaluator, Rows
from evalframe.evaluators.base import Evaluator
from evalframe.evaluators.function import FunctionEvaluator


def of_call(code: str, binding: Binding) -> str:
    """The digest of code as it is called: which parameters are given a value is part of it.

    Args:
        code: The digest of the evaluator or task itself.
        binding: What it reads.
    """
    names = list(_by_name(binding))
    return of_cell(code, names) if names else code


def _by_name(binding: Binding) -> Iterator[str]:
    """The arguments that are passed by name, as those after one left at its default are."""
    for argument in binding.arguments:
        if argument.keyword is not None:
            yield argument.keyword
        if argument.inner is not None:
            yield from _by_name(argument.inner)


def cell_fingerprints(binding: Binding, code: str, inputs: Inputs, rows: Rows) -> list[str]:
    """The fingerprints of these rows' cells.

    Args:
        binding: What the evaluator reads.
        code: The digest of the evaluator itself.
        inputs: The values.
        rows: Which rows; their outputs must be there if they are read.
    """
    return [mark for chunk in in_chunks(binding, code, inputs, rows) for mark in chunk]


def in_chunks(binding: Binding, code: str, inputs: Inputs, rows: Rows) -> Iterator[list[str]]:
    """The same, a few thousand rows at a time; there is at least one chunk."""
    numbers = np.asarray(rows, dtype=np.int64)
    code = of_call(code, binding)
    for chunk in chunked(len(numbers)):
        here = numbers[chunk]
        if not binding.reads:
            yield [of_cell(code, [])] * len(here)
            continue
        columns = [inputs.values(source, here) for source in binding.reads]
        yield [of_cell(code, values) for values in zip(*columns, strict=True)]


def of_sample(mark: str, repetition: int, number: int = 1) -> str:
    """The key of what a model's answer makes.

    Args:
        mark: Its fingerprint.
        repetition: Which repetition of its dataset row it is of.
        number: Its row's among equal rows, where each of these is asked about apart.
    """
    return mark if repetition == number == 1 else of_cell(mark, [repetition, number])


def of_samples(
    chunks: Iterable[list[str]], rows: Rows, plan: Plan, occurrences: Occurrences | None
) -> Iterator[list[str]]:
    """The keys of what a model's answers make, chunk by chunk.

    Args:
        chunks: Their fingerprints.
        rows: Their rows.
        plan: The run.
        occurrences: Those of the rows, where equal ones are asked about apart.
    """
    left = map(int, rows)
    for marks in chunks:
        yield [
            of_sample(
                mark, plan.repetition(row), 1 if occurrences is None else occurrences[row].number
            )
            for mark, row in zip(marks, left, strict=False)
        ]


def reads_all_rows(evaluator: Evaluator) -> bool:
    """Whether a cell may depend on other rows: a user's vectorized function sees them all."""
    users = isinstance(evaluator, FunctionEvaluator) or is_users_class(type(evaluator))
    return evaluator.vectorized and users


def of_one_call(chunks: Callable[[], Iterator[list[str]]]) -> Iterator[list[str]]:
    """The fingerprints of cells that one call makes of all these rows together, by the chunk.

    Args:
        chunks: Gives, each time anew, those that each row has by itself, in the order of the rows.
    """
    digest = hashlib.blake2b(digest_size=16)
    for chunk in chunks():
        digest.update("".join(chunk).encode())
    whole = digest.hexdigest()
    for chunk in chunks():
        yield [of_cell(whole, [mark]) for mark in chunk]


class Fingerprints:
    """Those of the cells that a run makes."""

    def __init__(
        self, evaluators: Sequence[PlannedEvaluator], codes: Mapping[str, str], inputs: Inputs
    ) -> None:
        """Remember whose, by position; nothing is read yet.

        Args:
            evaluators: The evaluators of the run.
            codes: Name -> the digest of the evaluator itself.
            inputs: The values.
        """
        self._evaluators = evaluators
        self._codes = codes
        self._inputs = inputs

    def __call__(self, place: int, rows: Rows) -> list[str]:
        """The fingerprints of an evaluator's cells on these rows."""
        planned = self._evaluators[place]
        code = self._codes[planned.name]
        return cell_fingerprints(planned.call.binding, code, self._inputs, rows)
