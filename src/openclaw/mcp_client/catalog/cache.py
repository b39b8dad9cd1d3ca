"""What a lazy server offered when it last ran, so that the model sees it before it runs again."""

import contextlib
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from openclaw.core.ids import random_id
from openclaw.mcp_client.session.jsonrpc import Listing

logger = logging.getLogger(__name__)

_FORMAT = 1
_MAX_BYTES = 16 * 1024 * 1024


class CatalogCache:
    """One file for each server and configuration. Losing one costs a start, nothing else.

    `redact` takes out secrets that a server has put into what it offers.
    """

    def __init__(self, directory: Path, redact: Callable[[str], str] = str) -> None:
        self._directory = directory
        self._redact = redact

    def _path(self, fingerprint: str) -> Path:
        return self._directory / f"{fingerprint}.json"

    def load(self, fingerprint: str) -> Listing | None:
        path = self._path(fingerprint)
        try:
            if path.stat().st_size > _MAX_BYTES:
                return None
            return _listing(json.loads(path.read_bytes()))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
            logger.info("the tool catalogue %s is not used: %s", path.name, type(error).__name__)
            return None

    def store(self, fingerprint: str, listing: Listing) -> None:
        stored = {
            "format": _FORMAT,
            "tools": [_dumped(tool) for tool in listing.tools],
            "resources": [_dumped(resource) for resource in listing.resources],
            "resourceTemplates": [_dumped(one) for one in listing.resource_templates],
            "prompts": [_dumped(prompt) for prompt in listing.prompts],
            "instructions": listing.instructions,
        }
        temporary = self._directory / f".{random_id()}.tmp"
        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            temporary.touch(mode=0o600)
            temporary.write_text(self._redact(json.dumps(stored)))
            temporary.replace(self._path(fingerprint))
        except OSError as error:
            with contextlib.suppress(OSError):
                temporary.unlink()
            logger.warning("a tool catalogue could not be kept: %s", error.strerror)


def _dumped(model: Any) -> dict[str, Any]:
    return cast(dict[str, Any], model.model_dump(mode="json", by_alias=True, exclude_none=True))


def _listing(stored: dict[str, Any]) -> Listing:
    if stored["format"] != _FORMAT:
        raise ValueError("another format")
    from mcp_types import Prompt, Resource, ResourceTemplate, Tool

    return Listing(
        tools=tuple(Tool.model_validate(one) for one in stored["tools"]),
        resources=tuple(Resource.model_validate(one) for one in stored["resources"]),
        resource_templates=tuple(
            ResourceTemplate.model_validate(one) for one in stored["resourceTemplates"]
        ),
        prompts=tuple(Prompt.model_validate(one) for one in stored["prompts"]),
        instructions=stored["instructions"],
    )
