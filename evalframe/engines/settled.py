"""Calls whose result is settled at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from evalframe.engines.loop import FatalError


class Settled(NamedTuple):
    """A call whose result is taken over before any other user code runs, which may change it.

    Attributes:
        who: Whose call it is, for errors.
        function: The user's.
        settle: Makes a value of the run's own of what it gives.
    """

    who: str
    function: Callable[..., Any]
    settle: Callable[[Any], Any]

    def called(self, values: list[Any], keep: Callable[[Any], None]) -> Any:
        """Call a plain function.

        Args:
            values: Its arguments.
            keep: Is given the result before anybody else.
        """
        result = self.settle(self.function(*values))
        keep(result)
        return result

    async def awaited(self, values: list[Any], keep: Callable[[Any], None]) -> Any:
        """Await a coroutine function.

        Args:
            values: Its arguments.
            keep: Is given the result before anybody else.

        Raises:
            FatalError: It raised SystemExit or KeyboardInterrupt, which is the cause.
        """
        try:
            result = self.settle(await self.function(*values))
        except (KeyboardInterrupt, SystemExit) as exc:
            raise FatalError from exc
        keep(result)
        return result
