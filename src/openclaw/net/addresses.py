"""Which addresses are public, and which are private (SSRF). Pure, standard library only.

`ipaddress.is_global` is not enough: it lets metadata services and several embeddings of IPv4 through.
"""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

_BLOCKED_V4 = {
    IPv4Network(network): why
    for why, networks in {
        "this network": "0.0.0.0/8",
        "private": "10.0.0.0/8 172.16.0.0/12 192.168.0.0/16",
        "carrier-grade NAT": "100.64.0.0/10",
        "loopback": "127.0.0.0/8",
        "link-local": "169.254.0.0/16",
        "reserved": "192.0.0.0/24 192.31.196.0/24 192.52.193.0/24 192.175.48.0/24 240.0.0.0/4",
        "documentation": "192.0.2.0/24 198.51.100.0/24 203.0.113.0/24",
        "6to4 relay": "192.88.99.0/24",
        "benchmarking": "198.18.0.0/15",
        "multicast": "224.0.0.0/4",
        "metadata": "168.63.129.16/32",
    }.items()
    for network in networks.split()
}
_GLOBAL_V6 = IPv6Network("2000::/3")
_BLOCKED_V6 = {  # the first match counts
    IPv6Network(network): why
    for why, networks in {
        "unspecified": "::/128",
        "loopback": "::1/128",
        "IPv4-translated": "::ffff:0:0:0/96",
        "IPv4-compatible": "::/96",
        "local NAT64": "64:ff9b:1::/48",
        "discard": "100::/64",
        "segment routing": "5f00::/16",
        "private": "fc00::/7",
        "link-local": "fe80::/10",
        "site-local": "fec0::/10",
        "multicast": "ff00::/8",
        "Teredo": "2001::/32",
        "documentation": "2001:db8::/32 3fff::/20",
        "6to4": "2002::/16",
        "reserved": "2001::/23 2620:4f:8000::/48 3ffe::/16",
    }.items()
    for network in networks.split()
}
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
    return next((why for network, why in _BLOCKED_V4.items() if address in network), None)


def _why_v6(address: IPv6Address) -> str | None:
    embedded = IPv4Address(int(address) & 0xFFFFFFFF)
    # A mapped address is the IPv4 address; behind NAT64 every name may resolve to one of these.
    if address in _MAPPED or address in _NAT64:
        return _why_embedded(embedded, "IPv6")
    blocked = next((why for network, why in _BLOCKED_V6.items() if address in network), None)
    if blocked is not None:
        return blocked
    if address not in _GLOBAL_V6:
        return "reserved"
    isatap = (int(address) >> 32) & 0xFFFFFFFF in _ISATAP
    return _why_embedded(embedded, "ISATAP") if isatap else None


def _why_embedded(embedded: IPv4Address, holder: str) -> str | None:
    why = _why_v4(embedded)
    return f"{why}, embedded in {holder}" if why else None
