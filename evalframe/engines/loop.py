"""The one background event loop of the process.

Started at first use and kept, so that a client or lock made in one run works in the next.
"""

from __future__ import annotations

import asyncio
import os
import threading

_lock = threading.Lock()
_loops: dict[int, asyncio.AbstractEventLoop] = {}


def background_loop() -> asyncio.AbstractEventLoop:
    """The loop; it runs in a daemon thread of its own."""
    with _lock:
        # By process: after a fork the thread is gone, and the child needs a loop of its own.
        loop = _loops.get(os.getpid())
        if loop is None or loop.is_closed():
            loop = _loops[os.getpid()] = asyncio.new_event_loop()
            threading.Thread(target=loop.run_forever, name="evalframe-loop", daemon=True).start()
        return loop
