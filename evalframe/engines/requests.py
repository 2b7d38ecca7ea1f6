"""The requests that a run would send, made without sending any.

Asker       a part of a run that asks a model: its rows as requests
ToBeAsked   one request, and what would be made of its reply
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from evalframe.core.call_info import Occurrence
from evalframe.core.columns import chunked
from evalframe.core.namespace import OutputSource
from evalframe.core.records import Cell
from evalframe.engines.inputs import Inputs
from evalframe.engines.occurrences import Occurrences
from evalframe.engines.plan import Call, Plan
from evalframe.evaluators.asking import Judge
from evalframe.evaluators.preview import question_of
from evalframe.llm.chat import ChatReply, ChatRequest
from evalframe.llm.model import Model
from evalframe.tasks.chat import WHO, ChatTask, text_in


class ToBeAsked(NamedTuple):
    """A request of a run.

    Attributes:
        terms: Equal where one request answers for several.
        request: What would be sent.
        accept: Makes a value of a reply, or raises InvalidReplyError.
    """

    terms: str
    request: ChatRequest
    accept: Callable[[ChatReply], Any]


class Asker:
    """A judge or a ChatTask on the rows of a run."""

    def __init__(self, part: Judge | ChatTask, call: Call) -> None:
        """Make no request yet.

        Args:
            part: Who asks.
            call: What it reads of the data.
        """
        self.part = part
        self.who: str = WHO if isinstance(part, ChatTask) else str(part.name)
        self._binding = call.binding
        self._rendered = call.caller(part.rendered)
        self._endpoint = part.model.endpoint()
        self._requests: dict[Any, Any] = {}

    @property
    def model(self) -> Model:
        """The model that is asked."""
        return self.part.model

    @property
    def reads_output(self) -> bool:
        """Whether it reads what the task of the run makes."""
        return any(isinstance(source, OutputSource) for source in self._binding.reads)

    def requests(
        self, inputs: Inputs, rows: np.ndarray[Any, Any], plan: Plan
    ) -> Iterator[ToBeAsked]:
        """The requests of some rows, in their order; few are held at once.

        Args:
            inputs: The values.
            rows: Those that may be asked about; the outputs that it reads of them are there.
            plan: The run.
        """
        is_task = isinstance(self.part, ChatTask)
        occurrences = Occurrences(self._binding, inputs, plan.repetition_of) if is_task else None
        for chunk in chunked(len(rows)):
            here = rows[chunk]
            columns = [inputs.values(source, here) for source in self._binding.reads]
            for place, row in enumerate(here.tolist()):
                values = [column[place] for column in columns]
                occurrence = None if occurrences is None else occurrences[row]
                made = self._made(values, plan.repetition(row), occurrence)
                if made is not None:
                    yield made

    def _made(
        self, values: Sequence[Any], repetition: int, occurrence: Occurrence | None
    ) -> ToBeAsked | None:
        found: Any = question_of(self._rendered, values)
        if isinstance(found, Cell):
            return None
        if isinstance(self.part, ChatTask):
            request = ChatRequest(self._endpoint, found, repetition, occurrence)
            return ToBeAsked(request.key, request, text_in)
        reading = found.reading
        if reading not in self._requests:
            self._requests[reading] = self.part.request(reading)
        head, rest = self._requests[reading]
        body = {"messages": [*head, *found.messages], **rest}
        request = ChatRequest(self._endpoint, body, repetition)
        # As in a session: judges that would take other replies share none.
        terms = f"{request.key}|{self.model!r}|{self.part.invalid_retries}"
        return ToBeAsked(terms, request, functools.partial(self.part.accept, reading))
