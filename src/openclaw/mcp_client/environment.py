"""The environment of a child process: what every program needs, what was named, and no more."""

from collections.abc import Mapping, Sequence

_POSIX = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "TMPDIR", "TZ")

# What programs on Windows fail in odd ways without.
_WINDOWS = (
    "APPDATA",
    "COMSPEC",
    "HOMEDRIVE",
    "HOMEPATH",
    "LOCALAPPDATA",
    "NUMBER_OF_PROCESSORS",
    "OS",
    "PATH",
    "PATHEXT",
    "PROCESSOR_ARCHITECTURE",
    "PROGRAMDATA",
    "PROGRAMFILES",
    "PROGRAMFILES(X86)",
    "PSMODULEPATH",
    "SYSTEMDRIVE",
    "SYSTEMROOT",
    "TEMP",
    "TMP",
    "TZ",
    "USERDOMAIN",
    "USERNAME",
    "USERPROFILE",
    "WINDIR",
)


def child_environment(
    environ: Mapping[str, str],
    own: Mapping[str, str],
    inherit: bool | Sequence[str],
    *,
    windows: bool = False,
) -> dict[str, str]:
    """The host's basic variables and those that `inherit` adds, with `own` over them.

    A value that bash exports as a function is never passed on, as it is code.
    """
    if inherit is True:
        chosen = dict(environ)
    else:
        named = {_fold(name, windows) for name in inherit or ()}
        names = _basics(environ, windows=windows) | named
        chosen = {name: value for name, value in environ.items() if _fold(name, windows) in names}
    chosen = {name: value for name, value in chosen.items() if not value.startswith("()")}
    return {**chosen, **own}


def _basics(environ: Mapping[str, str], *, windows: bool) -> set[str]:
    if windows:
        return set(_WINDOWS)
    return {*_POSIX, *(name for name in environ if name.startswith("LC_"))}


def _fold(name: str, windows: bool) -> str:
    return name.upper() if windows else name
