"""What the parameters of a client's requests have to be. Null counts as absent; what is not known is
left alone."""

from collections.abc import Callable, Mapping
from typing import Any, cast

from openclaw.mcp import names
from openclaw.mcp.jsonrpc import JsonObject
from openclaw.mcp.revisions import Revision

Check = Callable[[Any], str | None]  # says what the value must be; None if it is


def _text(value: Any) -> str | None:
    return None if isinstance(value, str) else "must be a string"


def _object(value: Any) -> str | None:
    return None if isinstance(value, dict) else "must be an object"


def _texts(value: Any) -> str | None:
    if not isinstance(value, dict) or not all(
        isinstance(item, str) for item in cast("JsonObject", value).values()
    ):
        return "must be an object of strings"
    return None


def _level(value: Any) -> str | None:
    return None if value in names.LOG_LEVELS else f"must be one of {', '.join(names.LOG_LEVELS)}"


def _token(value: Any) -> str | None:
    return None if type(value) in (str, int) else "must be a string or an integer"


def _list_of_texts(value: Any) -> str | None:
    items = cast("list[Any]", value) if isinstance(value, list) else [None]
    return None if all(isinstance(item, str) for item in items) else "must be a list of strings"


def _flag(value: Any) -> str | None:
    return None if isinstance(value, bool) else "must be true or false"


def _members(**checks: Check) -> Check:
    """An object with these members; a name that ends in `_` is required."""

    def check(value: Any) -> str | None:
        if not isinstance(value, dict):
            return "must be an object"
        fields = cast("JsonObject", value)
        for name, inner in checks.items():
            key, item = name.rstrip("_"), fields.get(name.rstrip("_"))
            if item is None:
                if name.endswith("_"):
                    return f"needs {key!r}"
                continue
            problem = inner(item)
            if problem is not None:
                return f"has a {key!r} that {problem}"
        return None

    return check


def _reference(value: Any) -> str | None:
    fields = cast("JsonObject", value) if isinstance(value, dict) else {}
    match fields.get("type"):
        case "ref/prompt":
            return _members(name_=_text)(value)
        case "ref/resource":
            return _members(uri_=_text)(value)
        case _:
            return "must refer to a prompt or a resource"


_page = _members(cursor=_text)
_uri = _members(uri_=_text)
_task = _members(taskId_=_text)
_PARAMS: dict[str, Check] = {
    names.INITIALIZE: _members(
        protocolVersion_=_text,
        capabilities_=_object,
        clientInfo_=_members(name_=_text, version_=_text),
    ),
    names.TOOLS_LIST: _page,
    names.TOOLS_CALL: _members(name_=_text, arguments=_object),
    names.PROMPTS_LIST: _page,
    names.PROMPTS_GET: _members(name_=_text, arguments=_texts),
    names.RESOURCES_LIST: _page,
    names.TEMPLATES_LIST: _page,
    names.RESOURCES_READ: _uri,
    names.SUBSCRIBE: _uri,
    names.UNSUBSCRIBE: _uri,
    names.COMPLETE: _members(
        ref_=_reference,
        argument_=_members(name_=_text, value_=_text),
        context=_members(arguments=_texts),
    ),
    names.SET_LEVEL: _members(level_=_level),
    names.LISTEN: _members(
        notifications_=_members(
            toolsListChanged=_flag,
            promptsListChanged=_flag,
            resourcesListChanged=_flag,
            resourceSubscriptions=_list_of_texts,
            taskIds=_list_of_texts,
        )
    ),
    names.TASKS_LIST: _page,
    names.TASKS_GET: _task,
    names.TASKS_RESULT: _task,
    names.TASKS_CANCEL: _task,
    names.TASKS_UPDATE: _members(taskId_=_text, inputResponses_=_object),
}
_input = _members(inputResponses=_object, requestState=_text)
_core_task = _members(task=_object)
_meta = _members(progressToken=_token)
# 2026-07-28, "Multi Round-Trip Requests": the requests whose result may be `input_required`.
_MAY_ASK = {names.TOOLS_CALL, names.PROMPTS_GET, names.RESOURCES_READ}


def problem_with(method: str, params: JsonObject, revision: Revision) -> str | None:
    """What is wrong with a request's parameters, in words for whoever sent it."""
    problems = [_PARAMS.get(method, _object)(params)]
    if revision.result_types and method in _MAY_ASK:
        problems.append(_input(params))
    elif method == names.TOOLS_CALL:
        problems.append(_core_task(params))
    meta = params.get("_meta")
    if meta is not None and (problem := _meta(meta)):
        problems.append(f"_meta {problem}")
    problem_text = next(filter(None, problems), None)
    return None if problem_text is None else f"{method}: params {problem_text}"


def problem_with_envelope(params: Mapping[str, Any] | None) -> str | None:
    """What is wrong with what a stateless request says about itself in `_meta`."""
    meta = (params or {}).get("_meta")
    if not isinstance(meta, dict):
        return f"params._meta must name {names.META_VERSION} and {names.META_CAPABILITIES}"
    fields = cast("JsonObject", meta)
    required = (names.META_VERSION, names.META_CAPABILITIES)
    missing = [key for key in required if fields.get(key) is None]
    if missing:
        return f"params._meta does not name {', '.join(missing)}"
    checks = {
        names.META_VERSION: _text,
        names.META_CAPABILITIES: _object,
        names.META_CLIENT: _members(name_=_text, version_=_text),
        names.META_LOG_LEVEL: _level,
    }
    for key, check in checks.items():
        value = fields.get(key)
        problem = None if value is None else check(value)
        if problem is not None:
            return f"params._meta: {key} {problem}"
    return None
