"""Which addresses are anybody's, and which lead somewhere private. Pure, standard library only.

`ipaddress.is_global` is not enough: it lets metadata services and several embeddings of IPv4 through.
"""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

_BLOCKED_V4 = tuple(
    (IPv4Network(network), why)
    for network, why in (
        ("0.0.0.0/8", "this network"),
        ("10.0.0.0/8", "private"),
        ("100.64.0.0/10", "carrier-grade NAT"),
        ("127.0.0.0/8", "loopback"),
        ("169.254.0.0/16", "link-local"),
        ("172.16.0.0/12", "private"),
        ("192.0.0.0/24", "reserved"),
        ("192.0.2.0/24", "documentation"),
        ("192.31.196.0/24", "reserved"),
        ("192.52.193.0/24", "reserved"),
        ("192.88.99.0/24", "6to4 relay"),
        ("192.168.0.0/16", "private"),
        ("192.175.48.0/24", "reserved"),
        ("198.18.0.0/15", "benchmarking"),
        ("198.51.100.0/24", "documentation"),
        ("203.0.113.0/24", "documentation"),
        ("224.0.0.0/4", "multicast"),
        ("240.0.0.0/4", "reserved"),
        ("168.63.129.16/32", "metadata"),
    )
)

_GLOBAL_V6 = IPv6Network("2000::/3")
_BLOCKED_V6 = tuple(
    (IPv6Network(network), why)
    for network, why in (
        ("2001::/32", "Teredo"),
        ("2001::/23", "reserved"),
        ("2001:db8::/32", "documentation"),
        ("2002::/16", "6to4"),
        ("2620:4f:8000::/48", "reserved"),
        ("3ffe::/16", "reserved"),
        ("3fff::/20", "documentation"),
    )
)
_SPECIAL_V6 = tuple(
    (IPv6Network(network), why)
    for network, why in (
        ("::/128", "unspecified"),
        ("::1/128", "loopback"),
        ("::ffff:0:0:0/96", "IPv4-translated"),
        ("::/96", "IPv4-compatible"),
        ("64:ff9b:1::/48", "local NAT64"),
        ("100::/64", "discard"),
        ("5f00::/16", "segment routing"),
        ("fc00::/7", "private"),
        ("fe80::/10", "link-local"),
        ("fec0::/10", "site-local"),
        ("ff00::/8", "multicast"),
    )
)
_MAPPED = IPv6Network("::ffff:0:0/96")
_NAT64 = IPv6Network("64:ff9b::/96")
# The interface identifiers by which ISATAP carries an IPv4 address.
_ISATAP = frozenset({0x00005EFE, 0x02005EFE, 0x01005EFE, 0x03005EFE})


def why_blocked(address: str) -> str | None:
    if "%" in address:
        return "has a zone"
    try:
        parsed = ip_address(address)
    except ValueError:
        return "not an address"
    return _why_v4(parsed) if isinstance(parsed, IPv4Address) else _why_v6(parsed)


def is_loopback(host: str) -> bool:
    """Whether this literally names this machine; nothing is looked up."""
    try:
        parsed = ip_address(host.strip("[]"))
    except ValueError:
        return host.lower() == "localhost"
    return parsed == IPv6Address("::1") or parsed in IPv4Network("127.0.0.0/8")


def _why_v4(address: IPv4Address) -> str | None:
    return next((why for network, why in _BLOCKED_V4 if address in network), None)


def _why_v6(address: IPv6Address) -> str | None:
    embedded = IPv4Address(int(address) & 0xFFFFFFFF)
    # A mapped address is the IPv4 address; behind NAT64 every name may resolve to one of these.
    if address in _MAPPED or address in _NAT64:
        return _why_embedded(embedded, "IPv6")
    special = next((why for network, why in _SPECIAL_V6 if address in network), None)
    if special is not None:
        return special
    if address not in _GLOBAL_V6:
        return "reserved"
    blocked = next((why for network, why in _BLOCKED_V6 if address in network), None)
    if blocked is None and (int(address) >> 32) & 0xFFFFFFFF in _ISATAP:
        return _why_embedded(embedded, "ISATAP")
    return blocked


def _why_embedded(embedded: IPv4Address, holder: str) -> str | None:
    why = _why_v4(embedded)
    return f"{why}, embedded in {holder}" if why else None
