"""What the judged evaluators of retrieval and answers share.

Owns   which values of a row can be judged: texts, contexts, and why a row is skipped.
Leaves what is asked and scored to rag_contexts.py (a verdict for each context) and
       rag_statements.py (for each statement), the words of it to rag_prompts.py.

RagJudge      the base class
judged_text   a value of the row as it is judged, or why there is none
told          the explanation of a score: how many passed, and which did not
"""

from __future__ import annotations

import functools
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from evalframe.core import schema
from evalframe.core.json_text import encode
from evalframe.core.namespace import BindingError, Namespace
from evalframe.core.records import Cell, Skip
from evalframe.evaluators.asking import Judge, Question
from evalframe.evaluators.chunks import NO_CONTEXTS, ChunkError, chunks_of
from evalframe.evaluators.compared import NO_REFERENCE, failed, not_text
from evalframe.evaluators.normalize import skipped, text_of
from evalframe.evaluators.rag_replies import ListReading
from evalframe.evaluators.verdict import Verdict
from evalframe.llm.model import Model

_MOST_NAMED = 3
_LONGEST_NAMED = 120


class RagJudge(Judge):
    """A judge with a score of its own: its prompt can be replaced, how it is scored cannot.

    Attributes:
        PROMPT: The default prompt.
        reads: The fields that must hold text, in the order in which they are looked at.
        contexts: The field of context chunks, None if it reads none.
        may_read: Fields that the data need not have; they are null to the prompt then.
    """

    gives: ClassVar[tuple[str, ...]] = (schema.SCORE, schema.EXPLANATION)
    PROMPT: ClassVar[str]
    reads: ClassVar[tuple[str, ...]]
    contexts: ClassVar[str | None] = None
    may_read: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self,
        model: str | Model,
        *,
        prompt: str | list[dict[str, str]] | None,
        inference_args: Mapping[str, Any] | None,
        run_if: Callable[..., Any] | str | None,
        invalid_retries: int,
        name: str | None,
        threshold: float | None,
    ) -> None:
        """Check the arguments.

        Raises:
            ValueError: The prompt does not read what is scored, or another argument cannot be
                used.
        """
        from evalframe.llm.prompts import Prompt

        given = self.PROMPT if prompt is None else prompt
        template = Prompt(given)
        needed = [*self.reads] if self.contexts is None else [*self.reads, self.contexts]
        missing = [f"item.{field}" for field in needed if field not in template.names]
        if missing:
            found = ", ".join(f"item.{field}" for field in template.names) or "no field"
            message = (
                f"The prompt of {type(self).__name__} lacks {', '.join(missing)}, without which "
                f"its score would be about something else; it reads {found}. Columns of other "
                "names are given with .bind()."
            )
            raise ValueError(message)
        super().__init__(
            model=model,
            prompt=given,
            template=template,
            inference_args=inference_args,
            run_if=run_if,
            invalid_retries=invalid_retries,
            name=name,
            threshold=threshold,
        )

    def _fields(self, namespace: Namespace) -> list[str]:
        absent = [field for field in self.may_read if not self._is_there(field, namespace)]
        if self._condition is not None:
            absent = [field for field in absent if field not in self._condition.names]
        return [field for field in super()._fields(namespace) if field not in absent]

    def _is_there(self, field: str, namespace: Namespace) -> bool:
        try:
            return field in self.bindings or namespace.resolve(field) is not None
        except BindingError:
            return True  # two columns could be it: binding it says so

    def _question(self, item: dict[str, Any]) -> Question | Cell:
        seen = dict(item)
        for field in (*self.reads, *self.may_read):
            text = judged_text(field, item.get(field))
            if isinstance(text, Skip):
                if field in self.reads:
                    return self._without(field, item, text)
                text = None
            if isinstance(text, Cell):
                return text
            seen[field] = text
        blank: list[bool] = []
        if self.contexts is not None:
            try:
                chunks = chunks_of(item[self.contexts], self.contexts)
            except ChunkError as exc:
                return failed(text_of(str(exc)))
            blank = [chunk.blank for chunk in chunks]
            if all(blank):
                return skipped(NO_CONTEXTS)
            seen[self.contexts] = [chunk.document for chunk in chunks if not chunk.blank]
        messages = self._template.render(seen)
        settle = functools.partial(self._verdict, blank=blank)
        return Question(messages, self._reading(blank.count(False)), settle)

    def _without(self, field: str, item: Mapping[str, Any], why: Skip) -> Cell:
        """The cell of a row that lacks what is judged."""
        del field, item
        return skipped(why.reason)

    @abstractmethod
    def _reading(self, contexts: int) -> ListReading:
        """How a reply about so many contexts is read."""

    @abstractmethod
    def _verdict(self, found: Mapping[str, list[Any]], *, blank: Sequence[bool]) -> Verdict | Skip:
        """The score and its parts.

        Args:
            found: The reply's lists.
            blank: For each context of the row whether it was left out as blank.
        """


def judged_text(field: str, value: Any) -> Any:
    """The value as it is judged, why there is none, or the cell of a row with something else."""
    if value is None:
        return Skip(NO_REFERENCE if field == "dataset_output" else f"{field} is null")
    if isinstance(value, str):
        return value if value.strip() else Skip(f"{field} is empty")
    if field == "input" and isinstance(value, (dict, list)):
        # A question may be a record, or the messages of a chat.
        return value or Skip(f"{field} is empty")
    if not isinstance(value, (list, tuple)) or not all(isinstance(text, str) for text in value):
        return not_text(field, value)
    return [text for text in value if text.strip()] or Skip(f"{field} is empty")


def as_json(value: Any) -> str:
    """A list of the reply as its column holds it."""
    return text_of(encode(value))


def told(head: str, before: str, named: Sequence[str]) -> str:
    """An explanation: the count, and the first of those that it is about.

    Args:
        head: The count: "2 of 3 contexts relevant".
        before: What stands between it and the names: "; not relevant".
        named: What is named, in words; often nothing.
    """
    if not named:
        return head
    first = "; ".join(map(_short, named[:_MOST_NAMED]))
    more = len(named) - _MOST_NAMED
    return f"{head}{before}: {first}" + (f"; and {more} more" if more > 0 else "")


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST_NAMED else text[: _LONGEST_NAMED - 1] + "…"
