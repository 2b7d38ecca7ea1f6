"""A request as the scripted server saw it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request: what was asked, in the words of the HTTP API.

    Examples:
        >>> from evalframe.testing import Request
        >>> body = {"model": "m", "messages": [{"role": "user", "content": "1+1?"}]}
        >>> Request(path="/v1/chat/completions", headers={}, body=body, time=0.0).prompt
        '1+1?'
    """

    path: str
    headers: Mapping[str, str]
    """By name in lower case."""
    body: Mapping[str, Any]
    """The JSON object; empty if the body is none."""
    time: float
    """Seconds on the monotonic clock, when the request was there in full."""
    occurrence: int = 1
    """1 for the first request with these messages, 2 for the second, and so on."""

    @property
    def model(self) -> str:
        """The model's name."""
        return str(self.body.get("model", ""))

    @property
    def messages(self) -> list[Mapping[str, Any]]:
        """The messages; empty if there are none."""
        found = self.body.get("messages")
        return found if isinstance(found, list) else []

    @property
    def prompt(self) -> str:
        """The text of the user's messages."""
        return self.text_of("user")

    @property
    def system(self) -> str:
        """The text of the system messages."""
        return self.text_of("system", "developer")

    @property
    def texts(self) -> list[str]:
        """The texts to be embedded; empty if there are none."""
        found = self.body.get("input")
        return [found] if isinstance(found, str) else list(map(str, found or []))

    def text_of(self, *roles: str) -> str:
        """The text of the messages with these roles, one per line; of all without any."""
        return "\n".join(
            _text(message.get("content"))
            for message in self.messages
            if not roles or message.get("role") in roles
        )

    @property
    def schema(self) -> Mapping[str, Any] | None:
        """The JSON Schema that the reply has to fit, wherever the request holds it."""
        response_format = _object(self.body.get("response_format"))
        structured = _object(self.body.get("structured_outputs"))
        for found in (
            _object(response_format.get("json_schema")).get("schema"),
            response_format.get("schema"),
            self.tool.get("parameters"),
            structured.get("json"),
            self.body.get("guided_json"),
        ):
            if isinstance(found, Mapping):
                return found
        return None

    @property
    def choices(self) -> list[str]:
        """The texts of which the reply has to be one; empty if the request holds none."""
        structured = _object(self.body.get("structured_outputs"))
        found = structured.get("choice", self.body.get("guided_choice"))
        return [str(choice) for choice in found] if isinstance(found, list) else []

    @property
    def tool(self) -> Mapping[str, Any]:
        """The first tool's function; empty if the request holds no tool."""
        tools = self.body.get("tools")
        first = tools[0] if isinstance(tools, list) and tools else None
        return _object(_object(first).get("function"))


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _text(content: object) -> str:
    if isinstance(content, list):
        return "".join(str(_object(part).get("text", "")) for part in content)
    return content if isinstance(content, str) else ""
