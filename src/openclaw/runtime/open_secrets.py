"""Opens the places where secrets come from."""

from collections.abc import Mapping

from openclaw.config.paths import state_dir
from openclaw.config.schema import Config
from openclaw.secrets.backends import open_backends
from openclaw.secrets.redactor import Redactor
from openclaw.secrets.resolver import SecretResolver


def open_secrets(config: Config, environ: Mapping[str, str], redactor: Redactor) -> SecretResolver:
    options = config.secrets.model_dump(by_alias=False)
    backends = open_backends(options, environ, redactor, state_dir(environ))
    return SecretResolver(backends, redactor, timeout=config.secrets.timeout_ms / 1000)
