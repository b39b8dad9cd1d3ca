"""The options of one message, as the model library takes them. Imports the library."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.settings import ModelSettings

from openclaw.core.errors import InvalidRequest
from openclaw.models.build import Built
from openclaw.models.options import ModelOptions

_ANY_JSON_OBJECT: Mapping[str, Any] = {"type": "object"}
_SAMPLING = frozenset({"max_tokens", "temperature", "top_p"})
_PENALTIES = frozenset({"presence_penalty", "frequency_penalty"})

# What each provider's interface has; the library leaves the rest out without a word.
_SUPPORTED: Mapping[str, frozenset[str]] = {
    "openai-completions": _SAMPLING | _PENALTIES | {"stop", "seed"},
    "openai-responses": _SAMPLING,
    "anthropic-messages": _SAMPLING | {"stop"},
    "google-generative-ai": _SAMPLING | _PENALTIES | {"stop", "seed"},
    "local": frozenset({"max_tokens"}),
}
_KEYS = (*sorted(_SAMPLING), *sorted(_PENALTIES), "stop", "seed")


def with_settings(built: Built, options: ModelOptions | None) -> Built:
    """The model with these settings; raises `InvalidRequest` for one that it does not have."""
    if options is None:
        return built
    given = {key: getattr(options, key) for key in _KEYS if getattr(options, key) not in (None, ())}
    supported = _SUPPORTED.get(built.candidate.api, _SAMPLING)
    if options.tools and built.candidate.api == "local":
        raise InvalidRequest("the embedded model cannot call a client's tools", field="tools")
    for key in given:
        if key not in supported:
            raise InvalidRequest(f"{built.candidate.ref} does not support it", field=key)
    settings: dict[str, Any] = {**built.settings, **given}
    if "stop" in settings:
        settings["stop_sequences"] = list(settings.pop("stop"))
    if options.must_call:
        settings["tool_choice"] = list(options.must_call)
    bound = built.settings.get("max_tokens")
    if options.max_tokens is not None and bound is not None:
        settings["max_tokens"] = min(bound, options.max_tokens)
    return replace(built, settings=cast("ModelSettings", settings))


def with_output(
    parameters: ModelRequestParameters, built: Built, options: ModelOptions | None
) -> ModelRequestParameters:
    """The request, which asks for JSON if the options do; `InvalidRequest` if the model cannot."""
    if options is None or not options.structured:
        return parameters
    if built.candidate.api == "local":
        raise InvalidRequest("the embedded model cannot answer in JSON", field="response_format")
    if options.schema is None:
        form = OutputObjectDefinition(json_schema=dict(_ANY_JSON_OBJECT))
        return replace(parameters, output_mode="prompted", output_object=form)
    if not built.model.profile.get("supports_json_schema_output", False):
        raise InvalidRequest(
            f"{built.candidate.ref} cannot answer by a JSON schema", field="response_format"
        )
    form = OutputObjectDefinition(
        json_schema=dict(options.schema), name=options.schema_name, strict=options.schema_strict
    )
    return replace(parameters, output_mode="native", output_object=form)
