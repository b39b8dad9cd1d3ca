"""What an address of a database server means, and what of it is never shown."""

import pytest

from openclaw.core.errors import InvalidRequest
from openclaw.secrets.refs import Secret
from openclaw.sessions.postgres.address import is_address, parsed, resolved


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("postgresql://db/x", True),
        ("POSTGRES://db/x", True),
        ("secret://env/STORE", True),
        ("file", False),
        ("/a/path", False),
        ("mysql://db/x", False),
    ],
)
def test_an_address_is_told_from_a_file(spec: str, expected: bool) -> None:
    assert is_address(spec) is expected


@pytest.mark.parametrize(
    ("url", "tls"),
    [
        ("postgresql://db.example/x", True),
        ("postgresql://me:pw@db.example:6432/x", True),
        ("postgresql://10.0.0.7/x", True),
        ("postgresql://localhost,db.example/x", True),
        ("postgresql:///x?host=db.example", True),
        ("postgresql://db.example/x?sslmode=verify-full", True),
        ("postgresql://db.example/x?sslmode=verify-full&sslrootcert=system", True),
        ("postgresql://db.example/x?sslrootcert=/ca.pem", "verify-full"),
        ("postgresql://db.example/x?sslmode=verify-full&sslrootcert=/ca.pem", "verify-full"),
        ("postgresql://db.example/x?sslmode=disable", None),
        ("postgresql://db.example/x?sslmode=require", None),
        ("postgresql://localhost/x", None),
        ("postgresql://127.0.0.1:5433/x", None),
        ("postgresql://[::1]:5433/x", None),
        ("postgresql://[2001:db8::1]/x", True),
        ("postgresql:///x?host=/run/postgresql", None),
        ("postgresql://%2Frun%2Fpostgresql/x", None),
        ("postgresql:///x", None),
        ("postgresql://localhost.evil.example/x", True),
    ],
)
def test_certificates_are_checked_for_hosts_elsewhere_unless_the_address_says_otherwise(
    url: str, tls: object
) -> None:
    assert parsed(url).tls == tls


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:hunter2/x@db/x",
        "postgresql://me:hunter2@db:port/x",
        "postgresql://me:hunter2@db:99999/x",
        "postgresql://me:hunter2@[db/x",
        "mysql://me:hunter2@db/x",
        "hunter2",
    ],
)
def test_what_is_no_address_is_refused_without_being_repeated(url: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        parsed(url)
    assert "hunter2" not in repr(refused.value)
    assert refused.value.__cause__ is None


def test_an_address_shows_its_place_and_not_its_password() -> None:
    address = parsed("postgresql://me:hunter2@db.example:6432/conversations")
    assert address.place == "db.example:6432, database 'conversations'"
    assert "hunter2" not in repr(address)
    assert address.url.reveal().startswith("postgresql://me:hunter2@")


async def resolve(text: str) -> Secret:
    return Secret({"secret://env/PW": "p@ss/w:rd?", "secret://env/URL": "postgresql://h/x"}[text])


async def test_a_reference_inside_stands_for_its_value_whatever_characters_it_has() -> None:
    address = await resolved("postgresql://me:<secret://env/PW>@db.example/x", resolve)
    assert address.url.reveal() == "postgresql://me:p%40ss%2Fw%3Ard%3F@db.example/x"
    assert address.place == "db.example, database 'x'"


async def test_a_reference_may_be_the_whole_address() -> None:
    address = await resolved(" secret://env/URL ", resolve)
    assert address.url.reveal() == "postgresql://h/x"


async def test_a_reference_without_brackets_inside_is_refused_with_advice() -> None:
    with pytest.raises(InvalidRequest) as refused:
        await resolved("postgresql://me:secret://env/PW@db.example/x", resolve)
    assert "<secret://env/" in (refused.value.hint or "")


async def test_a_reference_needs_somebody_who_resolves_it() -> None:
    with pytest.raises(InvalidRequest, match="cannot be resolved"):
        await resolved("secret://env/URL", None)
