"""No secret, in any usual encoding, survives in any line that leaves the process."""

import base64
import html
import importlib
import io
import json
import logging
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest

from openclaw.cli.logging_setup import configure
from openclaw.secrets.redactor import Redactor

PEM = """-----BEGIN PRIVATE KEY-----
MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj
MzEfYyjiWA4R4/M2bS1GB4t7NXp98C3SC6dVMvDuictGeurT8jNbvJZHtCSuYEvu
NMoSfm76oqFvAp8Gy0iz5sxjZmSnXyCdPEovGhLa0VzMaQ8s+CLOyS56YyCFGeJZ
-----END PRIVATE KEY-----"""

# The frame of a key is public, and stays.
NOT_SECRET = "-----BEGIN PRIVATE KEY----------END PRIVATE KEY-----"

SECRETS = (
    "hunter22",
    "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
    "correct horse battery staple",
    'quo"te\\back/slash',
    "p@ss:w0rd?&=+%#<tag>'x'",
    "пароль-без-секрета-密码",
    "emoji🔑secret🔒value",
    "tab\tand\nnewline-secret",
    "0123456789abcdef0123456789abcdef",
    "AQEBAQEB//++==AQEBAQEB",
    "sk-ant-api03-" + "x" * 12 + "9" * 200,
    PEM,
)


def base64_at(offset: int, *, url_safe: bool) -> Callable[[str], str]:
    def encode(value: str) -> str:
        data = b"uvw"[:offset] + value.encode() + b"xyz"
        encoded = base64.urlsafe_b64encode(data) if url_safe else base64.b64encode(data)
        return encoded.decode()

    return encode


def lower_percent(value: str) -> str:
    encoded = quote(value, safe="")
    return "".join(
        piece if not index else f"%{piece[:2].lower()}{piece[2:]}"
        for index, piece in enumerate(encoded.split("%"))
    )


def go_json(value: str) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def base64_of(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def ascii_escaped(text: str) -> str:
    units = text.encode("utf-16-be").hex()
    return "".join(f"\\u{units[i : i + 4]}" for i in range(0, len(units), 4))


ENCODINGS: dict[str, Callable[[str], str]] = {
    "raw": str,
    "json": json.dumps,
    "json unicode": lambda v: json.dumps(v, ensure_ascii=False),
    "json escaped slash": lambda v: json.dumps(v).replace("/", "\\/"),
    "json html-safe": go_json,
    "json in json": lambda v: json.dumps(json.dumps({"k": v})),
    "repr": repr,
    "ascii": ascii,
    "bytes repr": lambda v: repr(v.encode()),
    "url": lambda v: quote(v, safe=""),
    "url lower": lower_percent,
    "url path": quote,
    "form": quote_plus,
    "url all": lambda v: "".join(f"%{b:02X}" for b in v.encode()),
    "url all lower": lambda v: "".join(f"%{b:02x}" for b in v.encode()),
    "url twice": lambda v: quote(quote(v, safe=""), safe=""),
    "base64 0": base64_at(0, url_safe=False),
    "base64 1": base64_at(1, url_safe=False),
    "base64 2": base64_at(2, url_safe=False),
    "base64url 0": base64_at(0, url_safe=True),
    "base64url 1": base64_at(1, url_safe=True),
    "base64url 2": base64_at(2, url_safe=True),
    "base64 padded": lambda v: base64.b64encode(v.encode()).decode(),
    "base64 bare": lambda v: base64.b64encode(v.encode()).decode().rstrip("="),
    "base64 wrapped": lambda v: base64.encodebytes(v.encode()).decode(),
    "basic auth": lambda v: base64.b64encode(f"me:{v}".encode()).decode(),
    "hex": lambda v: v.encode().hex(),
    "hex upper": lambda v: v.encode().hex().upper(),
    "hex colons": lambda v: v.encode().hex(":"),
    "x escapes": lambda v: "".join(f"\\x{b:02x}" for b in v.encode()),
    "html": html.escape,
    "u escapes": ascii_escaped,
    "entities": lambda v: "".join(f"&#{ord(c)};" for c in v),
    "hexadecimal entities": lambda v: "".join(f"&#x{ord(c):x};" for c in v),
    "base64 twice": lambda v: base64.b64encode(base64.b64encode(v.encode())).decode(),
    "url all twice": lambda v: "".join(f"%25{b:02X}" for b in v.encode()),
    "bytes": lambda v: str(list(v.encode())),
    "bytes without spaces": lambda v: json.dumps(list(v.encode()), separators=(",", ":")),
    "u escapes in base64": lambda v: base64_of(ascii_escaped(v)),
    "base64 three times": lambda v: base64_of(base64_of(base64_of(v))),
    "base64 in hex": lambda v: base64_of(v).encode().hex(),
    "hex in base64": lambda v: base64_of(v.encode().hex()),
    "json in base64 twice": lambda v: base64_of(base64_of(json.dumps({"key": v}))),
    "url in base64": lambda v: base64_of("".join(f"%{b:02X}" for b in v.encode())),
    "entities in percent": lambda v: quote("".join(f"&#{ord(c)};" for c in v)),
    "url all three times": lambda v: "".join(f"%2525{b:02X}" for b in v.encode()),
    "mixed": lambda v: "".join(
        (c, f"&#{ord(c)};", f"\\u{{{ord(c):x}}}", quote(c, safe=""))[i % 4] for i, c in enumerate(v)
    ),
    "shell": shlex.quote,
    "base32": lambda v: base64.b32encode(v.encode()).decode(),
}


def core(encoded: str) -> str:
    """What would give the secret away: the encoded form but for a few characters at its ends."""
    bare = re.sub(r"^[\W_bk]+|[\W_]+$", "", encoded)
    return bare[min(4, len(bare) // 5) : -min(6, len(bare) // 3)]


def leaks(shown: str, encoded: str, value: str) -> bool:
    """Whether the secret, or a stretch of twelve characters of its encoding, is in what is shown."""
    text = core(encoded)
    stretches = {text[i : i + 12] for i in range(0, max(1, len(text) - 12), 4)}
    telling = [s for s in stretches if len(set(s)) > 3 and len(s) >= 4 and s not in NOT_SECRET]
    return value in shown or any(stretch in shown for stretch in telling)


@pytest.fixture
def redactor() -> Redactor:
    redactor = Redactor()
    for secret in SECRETS:
        redactor.register(secret)
    return redactor


@pytest.fixture(params=[False, True], ids=["text", "json"])
def log(request: pytest.FixtureRequest, redactor: Redactor) -> Iterator[io.StringIO]:
    stream = io.StringIO()
    logs = configure("debug", json=request.param, redactor=redactor, stream=stream)
    yield stream
    logs.close()


def test_there_are_enough_of_both() -> None:
    assert len(SECRETS) == 12
    assert len(ENCODINGS) >= 26


@pytest.mark.parametrize("name", ENCODINGS)
def test_a_leak_would_be_noticed(name: str) -> None:
    for value in SECRETS:
        encoded = ENCODINGS[name](value)
        assert leaks(f"x {encoded} y", encoded, value)


@pytest.mark.requirement("FR-5.9")
@pytest.mark.parametrize("name", ENCODINGS)
@pytest.mark.parametrize("index", range(len(SECRETS)))
def test_no_encoding_of_a_secret_survives(redactor: Redactor, name: str, index: int) -> None:
    value = SECRETS[index]
    encoded = ENCODINGS[name](value)
    for text in (encoded, f"got {encoded} from it", f"x{encoded}y", f"a\n{encoded}\nb"):
        shown = redactor.redact(text)
        assert "[REDACTED]" in shown
        assert not leaks(shown, encoded, value), shown


@pytest.mark.parametrize("name", ENCODINGS)
def test_no_log_line_shows_one(log: io.StringIO, name: str) -> None:
    logger = logging.getLogger("openclaw.hostile")
    for value in SECRETS:
        encoded = ENCODINGS[name](value)
        logger.info("message %s", encoded)
        logger.info("extra", extra={"detail": encoded, "nested": {"list": [encoded]}})
        try:
            raise ValueError(encoded)
        except ValueError:
            logger.exception("failed on %r", encoded)
    shown = log.getvalue()
    for value in SECRETS:
        assert not leaks(shown, ENCODINGS[name](value), value)


def test_the_lines_of_a_key_are_secrets_of_their_own(redactor: Redactor) -> None:
    for line in PEM.splitlines()[1:-1]:
        assert redactor.redact(f"> {line}") == "> [REDACTED]"
    assert redactor.redact("-----BEGIN PRIVATE KEY----- is how it starts").startswith("-----BEGIN")


def test_ordinary_text_comes_through_unharmed(redactor: Redactor) -> None:
    for text in (
        "2026-11-15 20:41:27 INFO server docs is ready after 0.52 s with 12 tools",
        "GET https://docs.example/mcp?page=2#top 200 OK",
        "der Bärenreiter 熊 🐻 said: a task-based disk-usage check of the basic information",
        '{"tokens": 512, "max_tokens": 1000, "ok": true}',
        "commit 3f786850e387550fdab836ed7e6dc881de23001b by author Jane <jane@example.com>",
        "a\nmulti-line\ntext\twith tabs",
    ):
        assert redactor.redact(text) == text


@pytest.mark.parametrize(
    "line",
    [
        'api_key = os.environ["API_KEY"]',
        "self.api_key = api_key",
        "client = OpenAI(api_key=config.api_key)",
        "const apiKey = process.env.API_KEY;",
        "password = getpass.getpass()",
        'password = input("Password: ")',
        "def login(password: SecretStr, api_key: Optional[str]): ...",
        'names = ["password",\n         a.json:3: more]',
        '"required": ["username", "password", "hostname"]',
        '{"enum": ["api_key", "authorization", "access_token", "something"]}',
        "SELECT id, password, last_login FROM users WHERE password = :password",
        "INSERT INTO users (name, password, created_at) VALUES ($1, $2, $3)",
        "CREATE TABLE t (password VARCHAR(255) NOT NULL, api_key TEXT, passphrase TEXT)",
        "UPDATE users SET password = crypt(new_password, gen_salt('bf'))",
        "username, password = proxy_auth",
        "password: Available when the address contains user information",
        '{"api_key": "test-api-key", "client_secret": "clientSecret", "password": "{password}"}',
        "return f'Authorization: Bearer {token}'",
        "postgres://user:password@host:port/database",
        "private_key: ed25519.Ed25519PrivateKey, signer: SSHPrivateKeyTypes",
        "curl -H 'Authorization: Bearer $TOKEN' -d password=$(pass show x)",
        '"IAMUserChangePassword": "arn:aws:iam::aws:policy/IAMUserChangePassword"',
        '"AWS::Config::AggregationAuthorization": "141e19f3841b50f5"',
    ],
)
def test_a_program_that_handles_secrets_is_shown_as_it_is(line: str) -> None:
    assert Redactor().redact(line) == line


@pytest.mark.parametrize(
    "line",
    [
        "DB_PASSWORD={}",
        'password = "{}"',
        "password: {}",
        '"api_secret": "{}"',
        "connect(password={})",
        "api_key='{}'",
    ],
)
@pytest.mark.parametrize("value", ["hunter2supersecret", "correct.horse4", "Tr0ub4dor(3"])
def test_a_value_beside_the_name_of_a_secret_is_hidden(line: str, value: str) -> None:
    assert value not in Redactor().redact(line.format(value))


# What is written there looks like a credential, and is meant to.
SAMPLES = {"a%20secret", "FOOBAR", "hf_jwt_…", "attacker"}


def test_ordinary_programs_are_shown_as_they_are() -> None:
    """Two megabytes of programs that handle credentials, as the registries have them."""
    seen = 0
    hidden: set[str] = set()
    redactor = Redactor()
    for package in ("asyncpg", "docker", "google.auth", "httpx2", "huggingface_hub", "mcp", "msal"):
        (root,) = importlib.import_module(package).__path__
        for path in sorted(Path(root).rglob("*.py")):
            text = path.read_text()
            seen += len(text)
            spans = redactor.patterns().every_span(text, shapes=True)
            hidden |= {text[start:end] for start, end in spans}
    assert seen > 2_000_000
    assert hidden <= SAMPLES
