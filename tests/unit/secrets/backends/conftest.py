from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from openclaw.config.schema import Config
from openclaw.runtime.open_secrets import open_secrets
from openclaw.secrets.redactor import Redactor
from openclaw.secrets.resolver import SecretResolver

Opener = Callable[..., SecretResolver]


@pytest.fixture
def redactor() -> Redactor:
    return Redactor()


@pytest.fixture
def open_resolver(home: Path, redactor: Redactor) -> Opener:
    """A resolver as a user gets it: from the `secrets` section and the environment."""

    def opened(
        options: Mapping[str, Any] | None = None, environ: Mapping[str, str] | None = None
    ) -> SecretResolver:
        config = Config.model_validate({"secrets": dict(options or {})})
        variables = {"HOME": str(home), "PATH": "/usr/bin:/bin", **(environ or {})}
        return open_secrets(config, variables, redactor)

    return opened


@pytest.fixture
def make_program(tmp_path: Path) -> Callable[[str, str], Path]:
    """Write an executable shell script and return the directory that it is in."""

    def make(name: str, body: str) -> Path:
        directory = tmp_path / "bin"
        directory.mkdir(exist_ok=True)
        program = directory / name
        program.write_text(f"#!/bin/sh\n{body}\n")
        program.chmod(0o700)
        return directory

    return make
