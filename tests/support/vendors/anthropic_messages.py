"""What Anthropic's messages refuse."""

import re
from typing import Any

from tests.support.vendors import rules
from tests.support.vendors.rules import Conversation, Json, refuse_anthropic

_MODEL = re.compile(
    r"(claude-3(-\d)?-(opus|sonnet|haiku)|claude-(opus|sonnet|haiku|fable)-\d(-\d)?)(-latest|-\d{8})?"
    r"|scripted[\w-]*"
)
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_ID = re.compile(r"[a-zA-Z0-9_-]+")
_KEY = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
_EFFORTS = ("low", "medium", "high", "max", "xhigh")
_EXTRA_HIGH = re.compile(r"claude-(opus-(4-[78]|5)|fable|sonnet-5|haiku-5)|scripted-adaptive")
_ONLY_ADAPTIVE = re.compile(r"claude-(opus-(4-[78]|5)|haiku-5)|scripted-adaptive")
_ADAPTIVE = re.compile(r"claude-(opus-(4-[678]|5)|sonnet-(4-6|5)|haiku-5|fable)|scripted-adaptive")
_MOST_IMAGES = 100
_IMAGE_BYTES = 5 * 1024 * 1024
# Keywords that mean something else, or nothing, in draft 2020-12.
_OLD = {"exclusiveMinimum": bool, "exclusiveMaximum": bool, "required": bool, "items": list}
_AT_TOP = ("oneOf", "allOf", "anyOf")


def check(given: Conversation) -> None:
    body = given.body
    if _MODEL.fullmatch(given.model) is None:
        refuse_anthropic(f"model: {given.model}", "not_found_error", 404)
    if not isinstance(body.get("max_tokens"), int) or body["max_tokens"] < 1:
        refuse_anthropic("max_tokens: Field required")
    for number, tool in enumerate(rules.listed(body.get("tools"))):
        if "input_schema" in tool:
            _check_tool(tool, f"tools.{number}.custom")
    names = [tool["name"] for tool in rules.listed(body.get("tools")) if "name" in tool]
    if rules.duplicates(names):
        refuse_anthropic("tools: Tool names must be unique.")
    _check_thinking(body, given.model)
    _check_cache(body)
    messages = [{**m, "content": _blocks(m)} for m in rules.listed(body.get("messages"))]
    if not messages:
        refuse_anthropic("messages: at least one message is required")
    messages = rules.merged(messages, "content")
    _check_messages(messages, given)
    uses = any(b.get("type") == "tool_use" for m in messages for b in _blocks(m))
    if uses and not body.get("tools"):
        refuse_anthropic(
            "Requests which include `tool_use` or `tool_result` blocks must define tools"
        )
    if rules.mapped(body.get("thinking")).get("type") == "enabled":
        _check_thoughts_of_last_turn(messages)


def _blocks(message: Json) -> list[Json]:
    content = message.get("content")
    return (
        [{"type": "text", "text": content}] if isinstance(content, str) else rules.listed(content)
    )


def _check_tool(tool: Json, where: str) -> None:
    if _NAME.fullmatch(str(tool.get("name"))) is None:
        refuse_anthropic(f"{where}.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'")
    root = tool["input_schema"]
    top = rules.mapped(root)
    if top.get("type") != "object":
        refuse_anthropic(f"{where}.input_schema.type: Input should be 'object'")
    if any(keyword in top for keyword in _AT_TOP):
        refuse_anthropic(
            f"{where}.input_schema: input_schema does not support oneOf, allOf, or anyOf at the top level"
        )
    invalid = (
        f"{where}.input_schema: JSON schema is invalid. It must match JSON Schema draft 2020-12 "
    )
    invalid += "(https://json-schema.org/draft/2020-12). Learn more about tool use at "
    invalid += "https://docs.anthropic.com/en/docs/tool-use."
    for _, schema in rules.schemas_in(root):
        if type(schema) not in (dict, bool):
            refuse_anthropic(invalid)
        inside = rules.mapped(schema)
        for key in rules.mapped(inside.get("properties")):
            if _KEY.fullmatch(key) is None:
                refuse_anthropic(
                    f"{where}.input_schema.properties: Property keys should match pattern "
                    "'^[a-zA-Z0-9_.-]{1,64}$'"
                )
        if _is_invalid(inside, root):
            refuse_anthropic(invalid)


def _is_invalid(schema: Json, root: object) -> bool:
    known = {"string", "number", "integer", "boolean", "object", "array", "null"}
    kinds = rules.types_of(schema)
    reference = schema.get("$ref")
    dialect = schema.get("$schema")
    return (
        any(isinstance(schema.get(name), kind) for name, kind in _OLD.items())
        or ("type" in schema and (not kinds or bool(set(kinds) - known)))
        or ("required" in schema and not isinstance(schema["required"], list))
        or ("enum" in schema and not isinstance(schema["enum"], list))
        or any(name in schema and not rules.listed(schema[name]) for name in ("anyOf", "oneOf"))
        or ("properties" in schema and not isinstance(schema["properties"], dict))
        or (isinstance(reference, str) and not rules.resolves(root, reference))
        or (isinstance(dialect, str) and "2020-12" not in dialect)
    )


def _check_thinking(body: Json, model: str) -> None:
    effort = rules.mapped(body.get("output_config")).get("effort")
    if effort is not None:
        allowed = _EFFORTS if _EXTRA_HIGH.match(model) else _EFFORTS[:-1]
        if effort not in allowed:
            refuse_anthropic(
                f"This model does not support effort level '{effort}'. Supported levels: "
                f"{', '.join(sorted(allowed))}."
            )
    thinking = rules.mapped(body.get("thinking"))
    kind = thinking.get("type")
    if kind == "adaptive" and not _ADAPTIVE.match(model):
        refuse_anthropic("adaptive thinking is not supported on this model")
    if kind not in ("enabled", "adaptive"):
        return
    if kind == "enabled":
        _check_budget(thinking.get("budget_tokens", 0), body["max_tokens"], model)
    if body.get("temperature", 1) != 1:
        refuse_anthropic("`temperature` may only be set to 1 when thinking is enabled.")
    if rules.mapped(body.get("tool_choice")).get("type") in ("any", "tool") and kind == "enabled":
        refuse_anthropic("Thinking may not be enabled when tool_choice forces tool use.")


def _check_budget(budget: int, max_tokens: int, model: str) -> None:
    if _ONLY_ADAPTIVE.match(model):
        refuse_anthropic('"thinking.type.enabled" is not supported for this model.')
    if budget < 1024:
        refuse_anthropic(
            "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024"
        )
    if budget >= max_tokens:
        refuse_anthropic(
            "`max_tokens` must be greater than `thinking.budget_tokens`. Please consult our "
            "documentation at https://docs.anthropic.com/en/docs/build-with-claude/extended-thinking"
        )


def _check_cache(body: Json) -> None:
    def count(value: Any) -> int:
        inner = rules.mapped(value)
        below = [*inner.values(), *rules.listed(value)]
        return ("cache_control" in inner) + sum(map(count, below))

    marked = count({name: body.get(name) for name in ("tools", "system", "messages")})
    if marked + ("cache_control" in body) > 4:
        refuse_anthropic(
            f"A maximum of 4 blocks with cache_control may be provided. Found {marked}."
        )


def _check_messages(messages: list[Json], given: Conversation) -> None:
    open_calls: list[str] = []
    images = 0
    for number, message in enumerate(messages):
        where = f"messages.{number}"
        blocks, role = _blocks(message), str(message.get("role"))
        _check_role(role, blocks, where, is_last=number == len(messages) - 1)
        if role != "system":
            _check_results(blocks, where, open_calls)
            open_calls = []
        for at, block in enumerate(blocks):
            images += _check_block(block, f"{where}.content.{at}", role, given)
        open_calls = [str(b["id"]) for b in blocks if b.get("type") == "tool_use"] or open_calls
        if rules.duplicates(open_calls):
            refuse_anthropic(f"{where}: `tool_use` ids must be unique")
    if open_calls:
        _refuse_unanswered(f"messages.{len(messages) - 1}", open_calls)
    if images > _MOST_IMAGES:
        refuse_anthropic(f"Too many images: {images} > {_MOST_IMAGES}")
    final = _blocks(messages[-1])[-1:]
    said = str(final[0].get("text", "")) if final else ""
    if messages[-1].get("role") == "assistant" and said != said.rstrip():
        refuse_anthropic("messages: final assistant content cannot end with trailing whitespace")


def _check_role(role: str, blocks: list[Json], where: str, *, is_last: bool) -> None:
    if role not in ("user", "assistant", "system"):
        refuse_anthropic(f"{where}.role: Input should be 'user' or 'assistant'")
    if not blocks and not (is_last and role == "assistant"):
        refuse_anthropic(f"{where}: all messages must have non-empty content")


def _refuse_unanswered(where: str, calls: list[str]) -> None:
    refuse_anthropic(
        f"{where}: `tool_use` ids were found without `tool_result` blocks immediately after: "
        f"{', '.join(calls)}. Each `tool_use` block must have a corresponding `tool_result` block in "
        "the next message."
    )


def _check_results(blocks: list[Json], where: str, open_calls: list[str]) -> None:
    kinds = [block.get("type") for block in blocks]
    results = [str(b["tool_use_id"]) for b in blocks if b.get("type") == "tool_result"]
    for name in results:
        if name not in open_calls:
            refuse_anthropic(
                f"{where}: unexpected `tool_use_id` found in `tool_result` blocks: {name}. Each "
                "`tool_result` block must have a corresponding `tool_use` block in the previous message."
            )
    if rules.duplicates(results):
        refuse_anthropic(f"{where}: each tool_use must have a single result.")
    missing = [name for name in open_calls if name not in results]
    if missing or kinds[: len(results)] != ["tool_result"] * len(results):
        _refuse_unanswered(where, missing or open_calls)


def _check_block(block: Json, where: str, role: str, given: Conversation) -> int:
    """How many images are in it."""
    kind = block.get("type")
    if kind == "text":
        _check_text(block, where)
    elif kind == "tool_use":
        _check_use(block, where, role)
    elif kind == "tool_result":
        parts = rules.listed(block.get("content"))
        return sum(_check_block(p, f"{where}.tool_result", role, given) for p in parts)
    elif kind in ("thinking", "redacted_thinking"):
        signature = str(block.get("signature") or block.get("data") or "")
        if not signature or not given.was_issued(signature):
            refuse_anthropic(f"{where}: Invalid `signature` in `{kind}` block")
    elif kind == "image":
        _check_image(rules.mapped(block.get("source")), where)
        return 1
    return 0


def _check_use(block: Json, where: str, role: str) -> None:
    if role != "assistant":
        refuse_anthropic(f"{where}: `tool_use` blocks can only be in `assistant` messages")
    if _ID.fullmatch(str(block.get("id"))) is None:
        refuse_anthropic(f"{where}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'")
    if re.fullmatch(r"[a-zA-Z0-9_-]{1,200}", str(block.get("name"))) is None:
        refuse_anthropic(
            f"{where}.tool_use.name: String should match pattern '^[a-zA-Z0-9_-]{{1,200}}$'"
        )
    if not isinstance(block.get("input"), dict):
        refuse_anthropic(f"{where}.tool_use.input: Input should be a valid dictionary")


def _check_text(block: Json, where: str) -> None:
    text = block.get("text")
    if not text:
        refuse_anthropic(f"{where}: text content blocks must be non-empty")
    if not str(text).strip():
        refuse_anthropic(f"{where}: text content blocks must contain non-whitespace text")


def _check_image(source: Json, where: str) -> None:
    if source.get("type") != "base64":
        return
    data = rules.decoded(source.get("data"))
    if not data or source.get("media_type") not in rules.IMAGE_TYPES:
        refuse_anthropic("Could not process image")
    kind = rules.image_type(data)
    if kind is None:
        refuse_anthropic("Could not process image")
    if kind != source["media_type"]:
        refuse_anthropic(
            f"{where}.image.source.base64: The image was specified using the {source['media_type']} "
            f"media type, but the image appears to be a {kind} image"
        )
    if len(str(source["data"])) > _IMAGE_BYTES:
        refuse_anthropic(f"{where}.image.source.base64: image exceeds 5 MB maximum")


def _check_thoughts_of_last_turn(messages: list[Json]) -> None:
    """With a budget for thinking, the answers that called tools since the user spoke begin with it."""
    for number in range(len(messages) - 1, -1, -1):
        message = messages[number]
        kinds = [block.get("type") for block in _blocks(message)]
        if message.get("role") == "user" and "tool_result" not in kinds:
            return
        thought = kinds[0] in ("thinking", "redacted_thinking")
        if message.get("role") == "assistant" and not thought:
            refuse_anthropic(
                f"messages.{number}.content.0.type: Expected `thinking` or `redacted_thinking`, but "
                f"found `{kinds[0]}`. When `thinking` is enabled, a final `assistant` message must "
                "start with a thinking block (preceeding the lastmost set of `tool_use` and "
                "`tool_result` blocks)."
            )
