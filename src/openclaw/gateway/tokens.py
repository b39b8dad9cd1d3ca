"""Who may do what at the gateway: the owner's token, named tokens, and one-time links to the page.

The owner's token is created at the first start; only this account can read the file. Our own programs
use it, and other accounts on this machine have no access.
"""

import hashlib
import hmac
import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from typing import Any

import orjson

from openclaw.config.paths import PRIVATE_FILE, locked, write_atomically
from openclaw.core.clock import Clock
from openclaw.core.errors import InvalidRequest, NotFound, OperatorFacing
from openclaw.gateway.lock import TOKEN_BYTES, owner_token_path, read_token
from openclaw.secrets.refs import Secret
from openclaw.sessions.records import session_owner, token_prefix

SCOPES = {  # what a token may allow; `admin` includes the others
    "orders": "give orders and follow their turns",
    "tools": "call the MCP servers' tools through /mcp/hub",
    "read": "see sessions, servers, events and logs",
    "admin": "everything: also answer questions, accept pins, restart servers, change the configuration",
}

LINK_SECONDS = 600.0  # how long a one-time link to the page is good for
PAGE_SECONDS = 30 * 24 * 3600.0  # how long a page stays logged in

_NAME_CHARS = 64
_FIELDS = itemgetter("name", "scopes", "sha256", "created")
_MOST_LINKS = 100


@dataclass(frozen=True, slots=True)
class Grant:
    """What the sender of a request may do. `owner` is a program of this account on this machine."""

    name: str
    scopes: frozenset[str]
    owner: bool = False

    def allows(self, scope: str) -> bool:
        return scope in self.scopes or "admin" in self.scopes

    def session(self, key: str) -> str:
        """The session that this key means: never one of another token.

        Tokens without the scope `read` have sessions of their own; the others share the user's.
        """
        return key if self.may_use(session_owner(key)) else token_prefix(self.name) + key

    def may_use(self, owner: str) -> bool:
        """Whether the sessions of this owner ("" is the user) may be continued and stopped."""
        shared = not owner and self.allows("read")
        return owner == self.name or shared or self.allows("admin")

    def may_see(self, owner: str) -> bool:
        return self.allows("read") or self.may_use(owner)


OWNER = Grant("owner", frozenset({"admin"}), owner=True)
CONFIGURED = Grant("gateway.auth.token", frozenset({"admin"}))
PAGE = Grant("page", frozenset({"admin"}))


@dataclass(frozen=True, slots=True)
class NamedToken:
    name: str
    scopes: tuple[str, ...]
    sha256: str
    created: int


def owner_token(root: Path) -> Secret:
    path = owner_token_path(root)
    with locked(path):
        token = read_token(root)
        if token is None:
            token = secrets.token_urlsafe(TOKEN_BYTES)
            write_atomically(path, token)
        else:
            path.chmod(PRIVATE_FILE)
    return Secret(token)


class TokenFile:
    def __init__(self, root: Path, clock: Clock) -> None:
        self._path = root / "tokens.json"
        self._clock = clock
        self._stamp: tuple[int, int] | None = None
        self._found: tuple[NamedToken, ...] = ()

    def all(self) -> tuple[NamedToken, ...]:
        """The tokens; the file is read again when it has changed."""
        try:
            status = self._path.stat()
        except OSError:
            self._stamp, self._found = None, ()
            return ()
        stamp = (status.st_mtime_ns, status.st_size)
        if stamp != self._stamp:
            self._found, self._stamp = self._read(), stamp
        return self._found

    def add(self, name: str, scopes: Iterable[str]) -> Secret:
        """Create a token; its value is returned once and stored nowhere."""
        chosen = tuple(dict.fromkeys(scopes))
        if not name or len(name) > _NAME_CHARS or not name.isprintable() or name != name.strip():
            message = f"a token's name must have 1 to {_NAME_CHARS} visible characters"
            raise InvalidRequest(message, field="name")
        if name in (OWNER.name, CONFIGURED.name, PAGE.name):  # it would share their sessions
            raise InvalidRequest(f"the name '{name}' is reserved; choose another", field="name")
        if not chosen or not set(chosen) <= SCOPES.keys():
            raise InvalidRequest(f"scopes are {', '.join(SCOPES)}", field="scope")
        value = secrets.token_urlsafe(TOKEN_BYTES)
        with locked(self._path):
            tokens = self._read()
            if any(one.name == name for one in tokens):
                raise InvalidRequest(f"a token named '{name}' already exists", field="name")
            new = NamedToken(name, chosen, _digest(value.encode()), self._clock.now_ms())
            self._write((*tokens, new))
        return Secret(value)

    def remove(self, name: str) -> None:
        with locked(self._path):
            tokens = self._read()
            left = tuple(one for one in tokens if one.name != name)
            if len(left) == len(tokens):
                raise NotFound(f"there is no token named '{name}'")
            self._write(left)

    def _read(self) -> tuple[NamedToken, ...]:
        try:
            rows: Any = orjson.loads(self._path.read_bytes())
            return tuple(
                NamedToken(str(name), tuple(map(str, scopes)), str(sha256), int(created))
                for name, scopes, sha256, created in (_FIELDS(row) for row in rows)
            )
        except FileNotFoundError:
            return ()
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise OperatorFacing(
                f"{self._path} cannot be read: {error}",
                hint="move the file away and create the tokens again",
            ) from None

    def _write(self, tokens: Sequence[NamedToken]) -> None:
        write_atomically(self._path, orjson.dumps(tokens).decode())


def _digest(value: bytes) -> str:
    return hashlib.sha256(value).hexdigest()


@dataclass(slots=True)
class Tokens:
    """What bearer tokens allow. Comparisons take constant time."""

    owner: Secret
    clock: Clock
    configured: Secret | None = None
    named: TokenFile | None = None
    _links: dict[str, tuple[float, bool]] = field(default_factory=dict[str, tuple[float, bool]])

    @property
    def handed_out(self) -> bool:
        return self.configured is not None or bool(self.named and self.named.all())

    def grant(self, given: bytes | None) -> Grant | None:
        if given is None:
            return None
        known = [(_digest(self.owner.reveal().encode()), OWNER)]
        if self.configured is not None:
            known.append((_digest(self.configured.reveal().encode()), CONFIGURED))
        named = self.named.all() if self.named is not None else ()
        known += [(t.sha256, Grant(t.name, frozenset(t.scopes))) for t in named]
        digest = _digest(given)
        matches = [grant for one, grant in known if hmac.compare_digest(digest, one)]
        if matches:
            return matches[0]
        return PAGE if self._is_of_page(given) else None

    def new_link_code(self, *, local: bool = False) -> str:
        """A code that logs a page in once; if `local`, only one that this account opened."""
        now = self.clock.monotonic()
        self._links = {code: link for code, link in self._links.items() if link[0] > now}
        if len(self._links) >= _MOST_LINKS:
            self._links.pop(next(iter(self._links)))
        code = secrets.token_urlsafe(TOKEN_BYTES)
        self._links[_digest(code.encode())] = (now + LINK_SECONDS, local)
        return code

    def redeem(self, code: str, is_ours: Callable[[], bool] = lambda: True) -> Secret | None:
        """A token for the page that has this code; None if it was used or is too old.

        A local code that another account presents stays valid: everybody on the machine can see it
        in the browser's arguments.
        """
        until, local = self._links.get(_digest(code.encode()), (0.0, False))
        if until <= self.clock.monotonic() or (local and not is_ours()):
            return None
        del self._links[_digest(code.encode())]
        until_ms = self.clock.now_ms() + int(PAGE_SECONDS * 1000)
        body = f"page.{until_ms}.{secrets.token_urlsafe(TOKEN_BYTES)}"
        return Secret(f"{body}.{self._signed(body)}")

    def _is_of_page(self, given: bytes) -> bool:
        """Whether we signed it and it is still valid. Nothing is stored, so it survives a restart."""
        body, _, signature = given.decode("latin-1").rpartition(".")
        if not hmac.compare_digest(self._signed(body).encode(), signature.encode("latin-1")):
            return False
        return int(body.split(".")[1]) > self.clock.now_ms()

    def _signed(self, body: str) -> str:
        key = self.owner.reveal().encode()
        return hmac.new(key, body.encode("latin-1"), hashlib.sha256).hexdigest()
