"""What a command gets from the process it runs in. The only reader of the process environment."""

import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from openclaw.config.load import load_config
from openclaw.config.merge import effective_agents
from openclaw.config.paths import StatePaths, config_path, state_dir
from openclaw.config.state_backup import migrate
from openclaw.config.state_version import is_outdated
from openclaw.core.clock import SystemClock
from openclaw.core.errors import InvalidConfig, InvalidRequest, OperatorFacing, Problem
from openclaw.gateway.lock import running_gateway
from openclaw.runtime.open_secrets import open_secrets
from openclaw.secrets.redactor import Redactor
from openclaw.secrets.refs import known_values
from openclaw.sessions.sqlite import schema

if TYPE_CHECKING:
    from argparse import Namespace

    from openclaw.config.load import LoadedConfig
    from openclaw.config.merge import EffectiveAgent
    from openclaw.config.schema import Config
    from openclaw.secrets.resolver import SecretResolver


def text_of(read: Callable[[], str | bytes]) -> str:
    """Raises `InvalidRequest` if stdin is not text."""
    try:
        given = read()
        text = given.decode() if isinstance(given, bytes) else given
        text.encode()  # fails if Python kept invalid bytes as surrogates
    except UnicodeError:
        raise InvalidRequest("is not UTF-8 text", field="stdin") from None
    return text


@dataclass(frozen=True)
class Environment:
    """The outside world as a command sees it.

    `runs_until_stopped` is true for commands such as servers: only those remind the person of
    credentials in the configuration.
    """

    program: str = "openclaw"
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    stdin: TextIO = field(default_factory=lambda: sys.stdin)
    stdout: TextIO = field(default_factory=lambda: sys.stdout)
    stderr: TextIO = field(default_factory=lambda: sys.stderr)
    config_option: Path | None = None
    redactor: Redactor = field(default_factory=Redactor)
    runs_until_stopped: bool = False
    warned: set[str] = field(default_factory=set[str])

    def read_config(self) -> "LoadedConfig":
        """The configuration; a file that was named with --config must exist."""
        loaded = load_config(self.config_option, self.environ)
        if self.config_option is not None and not loaded.exists:
            raise InvalidConfig([Problem("", "there is no such file")], source=str(loaded.path))
        return loaded

    def load_config(self) -> "LoadedConfig":
        """The same, with each of its warnings shown once."""
        loaded = self.read_config()
        self.hide((*loaded.credentials, *known_values(self.paths.root)))
        for warning in loaded.warnings:
            silent = warning in loaded.reminders and not self.runs_until_stopped
            if warning not in self.warned and not silent:
                self.warned.add(warning)
                self.warn(f"{self.program}: Warning: {warning}")
        return loaded

    @cached_property
    def loaded(self) -> "LoadedConfig":
        """The same, read once, for short-lived commands."""
        return self.load_config()

    @property
    def config(self) -> "Config":
        return self.loaded.config

    def agents(self) -> "dict[str, EffectiveAgent]":
        return effective_agents(self.config)

    def hide(self, credentials: Iterable[str]) -> None:
        for value in credentials:
            self.redactor.register(value)

    @property
    def config_file(self) -> Path:
        return self.config_option or config_path(self.environ)

    @property
    def paths(self) -> "StatePaths":
        return StatePaths(state_dir(self.environ))

    def prepare_state(self, *, may_wait: bool = False) -> None:
        """Refuse a newer version's state, and migrate an older one's; raises `OperatorFacing`.

        A running gateway of an older version needs the files as they are, so it must be restarted
        first. If the command `may_wait`, it runs nevertheless.
        """
        schema.refuse_newer(self.paths.database)
        if not is_outdated(self.paths.root):
            return
        if (gateway := running_gateway(self.paths.gateway_lock)) is not None:
            if may_wait:
                return
            raise OperatorFacing(
                f"the running gateway is of an older version ({gateway.version})",
                hint=f"{self.program} gateway restart",
            )
        migrated = migrate(self.paths.root, SystemClock().now_ms())
        if migrated is not None:
            self.warn(f"{self.program}: {migrated}")

    def say(self, text: str) -> None:
        self.stdout.write(self.redactor.redact(text) + "\n")

    def say_json(self, value: Any, *, one_line: bool = False) -> None:
        self.say(self.json_text(value, one_line=one_line))

    def json_text(self, value: Any, *, one_line: bool = False) -> str:
        layout: Any = {"separators": (",", ":")} if one_line else {"indent": 2}
        text = json.dumps(value, ensure_ascii=False, **layout)
        # Lone surrogates (of a file name that isn't UTF-8) are valid JSON only if escaped, a terminal
        # obeys some characters that JSON doesn't escape, and other terminals lack letters.
        narrow = (self.stdout.encoding or "utf-8").casefold().replace("-", "") != "utf8"
        plain = text.replace("\n", "").isprintable() and (text.isascii() or not narrow)
        return text if plain else json.dumps(value, **layout)

    def report(self, args: "Namespace", facts: Any, *lines: str, empty: str | None = None) -> None:
        """Print the facts with `--json`, else these lines, or `empty` if there are none."""
        if args.json:
            self.say_json(facts)
            return
        for line in lines or ([] if empty is None else [empty]):
            self.say(line)

    def confirms(self, args: "Namespace", question: str, what: str) -> bool:
        """Ask before doing `what`, unless there is `--yes`; raises `InvalidRequest` if nobody can answer."""
        if args.yes:
            return True
        if getattr(args, "json", False) or not (self.stdin.isatty() and self.stdout.isatty()):
            ways = f"pass --yes to {what}"
            raise InvalidRequest(f"cannot ask without a terminal or with --json; {ways}")
        self.stdout.write(f"{question}? This cannot be undone. Continue? [y/N] ")
        self.stdout.flush()
        return text_of(self.stdin.readline).strip().casefold() in ("y", "yes")

    def secrets(self) -> "SecretResolver":
        return open_secrets(self.config, self.environ, self.redactor)

    def warn(self, text: str) -> None:
        self.stderr.write(self.redactor.redact(text) + "\n")
