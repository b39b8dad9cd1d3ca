import random
import string

import pytest

from openclaw.secrets.credentials import (
    looks_like_credential,
    looks_random,
    names_no_secret,
    plaintext_credentials,
)


@pytest.mark.parametrize(
    "key",
    [
        "GITHUB_TOKEN", "apiKey", "API_KEY", "APIKEY", "OPENAI_API_KEY", "LINKEDIN_PASSWORD", "DB_PASS",
        "AWS_SECRET_ACCESS_KEY", "Authorization", "X-Api-Key", "accessToken", "client_secret",
        "privateKey", "GOOGLE_CREDENTIALS", "Cookie", "SLACK_WEBHOOK", "passphrase", "SENTRY_DSN",
        "refresh-token", "GH_PAT", "SSHKey", "secretId", "VAULT_SECRET_ID", "x-auth", "dbPasswd",
        "Set-Cookie", "SESSION_KEY",
    ],
)  # fmt: skip
def test_the_name_of_a_credential_is_recognised(key: str) -> None:
    assert looks_like_credential(key)


@pytest.mark.parametrize(
    "key",
    [
        "PATH", "HOME", "KEYBOARD", "MONKEY", "author", "compass", "max_tokens", "maxTokens",
        "PUBLIC_KEY", "AWS_ACCESS_KEY_ID", "TOKEN_URL", "SECRET_NAME", "LOG_LEVEL", "primary",
        "tokenizer", "PASSWORD_FILE", "sessionKey", "allowedKeys", "keyring", "tokenBudget", "keep",
        "TOKEN_ID", "timeout",
    ],
)  # fmt: skip
def test_other_names_are_left_alone(key: str) -> None:
    assert not looks_like_credential(key)


def test_references_variables_and_switches_are_no_plaintext_credentials() -> None:
    table = {
        "A_TOKEN": "secret://env/A",
        "B_TOKEN": "${B}",
        "USE_TOKEN": "true",
        "EMPTY_TOKEN": "",
        "Authorization": "Bearer secret://env/X",
        "C_TOKEN": "abc123",
        "MODE": "abc123",
    }
    assert list(plaintext_credentials(table)) == ["abc123"]


def test_words_that_chance_has_made_are_told_from_others() -> None:
    chance = random.Random(7)
    letters = string.ascii_letters + string.digits
    alphabets = {"base62": letters, "base64": letters + "-_", "hex": "0123456789abcdef"}
    for name, alphabet in alphabets.items():
        made = ["".join(chance.choices(alphabet, k=32)) for _ in range(1000)]
        assert sum(map(looks_random, made)) > 950, name
    assert not looks_random("abc")
    assert not looks_random("a" * 600)


def test_names_of_what_is_public_are_known() -> None:
    assert all(map(names_no_secret, ["FOLDER_ID", "commit", "imageDigest", "model"]))
    assert not any(map(names_no_secret, ["FOO", "IDEA", "MODELS_KEY"]))
