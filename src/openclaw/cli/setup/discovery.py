"""What `openclaw init` finds on a machine: keys by name, models, other programs and their servers."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from openclaw.cli.environment import Environment
from openclaw.cli.setup.import_servers import ImportedServer, Reference, plain_values, protect
from openclaw.cli.setup.other_clients import (
    CLIENTS,
    client_file,
    client_target,
    is_ourselves,
    read_client,
)
from openclaw.config.paths import home_dir
from openclaw.config.secret_store import SecretStore
from openclaw.core.errors import InvalidRequest
from openclaw.core.installed import install_command
from openclaw.secrets.credentials import looks_like_credential
from openclaw.secrets.refs import Secret


@dataclass(frozen=True, slots=True)
class ModelOffer:
    """A model that could be used and why.

    Its key is in the environment variable `variable`, or is `pasted` and to be stored under that name.
    """

    ref: str
    reason: str
    variable: str | None = None
    pasted: Secret | None = None
    base_url: str | None = None
    """Where the provider is that the configuration gets with it; None if it is known."""

    @property
    def reference(self) -> str | None:
        return (
            f"secret://{'store' if self.pasted else 'env'}/{self.variable}"
            if self.variable
            else None
        )

    @property
    def provider(self) -> str:
        return self.ref.partition("/")[0]


@dataclass(frozen=True, slots=True)
class FoundServer:
    """A server of another program, its credentials already references."""

    client: str
    server: ImportedServer

    @property
    def target(self) -> str:
        entry = self.server.entry
        words = [str(entry.get("command", "")), *map(str, entry.get("args", ()))]
        return str(entry.get("url") or " ".join(words))


@dataclass(frozen=True, slots=True)
class Found:
    models: tuple[ModelOffer, ...]
    keys: tuple[str, ...]
    credentials: tuple[str, ...]
    clients: Mapping[str, Path]
    servers: tuple[FoundServer, ...]
    references: tuple[Reference, ...]
    notes: tuple[str, ...]


def look(env: Environment) -> Found:
    servers, notes = _servers(env)
    env.hide(plain_values(one.server for one in servers))
    stored = SecretStore(env.environ).in_file()
    kept, references = protect((one.server for one in servers), env.environ, stored)
    keys = _keys(env)
    return Found(
        models=_models(env),
        keys=keys,
        credentials=tuple(
            sorted(
                name
                for name, value in env.environ.items()
                if value and name not in keys and _may_be_for_servers(name)
            )
        ),
        clients={
            name: path for name in CLIENTS if (path := client_target(name, env.environ)) is not None
        },
        servers=tuple(
            FoundServer(one.client, server) for one, server in zip(servers, kept, strict=True)
        ),
        references=references,
        notes=tuple(notes),
    )


_THE_SHELLS = frozenset({"PWD", "OLDPWD"})  # directories, whatever PWD is short for elsewhere


def _may_be_for_servers(name: str) -> bool:
    if name in _THE_SHELLS:
        return False
    return looks_like_credential(name) and not name.startswith(("SSH_", "GPG_", "OPENCLAW_"))


def shown_path(path: Path, environ: Mapping[str, str]) -> str:
    try:
        return f"~/{path.relative_to(home_dir(environ)).as_posix()}"
    except ValueError:
        return str(path)


def _keys(env: Environment) -> tuple[str, ...]:
    from openclaw.models.choose import KNOWN_PROVIDERS

    known = [name for one in KNOWN_PROVIDERS.values() for name in one.key_variables]
    return tuple(name for name in known if env.environ.get(name))


def _models(env: Environment) -> tuple[ModelOffer, ...]:
    """Those of keys in the environment; without one, what answers here, then every provider.

    The embedded one comes before those that need a key first, and says what it cannot do.
    """
    import anyio

    from openclaw.models.choose import (
        DEFAULT_LOCAL_MODEL,
        KNOWN_PROVIDERS,
        LOCAL_PROVIDER,
        missing_extra,
    )

    keyed: list[ModelOffer] = []
    others: list[ModelOffer] = []
    for known in KNOWN_PROVIDERS.values():
        ref = f"{known.name}/{known.default_model}"
        extra = missing_extra(known.api)
        lacking = f"; first: {install_command(extra)}" if extra else ""
        variable = next((name for name in known.key_variables if env.environ.get(name)), None)
        if variable is not None:
            keyed.append(ModelOffer(ref, f"{variable} is set{lacking}", variable))
        elif known.key_page:
            others.append(ModelOffer(ref, f"paste a key from {known.key_page}{lacking}"))
    local = ModelOffer(
        f"{LOCAL_PROVIDER}/{DEFAULT_LOCAL_MODEL}",
        "embedded, no account, 98 MB: small talk and simple tool requests; it cannot reason, "
        "write code or summarise",
    )
    keyed.sort(key=lambda one: "; first: " in one.reason)
    running = anyio.run(_running, env)
    return (*keyed, local) if keyed else (*running, local, *others)


async def _running(env: Environment) -> list[ModelOffer]:
    from openclaw.models.choose import (
        KNOWN_PROVIDERS,
        lmstudio_models,
        ollama_models,
        ollama_url,
    )

    address = ollama_url(env.environ)
    found = {
        "ollama": ("Ollama", await ollama_models(address)),
        "lmstudio": ("LM Studio", await lmstudio_models(KNOWN_PROVIDERS["lmstudio"].base_url)),
    }
    offers: list[ModelOffer] = []
    for provider, (title, models) in found.items():
        chat = next((name for name in models if "embed" not in name), None)
        if chat is not None:
            more = f", with {len(models)} models" if len(models) > 1 else ""
            offers.append(ModelOffer(f"{provider}/{chat}", f"{title} is running here{more}"))
    return offers


def _servers(env: Environment) -> tuple[list[FoundServer], list[str]]:
    found: dict[str, FoundServer] = {}
    notes: list[str] = []
    for name, client in CLIENTS.items():
        path = client_file(name, env.environ)
        if path is None:
            continue
        try:
            servers = read_client(name, path)
        except InvalidRequest as error:
            notes.append(error.message)
            continue
        for server in servers:
            if is_ourselves(server.entry):
                continue
            first = found.setdefault(server.name, FoundServer(name, server))
            if first.server.entry != server.entry:
                other = CLIENTS[first.client].title
                notes.append(
                    f"{client.title}'s server '{server.name}' differs from {other}'s, which is "
                    "offered instead"
                )
    return list(found.values()), notes
