"""Providers with an OpenAI-compatible chat completions endpoint, in one table.

Owns   for each: where it is, which variable holds its key, how it takes constraints.
Leaves reading keys, and everything that is a model's (name, limits, price), to model.py.

A row says where its facts are from; its note, what they do not cover. Any other server needs no
row: `Model(name, base_url=...)`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Structured = Literal["json_schema", "json_object", "tool", "guided_choice", "grammar"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """Where a provider is, and the strictest constraint its chat completions endpoint enforces.

    Examples:
        >>> from evalframe.llm.providers import PROVIDERS
        >>> PROVIDERS["groq"].address({})
        'https://api.groq.com/openai/v1'
        >>> PROVIDERS["azure"].address({"AZURE_OPENAI_ENDPOINT": "https://me.openai.azure.com/"})
        'https://me.openai.azure.com/openai/v1'
        >>> PROVIDERS["ollama"].api_key_env is None
        True
    """

    name: str
    base_url: str | None
    """None where every user has an address of their own."""
    base_url_env: str | None = None
    """The variable whose address goes before `base_url`."""
    base_url_path: str = ""
    """What follows the address in `base_url_env`, unless it is there already."""
    api_key_env: str | None
    """None for local servers: they ask for no key."""
    structured: Structured
    source: str
    """The page of documentation that says so."""
    note: str = ""

    def address(self, environ: Mapping[str, str]) -> str | None:
        """The base URL under these environment variables; None if it has to be given."""
        given = environ.get(self.base_url_env, "").strip() if self.base_url_env else ""
        if not given:
            return self.base_url
        given = given.rstrip("/")
        return given if given.endswith(self.base_url_path) else given + self.base_url_path


_ROWS = [
    Provider(
        name="openai",
        base_url="https://api.openai.com/v1",
        base_url_env="OPENAI_BASE_URL",
        api_key_env="OPENAI_API_KEY",
        structured="json_schema",
        source="https://platform.openai.com/docs/guides/structured-outputs",
        note="Models before gpt-4o-2024-08-06 know json_object only.",
    ),
    Provider(
        name="azure",
        base_url=None,
        base_url_env="AZURE_OPENAI_ENDPOINT",
        base_url_path="/openai/v1",
        api_key_env="AZURE_OPENAI_API_KEY",
        structured="json_schema",
        source="https://learn.microsoft.com/en-us/azure/foundry/openai/how-to/structured-outputs",
        note="The v1 API, which needs no api-version. The model is the deployment's name.",
    ),
    Provider(
        name="openrouter",
        base_url="https://openrouter.ai/api/v1",
        api_key_env="OPENROUTER_API_KEY",
        structured="json_schema",
        source="https://openrouter.ai/docs/structured-outputs",
        note="Some models only. extra_body={'provider': {'require_parameters': True}} keeps the "
        "request from hosts that ignore response_format.",
    ),
    Provider(
        name="together",
        base_url="https://api.together.xyz/v1",
        api_key_env="TOGETHER_API_KEY",
        structured="json_schema",
        source="https://docs.together.ai/docs/json-mode",
        note="Some models only. Not seen: that the schema is enforced under strict.",
    ),
    Provider(
        name="groq",
        base_url="https://api.groq.com/openai/v1",
        api_key_env="GROQ_API_KEY",
        structured="json_schema",
        source="https://console.groq.com/docs/structured-outputs",
        note="Strict on some models only; the others refuse it with a 400.",
    ),
    Provider(
        name="fireworks",
        base_url="https://api.fireworks.ai/inference/v1",
        api_key_env="FIREWORKS_API_KEY",
        structured="json_schema",
        source="https://docs.fireworks.ai/structured-responses/structured-response-formatting",
        note="The model is not shown the schema: describe the reply in the prompt too.",
    ),
    Provider(
        name="mistral",
        base_url="https://api.mistral.ai/v1",
        api_key_env="MISTRAL_API_KEY",
        structured="json_schema",
        source="https://docs.mistral.ai/capabilities/structured-output/custom_structured_output/",
    ),
    Provider(
        name="deepseek",
        base_url="https://api.deepseek.com",
        api_key_env="DEEPSEEK_API_KEY",
        structured="json_object",
        source="https://api-docs.deepseek.com/guides/json_mode",
        note="Any JSON object, and only if a message says 'json'. Strict tools are a beta under "
        "https://api.deepseek.com/beta, with structured='tool'.",
    ),
    Provider(
        name="gemini",
        base_url="https://generativelanguage.googleapis.com/v1beta/openai",
        api_key_env="GEMINI_API_KEY",
        structured="json_schema",
        source="https://ai.google.dev/gemini-api/docs/openai",
        note="Not seen: which keywords of JSON Schema it refuses behind this endpoint.",
    ),
    Provider(
        name="anthropic",
        base_url="https://api.anthropic.com/v1",
        api_key_env="ANTHROPIC_API_KEY",
        structured="tool",
        source="https://platform.claude.com/docs/en/api/openai-sdk",
        note="response_format and strict are ignored behind this endpoint, so a tool's arguments "
        "are not guaranteed to fit. Logprobs and seed are ignored; temperature ends at 1.",
    ),
    Provider(
        name="xai",
        base_url="https://api.x.ai/v1",
        api_key_env="XAI_API_KEY",
        structured="json_schema",
        source="https://docs.x.ai/docs/guides/structured-outputs",
        note="From others' documentation of it; its own page could not be read.",
    ),
    Provider(
        name="cerebras",
        base_url="https://api.cerebras.ai/v1",
        api_key_env="CEREBRAS_API_KEY",
        structured="json_schema",
        source="https://inference-docs.cerebras.ai/capabilities/structured-outputs",
    ),
    Provider(
        name="nvidia",
        base_url="https://integrate.api.nvidia.com/v1",
        api_key_env="NVIDIA_API_KEY",
        structured="json_schema",
        source="https://docs.nvidia.com/nim/vision-language-models/latest/structured-generation.html",
        note="The page is of the containers; not seen: which hosted models do so. For language "
        "models it recommends a field of its own, guided_json.",
    ),
    Provider(
        name="perplexity",
        base_url="https://api.perplexity.ai",
        api_key_env="PERPLEXITY_API_KEY",
        structured="json_schema",
        source="https://docs.perplexity.ai/guides/structured-outputs",
        note="A schema's first request takes 10 to 30 seconds, and may time out.",
    ),
    Provider(
        name="huggingface",
        base_url="https://router.huggingface.co/v1",
        api_key_env="HF_TOKEN",
        structured="json_schema",
        source="https://huggingface.co/docs/inference-providers/guides/structured-output",
        note="It depends on the host behind it.",
    ),
    Provider(
        name="ollama",
        base_url="http://localhost:11434/v1",
        api_key_env=None,
        structured="json_schema",
        source="https://docs.ollama.com/api/openai-compatibility",
        note="From 0.5 on. Ollama's cloud models accept a schema and do not enforce it.",
    ),
    Provider(
        name="vllm",
        base_url="http://localhost:8000/v1",
        api_key_env=None,
        structured="json_schema",
        source="https://docs.vllm.ai/en/latest/features/structured_outputs/",
        note="guided_choice is silently ignored from 0.12 on; now {'structured_outputs': "
        "{'choice': [...]}}.",
    ),
    Provider(
        name="lmstudio",
        base_url="http://localhost:1234/v1",
        api_key_env=None,
        structured="json_schema",
        source="https://lmstudio.ai/docs/advanced/structured-output",
        note="It does not take json_object.",
    ),
    Provider(
        name="llamacpp",
        base_url="http://localhost:8080/v1",
        api_key_env=None,
        structured="json_schema",
        source="https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md",
        note="Logprobs are of the distribution before the constraint. An unknown model name is "
        "answered by the model that is loaded.",
    ),
    Provider(
        name="sglang",
        base_url="http://localhost:30000/v1",
        api_key_env=None,
        structured="json_schema",
        source="https://docs.sglang.io/advanced_features/structured_outputs.html",
    ),
]

PROVIDERS: dict[str, Provider] = {row.name: row for row in _ROWS}
