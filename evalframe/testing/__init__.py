"""What to test your own evaluators and tasks with: a model's server that does as scripted.

ChatServer   a real HTTP server on loopback; takes a reply, a list of them, or a function
obedient     a script that answers as a well-behaved model: a valid object for the schema asked for
reply, label, tool_call, refusal, content_filter, truncated       what a model says
embeddings   what a model makes of texts, as a script
error, garbage, torn, hang_up, never                              what goes wrong
Request, Reply   what a script gets and gives
Faults       a script that fails at given rates, the same way in every run

`python -m evalframe.testing --help` runs the server as a process of its own.
"""

from evalframe.testing.faults import Faults
from evalframe.testing.obedient import obedient
from evalframe.testing.replies import (
    Reply,
    content_filter,
    error,
    garbage,
    hang_up,
    label,
    never,
    refusal,
    reply,
    tool_call,
    torn,
    truncated,
)
from evalframe.testing.request import Request
from evalframe.testing.server import ChatServer, ScriptError
from evalframe.testing.vectors import embeddings

__all__ = [
    "ChatServer",
    "Faults",
    "Reply",
    "Request",
    "ScriptError",
    "content_filter",
    "embeddings",
    "error",
    "garbage",
    "hang_up",
    "label",
    "never",
    "obedient",
    "refusal",
    "reply",
    "tool_call",
    "torn",
    "truncated",
]
