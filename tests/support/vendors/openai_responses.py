"""What OpenAI's responses refuse."""

import re

from tests.support.vendors import openai_rules, rules
from tests.support.vendors.openai_rules import check_id, check_name
from tests.support.vendors.rules import Conversation, Json, refuse_openai

_ITEM_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_PREFIXES = {"function_call": "fc", "reasoning": "rs", "message": "msg"}
_PARTS = {
    "user": ("input_text", "input_image", "input_file", "input_audio"),
    "system": ("input_text", "input_image", "input_file"),
    "developer": ("input_text", "input_image", "input_file"),
    "assistant": ("output_text", "refusal"),
}
_FILES = re.compile(r"data:(application/(?!octet-stream)[\w.+-]+|text/[\w.+-]+)[;,]")


def check(given: Conversation) -> None:
    body = given.body
    openai_rules.check_model(given.model, responses=True)
    tools = rules.listed(body.get("tools"))
    openai_rules.check_tools(tools, None, "tools[{}]", None)
    openai_rules.check_number(body, "temperature", 0, 2)
    openai_rules.check_number(body, "top_p", 0, 1)
    openai_rules.check_number(body, "max_output_tokens", 16, 10**9)
    if isinstance(body.get("input"), str):
        return
    items = rules.listed(body.get("input"))
    if not items and not body.get("previous_response_id") and not body.get("conversation"):
        refuse_openai('One of "input" or "previous_response_id" must be provided.')
    for number, item in enumerate(items):
        _check_item(item, f"input[{number}]", given)
    _check_pairs(items, stored=bool(body.get("previous_response_id") or body.get("conversation")))
    _check_reasoning(items)


def _check_item(item: Json, where: str, given: Conversation) -> None:
    kind = item.get("type") or "message"
    if item.get("id") is not None and kind in _PREFIXES:
        _check_item_id(str(item["id"]), kind, where, given)
    if kind == "message":
        _check_message(item, where)
    elif kind == "function_call":
        check_id(item.get("call_id"), f"{where}.call_id", 64)
        check_name(item.get("name"), f"{where}.name")
        if not rules.is_object(item.get("arguments")):
            refuse_openai(f"Invalid '{where}.arguments': not a JSON object.")
    elif kind == "function_call_output":
        check_id(item.get("call_id"), f"{where}.call_id", 64)
        for number, part in enumerate(rules.listed(item.get("output"))):
            _check_part(part, f"{where}.output[{number}]", _PARTS["user"])
    elif kind == "reasoning":
        secret = item.get("encrypted_content")
        if isinstance(secret, str) and not given.was_issued(secret):
            refuse_openai(
                f"The encrypted content {secret[:4]}... could not be verified. Reason: Encrypted "
                "content organization_id did not match the target organization.",
                "invalid_encrypted_content",
            )


def _check_item_id(name: str, kind: str, where: str, given: Conversation) -> None:
    if _ITEM_ID.fullmatch(name) is None:
        refuse_openai(
            f"Invalid '{where}.id': '{name}'. Expected an ID that contains letters, numbers, "
            "underscores, or dashes, but this value contained additional characters."
        )
    if not name.startswith(_PREFIXES[kind]):
        refuse_openai(
            f"Invalid '{where}.id': '{name}'. Expected an ID that begins with '{_PREFIXES[kind]}'."
        )
    if not given.was_issued(name):
        refuse_openai(f"Item with id '{name}' not found.", "invalid_request_error")


def _check_message(item: Json, where: str) -> None:
    role, content = item.get("role"), item.get("content")
    if role not in _PARTS:
        refuse_openai(f"Invalid value: '{role}'. Supported values are: {[*_PARTS]}.")
    if content is None:
        refuse_openai(
            f"Missing required parameter: '{where}.content'.", "missing_required_parameter"
        )
    for number, part in enumerate(rules.listed(content)):
        _check_part(part, f"{where}.content[{number}]", _PARTS[role])


def _check_part(part: Json, where: str, allowed: tuple[str, ...]) -> None:
    kind = part.get("type")
    if kind not in allowed:
        refuse_openai(f"Invalid value: '{kind}'. Supported values are: {', '.join(allowed)}.")
    if kind == "input_image" and part.get("image_url") is not None:
        openai_rules.check_image(str(part["image_url"]), where)
    if kind == "input_file":
        data, url = part.get("file_data"), part.get("file_url")
        if isinstance(data, str) and _FILES.match(data) is None:
            refuse_openai(
                f"Invalid file data: '{where}.file_data'. Expected a base64-encoded data URL with a "
                "valid file MIME type."
            )
        if isinstance(url, str) and url.endswith((".mp3", ".wav", ".mp4")):
            refuse_openai(
                "The file type you uploaded is not supported. Please try again with a pdf",
                "unsupported_file",
            )


def _check_pairs(items: list[Json], *, stored: bool) -> None:
    calls = [i["call_id"] for i in items if i.get("type") == "function_call"]
    searches = [i.get("call_id") for i in items if i.get("type") == "tool_search_call"]
    outputs = [i["call_id"] for i in items if i.get("type") == "function_call_output"]
    for call in calls:
        if call not in outputs:
            refuse_openai(
                f"No tool output found for function call {call}.", "invalid_request_error"
            )
    for output in outputs:
        if output not in (*calls, *searches) and not stored:
            refuse_openai(
                f"No tool call found for function call output with call_id {output}.",
                "invalid_request_error",
            )
    if again := rules.duplicates(calls):
        refuse_openai(f"Duplicate function call with call_id {again[0]}.", "invalid_request_error")
    ids = [str(i["id"]) for i in items if i.get("id")]
    if again := rules.duplicates(ids):
        refuse_openai(
            f"Duplicate item found with id {again[0]}. Remove duplicate items from your input and try "
            "again.",
            "invalid_request_error",
        )


def _check_reasoning(items: list[Json]) -> None:
    """A thought is followed by what was thought up, with its id."""
    for number, item in enumerate(items):
        if item.get("type") != "reasoning":
            continue
        following: Json = items[number + 1] if number + 1 < len(items) else {}
        kind = following.get("type") or "message"
        is_output = kind == "reasoning" or (bool(following.get("id")) and kind != "reasoning")
        if not is_output or following.get("role") == "user":
            refuse_openai(
                f"Item '{item.get('id')}' of type 'reasoning' was provided without its required "
                "following item.",
                "invalid_request_error",
            )
