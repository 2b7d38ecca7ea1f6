"""One request for equal questions, whatever becomes of those who asked."""

import asyncio

import pytest

from evalframe.core.call_info import CallClock, CallInfo, current_call, enter_call
from evalframe.llm.share import Sharing


class Asked:
    """Asks by waiting; counts how often it was begun, cancelled and ended."""

    def __init__(self, result="answer", seconds=1.0):
        self.result, self.seconds = result, seconds
        self.begun = self.cancelled = 0

    async def __call__(self):
        self.begun += 1
        try:
            await asyncio.sleep(self.seconds)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if isinstance(self.result, Exception):
            raise self.result
        return self.result


def test_equal_questions_are_asked_once(run):
    """Whoever asks while it runs, or after, gets the same answer; one of them asked it."""
    asked = Asked()

    async def main():
        sharing = Sharing()
        together = await asyncio.gather(*(sharing.ask("a", asked) for _ in range(5)))
        return [*together, await sharing.ask("a", asked)]

    answers = run(main())

    assert asked.begun == 1
    assert answers == [("answer", True), *[("answer", False)] * 5]


def test_different_questions_are_asked_apart(run):
    """And at the same time."""
    asked = Asked()

    async def main():
        sharing = Sharing()
        await asyncio.gather(*(sharing.ask(key, asked) for key in "abc"))
        return asyncio.get_running_loop().time()

    assert (run(main()), asked.begun) == (1.0, 3)


def test_failure_is_shared(run):
    """A question that failed is not asked once per row."""
    asked = Asked(ValueError("no"))

    async def main():
        sharing = Sharing()
        calls = (sharing.ask("a", asked) for _ in range(3))
        together = await asyncio.gather(*calls, return_exceptions=True)
        with pytest.raises(ValueError, match="no"):
            await sharing.ask("a", asked)
        return together

    assert [str(error) for error in run(main())] == ["no"] * 3
    assert asked.begun == 1


def test_followers_do_not_go_with_the_one_who_asked_first(run):
    """Its cancellation (a timeout) ends its own wait only."""
    asked = Asked()

    async def main():
        sharing = Sharing()
        first, *others = (asyncio.ensure_future(sharing.ask("a", asked)) for _ in range(3))
        await asyncio.sleep(0.5)
        first.cancel()
        return await asyncio.gather(first, *others, return_exceptions=True)

    gone, *answers = run(main())

    assert isinstance(gone, asyncio.CancelledError)
    assert answers == [("answer", False)] * 2
    assert (asked.begun, asked.cancelled) == (1, 0)


def test_question_that_nobody_waits_for_is_given_up_and_may_be_asked_anew(run):
    """It keeps no connection busy, and is no answer for those who come later."""
    asked = Asked()

    async def main():
        sharing = Sharing()
        calls = [asyncio.ensure_future(sharing.ask("a", asked)) for _ in range(3)]
        await asyncio.sleep(0.5)
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        return await sharing.ask("a", asked)

    assert run(main()) == ("answer", True)
    assert (asked.begun, asked.cancelled) == (2, 1)


def test_question_that_was_answered_stays_answered(run):
    """Waiters that are cancelled after the end take nothing away."""
    asked = Asked()

    async def main():
        sharing = Sharing()
        await sharing.ask("a", asked)
        late = asyncio.ensure_future(sharing.ask("a", asked))
        late.cancel()
        await asyncio.gather(late, return_exceptions=True)
        return await sharing.ask("a", asked)

    assert run(main()) == ("answer", False)
    assert asked.begun == 1


def test_time_that_the_question_waited_for_a_rate_limit_counts_for_no_follower(run):
    """All who wait for one answer have one clock, that of the first."""

    async def main():
        loop = asyncio.get_running_loop()
        sharing = Sharing()

        async def limited():
            with current_call().clock.paused():
                await asyncio.sleep(60.0)
            await asyncio.sleep(2.0)

        async def one(after):
            info = CallInfo(clock=CallClock(loop.time))
            enter_call(info)
            await asyncio.sleep(after)
            await sharing.ask("a", limited)
            return info.clock.seconds()

        return await asyncio.gather(one(0.0), one(10.0))

    assert run(main()) == [2.0, 2.0]


def test_question_is_asked_under_the_first_ones_call(run):
    """Repetition and clock are those of the call that asked."""

    async def main():
        sharing = Sharing()

        async def repetition():
            return current_call().repetition

        enter_call(CallInfo(3))
        return await sharing.ask("a", repetition)

    assert run(main()) == (3, True)


def test_those_who_ask_later_get_what_was_kept(run):
    """The whole result is for those who waited: a run keeps one for each of its questions."""

    class Capitals(dict):
        def __setitem__(self, key, result):
            super().__setitem__(key, result.upper())

    async def main():
        sharing = Sharing(Capitals())
        together = await asyncio.gather(*(sharing.ask("a", Asked()) for _ in range(2)))
        return [*together, await sharing.ask("a", Asked())]

    assert run(main()) == [("answer", True), ("answer", False), ("ANSWER", False)]


def test_closing_ends_what_is_still_asked(run):
    """At the end of a run nothing is left behind."""
    asked = Asked(seconds=1e6)

    async def main():
        sharing = Sharing()
        call = asyncio.ensure_future(sharing.ask("a", asked))
        await asyncio.sleep(1.0)
        await sharing.close()
        await asyncio.gather(call, return_exceptions=True)
        return call.cancelled(), asyncio.get_running_loop().time()

    assert (run(main()), asked.cancelled) == ((True, 1.0), 1)
