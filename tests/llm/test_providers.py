"""The table of providers is complete and consistent; addresses follow the environment."""

from typing import get_args

import pytest

from evalframe.llm.providers import PROVIDERS, Structured


@pytest.mark.parametrize("provider", PROVIDERS.values(), ids=PROVIDERS)
def test_row_is_complete(provider):
    """Each row has an address or the variable for one, a form of constraints, and a source."""
    assert PROVIDERS[provider.name] is provider
    assert provider.base_url or provider.base_url_env
    assert provider.structured in get_args(Structured)
    assert provider.source.startswith("https://")


@pytest.mark.parametrize("provider", PROVIDERS.values(), ids=PROVIDERS)
def test_key_never_travels_in_the_clear(provider):
    """Whoever asks for a key is reached over TLS; whoever does not runs on this machine."""
    scheme = "http://localhost:" if provider.api_key_env is None else "https://"

    assert provider.base_url is None or provider.base_url.startswith(scheme)


@pytest.mark.parametrize(
    ("name", "environ", "address"),
    [
        pytest.param("openai", {}, "https://api.openai.com/v1", id="default"),
        pytest.param(
            "openai", {"OPENAI_BASE_URL": "http://me:1/v1/"}, "http://me:1/v1", id="variable"
        ),
        pytest.param(
            "openai", {"OPENAI_BASE_URL": " "}, "https://api.openai.com/v1", id="empty-variable"
        ),
        pytest.param(
            "mistral", {"OPENAI_BASE_URL": "http://me"}, "https://api.mistral.ai/v1", id="other"
        ),
        pytest.param("azure", {}, None, id="to-be-given"),
        pytest.param(
            "azure",
            {"AZURE_OPENAI_ENDPOINT": "https://me.openai.azure.com/"},
            "https://me.openai.azure.com/openai/v1",
            id="path-is-added",
        ),
        pytest.param(
            "azure",
            {"AZURE_OPENAI_ENDPOINT": "https://me.openai.azure.com/openai/v1/"},
            "https://me.openai.azure.com/openai/v1",
            id="path-is-there",
        ),
    ],
)
def test_address_is_the_variables_or_the_tables(name, environ, address):
    """A provider's variable wins over the table, and is completed by the provider's path."""
    assert PROVIDERS[name].address(environ) == address
