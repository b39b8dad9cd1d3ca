"""Model options for a single message. Imports no library."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ClientTool:
    """A tool of the sender's own: the model may call it, and the sender runs it."""

    name: str
    description: str
    schema: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """Settings for one message; None leaves a setting to the configuration.

    `json_output` asks for any JSON object, `schema` for one that fits it. `tools` are the sender's;
    the model has to call one of `must_call`, if that names any.
    """

    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    stop: tuple[str, ...] = ()
    seed: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    json_output: bool = False
    schema: Mapping[str, Any] | None = None
    schema_name: str | None = None
    schema_strict: bool | None = None
    tools: tuple[ClientTool, ...] = ()
    must_call: tuple[str, ...] = ()

    @property
    def structured(self) -> bool:
        return self.json_output or self.schema is not None


def options_json(options: ModelOptions | None) -> dict[str, Any] | None:
    return None if options is None else asdict(options)


def options_from(body: Mapping[str, Any] | None) -> ModelOptions | None:
    if body is None:
        return None
    known: dict[str, Any] = {
        **body,
        "stop": tuple(body["stop"]),
        "tools": tuple(ClientTool(**tool) for tool in body["tools"]),
        "must_call": tuple(body["must_call"]),
    }
    return ModelOptions(**known)
