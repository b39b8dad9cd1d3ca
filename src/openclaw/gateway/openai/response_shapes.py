"""The objects that `/v1/responses` answers with, as clients of OpenAI's API expect them: whole."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from openclaw.agent.port import CallItem
from openclaw.agent.transcript import waiting_calls
from openclaw.gateway.api.openapi import Json
from openclaw.gateway.openai import requests
from openclaw.sessions.records import Entry, EntryKind

_ITEM_ID = re.compile(r"(msg|fc)_([0-9A-Za-z-]+)_([0-9a-f]{16})(?:_(\d+))?")


def message_id(session: str, turn: str, number: int = 0) -> str:
    return f"msg_{session}_{turn}_{number}" if number else f"msg_{session}_{turn}"


def place_of_item(id: str) -> tuple[str, str] | None:
    """The session and the turn in whose response an item was; None for an id that is not ours."""
    parts = _ITEM_ID.fullmatch(id)
    return (parts[2], parts[3]) if parts else None


def referenced_item(id: str, entries: Sequence[Entry], session: str) -> Json | None:
    """The item with this id among the entries of its turn, as input."""
    parts = _ITEM_ID.fullmatch(id)
    if parts is None:
        return None
    if parts[1] == "msg":
        return message(id, text_of_turn(entries), "completed")
    calls = function_calls(parts[3], session, waiting_calls(entries).values())
    return next((call for call in calls if call["id"] == id), None)


def text_of_turn(entries: Iterable[Entry]) -> str:
    said = [e.text for e in entries if e.kind is EntryKind.ASSISTANT_MESSAGE and e.text]
    return "\n\n".join(said)


def response_body(
    name: str, created: int, status: str, asked: Json, completed: int | None = None
) -> Json:
    """A response without its output; `asked` are the known fields of the request."""
    text = _of(asked.get("text"))
    reasoning = _of(asked.get("reasoning"))
    return {
        "id": name,
        "object": "response",
        "created_at": created,
        "completed_at": completed,
        "status": status,
        "model": asked.get("model"),
        "error": None,
        "incomplete_details": None,
        "instructions": asked.get("instructions"),
        "metadata": asked.get("metadata") or {},
        "output": [],
        "parallel_tool_calls": False,
        "previous_response_id": asked.get("previous_response_id"),
        "tool_choice": asked.get("tool_choice") or "auto",
        "tools": [_tool(tool) for tool in cast("list[Json]", asked.get("tools") or [])],
        "usage": None,
        "background": False,
        "frequency_penalty": 0.0,
        "max_output_tokens": asked.get("max_output_tokens"),
        "max_tool_calls": None,
        "presence_penalty": 0.0,
        "prompt_cache_key": asked.get("prompt_cache_key"),
        "reasoning": {"effort": reasoning.get("effort"), "summary": reasoning.get("summary")},
        "safety_identifier": asked.get("safety_identifier"),
        "service_tier": "default",
        "store": True,  # the agent's sessions are kept, whatever was asked
        "temperature": _or(asked.get("temperature"), 1.0),
        "text": {**text, "format": _format(_of(text.get("format")))},
        "top_logprobs": 0,
        "top_p": _or(asked.get("top_p"), 1.0),
        "truncation": "disabled",
        "user": asked.get("user"),
    }


def _of(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}


def _or(value: Any, default: float) -> float:
    return default if value is None else value


def _tool(tool: Json) -> Json:
    return {"description": None, "parameters": None, "strict": False, **tool}


def _format(asked: Mapping[str, Any]) -> Json:
    if asked.get("type") != "json_schema":
        return {"type": asked.get("type") or "text"}
    return {"name": None, "description": None, "schema": None, "strict": False, **asked}


def message(name: str, text: str, status: str) -> Json:
    return {
        "id": name,
        "type": "message",
        "role": "assistant",
        "status": status,
        "content": [] if status == "in_progress" else [part(text)],
    }


def part(text: str) -> Json:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def function_calls(turn: str, session: str, calls: Iterable[CallItem]) -> list[Json]:
    return [
        {
            "id": f"fc_{session}_{turn}_{at}",
            "type": "function_call",
            "status": "completed",
            "call_id": requests.call_id(session, call.id),
            "name": call.name,
            "arguments": call.arguments,
        }
        for at, call in enumerate(calls)
    ]
