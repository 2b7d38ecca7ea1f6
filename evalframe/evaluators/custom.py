"""CustomEval: a yes-or-no judge of the user's own template."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from evalframe.core import schema
from evalframe.core.errors import listed
from evalframe.core.names import canonical
from evalframe.core.namespace import BindingError, Namespace
from evalframe.core.records import Cell
from evalframe.evaluators.asking import Judge, Question
from evalframe.evaluators.braces import as_jinja, style_of
from evalframe.evaluators.chunks import NO_CONTEXTS, ChunkError, chunks_of
from evalframe.evaluators.compared import failed
from evalframe.evaluators.normalize import describe, skipped, text_of
from evalframe.evaluators.verdict import ChoiceVerdict, as_read
from evalframe.llm.model import Model

VARIABLES = "variables"
CHOICES = {"correct": 1.0, "incorrect": 0.0}

_CONTEXTS = "retrieval_context"
# What a dict per row is bound as; no field of a template can be called so.
_HELD = "dict of variables"


class CustomEval(Judge):
    """Whether a model finds the output correct: label "correct" (1.0) or "incorrect" (0.0).

    The template has fields `{x}`, with `{{` and `}}` for braces that are text, or fields
    `{{ x }}`, with single braces that are text; never both. One of the fields is `output`. Values
    are filled in once, so that braces inside them stay what they are; lists and dicts print as
    JSON. The verdict is asked for by guided decoding, with an explanation before it; a reply that
    is not exactly one of the two labels is a failed cell (`parse`), and never "incorrect".

    A row whose `output` is null or empty is skipped, as is one on which another null would be
    printed. A field `contexts` (or `retrieval_context`) is the list of the texts of context
    chunks that are not blank; a row without any is skipped as "no contexts". In a dict per row
    further keys are ignored, and a missing one is a failed cell (`template`).

    Args:
        prompt_template: Text with fields in braces.
        variables: Where the fields are read: a mapping field -> column (or path, or function of
            the row, as of `.bind`), or the name of a column that holds a dict per row. If not
            given it is the column `variables` where the data has one (and no field is called
            so, or bound), else each field binds like an evaluator's parameter. The output of a
            task, a column of contexts, and fields that are bound take the place of what the dict
            holds.
        model: "<provider>/<model>", or an `ef.Model`.
        system_prompt: Template for a first message, in the same style.
        inference_args: Further fields of the request, such as {"temperature": 0}.
        run_if: As of `LLMJudge`; a Jinja expression sees the fields as `item.x`.
        invalid_retries: How often an invalid reply is asked again.

    Raises:
        ValueError: The template cannot be read or has no field `output`, a mapping lacks fields
            or has others, or an argument cannot be used.
        TypeError: An argument is of the wrong type.

    Examples:
        >>> import evalframe as ef
        >>> from evalframe.testing import ChatServer, label
        >>> row = {"variables": {"question": "1+1?", "output": "3"}}
        >>> with ChatServer(label("incorrect", explanation="It is 2.")) as server:
        ...     judge = ef.CustomEval(
        ...         "Is {output} the answer to {question}?",
        ...         model=ef.Model("local/m", base_url=server.base_url),
        ...     )
        ...     scored = ef.run_experiment([row], evaluators=[judge])
        >>> scored["eval.custom_eval.label"][0], scored["eval.custom_eval.score"][0]
        ('incorrect', 0.0)
    """

    source: ClassVar[str] = "[Lynxius, CustomEval](https://github.com/lynxius/lynxius-python)"
    _prompt_argument: ClassVar[str] = "prompt_template"

    def __init__(
        self,
        prompt_template: str,
        variables: Mapping[str, Any] | str | None = None,
        *,
        model: str | Model,
        system_prompt: str | None = None,
        inference_args: Mapping[str, Any] | None = None,
        run_if: Callable[..., Any] | str | None = None,
        invalid_retries: int = 1,
        name: str | None = None,
        threshold: float | None = None,
    ) -> None:
        """See the class."""
        from evalframe.llm.prompts import Prompt

        for what, text in (("prompt_template", prompt_template), ("system_prompt", system_prompt)):
            if not isinstance(text, str) and not (text is None and what == "system_prompt"):
                message = f"{what} must be text, not {text!r}."
                raise TypeError(message)
        style = style_of(f"{prompt_template}\n{system_prompt or ''}")
        prompt, found = as_jinja(prompt_template, style)
        system = None
        if system_prompt is not None:
            system, more = as_jinja(system_prompt, style)
            found += [field for field in more if field not in found]
        problem = _problem(found, variables)
        if problem:
            raise ValueError(problem)
        super().__init__(
            model=model,
            prompt=prompt_template,
            template=Prompt(prompt, system_prompt=system),
            inference_args=inference_args,
            run_if=run_if,
            invalid_retries=invalid_retries,
            name=name,
            threshold=threshold,
        )
        self.system_prompt = system_prompt
        self.variables = dict(variables) if isinstance(variables, Mapping) else variables
        self._found = found
        self._reading = ChoiceVerdict(CHOICES, explanation=True)

    @property
    def usual_schema(self) -> dict[str, Any]:
        """The schema of every reply."""
        return self._reading.schema

    def _in_one_column(self, namespace: Namespace) -> bool:
        """Whether a dict per row holds the fields."""
        if self.variables is not None:
            return isinstance(self.variables, str)
        if VARIABLES in self._found or not self.bindings.keys().isdisjoint(self._found):
            return False
        return VARIABLES in self.bindings or VARIABLES in namespace.row_columns

    def _fields(self, namespace: Namespace) -> list[str]:
        fields = super()._fields(namespace)
        if not self._in_one_column(namespace):
            return fields
        apart = {field for field in self._found if _is_apart(field, namespace)} | {*self.bindings}
        inside = [field for field in self._found if field not in apart]
        return [_HELD, *(field for field in fields if field not in inside)]

    def _sources(self, namespace: Namespace) -> Mapping[str, Any]:
        if not self._in_one_column(namespace):
            given = self.variables if isinstance(self.variables, dict) else {}
            return {**given, **self.bindings}
        bound = dict(self.bindings)
        named = VARIABLES if self.variables is None else self.variables
        source = bound.pop(VARIABLES, named)
        if not callable(source) and namespace.located(source) is None:
            have = listed(namespace.columns)
            message = f"{self.name!r}: variables={source!r} names no column. The data has {have}."
            raise BindingError([message])
        return {_HELD: source, **bound}

    def _item(self, values: dict[str, Any]) -> dict[str, Any] | Cell:
        if _HELD not in values:
            return values
        apart = dict(values)
        held = apart.pop(_HELD)
        if held is None:
            return skipped(f"{VARIABLES} is null")
        held = _parsed(held)
        if not isinstance(held, dict):
            return failed(f"{VARIABLES} is {describe(held)}, not a dict of fields")
        return {**{name: held[name] for name in self._found if name in held}, **apart}

    def _question(self, item: dict[str, Any]) -> Question | Cell:
        seen = dict(item)
        if schema.OUTPUT in item:
            output = item[schema.OUTPUT]
            if output is None:
                return skipped("output is null")
            if not (output.strip() if isinstance(output, str) else _has_parts(output)):
                return skipped("output is empty")
        for name in self._found:
            if canonical(name) == _CONTEXTS and name in item:
                try:
                    chunks = chunks_of(item[name], name)
                except ChunkError as exc:
                    return failed(text_of(str(exc)))
                seen[name] = [chunk.document for chunk in chunks if not chunk.blank]
                if not seen[name]:
                    return skipped(NO_CONTEXTS)
        return Question(self._template.render(seen), self._reading, as_read)


def _parsed(held: Any) -> Any:
    """What JSON text of an object stands for, as CSV files have it; other values as they are."""
    if not isinstance(held, str) or not held.lstrip().startswith("{"):
        return held
    try:
        return json.loads(held)
    except (ValueError, RecursionError):
        return held


def _has_parts(value: Any) -> bool:
    return not isinstance(value, (list, tuple, dict)) or bool(value)


def _is_apart(field: str, namespace: Namespace) -> bool:
    """Whether a field is read from the row although a dict holds the others."""
    if field == schema.OUTPUT:
        return namespace.has_task
    return canonical(field) == _CONTEXTS and namespace.resolve(field) is not None


def _problem(fields: list[str], variables: Any) -> str | None:
    """What is wrong with the fields of a template and where they are read, or None.

    Raises:
        TypeError: `variables` is of the wrong type.
    """
    problems = []
    if schema.OUTPUT not in fields:
        have = f"its fields are {listed(fields)}" if fields else "it has no field"
        problems.append(f"prompt_template must have the field 'output', which is judged; {have}.")
    if isinstance(variables, Mapping):
        problems += _mapping_problems(fields, variables)
    elif variables is not None and not isinstance(variables, str):
        message = (
            "variables must map fields to columns, or be the name of a column that holds a dict "
            f"per row, not {variables!r}."
        )
        raise TypeError(message)
    return " ".join(problems) or None


def _mapping_problems(fields: list[str], variables: Mapping[Any, Any]) -> list[str]:
    missing = [field for field in fields if field not in variables]
    unused = [name for name in variables if name not in fields]
    for name, given in variables.items():
        if not callable(given) and (given is None or isinstance(given, (list, dict))):
            message = (
                f"variables: {name!r} is {given!r}; give a column's name, a path such as "
                "'output.final.text', or a function of the row."
            )
            raise TypeError(message)
    problems = [f"variables lacks {listed(missing)} of prompt_template."] if missing else []
    if unused:
        problems.append(f"variables has {listed(unused)}, of which prompt_template makes no use.")
    return problems
