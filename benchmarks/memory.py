"""Peak resident memory of this process since a moment.

On Linux the high-water mark is set back when the count starts, so a peak during the imports does
not hide a later one; elsewhere the peak since the process started is all there is.
"""

from __future__ import annotations

import gc
import resource
import sys
from pathlib import Path

_STATUS = Path("/proc/self/status")


class Peak:
    """Counts from when it is made."""

    def __init__(self) -> None:
        gc.collect()
        if _STATUS.exists():
            # "5" sets VmHWM back to the present size, see proc(5).
            Path("/proc/self/clear_refs").write_text("5")
        self.baseline = _status("VmRSS") if _STATUS.exists() else _peak_of_process()

    def bytes(self) -> int:
        """Give the highest resident size since then, above the size then."""
        peak = _status("VmHWM") if _STATUS.exists() else _peak_of_process()
        return peak - self.baseline


def _status(field: str) -> int:
    for line in _STATUS.read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    message = f"/proc/self/status has no {field}"
    raise LookupError(message)


def _peak_of_process() -> int:
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
