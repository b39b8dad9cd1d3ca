"""The OAuth flow as a script: the requests that it makes, and what it makes of the answers."""

import base64
import json
from collections.abc import Generator, Mapping
from dataclasses import replace
from itertools import count
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

from openclaw.mcp.oauth import (
    DEVICE_CODE,
    AskUser,
    Grant,
    IdentityProvider,
    OAuthFlow,
    OAuthSettings,
    Pause,
    Refusal,
    ShowCode,
    Step,
)
from openclaw.mcp.oauth_documents import (
    AuthorizationServer,
    Challenge,
    Client,
    Credentials,
    HttpRequest,
    HttpResponse,
    LoginRefused,
    OAuthUnavailable,
    SignaturesMissing,
    Tokens,
)
from openclaw.mcp_client.auth.signing import PemKeys

SERVER = "https://mcp.example/mcp"
ISSUER = "https://auth.example"
RESOURCE_URL = "https://mcp.example/.well-known/oauth-protected-resource/mcp"
METADATA_URL = f"{ISSUER}/.well-known/oauth-authorization-server"
RESOURCE = {"resource": SERVER, "authorization_servers": [ISSUER]}
METADATA: dict[str, Any] = {
    "issuer": ISSUER,
    "authorization_endpoint": f"{ISSUER}/authorize",
    "token_endpoint": f"{ISSUER}/token",
    "registration_endpoint": f"{ISSUER}/register",
    "code_challenge_methods_supported": ["S256"],
}
TOKENS = {"access_token": "a1", "token_type": "Bearer", "expires_in": 60, "refresh_token": "r1"}
CHALLENGE = Challenge()

Answer = dict[str, Any] | int | HttpResponse | Exception
Forms = list[tuple[str, dict[str, str], HttpRequest]]


def answer(status: int, document: Any = None, **headers: str) -> HttpResponse:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return HttpResponse(status, named, json.dumps(document).encode() if document else b"")


class World:
    """What is out there: an answer, or several one after the other, for each address."""

    def __init__(self, pages: Mapping[str, Answer | list[Answer]] | None = None) -> None:
        self.pages: dict[str, Any] = {
            RESOURCE_URL: RESOURCE,
            METADATA_URL: METADATA,
            f"{ISSUER}/register": {"client_id": "registered"},
            f"{ISSUER}/token": TOKENS,
            **(pages or {}),
        }
        self.now = 1000.0
        self.requests: list[HttpRequest] = []
        self.asked: list[AskUser] = []
        self.codes: list[ShowCode] = []
        self.paused: list[float] = []
        self.callback: dict[str, str] = {"code": "c1"}
        self._texts = count(1)

    def flow(self, credentials: Credentials | None = None, **settings: Any) -> OAuthFlow:
        options = {key: settings.pop(key) for key in ("client_issuer",) if key in settings}
        signing = settings.pop("signing", PemKeys())
        return OAuthFlow(
            OAuthSettings(url=SERVER, redirect_uri="http://127.0.0.1:7/callback", **settings),
            credentials,
            now=lambda: self.now,
            random_text=lambda: f"random{next(self._texts)}",
            signing=signing,
            **options,
        )

    def run(self, steps: Generator[Step, Any, Any]) -> Any:
        try:
            step = next(steps)
            while True:
                reply = self._do(step)
                step = steps.throw(reply) if isinstance(reply, Exception) else steps.send(reply)
        except StopIteration as end:
            return end.value

    def _do(self, step: Step) -> Any:
        match step:
            case HttpRequest():
                self.requests.append(step)
                page: Any = self.pages.get(step.url, 404)
                reply: Any = cast("list[Any]", page).pop(0) if isinstance(page, list) else page
                if isinstance(reply, int):
                    return answer(reply)
                return answer(200, reply) if type(reply) is dict else reply
            case AskUser():
                self.asked.append(step)
                return {"state": step.state, **self.callback}
            case ShowCode():
                self.codes.append(step)
            case Pause():
                self.paused.append(step.seconds)
                self.now += step.seconds
        return None

    @property
    def urls(self) -> list[str]:
        return [request.url for request in self.requests]

    def forms(self, url: str = f"{ISSUER}/token") -> list[dict[str, str]]:
        return [form_of(request) for request in self.requests if request.url == url]


def form_of(request: HttpRequest) -> dict[str, str]:
    return {k: v[0] for k, v in parse_qs((request.content or b"").decode()).items()}


def query_of(asked: AskUser) -> dict[str, str]:
    return {key: values[0] for key, values in parse_qs(urlsplit(asked.url).query).items()}


def logged_in(**changes: Any) -> Credentials:
    server = AuthorizationServer(ISSUER, dict(METADATA))
    tokens = Tokens("a0", refresh="r0", scope="read", expires_at=900.0)
    return replace(Credentials(server, Client("ours"), tokens, SERVER), **changes)


def claims_of(token: str) -> tuple[dict[str, Any], dict[str, Any]]:
    head, body = (part + "=" * (-len(part) % 4) for part in token.split(".")[:2])
    return json.loads(base64.urlsafe_b64decode(head)), json.loads(base64.urlsafe_b64decode(body))


def test_a_login_discovers_registers_asks_the_user_and_gets_tokens() -> None:
    world = World()
    flow = world.flow()
    world.run(flow.log_in(CHALLENGE))
    assert world.urls == [RESOURCE_URL, METADATA_URL, f"{ISSUER}/register", f"{ISSUER}/token"]
    query = query_of(world.asked[0])
    assert query["client_id"] == "registered"
    assert query["resource"] == SERVER
    assert query["code_challenge_method"] == "S256"
    [form] = world.forms()
    assert form["resource"] == SERVER
    assert form["redirect_uri"] == "http://127.0.0.1:7/callback"
    assert flow.authorization("POST", SERVER) == {"Authorization": "Bearer a1"}
    assert flow.tokens == Tokens("a1", "Bearer", "r1", None, 1060.0)


@pytest.mark.parametrize(
    ("url", "resource", "expected"),
    [
        (None, RESOURCE_URL, 1),
        (None, "https://mcp.example/.well-known/oauth-protected-resource", 2),
        ("https://mcp.example/about", "https://mcp.example/about", 1),
    ],
)
def test_the_servers_metadata_is_looked_for_in_order(
    url: str | None, resource: str, expected: int
) -> None:
    world = World({RESOURCE_URL: 404, resource: RESOURCE})
    world.run(world.flow().log_in(Challenge(resource_metadata=url)))
    assert world.urls.index(METADATA_URL) == expected


@pytest.mark.parametrize(
    ("issuer", "urls"),
    [
        (
            "https://auth.example/tenant",
            [
                "https://auth.example/.well-known/oauth-authorization-server/tenant",
                "https://auth.example/.well-known/openid-configuration/tenant",
                "https://auth.example/tenant/.well-known/openid-configuration",
            ],
        ),
        (
            ISSUER,
            [METADATA_URL, f"{ISSUER}/.well-known/openid-configuration"],
        ),
    ],
)
def test_the_authorization_servers_metadata_is_looked_for_in_order(
    issuer: str, urls: list[str]
) -> None:
    resource = {**RESOURCE, "authorization_servers": [issuer]}
    world = World({RESOURCE_URL: resource, METADATA_URL: 404})
    world.pages[urls[-1]] = {**METADATA, "issuer": issuer}
    world.run(world.flow().log_in(CHALLENGE))
    assert world.urls[1 : len(urls) + 1] == urls


def test_a_server_without_metadata_is_logged_in_to_as_in_2025_03_26() -> None:
    world = World({RESOURCE_URL: 404})
    for path, page in (("register", {"client_id": "c"}), ("token", TOKENS)):
        world.pages[f"https://mcp.example/{path}"] = page
    world.run(world.flow().log_in(CHALLENGE))
    assert world.asked[0].url.startswith("https://mcp.example/authorize?")
    assert "resource" not in query_of(world.asked[0])


@pytest.mark.parametrize("status", [500, 503, 429])
def test_a_failing_server_is_not_taken_for_one_without_metadata(status: int) -> None:
    world = World({RESOURCE_URL: status})
    with pytest.raises(OAuthUnavailable):
        world.run(world.flow().log_in(CHALLENGE))
    assert not world.asked


@pytest.mark.parametrize(
    ("pages", "match"),
    [
        ({RESOURCE_URL: {**RESOURCE, "resource": "https://mcp.example/other"}}, "another resource"),
        ({RESOURCE_URL: {**RESOURCE, "resource": "https://evil.example/mcp"}}, "another resource"),
        ({METADATA_URL: {**METADATA, "issuer": "https://evil.example"}}, "issuer mismatch"),
        ({METADATA_URL: {**METADATA, "code_challenge_methods_supported": ["plain"]}}, "PKCE"),
        ({METADATA_URL: 404}, "publishes no metadata"),
    ],
)
def test_a_login_stops_before_the_user_is_asked(pages: dict[str, Any], match: str) -> None:
    world = World(pages)
    with pytest.raises(LoginRefused, match=match):
        world.run(world.flow().log_in(CHALLENGE))
    assert not world.asked


@pytest.mark.parametrize(
    ("callback", "says_iss", "match"),
    [
        ({"code": "c", "state": "another"}, False, "state"),
        ({"code": "c", "iss": "https://evil.example"}, False, "iss mismatch"),
        ({"code": "c", "iss": f"{ISSUER}/"}, True, "iss mismatch"),
        ({"code": "c"}, True, "which server"),
        ({"error": "access_denied"}, False, "access_denied"),
        ({"error": "access_denied", "iss": "https://evil.example"}, False, "iss mismatch"),
    ],
)
def test_an_answer_that_is_not_to_be_trusted_is_refused(
    callback: dict[str, str], says_iss: bool, match: str
) -> None:
    says = {"authorization_response_iss_parameter_supported": says_iss}
    world = World({METADATA_URL: {**METADATA, **says}})
    world.callback = callback
    before = logged_in()
    flow = world.flow(before)
    with pytest.raises(LoginRefused, match=match):
        world.run(flow.log_in(CHALLENGE))
    assert world.forms() == []
    assert flow.credentials == before  # a login that failed costs nothing


@pytest.mark.parametrize(
    ("settings", "metadata", "client"),
    [
        ({"client_id": "preset", "client_metadata_url": "https://c.example/x"}, {}, "preset"),
        (
            {"client_metadata_url": "https://c.example/x"},
            {"client_id_metadata_document_supported": True},
            "https://c.example/x",
        ),
        ({"client_metadata_url": "https://c.example/x"}, {}, "registered"),
        ({"client_id": "preset", "client_issuer": "https://old.example"}, {}, "registered"),
        ({"client_id": "preset", "client_issuer": ISSUER}, {}, "preset"),
    ],
)
def test_a_client_is_preset_described_or_registered(
    settings: dict[str, Any], metadata: dict[str, Any], client: str
) -> None:
    world = World({METADATA_URL: {**METADATA, **metadata}})
    world.run(world.flow(**settings).log_in(CHALLENGE))
    assert query_of(world.asked[0])["client_id"] == client


def test_another_authorization_server_sees_nothing_of_the_last_one() -> None:
    world = World()
    old = AuthorizationServer("https://old.example", {})
    flow = world.flow(logged_in(server=old, client=Client("old", "s3cret")))
    world.run(flow.log_in(CHALLENGE))
    sent = "".join(str(request) for request in world.requests)
    assert "s3cret" not in sent
    assert '"r0"' not in sent
    assert flow.credentials is not None
    assert flow.credentials.client == Client("registered", None, "none")


@pytest.mark.parametrize(
    ("settings", "challenge", "resource", "metadata", "scope"),
    [
        ({}, "a b", ["c"], [], "a b"),
        ({}, None, ["c", "d"], [], "c d"),
        ({}, None, None, ["e"], None),
        ({"scope": "mine"}, "a", ["c"], [], "mine"),
        ({}, "a", None, ["a", "offline_access"], "a offline_access"),
    ],
)
def test_scopes_are_chosen_as_mcp_says(
    settings: dict[str, Any],
    challenge: str | None,
    resource: list[str] | None,
    metadata: list[str],
    scope: str | None,
) -> None:
    listed = {} if resource is None else {"scopes_supported": resource}
    world = World(
        {
            RESOURCE_URL: {**RESOURCE, **listed},
            METADATA_URL: {**METADATA, "scopes_supported": metadata},
        }
    )
    world.run(world.flow(**settings).log_in(Challenge(scope=challenge)))
    assert query_of(world.asked[0]).get("scope") == scope


def test_a_step_up_asks_for_what_was_granted_and_for_what_is_missing_once() -> None:
    world = World()
    flow = world.flow(logged_in(client=Client("ours")))
    challenge = Challenge(error="insufficient_scope", scope="write")
    assert flow.missing_scope(challenge) == "read write"
    world.run(flow.log_in(challenge, step_up=True))
    assert query_of(world.asked[0])["scope"] == "read write"
    assert flow.missing_scope(challenge) is None


@pytest.mark.parametrize("failure", [500, 503, 429, 403, OAuthUnavailable("no answer")])
def test_a_refresh_is_tried_again_unless_it_is_definitely_refused(failure: Answer) -> None:
    world = World({f"{ISSUER}/token": [failure, failure, {"access_token": "a1"}]})
    flow = world.flow(logged_in())
    world.run(flow.refresh())
    assert flow.tokens == Tokens("a1", refresh="r0", scope="read")  # as before, where not said
    assert [form["resource"] for form in world.forms()] == [SERVER] * 3
    assert world.paused == [0.5, 1.0]


def test_a_server_that_says_when_to_try_again_is_asked_then() -> None:
    busy = answer(503, retry_after="7")
    world = World({f"{ISSUER}/token": [busy, TOKENS]})
    world.run(world.flow(logged_in()).refresh())
    assert world.paused == [7.0]


def test_a_refresh_that_fails_again_and_again_leaves_the_login_as_it_is() -> None:
    world = World({f"{ISSUER}/token": 500})
    flow = world.flow(before := logged_in())
    with pytest.raises(OAuthUnavailable, match="500"):
        world.run(flow.refresh())
    assert flow.credentials == before


@pytest.mark.parametrize("code", ["invalid_grant", "invalid_client", "unauthorized_client"])
def test_a_refused_refresh_is_not_tried_again(code: str) -> None:
    world = World({f"{ISSUER}/token": answer(400, {"error": code})})
    with pytest.raises(LoginRefused, match=code):
        world.run(world.flow(logged_in()).refresh())
    assert len(world.requests) == 1


def test_a_token_is_renewed_a_little_before_it_ends() -> None:
    world = World()
    soon = logged_in(tokens=Tokens("a", refresh="r", expires_at=1020.0))
    flow = world.flow(soon)
    assert flow.expires_soon
    assert flow.may_still_be_valid
    world.now = 1021.0
    assert not flow.may_still_be_valid


@pytest.mark.parametrize(
    ("methods", "settings", "proof"),
    [
        (["client_secret_basic"], {"client_secret": "s"}, "Basic b3VyczpzJTI1"),
        ([], {"client_secret": "s"}, "Basic b3VyczpzJTI1"),
        (["client_secret_post"], {"client_secret": "s"}, "form"),
        (["private_key_jwt"], {"private_key": PemKeys().generate()}, "assertion"),
    ],
)
def test_a_client_without_a_user_proves_who_it_is(
    methods: list[str], settings: dict[str, Any], proof: str
) -> None:
    if "client_secret" in settings:
        settings = {"client_secret": "s%"}
    metadata = {**METADATA, "token_endpoint_auth_methods_supported": methods}
    world = World({METADATA_URL: metadata})
    flow = world.flow(grant=Grant.CLIENT_CREDENTIALS, client_id="ours", **settings)
    world.run(flow.log_in(Challenge(scope="a")))
    [form], request = world.forms(), world.requests[-1]
    assert form["grant_type"] == "client_credentials"
    assert form["scope"] == "a"
    assert not world.asked
    match proof:
        case "form":
            assert form["client_secret"] == "s%"
        case "assertion":
            header, claims = claims_of(form["client_assertion"])
            assert header["alg"] == "ES256"
            assert (claims["iss"], claims["sub"], claims["aud"]) == ("ours", "ours", ISSUER)
        case _:
            assert request.headers["Authorization"].startswith(proof)
            assert "client_secret" not in form


@pytest.mark.parametrize("refusal", [None, "invalid_grant"])
def test_a_workload_shows_its_assertion_once(refusal: str | None) -> None:
    page = TOKENS if refusal is None else answer(400, {"error": refusal})
    world = World({f"{ISSUER}/token": page})
    flow = world.flow(grant=Grant.WORKLOAD, assertion="jwt")
    if refusal is None:
        world.run(flow.log_in(CHALLENGE))
    else:
        with pytest.raises(LoginRefused, match=refusal):
            world.run(flow.log_in(CHALLENGE))
    [form] = world.forms()
    assert form["grant_type"] == "urn:ietf:params:oauth:grant-type:jwt-bearer"
    assert form["assertion"] == "jwt"


@pytest.mark.parametrize("endpoint", ["https://idp.example/t", None])
def test_an_enterprise_login_exchanges_the_users_token(endpoint: str | None) -> None:
    idp = "https://idp.example"
    world = World(
        {
            f"{idp}/.well-known/openid-configuration": {
                "issuer": idp,
                "token_endpoint": f"{idp}/t",
            },
            f"{idp}/t": {"access_token": "id-jag"},
        }
    )
    provider = IdentityProvider("id-token", "at-idp", "secret", endpoint, idp)
    flow = world.flow(
        grant=Grant.ENTERPRISE, client_id="ours", client_secret="s", identity_provider=provider
    )
    world.run(flow.log_in(CHALLENGE))
    [exchange] = world.forms(f"{idp}/t")
    assert exchange["subject_token"] == "id-token"
    assert exchange["audience"] == ISSUER
    assert exchange["resource"] == SERVER
    assert exchange["client_id"] == "at-idp"
    [form] = world.forms()
    assert form["assertion"] == "id-jag"


def test_a_device_login_shows_a_code_and_waits() -> None:
    device = {
        "device_code": "d",
        "user_code": "ABCD",
        "verification_uri": f"{ISSUER}/device",
        "interval": 2,
        "expires_in": 600,
    }
    pending = answer(400, {"error": "authorization_pending"})
    slow = answer(400, {"error": "slow_down"})
    world = World(
        {
            METADATA_URL: {**METADATA, "device_authorization_endpoint": f"{ISSUER}/device"},
            f"{ISSUER}/device": device,
            f"{ISSUER}/token": [pending, slow, TOKENS],
        }
    )
    flow = world.flow(without_browser=True)
    world.run(flow.log_in(CHALLENGE))
    assert [code.code for code in world.codes] == ["ABCD"]
    assert world.paused == [2.0, 2.0, 7.0]
    assert world.forms()[-1]["grant_type"] == DEVICE_CODE
    assert flow.tokens is not None
    assert not world.asked


@pytest.mark.parametrize("error", ["access_denied", "expired_token", None])
def test_a_device_login_ends(error: str | None) -> None:
    device = {"device_code": "d", "user_code": "A", "verification_uri": ISSUER, "expires_in": 9}
    world = World(
        {
            METADATA_URL: {**METADATA, "device_authorization_endpoint": f"{ISSUER}/device"},
            f"{ISSUER}/device": device,
            f"{ISSUER}/token": answer(400, {"error": error or "authorization_pending"}),
        }
    )
    with pytest.raises(LoginRefused):
        world.run(world.flow(without_browser=True).log_in(CHALLENGE))
    assert len(world.forms()) == (2 if error is None else 1)


# ---- proofs of possession


def bound(world: World, **settings: Any) -> OAuthFlow:
    world.pages[METADATA_URL] = {**METADATA, "dpop_signing_alg_values_supported": ["ES256"]}
    return world.flow(**settings)


def test_tokens_are_bound_to_a_key_where_the_server_offers_it() -> None:
    nonce = answer(400, {"error": "use_dpop_nonce"}, dpop_nonce="n1")
    world = World({f"{ISSUER}/token": [nonce, {**TOKENS, "token_type": "DPoP"}]})
    flow = bound(world)
    world.run(flow.log_in(CHALLENGE))
    proofs = [claims_of(request.headers["DPoP"]) for request in world.requests[-2:]]
    assert [claims.get("nonce") for _, claims in proofs] == [None, "n1"]
    assert proofs[0][1]["jti"] != proofs[1][1]["jti"]
    headers = flow.authorization("POST", f"{SERVER}?q=1#f")
    header, claims = claims_of(headers["DPoP"])
    assert headers["Authorization"] == "DPoP a1"
    assert header["typ"] == "dpop+jwt"
    assert "d" not in header["jwk"]
    assert (claims["htm"], claims["htu"]) == ("POST", SERVER)
    assert claims["ath"]
    assert "nonce" not in claims  # that was for another origin


@pytest.mark.parametrize("new", [True, False])
def test_a_servers_nonce_is_used_once_it_is_known(new: bool) -> None:
    world = World({f"{ISSUER}/token": {**TOKENS, "token_type": "DPoP"}})
    flow = bound(world)
    world.run(flow.log_in(CHALLENGE))
    header = {"www_authenticate": 'DPoP error="use_dpop_nonce"', "dpop_nonce": "n"}
    if not new:
        flow.judge(answer(200, dpop_nonce="n"), SERVER)
    refusal, _ = flow.judge(answer(401, **header), SERVER)
    assert refusal is (Refusal.WANTS_NONCE if new else Refusal.UNAUTHORIZED)
    assert claims_of(flow.authorization("POST", SERVER)["DPoP"])[1]["nonce"] == "n"


@pytest.mark.parametrize(
    ("settings", "has_proof", "error"),
    [
        ({"dpop": False}, False, None),
        ({"signing": None}, False, None),
        ({"dpop": True}, True, LoginRefused),  # the token is not bound
        ({"dpop": True, "signing": None}, False, SignaturesMissing),
    ],
)
def test_keys_are_used_as_the_operator_wants(
    settings: dict[str, Any], has_proof: bool, error: type[Exception] | None
) -> None:
    world = World()
    flow = bound(world, **settings)
    if error is None:
        world.run(flow.log_in(CHALLENGE))
    else:
        with pytest.raises(error):
            world.run(flow.log_in(CHALLENGE))
    assert any("DPoP" in request.headers for request in world.requests) is has_proof


@pytest.mark.parametrize("kind", ["ES256", "RS256", "EdDSA"])
def test_signatures_can_be_verified(kind: str) -> None:
    keys: dict[str, Any] = {
        "ES256": lambda: ec.generate_private_key(ec.SECP256R1()),
        "RS256": lambda: rsa.generate_private_key(65537, 2048),
        "EdDSA": ed25519.Ed25519PrivateKey.generate,
    }
    private = keys[kind]()
    pem = private.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ).decode()
    key = PemKeys().load(pem)
    assert key.algorithm == kind
    signature, public = key.sign(b"data"), private.public_key()
    match kind:
        case "ES256":
            parts = (int.from_bytes(half, "big") for half in (signature[:32], signature[32:]))
            public.verify(encode_dss_signature(*parts), b"data", ec.ECDSA(hashes.SHA256()))
        case "RS256":
            from cryptography.hazmat.primitives.asymmetric import padding

            public.verify(signature, b"data", padding.PKCS1v15(), hashes.SHA256())
        case _:
            public.verify(signature, b"data")


# ---- the rest


@pytest.mark.parametrize(("status", "revoked"), [(200, True), (400, False)])
def test_logging_out_revokes_both_tokens(status: int, revoked: bool) -> None:
    url = f"{ISSUER}/revoke"
    server = AuthorizationServer(ISSUER, {**METADATA, "revocation_endpoint": url})
    world = World({url: status})
    assert world.run(world.flow(logged_in(server=server)).revoke()) is revoked
    assert [form["token"] for form in world.forms(url)] == ["r0", "a0"]


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (None, Challenge()),
        ("Bearer", Challenge(("bearer",))),
        ('Bearer scope="a b", error=x', Challenge(("bearer",), "x", "a b")),
        ('Basic realm="x, error=y", Bearer scope=a', Challenge(("basic", "bearer"), None, "a")),
        (
            r'Bearer resource_metadata="https://x/\"y"',
            Challenge(("bearer",), None, None, 'https://x/"y'),
        ),
        ("Negotiate abc==, DPoP error=e", Challenge(("negotiate", "dpop"), "e")),
        ('Bearer error="unterminated', Challenge(("bearer",))),
    ],
)
def test_challenges_are_read(header: str | None, expected: Challenge) -> None:
    parsed = Challenge.parse(header)
    assert (parsed.error, parsed.scope, parsed.resource_metadata) == (
        expected.error,
        expected.scope,
        expected.resource_metadata,
    )
    assert set(expected.schemes) <= set(parsed.schemes)


def test_a_hostile_challenge_is_read_in_linear_time() -> None:
    for text in ('Bearer a="' + "\\" * 200_000, "a=," * 100_000, " " * 200_000, '"' * 200_000):
        Challenge.parse(text)


def test_what_is_stored_is_read_again() -> None:
    credentials = logged_in(wanted="w", key="pem", client=Client("c", "s", "client_secret_post"))
    record = json.loads(json.dumps(credentials.to_record()))
    assert Credentials.from_record(record, "otherwise") == credentials


def test_a_login_stored_by_an_older_version_is_for_the_server_itself() -> None:
    record = {"issuer": ISSUER, "tokens": {"access_token": "a"}, "expiresAt": 5}
    read = Credentials.from_record(record, SERVER)
    assert read is not None
    assert read.resource == SERVER
    assert read.tokens == Tokens("a", expires_at=5.0)


@pytest.mark.parametrize(
    "document",
    [{}, {"issuer": 5}, {"issuer": ISSUER, "tokens": [], "client": "x", "metadata": 7}],
)
def test_a_damaged_record_is_no_login(document: dict[str, Any]) -> None:
    read = Credentials.from_record(document, SERVER)
    assert read is None or (read.tokens is None and read.client is None)
