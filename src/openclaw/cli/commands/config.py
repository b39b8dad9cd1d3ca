"""Show, change, check and explain the configuration."""

import difflib
import json
import shlex
import shutil
import subprocess
import sys
import tempfile
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

import anyio

from openclaw.cli.environment import Environment, text_of
from openclaw.cli.parser import add_action, not_there, option
from openclaw.config.edit import delete_value, edit_config, set_value
from openclaw.config.json5 import KeyPath, parse, parse_path
from openclaw.config.load import load_config, read_text
from openclaw.config.show import json_schema, redacted, show
from openclaw.core import errors
from openclaw.core.tools import json_list, json_object
from openclaw.gateway.lock import running_gateway
from openclaw.models.provider_check import model_problem, models_named
from openclaw.runtime.gateway_connection import ask_gateway

_APPLIES = {
    "now": "A change applies at once.",
    "next turn": "A change applies from the next turn on.",
    "restart": "A change applies after a restart.",
}


def register(parser: ArgumentParser) -> None:
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    for name, run, summary in (
        ("path", _path, "print where the configuration file is"),
        ("show", _show, "print the effective configuration, without secrets"),
        ("validate", _validate, "check the file and list every problem"),
        ("schema", _schema, "print the JSON Schema of the file, for editors"),
        ("edit", _edit, "edit the file in your editor; an invalid file isn't saved"),
    ):
        add_action(actions, name, summary, run)
    for name, run, key, summary in (
        ("get", _get, "KEY", "print a key's effective value, without secrets"),
        ("set", _set, "KEY", "set a key in the file and leave the rest unchanged"),
        ("unset", _unset, "KEY", "remove a key from the file"),
        ("explain", _explain, "[KEY]", "explain a key and its values"),
    ):
        action = add_action(actions, name, summary, run)
        option(action, key, "such as gateway.port")
        if name == "set":
            option(action, "VALUE", "JSON5; anything else is text")


def _get(args: Namespace, env: Environment) -> None:
    tree = env.config.model_dump(mode="json", by_alias=True)
    value: Any = redacted(tree, credentials=env.loaded.credentials, redactor=env.redactor)
    for part in _path_of(args.key):
        known = json_object(value) or range(len(json_list(value)))
        if part not in known:
            raise not_there(f"there is no {args.key}", str(part), map(str, known), 0.7)
        value = value[part]
    env.stdout.write(env.json_text(value) + "\n")


def _set(args: Namespace, env: Environment) -> None:
    path = _path_of(args.key)
    try:
        value = parse(f'{{ "value": {args.value}\n}}').root.plain()["value"]
    except (errors.InvalidConfig, KeyError):
        value = args.value.strip()
    _edited_key(args, env, lambda text: set_value(text, path, value), value)
    for model in models_named(path, value):
        given = (env.config.models.providers, env.secrets(), env.environ, env.paths.models)
        problem = anyio.run(model_problem, model, *given)
        if problem is not None:
            env.warn(f"Warning: {problem}")


def _unset(args: Namespace, env: Environment) -> None:
    _edited_key(args, env, lambda text: delete_value(text, _path_of(args.key)))


def _edited_key(
    args: Namespace, env: Environment, change: Callable[[str], str], value: Any = None
) -> None:
    """Raises if the change is invalid, or if the file already was."""
    try:
        return _edited(args, env, change)
    except errors.InvalidConfig as wrong:
        load_config(env.config_option, env.environ)
        error = wrong
    hint = None
    if isinstance(value, str) and any("must be a list" in one.message for one in error.problems):
        listed = f"config set {args.key} '{json.dumps([value])}'"
        hint = f"write a list like this: {env.program} {listed}"
    unknown = next((one.path for one in error.problems if one.message == "unknown key"), None)
    if unknown is not None:
        words = " ".join(filter(None, ("config explain", unknown.rpartition(".")[0])))
        hint = f"list the keys with: {env.program} {words}"
    problems = "; ".join(f"{one.path}: {one.message}" for one in error.problems)
    raise errors.InvalidRequest(f"nothing was written: {problems}", hint=hint)


def _edit(args: Namespace, env: Environment) -> int:
    editor, path = _editor(env), env.config_file
    before = read_text(path) or "{\n}\n"
    with tempfile.TemporaryDirectory() as directory:
        draft = Path(directory) / path.name
        draft.write_bytes(before.encode())

        def edited(now: str) -> str:
            after = read_text(draft)
            if (now and now != before) or after is None:
                changed = "the file has changed in the meantime"
                what = "the editor removed the file" if after is None else changed
                raise errors.OperatorFacing(f"{what}; nothing was saved")
            return after

        while True:
            try:
                done = subprocess.run([*shlex.split(editor), str(draft)], check=False)  # noqa: S603 - the person's own
            except (OSError, ValueError) as error:
                hint = "set EDITOR (or VISUAL) to your editor's command, such as nano"
                message = f"the editor {editor!r} cannot be started: {error}"
                raise errors.OperatorFacing(message, hint=hint) from error
            if done.returncode:
                failed = f"the editor {editor!r} failed (exit code {done.returncode})"
                raise errors.OperatorFacing(failed)
            try:
                _edited(args, env, edited)
            except errors.InvalidConfig as error:
                env.warn(errors.describe(error))
                env.warn("The file was not saved. Press Enter to edit again, Ctrl-C to give up.")
                if not env.stdin.isatty() or not text_of(env.stdin.readline):
                    return errors.EXIT_USAGE
            else:
                return errors.EXIT_OK


def _editor(env: Environment) -> str:
    named = env.environ.get("VISUAL") or env.environ.get("EDITOR")
    if named is None and not env.stdin.isatty():
        hint = f"try: {env.program} config set"
        raise errors.InvalidRequest("an editor needs a terminal", hint=hint)
    usual = ("notepad",) if sys.platform == "win32" else ("nano", "vim", "vi")
    found = named or next((one for one in usual if shutil.which(one)), None)
    if found is None:
        hint = "set EDITOR to your editor's command"
        raise errors.OperatorFacing("no editor was found", hint=hint)
    return found


def _edited(args: Namespace, env: Environment, change: Callable[[str], str]) -> None:
    path = env.config_file
    before = read_text(path) or ""
    loaded = edit_config(path, env.environ, change)
    env.hide(loaded.credentials)
    after = read_text(path) or ""
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=0)
    changes = [line for line in lines if line[:2] not in ("--", "++", "@@")]
    facts = {"path": str(path), "changes": changes}
    saved = [f"Saved in {path}."] if changes else []
    env.report(args, facts, *changes, *saved, empty="Nothing was changed.")
    for warning in loaded.warnings if not args.json else ():
        if warning not in loaded.reminders:
            env.warn(f"Warning: {warning}")
    if changes and loaded.config.gateway.reload.mode != "off":
        _apply(env)


def _apply(env: Environment) -> None:
    """Make a running gateway apply the change now, not when it next checks the file."""
    info = running_gateway(env.paths.gateway_lock)
    if info is None or Path(info.config) != env.config_file.absolute():
        return
    try:
        waiting = ask_gateway(env.paths, "POST", "/api/reload")["waiting"]
    except errors.OpenClawError as error:
        env.warn(f"The running gateway has not applied this yet: {errors.describe(error)}")
    else:
        if waiting:
            env.warn(f"Restart the gateway to apply {', '.join(waiting)}.")


def _path_of(key: str) -> KeyPath:
    try:
        return parse_path(key)
    except ValueError:
        hint = "write it as gateway.port or agents.list[0].id"
        raise errors.InvalidRequest(f"{key!r} is not a key", hint=hint) from None


def _explain(args: Namespace, env: Environment) -> None:
    schema = json_schema()
    node: dict[str, Any] = schema
    described = ""
    for part in _path_of(args.key) if args.key else ():
        below = _below(schema, node)
        found = below.get(str(part)) or below.get("*")
        if found is None:
            raise not_there(f"there is no {args.key}", str(part), below, 0.7)
        node, described = found, str(found.get("description", described))
    below = _below(schema, node)
    if list(below) == ["*"] and (inner := _below(schema, below["*"])):
        below = {f"*.{name}": one for name, one in inner.items()}
    texts = {name: str(one.get("description") or _facts(one)) for name, one in below.items()}
    texts = {name: text for name, text in texts.items() if "not supported; ignored" not in text}
    applies = _APPLIES.get(node.get("x-applies", ""), "")
    lines = [described, "" if below else _facts(node), applies]
    if any("*" in name for name in below):
        lines.append("  * is any name, or a number in a list")
    lines += [f"  {name:<24} {text.partition('. ')[0]}" for name, text in texts.items()]
    facts = {"key": args.key or "", "description": described, "keys": texts}
    facts |= {"applies": node["x-applies"]} if applies else {}
    env.report(args, facts, *filter(None, lines))


def _below(schema: dict[str, Any], node: dict[str, Any]) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for one in (node, *node.get("anyOf", ()), *node.get("allOf", ())):
        if "$ref" in one:
            found |= _below(schema, schema["$defs"][one["$ref"].rpartition("/")[2]])
        found |= one.get("properties", {})
        for inner in (one.get("additionalProperties"), one.get("items")):
            if isinstance(inner, dict):
                found["*"] = cast("dict[str, Any]", inner)
    return found


def _facts(node: dict[str, Any]) -> str:
    kinds = [str(one["type"]) for one in (node, *node.get("anyOf", ())) if "type" in one]
    allowed = [json.dumps(one) for one in node.get("enum", ())]
    parts = [" or ".join(kinds), f"one of {', '.join(allowed)}" if allowed else ""]
    if node.get("default") is not None:
        parts.append(f"default {json.dumps(node['default'])}")
    return "; ".join(part for part in parts if part)


def _path(args: Namespace, env: Environment) -> None:
    path = env.config_file
    env.report(args, {"path": str(path), "exists": path.exists()}, str(path))


def _show(args: Namespace, env: Environment) -> None:
    # Values are redacted one by one: a password that is also a key's name must not hide the key.
    env.stdout.write(env.json_text(show(env.loaded, redactor=env.redactor)) + "\n")


def _validate(args: Namespace, env: Environment) -> int:
    try:
        loaded = env.read_config()
    except errors.InvalidConfig as error:
        problems = [asdict(one) for one in error.problems]
        facts = {"valid": False, "path": error.source, "problems": problems}
        env.report(args, facts, *map(str, error.problems))
        if not args.json:
            env.warn(f"{env.program}: {error.message}")
        return errors.EXIT_USAGE
    for warning in loaded.warnings if not args.json else ():
        env.warn(f"Warning: {warning}")
    facts = {"valid": True, "path": str(loaded.path), "exists": loaded.exists}
    facts |= {"warnings": list(loaded.warnings)}
    state = "valid" if loaded.exists else "does not exist; the defaults apply"
    env.report(args, facts, f"{loaded.path}: {state}")
    return errors.EXIT_OK


def _schema(args: Namespace, env: Environment) -> None:
    # It is the same for everyone and has no secrets, so its text is not redacted.
    env.stdout.write(env.json_text(json_schema()) + "\n")
