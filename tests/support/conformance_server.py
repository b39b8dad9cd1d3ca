"""A server for the conformance suite: the suite's own tools, prompts and resources on our protocol layer.

It is not the product. What it shows is that `ServerConnection` and the ASGI adapter, which the
product uses too, speak every part of the protocol, also those that an order never needs.
"""

import base64
import hashlib
import json
import secrets
import struct
import zlib
from collections.abc import AsyncGenerator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import anyio
import uvicorn
from anyio.abc import TaskGroup

from openclaw.gateway.auth import AllowedHosts
from openclaw.mcp import names
from openclaw.mcp.jsonrpc import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    RESOURCE_NOT_FOUND,
    ErrorData,
    JsonObject,
    RpcError,
)
from openclaw.mcp.request_state import seal, unseal
from openclaw.mcp.server import (
    Acknowledge,
    Call,
    Command,
    ListChanged,
    Offer,
    TaskChanged,
    missing_capability_error,
)
from openclaw.mcp.tasks import CORE_TASKS, EXTENSION_TASKS, Task, TaskStatus, declares_extension
from openclaw.mcp_server.asgi import HttpApp
from openclaw.mcp_server.conversation import Peer

Tool = Callable[[Call, Peer, JsonObject], Awaitable[JsonObject]]
TASKS: JsonObject = {"extensions": {names.TASKS_EXTENSION: {}}}


def _picture() -> str:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    head = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    pixel = zlib.compress(b"\0\xff\0\0")
    parts = (chunk(b"IHDR", head), chunk(b"IDAT", pixel), chunk(b"IEND", b""))
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"".join(parts)).decode()


PNG = _picture()
WAV = base64.b64encode(
    b"RIFF\x24\0\0\0WAVEfmt "
    + struct.pack("<IHHIIHH", 16, 1, 1, 8000, 16000, 2, 16)
    + b"data\0\0\0\0"
).decode()
AUDIO = {"type": "audio", "data": WAV, "mimeType": "audio/wav"}
IMAGE = {"type": "image", "data": PNG, "mimeType": "image/png"}


def text(words: str) -> JsonObject:
    return {"type": "text", "text": words}


def result(*blocks: JsonObject, is_error: bool = False) -> JsonObject:
    return {"content": list(blocks), **({"isError": True} if is_error else {})}


def embedded(uri: str, words: str, mime_type: str = "text/plain") -> JsonObject:
    return {"type": "resource", "resource": {"uri": uri, "mimeType": mime_type, "text": words}}


RESOURCE = embedded("test://embedded-resource", "This is an embedded resource content.")


def form(message: str, required: bool = True, **properties: JsonObject) -> JsonObject:
    schema: JsonObject = {"type": "object", "properties": properties}
    if required:
        schema["required"] = list(properties)
    return {"message": message, "requestedSchema": schema}


STRING: JsonObject = {"type": "string"}
NAME = form("What is your name?", name=STRING)


def elicitation(params: JsonObject) -> JsonObject:
    return {"method": names.ELICIT, "params": params}


def sampling(words: str, most: int) -> JsonObject:
    messages = [{"role": "user", "content": text(words)}]
    return {"method": names.SAMPLING, "params": {"messages": messages, "maxTokens": most}}


LIST_ROOTS: JsonObject = {"method": names.ROOTS, "params": {}}


def input_required(state: str | None = None, /, **requests: JsonObject) -> JsonObject:
    asked: JsonObject = {"resultType": "input_required", "inputRequests": requests}
    return asked if state is None else {**asked, "requestState": state}


def accepted(call: Call, key: str) -> JsonObject | None:
    """The content of a form that the client has answered."""
    answer = call.input_responses.get(key)
    if not isinstance(answer, dict) or answer.get("action") not in ("accept", "decline", "cancel"):  # pyright: ignore[reportUnknownMemberType]
        return None
    return answer.get("content") or {}  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


def _titled(word: str) -> list[JsonObject]:
    numbers = zip(("First", "Second", "Third"), "123", strict=True)
    return [{"const": f"value{number}", "title": f"{order} {word}"} for order, number in numbers]


_OPTIONS = [f"option{number}" for number in "123"]
ENUMS = form(
    "Please choose",
    required=False,
    untitledSingle={"type": "string", "enum": _OPTIONS},
    titledSingle={"type": "string", "oneOf": _titled("Option")},
    legacyEnum={
        "type": "string",
        "enum": ["opt1", "opt2", "opt3"],
        "enumNames": ["Option One", "Option Two", "Option Three"],
    },
    untitledMulti={"type": "array", "items": {"type": "string", "enum": _OPTIONS}},
    titledMulti={"type": "array", "items": {"anyOf": _titled("Choice")}},
)
DEFAULTS = form(
    "Please review the defaults",
    required=False,
    name={"type": "string", "default": "John Doe"},
    age={"type": "integer", "default": 30},
    score={"type": "number", "default": 95.5},
    status={"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
    verified={"type": "boolean", "default": True},
)


# ---- tools


async def simple_text(call: Call, peer: Peer, arguments: JsonObject) -> JsonObject:
    return result(text("This is a simple text response for testing."))


async def image_content(call: Call, peer: Peer, arguments: JsonObject) -> JsonObject:
    return result(IMAGE)


async def audio_content(call: Call, peer: Peer, arguments: JsonObject) -> JsonObject:
    return result(AUDIO)


async def embedded_resource(call: Call, peer: Peer, arguments: JsonObject) -> JsonObject:
    return result(RESOURCE)


async def multiple_content_types(call: Call, peer: Peer, arguments: JsonObject) -> JsonObject:
    data = json.dumps({"test": "data", "value": 123})
    mixed = embedded("test://mixed-content-resource", data, "application/json")
    return result(text("Multiple content types test:"), IMAGE, mixed)


async def tool_with_logging(call: Call, peer: Peer, arguments: JsonObject) -> JsonObject:
    for words in ("started", "processing data", "completed"):
        await peer.log(
            "info", f"Tool execution {words}".replace("execution processing", "processing")
        )
        await anyio.sleep(0.05)
    return result(text("Tool with logging executed successfully"))


async def error_handling(call: Call, peer: Peer, arguments: JsonObject) -> JsonObject:
    return result(text("This tool intentionally returns an error for testing"), is_error=True)


async def tool_with_progress(call: Call, peer: Peer, arguments: JsonObject) -> JsonObject:
    for progress in (0, 50, 100):
        await peer.report(progress, 100)
        await anyio.sleep(0.05)
    return result(text("Tool with progress executed successfully"))


async def sample(call: Call, peer: Peer, arguments: JsonObject) -> JsonObject:
    answer = await peer.ask(**sampling(arguments["prompt"], 100))
    return result(text(f"LLM response: {answer['content']['text']}"))


async def elicit(call: Call, peer: Peer, arguments: JsonObject) -> JsonObject:
    asked = form(arguments["message"], username=STRING, email=STRING)
    return result(text(f"User response: {json.dumps(await peer.ask(names.ELICIT, asked))}"))


async def elicit_defaults(call: Call, peer: Peer, arguments: JsonObject) -> JsonObject:
    return _completed(await peer.ask(names.ELICIT, DEFAULTS))


async def elicit_enums(call: Call, peer: Peer, arguments: JsonObject) -> JsonObject:
    return _completed(await peer.ask(names.ELICIT, ENUMS))


def _completed(answer: JsonObject) -> JsonObject:
    content = json.dumps(answer.get("content"))
    return result(text(f"Elicitation completed: action={answer['action']}, content={content}"))


async def reconnection(call: Call, peer: Peer, arguments: JsonObject) -> JsonObject:
    peer.pause()
    await anyio.sleep(0.1)
    return result(text("Reconnection test completed"))


async def missing_capability(call: Call, peer: Peer, arguments: JsonObject) -> JsonObject:
    if not call.client.can("sampling"):
        error = missing_capability_error({"sampling": {}})
        raise RpcError(error.code, error.message, error.data)
    return result(text("This client can sample."))


async def streaming_elicitation(call: Call, peer: Peer, arguments: JsonObject) -> JsonObject:
    await peer.report(1, 2)
    return input_required(confirm=elicitation(NAME))


async def logging_tool(call: Call, peer: Peer, arguments: JsonObject) -> JsonObject:
    await peer.log("info", "This is logged if the request asks for it.")
    return result(text("Logged."))


async def echo_header(call: Call, peer: Peer, arguments: JsonObject) -> JsonObject:
    return result(text(json.dumps(arguments)))


# ---- questions in results


async def ask_name(call: Call, peer: Peer, arguments: JsonObject) -> JsonObject:
    content = accepted(call, "user_name")
    if content is None:
        return input_required(user_name=elicitation(NAME))
    return result(text(f"Hello, {content.get('name')}!"))


async def ask_model(call: Call, peer: Peer, arguments: JsonObject) -> JsonObject:
    answer = call.input_responses.get("capital_question")
    if answer is None:
        return input_required(capital_question=sampling("What is the capital of France?", 100))
    return result(text(f"The model said: {json.dumps(answer.get('content'))}"))


async def ask_roots(call: Call, peer: Peer, arguments: JsonObject) -> JsonObject:
    answer = call.input_responses.get("client_roots")
    if answer is None:
        return input_required(client_roots=LIST_ROOTS)
    return result(text(f"The roots are {json.dumps(answer.get('roots'))}"))


SECRET = secrets.token_bytes(32)


def sealed(call: Call, step: str) -> str:
    return seal(SECRET, step, call.params["name"])


def step_of(call: Call) -> str | None:
    """The step that the client's state stands for; None in the first round."""
    if call.request_state is None:
        return None
    step = unseal(SECRET, call.request_state, call.params["name"])
    if step is None:
        raise RpcError(INVALID_PARAMS, "Invalid requestState")
    return step


async def keep_state(call: Call, peer: Peer, arguments: JsonObject) -> JsonObject:
    if step_of(call) is None or accepted(call, "confirm") is None:
        confirm = elicitation(form("Please confirm", ok={"type": "boolean"}))
        return input_required(sealed(call, "confirm"), confirm=confirm)
    return result(text("state-ok"))


async def ask_several(call: Call, peer: Peer, arguments: JsonObject) -> JsonObject:
    asked = {
        "user_name": elicitation(NAME),
        "greeting": sampling("Generate a greeting", 50),
        "client_roots": LIST_ROOTS,
    }
    if step_of(call) is None or asked.keys() - call.input_responses.keys():
        return input_required(sealed(call, "several"), **asked)
    return result(text(json.dumps(call.input_responses)))


async def ask_in_rounds(call: Call, peer: Peer, arguments: JsonObject) -> JsonObject:
    match step_of(call):
        case None:
            step = elicitation(form("Step 1: What is your name?", name=STRING))
            return input_required(sealed(call, "1"), step1=step)
        case "1" if accepted(call, "step1") is not None:
            step = elicitation(form("Step 2: What is your favorite color?", color=STRING))
            return input_required(sealed(call, "2"), step2=step)
        case _:
            return result(text(f"Your color is {json.dumps(accepted(call, 'step2'))}."))


async def ask_what_the_client_can(call: Call, peer: Peer, arguments: JsonObject) -> JsonObject:
    asked = {
        "name": ("elicitation", elicitation(NAME)),
        "greeting": ("sampling", sampling("Generate a greeting", 50)),
    }
    possible = {key: one for key, (capability, one) in asked.items() if call.client.can(capability)}
    return (
        input_required(None, **possible)
        if possible
        else result(text("This client cannot be asked."))
    )


# ---- tasks


@dataclass(eq=False)
class RunningTask:
    task: Task
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    answers: JsonObject = field(default_factory=dict[str, Any])
    changed: anyio.Event = field(default_factory=anyio.Event)

    def change(self, **fields: Any) -> None:
        self.task = self.task._replace(updated=now(), **fields)
        self.wake()

    def wake(self) -> None:
        self.changed.set()
        self.changed = anyio.Event()

    async def ask(self, *keys: str) -> JsonObject:
        asked = {
            key: elicitation(form("Please confirm", confirm={"type": "boolean"})) for key in keys
        }
        while open_questions := {key: one for key, one in asked.items() if key not in self.answers}:
            self.change(status=TaskStatus.INPUT_REQUIRED, requests=open_questions)
            await self.changed.wait()
        self.change(status=TaskStatus.WORKING, requests={})
        return self.answers


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


Job = Callable[["RunningTask | None", JsonObject], Awaitable[JsonObject]]


async def slow_compute(task: RunningTask | None, arguments: JsonObject) -> JsonObject:
    await anyio.sleep(arguments.get("seconds", 1))
    return result(text("Computed."))


async def failing_job(task: RunningTask | None, arguments: JsonObject) -> JsonObject:
    await anyio.sleep(0.5)
    return result(text("This job fails."), is_error=True)


async def protocol_error_job(task: RunningTask | None, arguments: JsonObject) -> JsonObject:
    raise RpcError(INTERNAL_ERROR, "the job broke the protocol")


async def confirm_delete(task: RunningTask | None, arguments: JsonObject) -> JsonObject:
    answers = {} if task is None else await task.ask("confirm")
    return result(text(f"Deleted {arguments.get('filename')}: {json.dumps(answers)}"))


async def multi_input(task: RunningTask | None, arguments: JsonObject) -> JsonObject:
    answers = {} if task is None else await task.ask("first", "second")
    return result(text(json.dumps(answers)))


async def greet_later(task: RunningTask | None, arguments: JsonObject) -> JsonObject:
    return result(text(f"Hello, {arguments['user_name']}!"))


JOBS: dict[str, Job] = {
    "slow_compute": slow_compute,
    "failing_job": failing_job,
    "protocol_error_job": protocol_error_job,
    "confirm_delete": confirm_delete,
    "multi_input": multi_input,
}
NEEDS_TASK = ("failing_job",)

# ---- what is listed


def tool(name: str, /, **properties: JsonObject) -> JsonObject:
    schema: JsonObject = {"type": "object", "properties": properties}
    return {"name": name, "description": f"The suite's {name}", "inputSchema": schema}


SIMPLE: dict[str, Tool] = {
    "test_simple_text": simple_text,
    "test_image_content": image_content,
    "test_audio_content": audio_content,
    "test_embedded_resource": embedded_resource,
    "test_multiple_content_types": multiple_content_types,
    "test_tool_with_logging": tool_with_logging,
    "test_error_handling": error_handling,
    "test_tool_with_progress": tool_with_progress,
    "test_sampling": sample,
    "test_elicitation": elicit,
    "test_elicitation_sep1034_defaults": elicit_defaults,
    "test_elicitation_sep1330_enums": elicit_enums,
    "test_reconnection": reconnection,
    "test_missing_capability": missing_capability,
    "test_streaming_elicitation": streaming_elicitation,
    "test_logging_tool": logging_tool,
    "test_custom_headers": echo_header,
    "test_input_required_result_elicitation": ask_name,
    "test_input_required_result_sampling": ask_model,
    "test_input_required_result_list_roots": ask_roots,
    "test_input_required_result_request_state": keep_state,
    "test_input_required_result_multiple_inputs": ask_several,
    "test_input_required_result_multi_round": ask_in_rounds,
    "test_input_required_result_tampered_state": keep_state,
    "test_input_required_result_capabilities": ask_what_the_client_can,
}
DECLARED: dict[str, JsonObject] = {
    "test_sampling": tool("test_sampling", prompt=STRING),
    "test_elicitation": tool("test_elicitation", message=STRING),
    "test_custom_headers": tool("test_custom_headers", region={**STRING, "x-mcp-header": "Region"}),
    "greet": tool("greet", name=STRING),
    "json_schema_2020_12_tool": {
        "name": "json_schema_2020_12_tool",
        "description": "Tool with JSON Schema 2020-12 features",
        "inputSchema": {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "$defs": {
                "address": {
                    "$anchor": "addressDef",
                    "type": "object",
                    "properties": {"street": STRING, "city": STRING},
                }
            },
            "properties": {
                "name": STRING,
                "address": {"$ref": "#/$defs/address"},
                "contactMethod": {"type": "string", "enum": ["phone", "email"]},
                "phone": STRING,
                "email": STRING,
            },
            "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
            "if": {
                "properties": {"contactMethod": {"const": "phone"}},
                "required": ["contactMethod"],
            },
            "then": {"required": ["phone"]},
            "else": {"required": ["email"]},
            "additionalProperties": False,
        },
    },
}
OTHERS = ("test_trigger_tool_change", "test_trigger_prompt_change", "test_tool_with_task")
TOOLS = {name: tool(name) for name in (*SIMPLE, *JOBS, *OTHERS)} | DECLARED


def prompt(name: str, *arguments: str) -> JsonObject:
    listed = [{"name": one, "description": one, "required": True} for one in arguments]
    return {"name": name, "description": f"The suite's {name}", "arguments": listed}


PROMPTS = [
    prompt("test_simple_prompt"),
    prompt("test_prompt_with_arguments", "arg1", "arg2"),
    prompt("test_prompt_with_embedded_resource", "resourceUri"),
    prompt("test_prompt_with_image"),
    prompt("test_input_required_result_prompt"),
]


def said(*blocks: JsonObject) -> JsonObject:
    return {"messages": [{"role": "user", "content": block} for block in blocks]}


SKILL = "skill://greeting"
SKILL_FILES = {
    f"{SKILL}/SKILL.md": "---\nname: greeting\ndescription: How to greet\n---\nSay hello.\n",
    f"{SKILL}/words/english.md": "Hello.\n",
}


def _resource(uri: str, name: str, mime_type: str, description: str = "") -> JsonObject:
    return {
        "uri": uri,
        "name": name,
        "description": description or f"The suite's {name}",
        "mimeType": mime_type,
    }


RESOURCES = [
    _resource("test://static-text", "static-text", "text/plain"),
    _resource("test://static-binary", "static-binary", "image/png"),
    _resource("test://watched-resource", "watched-resource", "text/plain"),
    _resource(f"{SKILL}/SKILL.md", "greeting", "text/markdown", "How to greet"),
    _resource(f"{SKILL}/words/english.md", "english.md", "text/markdown"),
]
TEMPLATES = [
    {
        "uriTemplate": "test://template/{id}/data",
        "name": "template",
        "description": "The suite's template",
        "mimeType": "application/json",
    }
]
DIRECTORIES = {
    SKILL: [RESOURCES[3], _resource(f"{SKILL}/words", "words", "inode/directory")],
    f"{SKILL}/words": [RESOURCES[4]],
}


def _skill() -> JsonObject:
    files = [
        {
            "uri": uri,
            "digest": f"sha256:{hashlib.sha256(words.encode()).hexdigest()}",
            "size": len(words.encode()),
        }
        for uri, words in SKILL_FILES.items()
    ]
    frontmatter = {"name": "greeting", "description": "How to greet"}
    return {"uri": f"{SKILL}/SKILL.md", "frontmatter": frontmatter, "resources": files}


def read_resource(call: Call) -> JsonObject:
    uri: str = call.params["uri"]
    if uri == "test://static-binary":
        return {"contents": [{"uri": uri, "mimeType": "image/png", "blob": PNG}]}
    words, mime_type = SKILL_FILES.get(uri), "text/markdown"
    if uri in ("test://static-text", "test://watched-resource"):
        words, mime_type = "This is the content of the static text resource.", "text/plain"
    if uri.startswith("test://template/") and uri.endswith("/data"):
        id = uri.removeprefix("test://template/").removesuffix("/data")
        data = {"id": id, "templateTest": True, "data": f"Data for ID: {id}"}
        words, mime_type = json.dumps(data), "application/json"
    if words is None:
        code = INVALID_PARAMS if call.revision.stateless else RESOURCE_NOT_FOUND
        raise RpcError(code, "Resource not found", {"uri": uri})
    return {"contents": [{"uri": uri, "mimeType": mime_type, "text": words}]}


def get_prompt(call: Call) -> JsonObject:
    arguments: JsonObject = call.params.get("arguments") or {}
    match call.params["name"]:
        case "test_simple_prompt":
            return said(text("This is a simple prompt for testing."))
        case "test_prompt_with_arguments":
            first, second = arguments.get("arg1"), arguments.get("arg2")
            return said(text(f"Prompt with arguments: arg1='{first}', arg2='{second}'"))
        case "test_prompt_with_embedded_resource":
            words = "Embedded resource content for testing."
            resource = embedded(arguments["resourceUri"], words)
            return said(resource, text("Please process the embedded resource above."))
        case "test_prompt_with_image":
            return said(IMAGE, text("Please analyze the image above."))
        case "test_input_required_result_prompt":
            content = accepted(call, "user_context")
            if content is None:
                asked = form("What context should the prompt use?", context=STRING)
                return input_required(user_context=elicitation(asked))
            return said(text(f"The context is {content.get('context')}."))
        case name:
            raise RpcError(INVALID_PARAMS, f"there is no prompt {name!r}")


CAPABILITIES: JsonObject = {
    "tools": {"listChanged": True},
    "prompts": {"listChanged": True},
    "resources": {"subscribe": True, "listChanged": True},
    "logging": {},
    "completions": {},
    "tasks": {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}},
    "extensions": {names.TASKS_EXTENSION: {}, names.SKILLS_EXTENSION: {"directoryRead": True}},
}
GRANTED = (
    "toolsListChanged",
    "promptsListChanged",
    "resourcesListChanged",
    "resourceSubscriptions",
)


@dataclass(eq=False)
class SuiteService:
    """What the suite wants of a server."""

    group: TaskGroup
    tasks: dict[str, RunningTask] = field(default_factory=dict[str, RunningTask])
    tell_all: Callable[[Command], Awaitable[None]] | None = None

    @property
    def offer(self) -> Offer:
        methods = frozenset((names.SKILLS_LIST, names.SKILLS_GET, names.DIRECTORY_READ))
        return Offer("conformance", "1", CAPABILITIES, instructions="For tests.", methods=methods)

    def input_schema(self, tool: str) -> JsonObject | None:
        return TOOLS[tool]["inputSchema"] if tool in TOOLS else None

    async def carry_out(self, call: Call, peer: Peer) -> JsonObject:
        lists = {
            names.TOOLS_LIST: {"tools": list(TOOLS.values())},
            names.PROMPTS_LIST: {"prompts": PROMPTS},
            names.RESOURCES_LIST: {"resources": RESOURCES},
            names.TEMPLATES_LIST: {"resourceTemplates": TEMPLATES},
            names.COMPLETE: {"completion": {"values": ["paris", "park"], "hasMore": False}},
            names.SUBSCRIBE: {},
            names.UNSUBSCRIBE: {},
            names.SKILLS_LIST: {"skills": [_skill()]},
        }
        match call.method:
            case names.TOOLS_CALL:
                return await self._call_tool(call, peer)
            case names.PROMPTS_GET:
                return get_prompt(call)
            case names.RESOURCES_READ:
                return read_resource(call)
            case names.SKILLS_GET | names.DIRECTORY_READ:
                return self._of_skill(call)
            case names.LISTEN:
                return await self._listen(call, peer)
            case names.TASKS_GET | names.TASKS_UPDATE | names.TASKS_CANCEL:
                return self._of_task(call)
            case names.TASKS_RESULT:
                return await self._task_result(call)
            case names.TASKS_LIST:
                return {"tasks": [CORE_TASKS.view(one.task) for one in self.tasks.values()]}
            case method:
                return lists[method]

    async def _call_tool(self, call: Call, peer: Peer) -> JsonObject:
        name: str = call.params["name"]
        arguments: JsonObject = call.params.get("arguments") or {}
        if name in SIMPLE:
            return await SIMPLE[name](call, peer, arguments)
        if name in JOBS:
            return await self._begin(call, JOBS[name], arguments, needs_task=name in NEEDS_TASK)
        match name:
            case "greet":
                return result(text(f"Hello, {arguments.get('name')}!"))
            case "json_schema_2020_12_tool":
                return result(text(json.dumps(arguments)))
            case "test_trigger_tool_change" | "test_trigger_prompt_change":
                assert self.tell_all is not None
                await self.tell_all(ListChanged("tools" if "tool" in name else "prompts"))
                return result(text("Changed."))
            case "test_tool_with_task":
                answer = accepted(call, "user_name")
                if answer is None:
                    return input_required(user_name=elicitation(NAME))
                return await self._begin(call, greet_later, {"user_name": answer.get("name")})
            case _:
                raise RpcError(INVALID_PARAMS, f"there is no tool {name!r}")

    async def _begin(
        self, call: Call, job: Job, arguments: JsonObject, *, needs_task: bool = False
    ) -> JsonObject:
        extension = declares_extension(call.client.capabilities) and call.revision.stateless
        if not extension and call.core_task is None:
            if needs_task and call.revision.stateless:
                error = missing_capability_error(TASKS)
                raise RpcError(error.code, error.message, error.data)
            return await job(None, arguments)
        created = now()
        task = Task(secrets.token_hex(8), TaskStatus.WORKING, created, created, 60_000, 500)
        running = self.tasks[task.id] = RunningTask(task)
        self.group.start_soon(self._run, running, job, arguments)
        return (EXTENSION_TASKS if extension else CORE_TASKS).created(task)

    async def _run(self, running: RunningTask, job: Job, arguments: JsonObject) -> None:
        with running.scope:
            try:
                done = await job(running, arguments)
                running.change(status=TaskStatus.COMPLETED, result=done)
            except RpcError as error:
                running.change(status=TaskStatus.FAILED, error=ErrorData(error.code, error.message))
        if running.scope.cancelled_caught:
            running.change(status=TaskStatus.CANCELLED, requests={})

    def _known(self, call: Call) -> RunningTask:
        running = self.tasks.get(call.params["taskId"])
        if running is None:
            raise RpcError(INVALID_PARAMS, "there is no such task")
        return running

    def _of_task(self, call: Call) -> JsonObject:
        running, form = (
            self._known(call),
            EXTENSION_TASKS if call.revision.stateless else CORE_TASKS,
        )
        match call.method:
            case names.TASKS_GET:
                return form.view(running.task)
            case names.TASKS_UPDATE:
                running.answers.update(call.params["inputResponses"])
                running.task = running.task._replace(
                    requests={
                        key: asked
                        for key, asked in running.task.requests.items()
                        if key not in running.answers
                    },
                )
                running.wake()
            case _:
                running.scope.cancel()
        return {} if call.revision.stateless else form.view(running.task)

    async def _task_result(self, call: Call) -> JsonObject:
        running = self._known(call)
        while not running.task.status.has_ended:
            await running.changed.wait()
        if running.task.error is not None:
            raise RpcError(running.task.error.code, running.task.error.message)
        return CORE_TASKS.result(running.task)

    def _of_skill(self, call: Call) -> JsonObject:
        uri = call.params.get("uri")
        if call.method == names.SKILLS_GET and uri == f"{SKILL}/SKILL.md":
            return {"skill": _skill()}
        if call.method == names.DIRECTORY_READ and uri in DIRECTORIES:
            return {"resources": DIRECTORIES[uri]}
        raise RpcError(INVALID_PARAMS, "there is nothing of the kind", {"uri": uri})

    async def _listen(self, call: Call, peer: Peer) -> JsonObject:
        wanted: JsonObject = call.params["notifications"]
        granted = {key: wanted[key] for key in GRANTED if wanted.get(key)}
        known = [self.tasks[id] for id in wanted.get("taskIds") or () if id in self.tasks]
        if known:
            granted["taskIds"] = [one.task.id for one in known]
        await peer.send(Acknowledge(call.id, granted))
        async with anyio.create_task_group() as group:
            for running in known:
                group.start_soon(self._follow, running, peer)
            await anyio.sleep_forever()
        return {}

    async def _follow(self, running: RunningTask, peer: Peer) -> None:
        while True:
            await peer.send(TaskChanged(running.task))
            await running.changed.wait()


@dataclass(frozen=True)
class Anybody:
    owner: str = "anybody"


def suite_app(group: TaskGroup) -> HttpApp:
    service = SuiteService(group)
    app = HttpApp(service, group, lambda scope: Anybody(), most_bytes=1 << 20)
    service.tell_all = app.tell_all
    return app


@asynccontextmanager
async def suite_listening() -> AsyncGenerator[str]:
    """The address of the server, which takes only requests for this machine."""
    allowed = AllowedHosts()
    async with anyio.create_task_group() as host, anyio.create_task_group() as group:
        app = suite_app(group)

        async def guarded(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
            headers = {name.decode(): value.decode() for name, value in scope["headers"]}
            origin, host = headers.get("origin"), headers.get("host", "")
            if not allowed.knows_host(host) or (origin and not allowed.knows_origin(origin, host)):
                await send({"type": "http.response.start", "status": 403, "headers": []})
                await send({"type": "http.response.body", "body": b""})
                return
            await app(scope, receive, send)

        config = uvicorn.Config(
            guarded, port=0, log_level="error", lifespan="off", timeout_graceful_shutdown=2
        )
        server = uvicorn.Server(config)
        host.start_soon(server.serve)
        with anyio.fail_after(60):
            while not server.started:  # noqa: ASYNC110 (it has no event for this)
                await anyio.sleep(0.01)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/mcp"
        server.should_exit = True
        group.cancel_scope.cancel()
