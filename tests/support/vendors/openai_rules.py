"""What OpenAI refuses in function definitions, for chat completions and for responses."""

import re
from collections.abc import Callable
from typing import Any

from tests.support.vendors import rules
from tests.support.vendors.rules import Json, refuse_openai

CHAT_DESCRIPTION = 1024
_AT_TOP = ("oneOf", "anyOf", "allOf", "enum", "not")
_MODEL = re.compile(
    r"(gpt-(3\.5-turbo|4|4o|4\.1|4\.5|5|5\.\d)(-(mini|nano|pro|turbo|preview|codex|max|chat-latest|sol|"
    r"audio|search|\d{4}-\d\d-\d\d))*|o[134](-(mini|pro|preview|deep-research|\d{4}-\d\d-\d\d))*"
    r"|computer-use-preview|scripted[\w-]*)"
)


def check_model(model: str, *, responses: bool) -> None:
    if _MODEL.fullmatch(model) is None:
        if responses:
            refuse_openai(f"The requested model '{model}' does not exist.", "model_not_found")
        raise rules.Refused(
            f"The model `{model}` does not exist or you do not have access to it.",
            "model_not_found",
            404,
        )


def is_reasoning(model: str) -> bool:
    return re.match(r"o\d|gpt-5(?!.*chat)", model) is not None


def check_name(name: object, where: str) -> None:
    if not isinstance(name, str) or not name:
        refuse_openai(f"Invalid '{where}': empty string.", "empty_string")
    if len(name) > 64:
        refuse_openai(
            f"Invalid '{where}': string too long. Expected a string with maximum length 64, but got a "
            f"string with length {len(name)} instead.",
            "string_above_max_length",
        )
    if rules.NAME.fullmatch(name) is None:
        refuse_openai(
            f"Invalid '{where}': string does not match pattern. Expected a string that matches the "
            "pattern '^[a-zA-Z0-9_-]+$'."
        )


def check_id(name: object, where: str, most: int) -> None:
    if not isinstance(name, str) or not name:
        refuse_openai(f"Invalid '{where}': empty string.", "empty_string")
    if len(name) > most:
        refuse_openai(
            f"Invalid '{where}': string too long. Expected a string with maximum length {most}, but "
            f"got a string with length {len(name)} instead.",
            "string_above_max_length",
        )


def check_function(function: Json, where: str, most_description: int | None) -> None:
    name = function.get("name")
    check_name(name, f"{where}.name")
    description = function.get("description") or ""
    if most_description is not None and len(description) > most_description:
        refuse_openai(
            f"Invalid '{where}.description': string too long. Expected a string with maximum length "
            f"{most_description}, but got a string with length {len(description)} instead.",
            "string_above_max_length",
        )
    parameters = function.get("parameters")
    if parameters is not None:
        _check_schema(str(name), parameters)


def _check_schema(name: str, root: object) -> None:
    def bad(context: str, why: str) -> None:
        refuse_openai(
            f"Invalid schema for function '{name}': In context={context or '()'}, {why}",
            "invalid_function_parameters",
        )

    top = rules.mapped(root)
    if top.get("type") != "object":
        refuse_openai(
            f"Invalid schema for function '{name}': schema must be a JSON Schema of 'type: \"object\"', "
            f"got 'type: \"{top.get('type')}\"'.",
            "invalid_function_parameters",
        )
    if any(keyword in top for keyword in _AT_TOP):
        refuse_openai(
            f"Invalid schema for function '{name}': schema must have type 'object' and not have "
            "'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level.",
            "invalid_function_parameters",
        )
    for path, schema in rules.schemas_in(root):
        _check_level(path, schema, root, bad)


def _check_level(path: str, schema: Any, root: object, bad: Callable[[str, str], None]) -> None:
    if type(schema) not in (dict, bool):
        bad(path, f"{schema!r} is not of type 'object', 'boolean'.")
    inside = rules.mapped(schema)
    kinds = rules.types_of(inside)
    if "array" in kinds and not isinstance(inside.get("items"), dict):
        bad(path, "array schema missing items.")
    if "object" in kinds and "properties" not in inside:
        bad(path, "object schema missing properties.")
    known = {"string", "number", "integer", "boolean", "object", "array", "null"}
    if "type" in inside and (not kinds or set(kinds) - known):
        bad(path, f"{inside['type']!r} is not valid under any of the given schemas.")
    if not isinstance(inside.get("required", []), list):
        bad(path, f"{inside['required']!r} is not of type 'array'.")
    reference = inside.get("$ref")
    if isinstance(reference, str) and not rules.resolves(root, reference):
        bad(
            path,
            f"reference can only point to definitions defined at the top level: {reference}",
        )
    if inside.get("enum") == []:
        bad(path, "[] should be non-empty.")


def check_tools(
    tools: list[Json], choice: object, where: str, most_description: int | None
) -> None:
    if len(tools) > rules.MOST_TOOLS:
        refuse_openai(
            f"Invalid 'tools': array too long. Expected an array with maximum length 128, but got an "
            f"array with length {len(tools)} instead.",
            "array_above_max_length",
        )
    functions = [one.get("function", one) for one in tools if one.get("type") == "function"]
    for number, tool in enumerate(tools):
        if tool.get("type") == "function":
            function = tool.get("function", tool)
            check_function(function, where.format(number), most_description)
    names = [one["name"] for one in functions]
    if again := rules.duplicates(names):
        refuse_openai(f"Duplicate function name: {again[0]}", "invalid_value")
    if choice is not None and choice != "none" and not tools:
        refuse_openai("'tool_choice' is only allowed when 'tools' are specified.")
    forced = rules.mapped(choice)
    if forced.get("type") == "function":
        name = forced.get("function", forced).get("name")
        if name not in names:
            refuse_openai(
                f"Tool choice 'function' with name '{name}' not found in 'tools' parameter."
            )


def check_number(body: Json, name: str, least: float, most: float) -> None:
    value = body.get(name)
    if value is None:
        return
    if value < least:
        refuse_openai(
            f"Invalid '{name}': decimal below minimum value. Expected a value >= {least}, but got "
            f"{value} instead.",
            "decimal_below_min_value",
        )
    if value > most:
        refuse_openai(
            f"Invalid '{name}': decimal above maximum value. Expected a value <= {most}, but got "
            f"{value} instead.",
            "decimal_above_max_value",
        )


def check_image(url: str, where: str) -> None:
    if not url.startswith("data:"):
        if not url.startswith(("http://", "https://")):
            refuse_openai(f"Invalid '{where}'. Expected a valid URL.", "invalid_image_url")
        return
    head, _, data = url.removeprefix("data:").partition(",")
    kind, content = head.partition(";")[0], rules.decoded(data)
    if kind not in rules.IMAGE_TYPES or not content or rules.image_type(content) is None:
        refuse_openai(
            "You uploaded an unsupported image. Please make sure your image has of one the following "
            "formats: ['png', 'jpeg', 'gif', 'webp'].",
            "invalid_image_format",
        )
