"""What models have cost, by who asked."""

from __future__ import annotations

from dataclasses import dataclass, field

from evalframe.llm.chat import Reply
from evalframe.llm.model import Model

_MOST_MODELS = 10


@dataclass(slots=True)
class Spent:
    """What one evaluator's cells have cost so far.

    Attributes:
        calls: Requests answered by the server.
        cached: Cells answered from the cache.
        shared: Cells answered by another cell's request.
        reasked: Requests that were sent because a reply was invalid.
        cost: Dollars; None without a price, or where a reply came without a count.
    """

    cells: int = 0
    calls: int = 0
    cached: int = 0
    shared: int = 0
    reasked: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    cost: float | None = None
    models: set[str] = field(default_factory=set)

    @classmethod
    def on(cls, model: Model) -> Spent:
        """Nothing spent yet on a model."""
        return cls(cost=None if model.price is None else 0.0)

    def add(self, model: Model, reply: Reply, attempt: int = 1) -> None:
        """Count a reply when it comes: whoever asked may be gone when the question ends.

        Args:
            model: What it was asked of.
            reply: What came.
            attempt: Which one it was of the same question.
        """
        usage = reply.usage
        self.calls += 1
        self.reasked += attempt > 1
        self.prompt_tokens += usage.prompt_tokens or 0
        self.completion_tokens += usage.completion_tokens or 0
        self.cached_tokens += usage.cached_tokens or 0
        cost = model.cost(usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens)
        self.cost = None if cost is None or self.cost is None else self.cost + cost
        if reply.model and len(self.models) < _MOST_MODELS:
            self.models.add(reply.model)
