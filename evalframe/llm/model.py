"""Which model, and how it is reached.

Model      what a user writes: a name, and what differs from the provider's defaults
Endpoint   what follows from it and the environment: address, key variable, form of constraints
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from evalframe.core.errors import listed, nearest
from evalframe.core.form import Described
from evalframe.llm.providers import PROVIDERS, Provider

STRUCTURED = ("json_schema", "json_object", "tool", "guided_choice", "grammar")
_PATHS = ("/chat/completions", "/embeddings")
PRICES = ("input", "cached_input", "output")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A model at an address.

    Attributes:
        base_url: Address that "/chat/completions" or "/embeddings" is added to.
        model: The model's name there.
        api_key_env: Variable that holds the key, None where none is sent.
        structured: How constraints are sent.
    """

    base_url: str
    model: str
    api_key_env: str | None
    structured: str


class ModelError(ValueError):
    """A model cannot be reached as it is described; nothing has been sent."""


@dataclass(frozen=True)
class Model(Described):
    """A model behind an OpenAI-compatible endpoint: chat completions, or embeddings.

    Keys are never part of it: `api_key_env` names the environment variable that holds one,
    and it is read when a request is sent.

    Args:
        name: "<provider>/<model>", such as "openai/gpt-5-mini" or "ollama/llama3.2". With
            `base_url` the provider may be any word.
        base_url: Address of the endpoint, up to and without "/chat/completions" or
            "/embeddings". A provider's key is then only sent if `api_key_env` names it.
        api_key_env: Name of the environment variable with the key.
        rpm: Most requests per minute.
        tpm: Most tokens per minute, prompt and completion.
        max_retries: How often a failed request is sent again (refusals for its rate are not
            counted).
        timeout: Seconds for one request.
        price: Dollars per million tokens: {"input": 0.25, "cached_input": 0.025, "output": 2}.
        structured: How constraints are sent: "json_schema", "json_object", "tool",
            "guided_choice" or "grammar"; the provider's best if not given.

    Raises:
        ValueError: An argument is out of its domain.

    Examples:
        >>> import evalframe as ef
        >>> ef.Model("local/judge", base_url="http://127.0.0.1:8080/v1", rpm=600)
        Model('local/judge', base_url='http://127.0.0.1:8080/v1', rpm=600)
    """

    name: str
    base_url: str | None = None
    api_key_env: str | None = None
    rpm: int | None = None
    tpm: int | None = None
    max_retries: int = 5
    timeout: float = 120.0
    price: Mapping[str, float] | None = None
    structured: str | None = None

    def __post_init__(self) -> None:
        """Check the arguments.

        Raises:
            ValueError: One is out of its domain.
        """
        if isinstance(self.price, Mapping):
            object.__setattr__(self, "price", dict(self.price))
        problem = _problem(self)
        if problem:
            message = f"Model({self.name!r}): {problem}"
            raise ValueError(message)

    @property
    def provider(self) -> str:
        """The part of the name before the first slash."""
        return self.name.partition("/")[0]

    @property
    def form(self) -> str:
        """How constraints are sent: as given, or else the provider's best."""
        provider = PROVIDERS.get(self.provider)
        return self.structured or (provider.structured if provider else "json_schema")

    def endpoint(self) -> Endpoint:
        """Where requests go, by this description and the environment.

        Raises:
            ModelError: The provider is unknown, or an address or key is missing.
        """
        provider = PROVIDERS.get(self.provider)
        model = self.name.partition("/")[2]
        if self.base_url is not None:
            address = self.base_url.rstrip("/")
            return self._with_key(Endpoint(address, model, self.api_key_env, self.form))
        if provider is None:
            near = nearest(self.provider, PROVIDERS)
            hint = f" Did you mean {near!r}?" if near is not None else ""
            message = (
                f"The provider {self.provider!r} of {self.name!r} is not known.{hint} Known are "
                f"{listed(PROVIDERS)}; any other server: ef.Model({self.name!r}, base_url='...')."
            )
            raise ModelError(message)
        key = self.api_key_env or provider.api_key_env
        return self._with_key(Endpoint(self._address(provider), model, key, self.form))

    def _address(self, provider: Provider) -> str:
        address = provider.address(os.environ)
        if not address:
            message = (
                f"{self.name!r} needs the address of its endpoint: set {provider.base_url_env}, or "
                f"ef.Model({self.name!r}, base_url='...')."
            )
            raise ModelError(message)
        return address

    def _with_key(self, endpoint: Endpoint) -> Endpoint:
        variable = endpoint.api_key_env
        if variable is not None and not os.environ.get(variable, "").strip():
            message = (
                f"{self.name!r} needs a key: set the environment variable {variable}. A server "
                f"of your own: ef.Model({self.name!r}, base_url='http://...')."
            )
            raise ModelError(message)
        return endpoint

    def cost(self, prompt: int | None, completion: int | None, cached: int | None) -> float | None:
        """Dollars for so many tokens; None where a count or the price of one is not known."""
        price = self.price
        if price is None or prompt is None or completion is None:
            return None
        cheap = min(cached or 0, prompt)
        parts = (
            (prompt - cheap, price.get("input")),
            (cheap, price.get("cached_input", price.get("input"))),
            (completion, price.get("output")),
        )
        if any(tokens and each is None for tokens, each in parts):
            return None
        return sum(tokens * (each or 0.0) for tokens, each in parts) / 1e6

    def _described(self) -> Mapping[str, Any]:
        address = None if self.base_url is None else self.base_url.rstrip("/")
        return {"model": self.name, "base_url": address, "structured": self.form}

    def __repr__(self) -> str:
        """What was given, without defaults."""
        given = [repr(self.name)]
        for name, field in self.__dataclass_fields__.items():
            value: Any = getattr(self, name)
            if name != "name" and value != field.default:
                given.append(f"{name}={value!r}")
        return f"Model({', '.join(given)})"

    def __hash__(self) -> int:
        """By name and address: a price may be a dict."""
        return hash((self.name, self.base_url))


def as_model(given: Any) -> Model:
    """A model from its name, or as it is.

    Raises:
        TypeError: It is neither.
        ValueError: As `Model`.
    """
    if isinstance(given, Model):
        return given
    if not isinstance(given, str):
        message = f"model must be '<provider>/<model>' or an ef.Model, not {given!r}."
        raise TypeError(message)
    return Model(given)


def _is_address(given: Any) -> bool:
    if not isinstance(given, str) or given.rstrip("/").endswith(_PATHS):
        return False
    return given.startswith(("http://", "https://"))


def _problem(model: Model) -> str | None:
    provider, slash, name = str(model.name).partition("/")
    if not (provider and slash and name):
        return "the name must be '<provider>/<model>', such as 'openai/gpt-5-mini'."
    if model.base_url is not None and not _is_address(model.base_url):
        return (
            "base_url must be an address such as 'http://127.0.0.1:8080/v1', without "
            f"{' or '.join(map(repr, _PATHS))}, not {model.base_url!r}."
        )
    limits = {"rpm": model.rpm, "tpm": model.tpm}
    wrong = [n for n, v in limits.items() if v is not None and (type(v) is not int or v < 1)]
    if wrong:
        return f"{wrong[0]} must be a whole number of at least 1, not {limits[wrong[0]]!r}."
    if type(model.max_retries) is not int or model.max_retries < 0:
        return f"max_retries must be a whole number of at least 0, not {model.max_retries!r}."
    variable = model.api_key_env
    if variable is not None and not (isinstance(variable, str) and variable.isidentifier()):
        # Not quoted: it may be the key itself.
        return "api_key_env must be the name of an environment variable, not a key."
    number = isinstance(model.timeout, (int, float)) and not isinstance(model.timeout, bool)
    if not number or not model.timeout > 0:
        return f"timeout must be seconds above 0, not {model.timeout!r}."
    if model.structured is not None and model.structured not in STRUCTURED:
        return f"structured must be one of {listed(STRUCTURED)}, not {model.structured!r}."
    return _price_problem(model.price)


def _price_problem(given: Any) -> str | None:
    if given is not None and not isinstance(given, Mapping):
        return f"price must be a dict of {listed(PRICES)}, not {given!r}."
    for kind, price in (given or {}).items():
        number = isinstance(price, (int, float)) and not isinstance(price, bool)
        if kind not in PRICES or not number or not 0 <= price < float("inf"):
            return (
                f"price takes {listed(PRICES)} in dollars per million tokens, not {kind}={price}."
            )
    return None
