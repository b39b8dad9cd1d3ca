"""How the system starts the gateway and keeps it running: systemd, launchd, or Windows tasks."""

import contextlib
import html
import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import anyio

from openclaw.config.paths import home_dir, state_dir

LABEL = "ai.openclaw.gateway"


@dataclass(frozen=True, slots=True)
class Unit:
    path: Path
    text: str
    install: tuple[str, ...]
    start: tuple[str, ...]
    stop: tuple[str, ...]  # stops it for good


def unit_for(kind: str | None, environ: Mapping[str, str], config: Path | None) -> Unit:
    usual = {"darwin": "launchd", "win32": "windows"}.get(sys.platform, "systemd")
    make = {"systemd": _systemd, "launchd": _launchd, "windows": _windows}[kind or usual]
    return make(environ, _command(config))


def _command(config: Path | None) -> list[str]:
    program = Path(sys.executable).parent / "openclaw"
    start = [str(program)] if program.exists() else [sys.executable, "-P", "-m", "openclaw"]
    named = ["--config", str(config.absolute())] if config else []
    return [*start, "gateway", "run", *named]


def _variables(environ: Mapping[str, str]) -> dict[str, str]:
    variables = {"PATH": environ.get("PATH", ""), "OPENCLAW_STATE_DIR": str(state_dir(environ))}
    return {name: value for name, value in variables.items() if value}


def _systemd(environ: Mapping[str, str], command: list[str]) -> Unit:
    variables = "\n".join(
        f"Environment={_systemd_quoted(f'{name}={value}')}"
        for name, value in _variables(environ).items()
    )
    words = " ".join(_systemd_quoted(word) for word in command)
    text = f"""[Unit]
Description=OpenClaw gateway
After=network-online.target
Wants=network-online.target

[Service]
Type=notify
ExecStart={words}
{variables}
Restart=on-failure
RestartSec=2
WatchdogSec=60
TimeoutStopSec=60
KillMode=mixed
NoNewPrivileges=yes
UMask=0077

[Install]
WantedBy=default.target
"""
    root = Path(environ.get("XDG_CONFIG_HOME") or home_dir(environ) / ".config")
    path = root / "systemd" / "user" / "openclaw-gateway.service"
    user = ("systemctl", "--user")
    return Unit(
        path,
        text,
        (*user, "enable", "--now", path.name),
        (*user, "start", path.name),
        (*user, "disable", "--now", path.name),
    )


def _systemd_quoted(word: str) -> str:
    """Quote one word; systemd also interprets `%` (specifiers) and `$` (variables)."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{escaped}"'


def _launchd(environ: Mapping[str, str], command: list[str]) -> Unit:
    import plistlib

    facts = {
        "Label": LABEL,
        "ProgramArguments": command,
        "EnvironmentVariables": _variables(environ),
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "ExitTimeOut": 60,
        "Umask": 0o077,
    }
    text = plistlib.dumps(facts, sort_keys=False).decode()
    path = home_dir(environ) / "Library" / "LaunchAgents" / f"{LABEL}.plist"
    domain = f"gui/{getattr(os, 'getuid', int)()}"
    return Unit(
        path,
        text,
        ("launchctl", "bootstrap", domain, str(path)),
        ("launchctl", "kickstart", f"{domain}/{LABEL}"),
        ("launchctl", "bootout", f"{domain}/{LABEL}"),
    )


_TASK = "OpenClaw gateway"


def _windows(environ: Mapping[str, str], command: list[str]) -> Unit:
    arguments = subprocess.list2cmdline(command[1:])
    text = f"""<?xml version="1.0" encoding="UTF-8"?>
<Task version="1.2" xmlns="http://schemas.microsoft.com/windows/2004/02/mit/task">
  <Triggers><LogonTrigger><Enabled>true</Enabled></LogonTrigger></Triggers>
  <Settings>
    <MultipleInstancesPolicy>IgnoreNew</MultipleInstancesPolicy>
    <DisallowStartIfOnBatteries>false</DisallowStartIfOnBatteries>
    <StopIfGoingOnBatteries>false</StopIfGoingOnBatteries>
    <ExecutionTimeLimit>PT0S</ExecutionTimeLimit>
    <RestartOnFailure><Interval>PT1M</Interval><Count>10</Count></RestartOnFailure>
  </Settings>
  <Actions><Exec>
    <Command>{html.escape(command[0], quote=False)}</Command>
    <Arguments>{html.escape(arguments, quote=False)}</Arguments>
  </Exec></Actions>
</Task>
"""
    path = state_dir(environ) / "gateway-task.xml"
    task = ("/TN", _TASK)
    return Unit(
        path,
        text,
        ("schtasks", "/Create", *task, "/XML", str(path), "/F"),
        ("schtasks", "/Run", *task),
        ("schtasks", "/Delete", *task, "/F"),
    )


class Notifier:
    """Reports our state to systemd, if it started us."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._address = environ.get("NOTIFY_SOCKET", "")
        microseconds = environ.get("WATCHDOG_USEC", "")
        self._watchdog = int(microseconds) / 1e6 if microseconds.isdigit() else 0

    def ready(self, url: str) -> None:
        self._send(f"READY=1\nSTATUS=listening at {url}")

    def stopping(self) -> None:
        self._send("STOPPING=1")

    async def keep_alive(self) -> None:
        """Report from the event loop, twice as often as required, that it isn't stuck."""
        while self._watchdog:
            self._send("WATCHDOG=1")
            await anyio.sleep(self._watchdog / 2)

    def _send(self, message: str) -> None:
        if not self._address or sys.platform == "win32":
            return
        address = "\0" + self._address[1:] if self._address[0] == "@" else self._address
        with (
            contextlib.suppress(OSError),
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as datagram,
        ):
            datagram.setblocking(False)
            datagram.sendto(message.encode(), address)
