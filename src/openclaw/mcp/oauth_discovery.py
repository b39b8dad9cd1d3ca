"""Finding out who may issue tokens for a server (RFC 9728), and how (RFC 8414)."""

from collections.abc import Generator
from urllib.parse import urlsplit

from openclaw.mcp.oauth_documents import (
    AuthorizationServer,
    Challenge,
    HttpRequest,
    HttpResponse,
    LoginRefused,
    OAuthUnavailable,
    ProtectedResource,
    is_temporary,
    origin_of,
    same_issuer,
    shown,
)


def find_resource(
    server_url: str, challenge: Challenge
) -> Generator[HttpRequest, HttpResponse, ProtectedResource | None]:
    """The server's own metadata: where the challenge says, else at the well-known addresses."""
    parts = urlsplit(server_url)
    well_known = f"{parts.scheme}://{parts.netloc}/.well-known/oauth-protected-resource"
    path = parts.path.rstrip("/")
    urls = [challenge.resource_metadata, path and f"{well_known}{path}", well_known]
    failed: int | None = None
    for url in dict.fromkeys(filter(None, urls)):
        response = yield get(url)
        resource = ProtectedResource.parse(response.document()) if response.status == 200 else None
        if resource is not None:
            _check_resource(resource.resource, server_url)
            return resource
        if is_temporary(response):
            failed = response.status
    if failed is not None:  # it may publish metadata, so nothing may be assumed instead
        raise OAuthUnavailable(f"the server answered {failed} when asked about its login")
    return None


def _check_resource(resource: str, server_url: str) -> None:
    """Raise unless tokens for this resource are tokens for the MCP server (RFC 9728, 3.3)."""
    folder = urlsplit(resource).path.rstrip("/") + "/"
    is_inside = f"{urlsplit(server_url).path.rstrip('/')}/".startswith(folder)
    if origin_of(server_url) != origin_of(resource) or not is_inside:
        raise LoginRefused(
            f"the server's metadata is about {shown(resource)}, which is another resource"
        )


def find_server(
    server_url: str, resource: ProtectedResource | None, known_issuer: str | None
) -> Generator[HttpRequest, HttpResponse, AuthorizationServer]:
    """The metadata of one of its authorization servers, preferably one that knows us."""
    listed = () if resource is None else resource.authorization_servers
    if listed:
        known = [issuer for issuer in listed if same_issuer(issuer, known_issuer or "")]
        return (yield from find_metadata((known or listed)[0]))
    # Revision 2025-03-26: the MCP server's origin is its authorization server.
    parts = urlsplit(server_url)
    origin = f"{parts.scheme}://{parts.netloc}"
    response = yield get(metadata_urls(origin)[0])
    return _parsed(response, origin) or AuthorizationServer.guessed(origin)


def find_metadata(issuer: str) -> Generator[HttpRequest, HttpResponse, AuthorizationServer]:
    for url in metadata_urls(issuer):
        response = yield get(url)
        server = _parsed(response, issuer)
        if server is not None:
            return server
    raise LoginRefused(f"the authorization server {shown(issuer)} publishes no metadata")


def _parsed(response: HttpResponse, issuer: str) -> AuthorizationServer | None:
    if is_temporary(response):
        raise OAuthUnavailable(f"the authorization server answered {response.status}")
    server = AuthorizationServer.parse(response.document()) if response.status == 200 else None
    # Else any server could pose as another (RFC 8414, 3.3).
    if server is not None and not same_issuer(server.issuer, issuer):
        raise LoginRefused(f"issuer mismatch: {shown(issuer)} calls itself {shown(server.issuer)}")
    return server


def metadata_urls(issuer: str) -> list[str]:
    """Where an issuer's metadata may be, in MCP's order."""
    parts = urlsplit(issuer)
    origin, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
    urls = [
        f"{origin}/.well-known/oauth-authorization-server{path}",
        f"{origin}/.well-known/openid-configuration{path}",
    ]
    return [*urls, f"{origin}{path}/.well-known/openid-configuration"] if path else urls


def get(url: str) -> HttpRequest:
    return HttpRequest("GET", url, {"Accept": "application/json"})
