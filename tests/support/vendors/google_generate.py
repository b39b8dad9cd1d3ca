"""What Google's generateContent refuses."""

import base64
import re

from tests.support.vendors import rules
from tests.support.vendors.rules import Conversation, Json, refuse_google

_MODEL = re.compile(
    r"gemini-(1\.5|2\.0|2\.5|3|3\.\d)-(flash|pro)"
    r"(-(lite|image|preview|exp|latest|thinking|\d\d-\d\d|\d{3}))*|scripted[\w-]*"
)
_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}")
_MOST_DECLARATIONS = 512
_KINDS = frozenset(["text", "functionCall", "functionResponse", "inlineData", "fileData", "executableCode", "codeExecutionResult", "toolCall", "toolResponse", "videoMetadata"])  # fmt: skip
# What `parameters` has of JSON schema; `parametersJsonSchema` has more.
_FIELDS = frozenset(
    [
        "type",
        "format",
        "title",
        "description",
        "nullable",
        "enum",
        "maxItems",
        "minItems",
        "properties",
        "required",
        "minProperties",
        "maxProperties",
        "minLength",
        "maxLength",
        "pattern",
        "example",
        "anyOf",
        "propertyOrdering",
        "default",
        "items",
        "minimum",
        "maximum",
        "$defs",
        "$ref",
        "additionalProperties",
        "prefixItems",
        "oneOf",
        "$id",
        "$anchor",
        "$schema",
        "const",
        "not",
        "uniqueItems",
        "exclusiveMinimum",
        "exclusiveMaximum",
    ]
)
_SKIPPED = base64.b64encode(b"skip_thought_signature_validator").decode()
_SIGNING = re.compile(r"gemini-3|scripted")


def check(given: Conversation) -> None:
    body = given.body
    if _MODEL.fullmatch(given.model) is None:
        refuse_google(
            f"models/{given.model} is not found for API version v1beta, or is not supported for "
            "generateContent. Call ModelService.ListModels to see the list of available models and "
            "their supported methods.",
            "NOT_FOUND",
            404,
        )
    _check_tools(body)
    contents = rules.listed(body.get("contents"))
    if not contents:
        refuse_google("* GenerateContentRequest.contents: contents is not specified")
    for number, content in enumerate(contents):
        _check_content(content, number, given)
    contents = rules.merged(contents, "parts")
    _check_order(contents)
    if _SIGNING.match(given.model):
        _check_signatures(contents)


def _check_tools(body: Json) -> None:
    names: list[str] = []
    for group in rules.listed(body.get("tools")):
        for declared in rules.listed(group.get("functionDeclarations")):
            where = f"GenerateContentRequest.tools[0].function_declarations[{len(names)}]"
            names.append(str(declared.get("name")))
            if _NAME.fullmatch(names[-1]) is None:
                refuse_google(
                    f"* {where}.name: Invalid function name. Must start with a letter or an underscore. "
                    "Must be alphameric (a-z, A-Z, 0-9), underscores (_), dots (.), colons (:), or "
                    "dashes (-), with a maximum length of 64."
                )
            for field in ("parameters", "parametersJsonSchema", "parameters_json_schema"):
                if declared.get(field) is not None:
                    fields = _FIELDS if field == "parameters" else None
                    _check_schema(declared[field], f"{where}.{field}", fields)
    if len(names) > _MOST_DECLARATIONS:
        refuse_google(f"* at most {_MOST_DECLARATIONS} function declarations are supported")
    if again := rules.duplicates(names):
        refuse_google(f"Duplicate function declaration found: {again[0]}")


def _check_schema(root: object, where: str, fields: frozenset[str] | None) -> None:
    for path, schema in rules.schemas_in(root):
        inside = rules.mapped(schema)
        at = f"{where}{path.replace('/', '.')}"
        for key in inside:
            if fields is not None and key not in fields:
                refuse_google(
                    f"Invalid JSON payload received. Unknown name \"{key}\" at '{at}': Cannot find field."
                )
        kinds = [kind.lower() for kind in rules.types_of(inside)]
        if kinds == ["array"] and "items" not in inside and "prefixItems" not in inside:
            refuse_google(f"* {at}.items: missing field.")
        required = rules.listed(inside.get("required"))
        properties = rules.mapped(inside.get("properties"))
        if properties and any(name not in properties for name in required):
            refuse_google(f"* {at}.required[0]: property is not defined")
        enum = inside.get("enum")
        if enum is not None and kinds == ["string"] and "" in rules.listed(enum):
            refuse_google(f"* {at}.enum[0]: cannot be empty")
        reference = inside.get("$ref")
        if isinstance(reference, str) and not rules.resolves(root, reference):
            refuse_google(f"* {at}: reference to undefined schema {reference}")


def _check_content(content: Json, number: int, given: Conversation) -> None:
    where = f"GenerateContentRequest.contents[{number}]"
    if content.get("role", "user") not in ("user", "model"):
        refuse_google("Please use a valid role: user, model.")
    parts = rules.listed(content.get("parts"))
    if not parts:
        refuse_google(f"* {where}.parts: contents.parts must not be empty.")
    for at, part in enumerate(parts):
        _check_part(part, f"{where}.parts[{at}]", given)


def _check_part(part: Json, where: str, given: Conversation) -> None:
    if not _KINDS & part.keys():
        refuse_google(
            f"* {where}.data: required oneof field 'data' must have one initialized field"
        )
    for field in ("functionCall", "functionResponse"):
        name = rules.mapped(part.get(field)).get("name")
        if field in part and _NAME.fullmatch(str(name)) is None:
            refuse_google(
                f"* {where}.{field}.name: Invalid function name. Must start with a "
                "letter or an underscore."
            )
    if not isinstance(rules.mapped(part.get("functionCall")).get("args", {}), dict):
        refuse_google(f"Invalid value at '{where}.function_call.args' (Struct)")
    signature = part.get("thoughtSignature")
    if signature is not None and signature != _SKIPPED and not given.was_issued(str(signature)):
        refuse_google("Corrupted thought signature.")
    data = rules.mapped(part.get("inlineData"))
    if str(data.get("mimeType")).startswith("image/") and data["mimeType"] != "image/heic":
        content = rules.decoded(data.get("data"))
        if not content or rules.image_type(content) is None:
            refuse_google(
                "Unable to process input image. Please retry or report in "
                "https://developers.generativeai.google/guide/troubleshooting"
            )


def _count(content: Json, field: str) -> int:
    return sum(field in part for part in rules.listed(content.get("parts")))


def _check_order(contents: list[Json]) -> None:
    before: Json = {}
    for content in contents:
        calls, results = _count(before, "functionCall"), _count(content, "functionResponse")
        if before.get("role") == "model" and calls and content.get("role") != "model":
            if results != calls:
                refuse_google(
                    "Please ensure that the number of function response parts is equal to the number of "
                    "function call parts of the function call turn."
                )
        elif results and not _count(before, "functionResponse"):
            refuse_google(
                "Please ensure that function response turn comes immediately after a function call turn."
            )
        if _count(content, "functionCall") and before.get("role", "model") == "model":
            refuse_google(
                "Please ensure that function call turn comes immediately after a user turn or after a "
                "function response turn."
            )
        before = content
    if before.get("role") == "model" and _count(before, "functionCall"):
        refuse_google(
            "Please ensure that the number of function response parts is equal to the number of "
            "function call parts of the function call turn."
        )


def _check_signatures(contents: list[Json]) -> None:
    """Since the user last spoke, the first call of each step has its signature."""
    for number in range(len(contents) - 1, -1, -1):
        content = contents[number]
        if content.get("role") == "user" and not _count(content, "functionResponse"):
            return
        calls = [part for part in rules.listed(content.get("parts")) if "functionCall" in part]
        if content.get("role") == "model" and calls and not calls[0].get("thoughtSignature"):
            name = calls[0]["functionCall"].get("name")
            refuse_google(
                f"Function call is missing a thought_signature in functionCall parts. This is required "
                f"for tools to work correctly. Function call `default_api:{name}`, position {number}."
            )
