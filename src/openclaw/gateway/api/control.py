"""Changing what the gateway runs with: configuration, secrets, approvals, logins and schedules.

No answer ever contains a secret.
"""

import difflib
import hashlib
import logging
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from itertools import chain
from typing import Annotated, Any

import anyio
import anyio.to_thread
import orjson
from pydantic import Field

from openclaw.agent.event_codec import error_json
from openclaw.agent.port import NO_LISTENER, MessageContext
from openclaw.agent.schedules import Job, JobFile, last_run, new_job
from openclaw.config import edit
from openclaw.config.edit import append_value, delete_value, set_value
from openclaw.config.json5 import KeyPath, parse
from openclaw.config.load import load_config, parse_config, read_text
from openclaw.config.secret_store import SecretStore
from openclaw.config.sensitive import credential_values, is_reference, plain_credentials, references
from openclaw.config.show import REDACTED, redacted
from openclaw.core import errors
from openclaw.core.clock import random_id
from openclaw.gateway.api.openapi import ConfigChange, Json, operation
from openclaw.gateway.event_streams import EventStream, Put, sse_frame
from openclaw.gateway.gateway import Gateway
from openclaw.gateway.owners import ALL, NOTHING
from openclaw.mcp_client.auth.login import LoginPrompt
from openclaw.mcp_client.session.login import log_in
from openclaw.models.provider_check import models_named
from openclaw.sessions.records import Turn

logger = logging.getLogger(__name__)


# ---- the configuration


@operation("GET /api/config", NOTHING, needs="admin")
async def show_config(gateway: Gateway) -> Json:
    """The configuration file as written, without secrets."""
    text = await _text(gateway)
    tree = redacted(parse(text).root.plain(), redactor=gateway.backend.redactor)
    return {"path": str(gateway.config_path), "digest": _digest(text), "config": tree}


@operation(
    "POST /api/config",
    NOTHING,
    {"diff": list[str], "digest": str, "warnings": list[str], "waiting": list[str]},
)
async def edit_config(
    gateway: Gateway,
    *,
    changes: list[ConfigChange],
    apply: Annotated[
        bool, Field(description="default: false, which only returns the diff")
    ] = False,
    digest: Annotated[
        str | None, Field(description="of the file that the diff refers to; with apply")
    ] = None,
) -> Json:
    """Preview changes to the configuration file; with apply, make them and reload."""
    try:
        values = orjson.dumps([one.value for one in changes])
    except orjson.JSONEncodeError:
        raise errors.InvalidRequest(
            "has a value that is nested too deeply", field="changes"
        ) from None
    if REDACTED.encode() in values:
        raise errors.InvalidRequest(
            f"has {REDACTED} in it, which stands for a secret", field="changes"
        )
    before = await _text(gateway)
    after = await anyio.to_thread.run_sync(_changed, before, changes)
    try:
        loaded = await anyio.to_thread.run_sync(
            partial(parse_config, after, gateway.environ, source=gateway.config_path)
        )
    except errors.InvalidConfig as error:
        problems = "; ".join(f"{one.path}: {one.message}" for one in error.problems)
        raise errors.InvalidRequest(gateway.backend.redactor.redact(problems)) from None
    warnings = [one for one in loaded.warnings if one not in loaded.reminders]
    for change in changes if not apply else ():
        for model in models_named(tuple(change.path), change.value):
            problem = await gateway.backend.agent.model_problem(model)
            warnings += [errors.sentence(problem)] if problem else []
    diff, waiting = _diff(gateway, before, after), ()
    if apply:
        change = partial(_change_shown, digest, changes)
        await anyio.to_thread.run_sync(
            edit.edit_config, gateway.config_path, gateway.environ, change
        )
        report = await gateway.reload()
        waiting = report.waiting
        if not report.changed:  # such as a rule allowed and revoked between two reloads
            await gateway.backend.apply(loaded)
    return {
        "diff": diff,
        "digest": _digest(before),
        "warnings": warnings,
        "waiting": list(waiting),
    }


def _change_shown(digest: str | None, changes: Sequence[ConfigChange], text: str) -> str:
    if _digest(text) != digest:
        raise errors.UserFacing(
            "the configuration has changed in the meantime", hint="look at it again"
        )
    return _changed(text, changes)


def _changed(text: str, changes: Sequence[ConfigChange]) -> str:
    for one in changes:
        path: KeyPath = tuple(one.path)
        if not path:
            raise errors.InvalidRequest("is empty", field="changes.path")
        if one.remove:
            text = delete_value(text, path)
        else:
            text = (append_value if one.append else set_value)(text, path, one.value)
    return text


async def _text(gateway: Gateway) -> str:
    return await anyio.to_thread.run_sync(read_text, gateway.config_path) or ""


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _diff(gateway: Gateway, before: str, after: str) -> list[str]:
    old, new = (_without_secrets(gateway, text).splitlines() for text in (before, after))
    lines = list(difflib.unified_diff(old, new, lineterm="", n=2))[2:]
    if not lines and before != after:
        return ["  (only a value that is not shown is different)"]
    return lines


def _without_secrets(gateway: Gateway, text: str) -> str:
    document = parse(text)
    tree = document.root.plain()
    found = chain(credential_values(tree), plain_credentials(tree))
    nodes = [document.find(path) for path, value in found if not is_reference(value)]
    for start, end in sorted({(one.start, one.end) for one in nodes if one}, reverse=True):
        text = f'{text[:start]}"{REDACTED}"{text[end:]}'
    return gateway.backend.redactor.redact(text)


# ---- secrets


@operation("GET /api/secrets", NOTHING, needs="admin")
async def list_secrets(gateway: Gateway) -> Json:
    """Names of secrets that are stored or that the configuration refers to."""
    used = references(parse(await _text(gateway)).root.plain())
    uses = {ref.name: places for ref, places in used.items() if ref.scheme == "store"}
    stored = await anyio.to_thread.run_sync(SecretStore(gateway.environ).names)
    rows = [
        {"name": name, "stored": name in stored, "usedBy": uses.get(name, [])}
        for name in sorted({*stored, *uses})
    ]
    return {"secrets": rows}


@operation("POST /api/secrets", NOTHING)
async def store_secret(
    gateway: Gateway, *, name: str, value: Annotated[str, Field(min_length=1)]
) -> Json:
    """Store a secret, to be referred to as secret://store/NAME."""
    backend, reference = gateway.backend, f"secret://store/{name}"
    backend.redactor.register(value)
    store = SecretStore(gateway.environ)
    where = await anyio.to_thread.run_sync(store.set, name, value)
    # Models and servers that refer to this secret use its new value from now on.
    loaded = await anyio.to_thread.run_sync(load_config, gateway.config_path, gateway.environ)
    await backend.apply(loaded)
    for agent in backend.agents().values():
        for server, config in agent.servers.items():
            if reference in config.model_dump_json():
                backend.servers.restart(server)
    return {"reference": reference, "where": where}


@operation("DELETE /api/secrets/{name}", NOTHING, {"removed": str})
async def remove_secret(gateway: Gateway, name: str) -> Json:
    """Delete a stored secret."""
    await anyio.to_thread.run_sync(SecretStore(gateway.environ).remove, name)
    return {"removed": name}


# ---- what was allowed for a session


@operation("GET /api/approvals", ALL, needs="admin")
async def list_approvals(gateway: Gateway) -> Json:
    """What was allowed for the rest of a session."""
    redact = gateway.backend.redactor.redact
    rows = [
        {"agent": agent, "sessionKey": session, "rule": redact(rule)}
        for agent, session, rule in gateway.backend.approvals().listed()
    ]
    return {"approvals": rows}


@operation("POST /api/approvals/revoke", ALL)
async def revoke_approval(gateway: Gateway, *, agent: str, session_key: str, rule: str) -> Json:
    """Revoke an approval of a session."""
    found = gateway.backend.approvals()
    meant = {
        gateway.backend.redactor.redact(one): one
        for of_agent, session, one in found.listed()
        if (of_agent, session) == (agent, session_key)
    }
    if rule not in meant:
        raise errors.NotFound("nothing like that is allowed in this session")
    found.revoke(agent, session_key, meant[rule])
    return {"revoked": rule}


# ---- logging in to a server


@operation("POST /api/servers/{name}/login", NOTHING, str, stream=True)
async def log_in_to_server(gateway: Gateway, name: str) -> Any:
    """Log in to a remote server: the address to open, then done or error.

    The callback goes to a loopback port of this machine. If the browser is on another one, send the
    address that it ended at to the next route; an event `problem` says if that address is not the one.
    """
    backend = gateway.backend
    known = (agent.servers.get(name) for agent in backend.agents().values())
    config = next((one for one in known if one is not None and one.auth is not None), None)
    if config is None:
        raise errors.NotFound(
            f"there is no server '{name}' with a login", hint='add `auth: "oauth"` to it'
        )

    async def work(put: Put) -> None:
        send, receive = anyio.create_memory_object_stream[str]()

        async def paste(problem: str | None) -> str:
            if problem is not None:
                put(sse_frame({"message": problem}, "problem"))
            return await receive.receive()

        def show(url: str, code: str | None) -> None:
            put(sse_frame({"url": url}, "address"))

        async with send, receive:
            gateway.open_logins[name] = send
            try:
                await log_in(config, backend.logins(), LoginPrompt(show=show, paste=paste))
            except errors.OpenClawError as error:
                put(sse_frame(error_json(error), "error"))
                return
            finally:
                if gateway.open_logins.get(name) is send:
                    del gateway.open_logins[name]
        backend.servers.restart(name)
        put(sse_frame({"loggedIn": name}, "done"))

    return EventStream(work)


@operation("POST /api/servers/{name}/login/address", NOTHING, {"passedOn": bool})
async def pass_on_address(
    gateway: Gateway, name: str, *, address: Annotated[str, Field(min_length=1)]
) -> Json:
    """Pass on the address that a browser on another computer ended at."""
    login = gateway.open_logins.get(name)
    if login is None:
        raise errors.NotFound(f"nobody is logging in to '{name}'")
    try:
        login.send_nowait(address)
    except (anyio.WouldBlock, anyio.BrokenResourceError):
        raise errors.NotFound(f"the login to '{name}' is not waiting for an address") from None
    return {"passedOn": True}


# ---- schedules


def _jobs(gateway: Gateway) -> JobFile:
    return JobFile(gateway.paths.cron)


def _row(job: Job, now_ms: int, last: Turn | None = None) -> Json:
    facts = {key: one for key, one in asdict(job).items() if key not in ("session", "created_ms")}
    following = None if job.paused else job.next(now_ms)
    ran = {"lastAt": last and last.started_ms, "lastOutcome": last and str(last.state)}
    return {**facts, "sessionKey": job.session_key, "nextAt": following, **ran}


@operation("GET /api/cron", ALL)
async def list_jobs(gateway: Gateway) -> Json:
    """The schedules: when each runs next, and how it last went."""
    found = await anyio.to_thread.run_sync(_jobs(gateway).read)
    now, store = gateway.clock.now_ms(), await gateway.backend.agent.store()
    return {"jobs": [_row(job, now, await last_run(store, job)) for job in found.values()]}


@operation("POST /api/cron", ALL)
async def add_job(
    gateway: Gateway,
    *,
    when: str,
    message: str,
    timezone: str = "UTC",
    name: str | None = None,
    agent: str | None = None,
) -> Json:
    """Add a schedule; `when` is 'weekdays 8:00' or a cron expression."""
    agent = (await gateway.backend.agent.settings(agent)).id
    now = gateway.clock.now_ms()
    job = new_job(when, message, timezone, now, id=name, agent=agent)
    await anyio.to_thread.run_sync(_jobs(gateway).add, job)
    return _row(job, now)


@operation("POST /api/cron/{id}/pause", ALL)
async def pause_job(gateway: Gateway, id: str, *, paused: bool) -> Json:
    """Pause a schedule, or resume it."""
    now = gateway.clock.now_ms()
    await anyio.to_thread.run_sync(_jobs(gateway).pause, id, paused, now)
    return _row(_jobs(gateway).get(id), now)


@operation("DELETE /api/cron/{id}", ALL, {"removed": str})
async def remove_job(gateway: Gateway, id: str) -> Json:
    """Remove a schedule."""
    await anyio.to_thread.run_sync(_jobs(gateway).remove, id)
    return {"removed": id}


@operation("POST /api/cron/{id}/run", ALL, {"sessionKey": str, "turn": str})
async def run_job(gateway: Gateway, id: str) -> Json:
    """Run a schedule now."""
    job = await anyio.to_thread.run_sync(_jobs(gateway).get, id)
    agent = (await gateway.backend.agent.settings(job.agent)).id
    context = MessageContext(
        job.message, job.session_key, agent, origin="cron", idempotency_key=random_id()
    )

    async def run() -> None:
        try:
            await gateway.answer(context, NO_LISTENER)
        except Exception:
            logger.exception("the schedule '%s' failed", job.id)

    assert gateway.background is not None
    gateway.background.start_soon(run, name=f"schedule {job.id}")
    return {"agent": agent, "sessionKey": job.session_key, "turn": context.idempotency_key}
