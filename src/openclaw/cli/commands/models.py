"""List models, see which one is used and why, and download weights for the embedded one."""

from argparse import ArgumentParser, Namespace
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio

from openclaw.cli.chat.turn_view import download_bar
from openclaw.cli.environment import Environment
from openclaw.cli.parser import add_action, option
from openclaw.cli.terminal import console, is_dumb
from openclaw.core.errors import EXIT_FAILED, EXIT_OK, InvalidRequest
from openclaw.core.installed import install_command
from openclaw.embedded.pull import Puller
from openclaw.embedded.weights import CATALOGUE, DEFAULT_WEIGHTS, Weights, WeightStore, own_weights
from openclaw.models.choose import choose, known_providers, missing_extra

if TYPE_CHECKING:  # the command's help must not import pydantic
    from openclaw.core.events import Downloading
    from openclaw.models.choose import Candidate, ModelCandidates

_MEGA = 1_000_000
_SHA256_LENGTH = 64


def register(parser: ArgumentParser) -> None:
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    add_action(actions, "list", "list available models and what each is good for", _list)
    summary = "show which model each agent uses, why, and whether it works"
    add_action(actions, "status", summary, _status)
    pull = add_action(actions, "pull", "download weights for the embedded model", _pull)
    what = "a name from 'models list', or the address of a GGUF (default: the smallest)"
    option(pull, "[NAME|URL]", what, dest="what")
    option(pull, "--sha256 HEX", "the SHA-256 hash of a GGUF from an address")
    option(pull, "--name NAME", "a name for weights from an address")
    option(pull, "--force", "download again even if present")


def _store(env: Environment) -> WeightStore:
    return WeightStore(env.paths.models)


def _local_facts(env: Environment) -> list[dict[str, Any]]:
    store = _store(env)
    return [
        {
            "id": f"local/{weights.name}",
            "title": weights.title,
            "installed": store.is_installed(weights),
            "megabytes": None if weights.size is None else round(weights.size / _MEGA),
            "tools": weights.tool_use,
            "goodFor": weights.good_for,
            "licence": weights.licence,
        }
        for weights in (*CATALOGUE, *store.own())
    ]


def _provider_facts(env: Environment) -> list[dict[str, Any]]:
    configured = [
        {"id": f"{name}/{model}", "from": f"models.providers.{name}"}
        for name, provider in env.config.models.providers.items()
        for model in ([one.id for one in provider.models] or ["*"])
    ]
    keyed = [
        {"id": f"{known.name}/{known.default_model}", "from": f"{variable} is set"}
        for known in known_providers().values()
        for variable in known.key_variables
        if env.environ.get(variable)
    ]
    return configured + keyed


def _list(args: Namespace, env: Environment) -> None:
    providers, local = _provider_facts(env), _local_facts(env)
    none = "  none: no key in the environment and nothing under models.providers"
    lines = ["Provider models:", *([] if providers else [none])]
    for fact in providers:
        lines.append(f"  {fact['id']}  ({fact['from']})")
        if fact["id"].endswith("/*"):
            use = f"use any of the provider's with: --model {fact['id'].removesuffix('*')}NAME"
            lines.append(f"      no models are listed here; {use}")
    lines.append("\nEmbedded models (they run on this machine and need no account):")
    for fact in local:
        state = "installed" if fact["installed"] else "not downloaded"
        size = f", {fact['megabytes']} MB" if fact["megabytes"] else ""
        lines.append(f"  {fact['id']}  ({state}{size}, {fact['licence']})")
        lines.append(f"      {fact['title']}. Good for: {fact['goodFor']}.")
    lines.append("\nDownload one with: openclaw models pull NAME")
    lines.append('You can also use your own GGUF: "agents.defaults.model": "local//path/to.gguf"')
    env.report(args, {"providers": providers, "local": local}, *lines)


def choices(env: Environment) -> "dict[str, ModelCandidates]":
    async def all_choices() -> "dict[str, ModelCandidates]":
        return {
            agent.id: await choose(agent.model, env.config.models.providers, env.environ)
            for agent in env.agents().values()
        }

    return anyio.run(all_choices)


def why_unusable(candidate: "Candidate", env: Environment) -> str | None:
    """Why a model cannot be used, as far as is known without a request."""
    if (extra := missing_extra(candidate.api)) is not None:
        return f"not installed: {install_command(extra)}"
    if candidate.api != "local":
        missing = candidate.key_hint and not candidate.api_key
        return f"no key: run {env.program} init, or set {candidate.key_hint}" if missing else None
    if candidate.path is not None or "/" in candidate.model:
        path = Path(candidate.path or candidate.model).expanduser()
        return None if path.is_file() else f"there is no file {path}"
    weights = _store(env).find(candidate.model)
    if weights is None:
        return "unknown weights: see openclaw models list"
    if not _store(env).is_installed(weights):
        return f"not downloaded yet: run openclaw models pull {weights.name}"
    return None


def model_facts(env: Environment) -> list[dict[str, Any]]:
    def facts(candidate: "Candidate") -> dict[str, Any]:
        problem = why_unusable(candidate, env)
        weights = _store(env).find(candidate.model) if candidate.api == "local" else None
        known = {"model": candidate.ref, "api": candidate.api, "ready": problem is None}
        wrong = {"problem": problem} if problem else {}
        return known | wrong | ({"goodFor": weights.good_for} if weights is not None else {})

    return [
        {"agent": agent, "reason": choice.reason, "models": [*map(facts, choice.candidates)]}
        for agent, choice in choices(env).items()
    ]


def _status(args: Namespace, env: Environment) -> int:
    agents = model_facts(env)
    lines: list[str] = []
    for entry in agents:
        lines.append(f"{entry['agent']}: {entry['reason']}")
        for model in entry["models"]:
            # Only the embedded model can be checked without a request to a provider.
            state = "ready" if model["api"] == "local" else "configured"
            lines.append(f"  {model['model']}  {model.get('problem', state)}")
            lines += [f"      good for: {model['goodFor']}"] if "goodFor" in model else []
    env.report(args, {"agents": agents, "weights": str(env.paths.models)}, *lines)
    usable = all(any(model["ready"] for model in entry["models"]) for entry in agents)
    return EXIT_OK if usable else EXIT_FAILED


def _wanted(args: Namespace, env: Environment) -> Weights:
    what: str = (args.what or DEFAULT_WEIGHTS).removeprefix("local/")
    if "://" in what:
        sha256: str = (args.sha256 or "").lower()
        if len(sha256) != _SHA256_LENGTH or not all(c in "0123456789abcdef" for c in sha256):
            raise InvalidRequest(
                "weights from an address need the SHA-256 of the file",
                hint="add --sha256 HEX, from a source that you trust",
            )
        name = args.name or Path(what.partition("?")[0]).stem.lower()
        return own_weights(name, what, sha256)
    weights = _store(env).find(what)
    if weights is None:
        hint = "see: openclaw models list"
        raise InvalidRequest(f"there are no weights called {what!r}", hint=hint)
    return weights


def _pull(args: Namespace, env: Environment) -> None:
    weights = _wanted(args, env)
    moves = env.stderr.isatty() and not is_dumb(env.environ)
    with console(env.stderr, env.environ).status(weights.title) if moves else nullcontext() as bar:

        def report(progress: "Downloading") -> None:
            if bar is not None:
                bar.update(f"{weights.title}: {download_bar(progress)}")

        path = Puller(_store(env), env.environ, report=report).pull(weights, force=args.force)
    facts = {"id": f"local/{weights.name}", "path": str(path), "goodFor": weights.good_for}
    env.report(args, facts, f"{facts['id']} is at {path}", f"Good for: {weights.good_for}.")
