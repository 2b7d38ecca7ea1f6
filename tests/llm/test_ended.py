"""What questions ended in, for those who ask them later in the run."""

import sqlite3

import pytest

from evalframe.llm import ended as module
from evalframe.llm.chat import ChatReply, Usage
from evalframe.llm.ended import Ended, EndedQuestions

REPLY = ChatReply("yes", finish_reason="stop", usage=Usage(10, 1), model="m", logprobs=[{"a": 1}])
KEPT = ChatReply("yes", finish_reason="stop", model="m", logprobs=[{"a": 1}])
FAILED = ValueError("no")


@pytest.fixture(params=["file", "no-file", "file-that-fails"])
def questions(request, monkeypatch):
    """Kept on disk, or in memory where the file cannot be made or written."""
    made = EndedQuestions()
    if request.param == "no-file":

        def refuse():
            message = "unable to open database file"
            raise sqlite3.OperationalError(message)

        monkeypatch.setattr(module, "_opened", refuse)
    if request.param == "file-that-fails":
        made["first"] = Ended("v", REPLY, (REPLY,), None, "j")
        made._db.close()  # noqa: SLF001 - what a full disk does
    yield made
    made.close()


def test_end_is_given_again_without_what_was_paid(questions):
    """Who asks later pays for nothing; the value is read from the reply again."""
    questions["a"] = Ended("YES", REPLY, (REPLY, REPLY), None, "j")
    questions["b"] = Ended(None, REPLY, (REPLY,), FAILED, "k")
    questions["c"] = Ended(None, None, (), FAILED, "k")

    assert questions.get("a") == Ended(None, KEPT, (), None, "j")
    assert questions.get("b") == Ended(None, KEPT, (), FAILED, "k")
    assert questions.get("c") == Ended(None, None, (), FAILED, "k")
    assert questions.get("d") is None


def test_text_that_is_no_utf8_is_kept(questions):
    """A lone surrogate comes back as it was."""
    questions["a"] = Ended("x", ChatReply("\ud83d"), (), None, "j")

    assert questions.get("a").reply.text == "\ud83d"


def test_replies_are_not_in_memory():
    """A run may have millions."""
    questions = EndedQuestions()
    for number in range(100):
        questions[str(number)] = Ended("v", REPLY, (), None, "j")

    assert not questions._memory  # noqa: SLF001 - there is no public word for it
    assert questions.get("99").reply == KEPT
    questions.close()
