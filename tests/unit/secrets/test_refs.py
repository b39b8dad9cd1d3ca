import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw.secrets.refs import (
    SCHEMES,
    InvalidReference,
    SecretRef,
    find,
    has_reference,
    parse,
    split,
)


@pytest.mark.requirement("US-6.1")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("secret://env/TOKEN", SecretRef("env", "TOKEN")),
        ("secret://gcp/linkedin-password", SecretRef("gcp", "linkedin-password")),
        ("secret://gcp/db#7", SecretRef("gcp", "db", "7")),
        ("secret://gcp/projects/p/secrets/n#latest", SecretRef("gcp", "projects/p/secrets/n", "latest")),
        ("secret://aws/prod/db", SecretRef("aws", "prod/db")),
        ("secret://aws/prod/db#AWSPREVIOUS?key=a.b", SecretRef("aws", "prod/db", "AWSPREVIOUS", (("key", "a.b"),))),
        ("secret://aws/prod/db?key=a.b#AWSPREVIOUS", SecretRef("aws", "prod/db", "AWSPREVIOUS", (("key", "a.b"),))),
        ("secret://aws/arn:aws:secretsmanager:eu-west-1:1:secret:x", SecretRef("aws", "arn:aws:secretsmanager:eu-west-1:1:secret:x")),
        ("secret://vault/secret/app#token", SecretRef("vault", "secret/app", "token")),
        ("secret://vault/app?version=3", SecretRef("vault", "app", None, (("version", "3"),))),
        ("secret://file/~/key.json#a.b", SecretRef("file", "~/key.json", "a.b")),
        ("secret://file/My%20Files/k%23", SecretRef("file", "My Files/k#")),
        ("secret://exec/pass-github", SecretRef("exec", "pass-github")),
        ("secret://azure/vault/name#1", SecretRef("azure", "vault/name", "1")),
        ("secret://keyring/service/me@x.y", SecretRef("keyring", "service/me@x.y")),
        ("secret://op/Private/GitHub/token", SecretRef("op", "Private/GitHub/token")),
        ("SECRET://ENV/TOKEN", SecretRef("env", "TOKEN")),
        ("  secret://env/TOKEN\n", SecretRef("env", "TOKEN")),
    ],
)  # fmt: skip
def test_a_reference_is_taken_apart(text: str, expected: SecretRef) -> None:
    assert parse(text) == expected


@pytest.mark.parametrize(
    ("text", "reason", "hint"),
    [
        ("secret://evn/TOKEN", "unknown scheme 'evn'", "did you mean secret://env/…?"),
        ("secret://valut/x", "unknown scheme 'valut'", "did you mean secret://vault/…?"),
        ("secret://zzzzzzzz/x", "unknown scheme 'zzzzzzzz'", "known schemes: "),
        ("secret://", "unknown scheme ''", "known schemes"),
        ("secret://env", "nothing is named", "write secret://env/VAR"),
        ("secret://env/", "nothing is named", "write secret://env/VAR"),
        (
            "secret://env/A#b",
            "what follows the name does not belong there",
            "write secret://env/VAR",
        ),
        (
            "secret://env/A?key=b",
            "what follows the name does not belong there",
            "write secret://env/VAR",
        ),
        ("secret://vault/a#b#c", "what follows the name does not belong there", "%23"),
        ("secret://vault/a#", "a part after the name is empty", "write secret://vault/PATH"),
        ("secret://aws/a?key=", "a part after the name is empty", "write secret://aws/NAME"),
        (
            "secret://aws/a?kye=b",
            "what follows the name does not belong there",
            "write secret://aws/NAME",
        ),
        ("secret://env/" + "A" * 3000, "longer than 2048 characters", None),
        ("hello", "a reference starts with secret://", None),
    ],
)
def test_what_is_wrong_is_said(text: str, reason: str, hint: str | None) -> None:
    with pytest.raises(InvalidReference) as caught:
        parse(text)
    assert caught.value.reason == reason
    assert caught.value.hint is None if hint is None else hint in str(caught.value.hint)


@pytest.mark.requirement("E-7")
def test_a_value_pasted_where_a_reference_belongs_is_not_shown() -> None:
    with pytest.raises(InvalidReference) as caught:
        parse("ghp_thisIsNotAReferenceButAToken")
    assert "NotAReference" not in caught.value.message


@pytest.mark.parametrize(
    ("text", "spans"),
    [
        ("secret://env/A", ["secret://env/A"]),
        ("Bearer secret://env/A", ["secret://env/A"]),
        ("secret://env/A secret://env/B", ["secret://env/A", "secret://env/B"]),
        ("a=secret://env/A;b=secret://env/B", ["secret://env/A", "secret://env/B"]),
        ("a=secret://env/A,b", ["secret://env/A"]),
        ("{'a': \"secret://env/A\"}", ["secret://env/A"]),
        ("(secret://env/A)[secret://env/B]{secret://env/C}", ["secret://env/A", "secret://env/B", "secret://env/C"]),
        ("`secret://env/A`|x", ["secret://env/A"]),
        ("postgres://me:<secret://env/A>@db/app", ["<secret://env/A>"]),
        ("<secret://file/My Files/a 'b'.txt>!", ["<secret://file/My Files/a 'b'.txt>"]),
        ("secret://aws/x#AWSCURRENT?key=a.b rest", ["secret://aws/x#AWSCURRENT?key=a.b"]),
        ("secret://env/A\nsecret://env/B", ["secret://env/A", "secret://env/B"]),
        ("mysecret://env/A", []),
        ("https://example.com/secret", []),
        ("", []),
    ],
)  # fmt: skip
def test_where_an_embedded_reference_begins_and_ends(text: str, spans: list[str]) -> None:
    assert split(text)[1::2] == spans
    assert "".join(split(text)) == text
    assert len(find(text)) == len(spans)
    assert has_reference(text) is bool(spans)


def test_a_malformed_reference_inside_a_value_is_an_error_and_not_text() -> None:
    with pytest.raises(InvalidReference, match="unknown scheme"):
        find("Bearer secret://nope/X")


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        hits = find(text)
    except InvalidReference:
        assert has_reference(text)
    else:
        assert has_reference(text) is bool(hits)


@given(
    st.sampled_from(sorted(SCHEMES)),
    st.text(alphabet=st.characters(blacklist_categories=["Cs"]), min_size=1),
)
def test_any_name_can_be_written_with_percent_signs(scheme: str, name: str) -> None:
    from urllib.parse import quote

    if not name.strip("/"):
        return
    ref = find(f"x secret://{scheme}/{quote(name, safe='')} y")[0]
    assert ref.name == name
