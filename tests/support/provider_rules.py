"""The rules that model providers enforce on the conversations they are sent."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from openclaw.testing.scripted_model import Request

Json = Mapping[str, Any]


def violations(request: Request) -> list[str]:
    """What a provider would refuse in this request; empty if nothing."""
    return _CHECKS[request.api](request.body)


def _chat(body: Json) -> list[str]:
    found: list[str] = []
    open_calls: list[str] = []
    seen: set[str] = set()
    for message in body["messages"]:
        role = message["role"]
        if role == "tool":
            if message["tool_call_id"] not in open_calls:
                found.append("a result without its call")
            else:
                open_calls.remove(message["tool_call_id"])
            continue
        if open_calls:
            found.append("a call without its result")
        calls: list[Any] = message.get("tool_calls") or []
        if role == "assistant" and not message.get("content") and not calls:
            found.append("an empty answer")
        if role == "user" and not message.get("content"):
            found.append("an empty message")
        open_calls = [call["id"] for call in calls]
        found += ["an id used twice" for name in open_calls if name in seen]
        found += _bad_arguments(call["function"]["arguments"] for call in calls)
        seen.update(open_calls)
    if open_calls or body["messages"][-1]["role"] == "assistant":
        found.append("it ends with an answer")
    return found


def _responses(body: Json) -> list[str]:
    items: Sequence[Json] = body["input"]
    calls = [item for item in items if item.get("type") == "function_call"]
    outputs = [item["call_id"] for item in items if item.get("type") == "function_call_output"]
    names = [call["call_id"] for call in calls]
    found = _bad_arguments(call["arguments"] for call in calls)
    if sorted(names) != sorted(outputs):
        found.append("calls and results do not match")
    if len(set(names)) != len(names):
        found.append("an id used twice")
    if items[-1].get("role") == "assistant" or items[-1].get("type") == "function_call":
        found.append("it ends with an answer")
    return found


def _anthropic(body: Json) -> list[str]:
    found: list[str] = []
    asked: list[str] = []
    expected = "user"
    for message in body["messages"]:
        if message["role"] != expected:
            found.append("roles do not alternate")
        expected = "assistant" if message["role"] == "user" else "user"
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        kinds = [block["type"] for block in blocks]
        results = [b["tool_use_id"] for b in blocks if b["type"] == "tool_result"]
        if sorted(results) != sorted(asked):
            found.append("calls and results do not match")
        if results and kinds[: len(results)] != ["tool_result"] * len(results):
            found.append("results do not come first")
        if not blocks or any(b["type"] == "text" and not b["text"].strip() for b in blocks):
            found.append("an empty text")
        asked = [b["id"] for b in blocks if b["type"] == "tool_use"]
        if any(not isinstance(b["input"], dict) for b in blocks if b["type"] == "tool_use"):
            found.append("arguments that are no object")
    if expected == "user" or asked:
        found.append("it ends with an answer")
    if any("tool_use" in json.dumps(m) for m in body["messages"]) and not body.get("tools"):
        found.append("calls but no tools")
    return found


def _google(body: Json) -> list[str]:
    found: list[str] = []
    expected, calls, results = "user", 0, 0
    for content in body["contents"]:
        # Words may follow results in a message of their own, since they must not share one.
        if content["role"] != expected and not (results and content["role"] == "user"):
            found.append("roles do not alternate")
        expected = "model" if content["role"] == "user" else "user"
        parts = content["parts"]
        if not parts:
            found.append("an empty message")
        results = sum("functionResponse" in part for part in parts)
        if results != calls:
            found.append("calls and results do not match")
        calls = sum("functionCall" in part for part in parts)
    if expected == "user" or calls:
        found.append("it ends with an answer")
    return found


def _bad_arguments(given: Any) -> list[str]:
    return ["arguments that are no object" for one in given if not _is_object(one)]


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


_CHECKS = {"chat": _chat, "responses": _responses, "anthropic": _anthropic, "google": _google}
