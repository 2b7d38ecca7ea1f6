"""A call's clock stands while a rate limit holds, and its context is its own."""

import contextvars

import pytest

from evalframe.core.call_info import CallClock, CallInfo, current_call, enter_call


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    """A clock that is set by hand."""
    return Clock()


def test_clock_counts_from_when_it_was_made(clock):
    """In the seconds of the clock that it was given."""
    call = CallClock(clock)
    clock.now += 2.5

    assert call.seconds() == 2.5


def test_time_in_a_pause_does_not_count(clock):
    """Neither during it nor after."""
    call = CallClock(clock)
    clock.now += 1
    with call.paused():
        clock.now += 60
        during = call.seconds()
    clock.now += 2

    assert (during, call.seconds()) == (1.0, 3.0)


def test_pauses_add_up(clock):
    """Each wait for a limit, however many there are."""
    call = CallClock(clock)
    for _ in range(3):
        with call.paused():
            clock.now += 10
        clock.now += 1

    assert call.seconds() == 3.0


def test_pause_inside_a_pause_is_one(clock):
    """The outer one counts, to its end."""
    call = CallClock(clock)
    with call.paused():
        with call.paused():
            clock.now += 5
        clock.now += 5
    clock.now += 1

    assert call.seconds() == 1.0


def test_pause_ends_with_an_error_too(clock):
    """A wait that was cancelled holds no clock for ever."""
    call = CallClock(clock)

    def cancelled():
        with call.paused():
            clock.now += 5
            message = "no"
            raise ValueError(message)

    with pytest.raises(ValueError, match="no"):
        cancelled()
    clock.now += 1

    assert call.seconds() == 1.0


def test_call_outside_any_run_is_the_first_repetition():
    """What asks by itself is a question like any other."""
    call = contextvars.Context().run(current_call)

    assert (call.repetition, call.occurrence) == (1, None)


def test_call_is_of_its_context():
    """Calls side by side know their own."""
    contexts = [contextvars.copy_context() for _ in range(2)]
    infos = [CallInfo(2), CallInfo(3)]
    for context, info in zip(contexts, infos, strict=True):
        context.run(enter_call, info)

    assert [context.run(current_call) for context in contexts] == infos
    assert contextvars.Context().run(current_call) not in infos
