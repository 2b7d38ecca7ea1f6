"""A model's description: what is refused, where it leads, what it costs, and no key in it."""

import copy
import pickle

import pytest

from evalframe.llm.model import Endpoint, Model, ModelError, as_model


@pytest.mark.parametrize(
    ("given", "match"),
    [
        pytest.param(
            {"name": "gpt-5-mini"}, "the name must be '<provider>/<model>'", id="no-slash"
        ),
        pytest.param({"name": "/m"}, "the name must be", id="no-provider"),
        pytest.param({"name": "openai/"}, "the name must be", id="no-model"),
        pytest.param({"name": None}, "the name must be", id="no-text"),
        pytest.param({"base_url": ""}, "base_url must be an address", id="no-address"),
        pytest.param({"base_url": "localhost:80"}, "base_url must be", id="no-scheme"),
        pytest.param(
            {"base_url": "http://x/v1/chat/completions"}, "without '/chat/com", id="whole-path"
        ),
        pytest.param({"rpm": 0}, "rpm must be a whole number of at least 1, not 0", id="rpm"),
        pytest.param({"rpm": True}, "rpm must be .* not True", id="rpm-bool"),
        pytest.param({"tpm": 1.5}, "tpm must be .* not 1.5", id="tpm"),
        pytest.param({"max_retries": -1}, "max_retries must be .* not -1", id="retries"),
        pytest.param({"max_retries": True}, "max_retries must be .* not True", id="retries-bool"),
        pytest.param({"timeout": 0}, "timeout must be seconds above 0, not 0", id="timeout"),
        pytest.param({"timeout": float("nan")}, "timeout must be", id="timeout-nan"),
        pytest.param({"timeout": True}, "timeout must be", id="timeout-bool"),
        pytest.param({"structured": "json"}, "structured must be one of 'json_schema'", id="form"),
        pytest.param({"price": {"inputs": 1}}, "price takes 'input'", id="price-name"),
        pytest.param({"price": {"input": "1"}}, "price takes", id="price-text"),
        pytest.param({"price": {"output": -1}}, "price takes", id="price-negative"),
        pytest.param({"price": {"output": float("nan")}}, "price takes", id="price-nan"),
    ],
)
def test_argument_out_of_its_domain_is_refused_at_once(given, match):
    """The message names the model, the argument and its value."""
    with pytest.raises(ValueError, match=match):
        Model(**{"name": "openai/gpt-5-mini", **given})


def test_provider_that_nobody_knows_is_an_error_with_the_nearest():
    """The message says what is known, and how any other server is reached."""
    with pytest.raises(ModelError, match=r"'opena' .* Did you mean 'openai'\?.*base_url="):
        Model("opena/gpt-5-mini").endpoint()


@pytest.mark.parametrize("value", [None, ""], ids=["unset", "empty"])
def test_missing_key_is_an_error_that_names_the_variable(monkeypatch, value):
    """Before anything is sent."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    if value is not None:
        monkeypatch.setenv("OPENAI_API_KEY", value)

    with pytest.raises(ModelError, match="set the environment variable OPENAI_API_KEY"):
        Model("openai/gpt-5-mini").endpoint()


def test_missing_address_is_an_error_that_names_the_variable(monkeypatch):
    """Where every user has an address of their own."""
    monkeypatch.delenv("AZURE_OPENAI_ENDPOINT", raising=False)

    with pytest.raises(ModelError, match="set AZURE_OPENAI_ENDPOINT"):
        Model("azure/judge").endpoint()


def test_providers_row_gives_address_key_and_form(monkeypatch):
    """What is not given is the provider's; the model's name may hold further slashes."""
    monkeypatch.setenv("OPENROUTER_API_KEY", "k")

    assert Model("openrouter/meta/llama-3").endpoint() == Endpoint(
        "https://openrouter.ai/api/v1", "meta/llama-3", "OPENROUTER_API_KEY", "json_schema"
    )


def test_openai_base_url_is_honoured(monkeypatch):
    """As in every other client of it."""
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1/")

    assert Model("openai/gpt-5-mini").endpoint().base_url == "http://127.0.0.1:9/v1"


@pytest.mark.parametrize("name", ["openai/gpt-5-mini", "anthropic/claude", "mine/judge"])
def test_providers_key_is_not_sent_to_an_address_of_the_users(monkeypatch, name):
    """A key goes to its provider only, unless it is named for the other address."""
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")

    assert Model(name, base_url="http://elsewhere/v1").endpoint().api_key_env is None


def test_key_is_sent_to_an_address_of_the_users_if_it_is_named(monkeypatch):
    """`api_key_env` is the user's word that it may."""
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    model = Model("openai/m", base_url="http://elsewhere/v1", api_key_env="OPENAI_API_KEY")

    assert model.endpoint().api_key_env == "OPENAI_API_KEY"


def test_one_address_is_one_endpoint_however_it_is_written():
    """A slash at the end makes no second server: limits and stored replies are the same."""
    with_slash = Model("mine/m", base_url="http://here/v1/")

    assert with_slash.endpoint() == Model("mine/m", base_url="http://here/v1").endpoint()


@pytest.mark.parametrize(
    ("model", "form"),
    [
        pytest.param(Model("deepseek/chat", base_url="http://x"), "json_object", id="provider"),
        pytest.param(Model("mine/chat", base_url="http://x"), "json_schema", id="unknown"),
        pytest.param(
            Model("deepseek/chat", base_url="http://x", structured="tool"), "tool", id="given"
        ),
    ],
)
def test_form_is_the_given_one_or_the_providers(model, form):
    """A server under a provider's name takes constraints as that provider does."""
    assert model.endpoint().structured == form


def test_model_never_holds_its_key(monkeypatch):
    """Not in repr, not in a pickle, not in its endpoint, and not in an error."""
    monkeypatch.setenv("SOME_KEY", "topsecret-0123456789")
    model = Model("mine/m", base_url="http://here", api_key_env="SOME_KEY")
    endpoint = model.endpoint()

    texts = [repr(model), repr(endpoint), str(pickle.dumps(model)), str(pickle.dumps(endpoint))]

    assert not [text for text in texts if "topsecret" in text]
    assert pickle.loads(pickle.dumps(model)) == model


def test_repr_is_what_was_given():
    """Without defaults, so that it reads as it was written."""
    text = "Model('a/b', base_url='http://x', rpm=6, price={'input': 1.0})"

    assert repr(eval(text, {"Model": Model})) == text  # noqa: S307 - our own text


def test_models_are_equal_by_their_arguments_and_can_be_keys():
    """Also with a price, which is a dict."""
    one = Model("a/b", price={"input": 1.0})

    assert {one: 1}[copy.deepcopy(one)] == 1
    assert one != Model("a/b", price={"input": 2.0})


@pytest.mark.parametrize(
    ("price", "tokens", "cost"),
    [
        pytest.param(None, (10, 10, 0), None, id="no-price"),
        pytest.param({"input": 2, "output": 8}, (1_000_000, 500_000, 0), 6.0, id="both"),
        pytest.param({"input": 2, "output": 8}, (1_000_000, 0, None), 2.0, id="cached-unknown"),
        pytest.param({"input": 2}, (1_000_000, 0, 1_000_000), 2.0, id="no-price-for-cached"),
        pytest.param(
            {"input": 2, "cached_input": 1}, (1_000_000, 0, 250_000), 1.75, id="cached-apart"
        ),
        pytest.param({"input": 2}, (5, 5, 0), None, id="no-price-for-completion"),
        pytest.param({"output": 2}, (5, 5, 0), None, id="no-price-for-prompt"),
        pytest.param({}, (5, 5, 0), None, id="no-price-at-all"),
        pytest.param({"input": 2}, (None, 5, 0), None, id="prompt-not-counted"),
        pytest.param({"input": 2}, (5, None, 0), None, id="completion-not-counted"),
    ],
)
def test_cost_is_of_the_users_price_and_the_servers_count(price, tokens, cost):
    """Cached tokens are part of the prompt's. Without price or count there is no number."""
    assert Model("a/b", price=price).cost(*tokens) == cost


def test_model_is_taken_by_name_or_as_it_is():
    """Anything else is an error that says what to write."""
    model = Model("a/b")

    assert as_model(model) is model
    assert as_model("a/b") == model
    with pytest.raises(
        TypeError, match=r"model must be '<provider>/<model>' or an ef\.Model, not 3"
    ):
        as_model(3)


def test_model_is_never_changed():
    """A run cannot write its settings onto a shared model (nor can anyone)."""
    model = Model("a/b")

    with pytest.raises(AttributeError, match="cannot assign to field"):
        model.rpm = 3
