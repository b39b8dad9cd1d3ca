import base64
import json
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw.secrets.redactor import COMMON_WORDS, Redactor


def redactor_for(*values: str) -> Redactor:
    redactor = Redactor()
    for value in values:
        redactor.register(value)
    return redactor


def test_a_value_counts_as_soon_as_it_is_registered() -> None:
    redactor = Redactor()
    assert redactor.redact("swordfish-1") == "swordfish-1"
    redactor.register("swordfish-1")
    assert redactor.redact("swordfish-1") == "[REDACTED]"
    redactor.register("swordfish-1")
    redactor.register("")
    redactor.register("   ")
    assert redactor.redact("a   b swordfish-1") == "a   b [REDACTED]"


def test_values_that_overlap_are_replaced_as_one() -> None:
    redactor = redactor_for("abcdef-1234", "1234-uvwxyz", "def-12")
    assert redactor.redact("<abcdef-1234-uvwxyz>") == "<[REDACTED]>"
    assert redactor.redact("<def-12>") == "<[REDACTED]>"
    assert redactor.redact("abcdef-1234abcdef-1234") == "[REDACTED]"


@pytest.mark.parametrize(
    ("value", "text", "expected"),
    [
        # Eight characters and more: anywhere.
        ("password1", "xxpassword1yy", "xx[REDACTED]yy"),
        # Four to seven: anywhere, but plain letters or digits only where they stand alone.
        ("ab-12", "xxab-12yy", "xx[REDACTED]yy"),
        ("lemon", "a lemon, please", "a [REDACTED], please"),
        ("lemon", "lemonade", "lemonade"),
        ("4711", "pin=4711;", "pin=[REDACTED];"),
        ("4711", "id 14711", "id 14711"),
        # Three and less, and common words: only as the value of a credential's key.
        ("ab", "about ab", "about ab"),
        ("ab", "password=ab", "password=[REDACTED]"),
        ("ab", '{"token": "ab"}', '{"token": "[REDACTED]"}'),
        ("ab", "token: abc", "token: abc"),
        ("true", '{"ok": true}', '{"ok": true}'),
        ("true", "API_KEY=true", "API_KEY=[REDACTED]"),
    ],
)
def test_short_values_follow_a_rule(value: str, text: str, expected: str) -> None:
    assert redactor_for(value).redact(text) == expected


def test_short_values_are_recognised_encoded_too() -> None:
    redactor = redactor_for("lemon")
    assert redactor.redact("x=" + b"lemon".hex()) == "x=[REDACTED]"


def test_secrets_inside_a_secret_count_too() -> None:
    key = (
        "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0B\nAQEFAASC\n-----END PRIVATE KEY-----"
    )
    document = {"type": "service_account", "private_key": key, "list": [{"token": "inner-token-1"}]}
    redactor = redactor_for(
        json.dumps(document), "postgres://me:db-password-9@host/x", "http://[::1"
    )
    assert redactor.redact("k MIIEvQIBADANBgkqhkiG9w0B") == "k [REDACTED]"
    assert redactor.redact("t inner-token-1") == "t [REDACTED]"
    assert redactor.redact("a service_account") == "a service_account"
    assert redactor.redact("p db-password-9") == "p [REDACTED]"


def test_a_long_value_is_recognised_even_when_it_was_cut() -> None:
    value = "".join(f"{n:x}-" for n in range(1000, 1800))
    redactor = redactor_for(value)
    assert redactor.redact(f"<{value}>") == "<[REDACTED]>"
    assert len(redactor.redact(value[:1000]).replace("[REDACTED]", "")) < 128
    huge = "".join(f"{n:x}+" for n in range(100_000, 130_000))
    redactor.register(huge)
    assert redactor.redact(f"<{huge}>") == "<[REDACTED]>"


def test_shapes_can_be_left_out() -> None:
    redactor = redactor_for("swordfish-1")
    text = "password: letmein99 swordfish-1"
    assert redactor.redact(text) == "password: [REDACTED] [REDACTED]"
    assert redactor.redact(text, shapes=False) == "password: letmein99 [REDACTED]"


def test_line_breaks_colours_and_invisible_characters_hide_nothing() -> None:
    redactor = redactor_for("swordfish-and-chips")
    for text in (
        "swordfish\n-and-\n   chips",
        "sword\x1b[31mfish-and\x1b[0m-chips",
        "sword\u200bfish\u00ad-and-chips",
        "swordfish-and\\\\\\n-chips",
    ):
        assert redactor.redact(f"<{text}>") == "<[REDACTED]>"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("key sk-ant-api03-abcdefghij0123456789", "key [REDACTED]"),
        ("sk-proj-abcdefghijklmnop1", "[REDACTED]"),
        ("ghp_" + "a" * 36, "[REDACTED]"),
        ("github_pat_" + "A1b2" * 8, "[REDACTED]"),
        ("xoxb-1234567890-abcdef", "[REDACTED]"),
        ("AKIAIOSFODNN7EXAMPLE.", "[REDACTED]."),
        ("AIza" + "b" * 35, "[REDACTED]"),
        ("glpat-abcdefghij0123456789", "[REDACTED]"),
        ("hf_" + "x" * 34, "[REDACTED]"),
        ("npm_" + "x" * 36, "[REDACTED]"),
        ("pypi-AgEIcHlwaS5vcmc" + "x" * 40, "[REDACTED]"),
        ("ya29.a0AfH6SMBx-abcdefghijk", "[REDACTED]"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl", "[REDACTED]"),
        ("SG.abcdefghijklmnopqrst.abcdefghijklmnopqrst", "[REDACTED]"),
        ("sk_live_abcdefghijklmnop1234", "[REDACTED]"),
        ("hvs.CAESIabcdefghijklmnopqrs", "[REDACTED]"),
        ("bot 12345678:AAabcdefghijklmnopqrstuvwxyz0123456", "bot 12345678:[REDACTED]"),
        ("Authorization: Bearer abc.def", "Authorization: Bearer [REDACTED]"),
        ("authorization: Basic bWU6cHc=", "authorization: Basic [REDACTED]"),
        ("Authorization: raw-token", "Authorization: [REDACTED]"),
        ("Authorization: AWS4-HMAC-SHA256 Credential=a/b, Signature=c", "Authorization: [REDACTED]"),
        ("{'Authorization': 'Bearer abc123'}", "{'Authorization': 'Bearer [REDACTED]'}"),
        ("[(b'authorization', b'Bearer abc123')]", "[(b'authorization', b'Bearer [REDACTED]')]"),
        ('{\\"Authorization\\": \\"Bearer abc123\\"}', '{\\"Authorization\\": \\"Bearer [REDACTED]\\"}'),
        ("sent Bearer abcdef0123456789", "sent Bearer [REDACTED]"),
        ("Cookie: a=b; session=xyz", "Cookie: [REDACTED]"),
        ("Set-Cookie: id=1; Path=/", "Set-Cookie: [REDACTED]"),
        ("x-api-key: abcdef12", "x-api-key: [REDACTED]"),
        ("https://me:pw@host/x", "https://me:[REDACTED]@host/x"),
        ("https://abcdefghij0123456789@host/x", "https://[REDACTED]@host/x"),
        ("GET /x?access_token=abcdef12&page=2", "GET /x?access_token=[REDACTED]&page=2"),
        ("PASSWORD=letmein99", "PASSWORD=[REDACTED]"),
        ("-----BEGIN EC PRIVATE KEY-----\\nMHcCAQEEIIJhbGci\\nabc=\\n-----END EC PRIVATE KEY-----",
         "-----BEGIN EC PRIVATE KEY-----[REDACTED]\\n-----END EC PRIVATE KEY-----"),
    ],
)  # fmt: skip
def test_credentials_are_known_by_their_shape(text: str, expected: str) -> None:
    assert Redactor().redact(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "Authorization: Bearer secret://env/TOKEN",
        '{"apiKey": "secret://vault/app#key"}',
        "password: ${DB_PASSWORD}",
        "Authorization: Bearer [REDACTED]",
        "the bearer of bad news, basic information, a Bearer certificate",
        "task-oriented risk-averse disk-usage sk-learn-compatible-estimator",
        "https://user@host/path and git@github.com:me/repo.git",
        "password: none",
        "tokens: 512, token: 12",
        "-----BEGIN PUBLIC KEY-----\nMHcCAQEEIIJhbGci\n-----END PUBLIC KEY-----",
        "time is 12:34:56 and https://h:8080/x",
        "eyJ is how they begin",
    ],
)
def test_what_only_resembles_a_credential_is_left_alone(text: str) -> None:
    assert Redactor().redact(text) == text


@given(
    st.lists(st.text(min_size=8, max_size=40), min_size=1, max_size=5),
    st.text(max_size=60),
    st.text(max_size=60),
)
def test_whatever_the_value_and_whatever_is_around_it(
    values: list[str], before: str, after: str
) -> None:
    redactor = redactor_for(*values)
    for value in values:
        if len(value.strip()) >= 8 and value.strip().lower() not in COMMON_WORDS:
            assert value.strip() not in redactor.redact(before + value + after)


@given(st.text())
def test_a_redactor_that_knows_nothing_changes_only_shapes(text: str) -> None:
    assert Redactor().redact(text, shapes=False) == text


@pytest.mark.parametrize(
    "unit",
    ["sk-", "eyJ", "eyJaaaaaaaaa.", "://a:", "Authorization: ", "Bearer ", "cookie=", "-----BEGIN ",
     "-----BEGIN PRIVATE KEY-----", "password=", "\\n", "\x1b[", "\x1b]", "AKIA", "ab", "token: a", "xoxb-", " "],
)  # fmt: skip
def test_hostile_text_takes_time_in_proportion(unit: str) -> None:
    redactor = redactor_for("abababababababababab", "ab", "-----BEGIN swordfish")

    def took(size: int) -> float:
        text = unit * (size // len(unit))
        started = time.process_time()
        redactor.redact(text)
        return time.process_time() - started

    took(1000)
    small, large = min(took(10_000) for _ in range(3)), min(took(80_000) for _ in range(3))
    assert large < max(small, 0.0005) * 8 * 5


def test_many_threads_register_and_redact_at_once() -> None:
    redactor = Redactor()
    missed: list[str] = []

    def work(number: int) -> None:
        for step in range(40):
            value = f"value-{number}-{step}-secret"
            redactor.register(value)
            if value in redactor.redact(f"x {value} y"):
                missed.append(value)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert missed == []


PEM = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEF\nAASCBKcwggSjAgEAAoIBAQ==\n"


@pytest.mark.parametrize(
    ("value", "data"),
    [
        ("swordfish-7", b"\xff\x00swordfish-7\xfe"),
        ("swordfish-7", b"\xff" + "swordfish-7".encode("utf-16-le") + b"\xff"),
        ("swordfish-7", b"\xff" + "swordfish-7".encode("utf-16-be")),
        ("p\u00e4sswort", b"\xff" + "p\u00e4sswort".encode()),
        ("a1b2c3", b"\xff a1b2c3 \xff"),
        (PEM, b"\xff MIIEvQIBADANBgkqhkiG9w0BAQEF \xff"),
        ("postgres://me:correct-horse@db/x", b"\xff correct-horse \xff"),
        ("x1y2z" * 200, b"\xff" * (1024 * 1024 - 7) + b"x1y2z" * 200),
    ],
)
def test_a_value_is_found_in_what_is_no_text(value: str, data: bytes) -> None:
    assert redactor_for(value, "another-one").holds(data)
    assert not redactor_for("another-one").holds(data)


@pytest.mark.parametrize("value", ["", "abc", "orange", "12345", "production", "aaaaaaa"])
def test_what_any_large_file_holds_by_chance_is_not_looked_for(value: str) -> None:
    assert not redactor_for(value).holds(b"\xff" + value.encode() + b"\xff")


def test_a_text_holds_a_value_in_every_form_and_shapes_do_not_count() -> None:
    redactor = redactor_for("sword fish/7")
    assert redactor.holds("https://a.example/?x=sword%20fish%2F7")
    assert not redactor.holds("https://a.example/?password=another-one")


def test_ten_megabytes_are_searched_in_next_to_no_time() -> None:
    redactor = redactor_for(*(f"s3cret-{number}-Ab3dEf6hIj9k" for number in range(20)))
    data = b"\xff" + bytes(range(256)) * 40_960
    redactor.holds(b"\xff")  # compiled once, not for each file
    started = time.process_time()
    assert not redactor.holds(data)
    assert time.process_time() - started < 0.25


def test_half_a_character_neither_stops_the_search_nor_hides_a_secret() -> None:
    redactor = redactor_for("swordfish-1", "half\udce9sword-2")
    assert redactor.redact("caf\udce9 swordfish-1") == "caf\udce9 [REDACTED]"
    assert redactor.redact("caf\udce9 sword\nfish-1") == "caf\udce9 [REDACTED]"
    assert redactor.redact("it is half\udce9sword-2!") == "it is [REDACTED]!"


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("before", ["", "$a='", "x = '"])
def test_base64_of_utf_16_is_found_as_powershell_writes_it(encoding: str, before: str) -> None:
    redactor = Redactor()
    redactor.register("s3cr3t-value-0123456789")
    command = f"{before}s3cr3t-value-0123456789'; exit"
    encoded = base64.b64encode(command.encode(encoding)).decode()
    shown = redactor.redact(f"powershell -enc {encoded}", shapes=False)
    left = shown.replace("[REDACTED]", "")
    assert "[REDACTED]" in shown
    assert all(piece not in left for piece in (encoded[24:48], encoded[30:54]))


@pytest.mark.parametrize(
    "text", ["Authorization: Bearer token", '{"Authorization": "Bearer token for the API"}']
)
def test_what_documentation_says_of_a_header_is_no_secret(text: str) -> None:
    assert Redactor().redact(text) == text
