"""The environment variables that a server or a command gets."""

import sys
from collections.abc import Mapping, Sequence

_POSIX = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "TMPDIR", "TZ")

# A server behind a proxy fails without them; they aren't secret unless one has a password in it.
NETWORK = (
    "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "HTTP_PROXY",
    "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy",
)  # fmt: skip

# Programs on Windows fail in odd ways without these.
_WINDOWS = (
    "APPDATA", "COMSPEC", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "NUMBER_OF_PROCESSORS", "OS",
    "PATH", "PATHEXT", "PROCESSOR_ARCHITECTURE", "PROGRAMDATA", "PROGRAMFILES",
    "PROGRAMFILES(X86)", "PSMODULEPATH", "SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "TMP", "TZ",
    "USERDOMAIN", "USERNAME", "USERPROFILE", "WINDIR",
)  # fmt: skip


def child_environment(
    environ: Mapping[str, str],
    own: Mapping[str, str],
    inherit: bool | Sequence[str],
    *,
    windows: bool = sys.platform == "win32",
) -> dict[str, str]:
    """The host's basic variables and those that `inherit` adds, overridden by `own`.

    Functions that bash exports are never passed on, as they are code.
    """
    if inherit is True:
        chosen = dict(environ)
    else:
        fold = str.upper if windows else str
        basics = _WINDOWS if windows else (*_POSIX, *(n for n in environ if n.startswith("LC_")))
        network = (name for name in NETWORK if "@" not in environ.get(name, ""))
        names = {fold(name) for name in (*basics, *network, *(inherit or ()))}
        chosen = {name: value for name, value in environ.items() if fold(name) in names}
    chosen = {name: value for name, value in chosen.items() if not value.startswith("()")}
    return {**chosen, **own}
