"""What a client carries from one round of questions to the next: signed, so that it comes back unchanged.

2026-07-28, "Multi Round-Trip Requests": a server must not trust `requestState` that it cannot verify.
"""

import hashlib
import hmac


def seal(secret: bytes, body: str, bound: str) -> str:
    """The state to send: `body`, and a signature over it and what it is bound to."""
    return f"{body}.{_signature(secret, body, bound)}"


def unseal(secret: bytes, state: str, bound: str) -> str | None:
    """The body of a state that was sealed with the same secret, for the same thing."""
    body, _, signature = state.rpartition(".")
    expected = _signature(secret, body, bound)
    return (
        body
        if hmac.compare_digest(expected.encode(), signature.encode("utf-8", "replace"))
        else None
    )


def _signature(secret: bytes, body: str, bound: str) -> str:
    # The length keeps a body from reaching into what it is bound to.
    text = f"{len(body)}.{body}.{bound}"
    return hmac.new(secret, text.encode("utf-8", "replace"), hashlib.sha256).hexdigest()
