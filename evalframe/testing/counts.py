"""What the scripted server counts."""

from __future__ import annotations

from collections import Counter
from typing import Any

from evalframe.testing.replies import Reply

_EPISODE_SECONDS = 1.0
_REFUSED = 429


class Counts:
    """Totals since the server started, or since they were last reset."""

    def __init__(self, in_flight: int = 0) -> None:
        self.requests = 0
        self.outcomes: Counter[str] = Counter()
        self.abandoned = 0
        self.refusal_episodes = 0
        self.in_flight = self.most_in_flight = in_flight
        self._seen: Counter[int] = Counter()
        self._episode_ends = float("-inf")

    def arrived(self, text: str) -> int:
        """Count a request; how often these messages came, this time included."""
        self.requests += 1
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        # The text itself would keep every prompt of a long run in memory.
        key = hash(text)
        self._seen[key] += 1
        return self._seen[key]

    def answered(self, reply: Reply, now: float) -> None:
        """Count a reply. A refusal opens an episode that lasts as long as it says to wait."""
        self.in_flight -= 1
        self.outcomes[str(reply.status) if reply.ending == "whole" else reply.ending] += 1
        if reply.status == _REFUSED and now >= self._episode_ends:
            self.refusal_episodes += 1
            self._episode_ends = now + _wait(reply)

    def gave_up(self) -> None:
        """Count a client that went away before its answer."""
        self.in_flight -= 1
        self.abandoned += 1

    def as_dict(self) -> dict[str, Any]:
        """The counts by name."""
        return {
            "requests": self.requests,
            "unique_prompts": len(self._seen),
            "outcomes": dict(sorted(self.outcomes.items())),
            "refusal_episodes": self.refusal_episodes,
            "abandoned": self.abandoned,
            "in_flight": self.in_flight,
            "most_in_flight": self.most_in_flight,
        }


def _wait(reply: Reply) -> float:
    given = {name.lower(): value for name, value in reply.headers.items()}
    try:
        return float(given["retry-after"])
    except (KeyError, ValueError):
        return _EPISODE_SECONDS
