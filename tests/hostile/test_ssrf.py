# ruff: noqa: RUF001 - lookalikes are what some of these hosts are made of
"""Addresses and hosts that the guarded client must not be led to."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw.net.guarded_client import FetchRefused, is_loopback, parse_target, why_blocked

V4 = [
    "0.0.0.0",
    "0.1.2.3",
    "10.0.0.1",
    "10.255.255.255",
    "100.64.0.1",
    "100.100.100.200",
    "100.127.255.255",
    "127.0.0.1",
    "127.255.255.254",
    "127.1.2.3",
    "169.254.0.1",
    "169.254.169.254",
    "169.254.170.2",
    "169.254.169.253",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.1",
    "192.0.0.192",
    "192.0.0.8",
    "192.0.0.170",
    "192.0.2.1",
    "192.31.196.1",
    "192.52.193.1",
    "192.88.99.1",
    "192.168.0.1",
    "192.168.255.255",
    "192.175.48.1",
    "198.18.0.1",
    "198.19.255.255",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.250",
    "240.0.0.1",
    "255.255.255.255",
    "168.63.129.16",
]

V6 = [
    "::",
    "::1",
    "::2",
    "::127.0.0.1",
    "::10.0.0.1",
    "::8.8.8.8",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "::ffff:169.254.169.254",
    "::ffff:a9fe:a9fe",
    "::ffff:7f00:1",
    "::ffff:0:127.0.0.1",
    "::ffff:0:8.8.8.8",
    "64:ff9b::127.0.0.1",
    "64:ff9b::10.0.0.1",
    "64:ff9b::169.254.169.254",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::1",
    "64:ff9b:1::8.8.8.8",
    "100::1",
    "100:0:0:1::1",
    "2001::1",
    "2001:0:4136:e378:8000:63bf:3fff:fdd2",
    "2001:10::1",
    "2001:20::1",
    "2001:2::1",
    "2001:db8::1",
    "2002:7f00:1::1",
    "2002:a00:1::1",
    "2002:a9fe:a9fe::1",
    "2002:808:808::1",
    "2620:4f:8000::1",
    "3ffe::1",
    "3fff::1",
    "3fff:fff::1",
    "4000::1",
    "5f00::1",
    "6000::1",
    "fc00::1",
    "fd00::1",
    "fd00:ec2::254",
    "fd12:3456::1",
    "fe80::1",
    "fe80::5efe:10.0.0.1",
    "febf::1",
    "fec0::1",
    "ff02::1",
    "ff05::2",
    "e000::1",
    "2606:4700::5efe:10.0.0.1",
    "2606:4700::200:5efe:127.0.0.1",
    "2606:4700:1:2:0:5efe:a9fe:a9fe",
    "fe80::1%eth0",
    "2606:4700::1%1",
]

PUBLIC = [
    "1.1.1.1",
    "8.8.8.8",
    "93.184.215.14",
    "100.63.255.255",
    "100.128.0.1",
    "172.15.255.255",
    "172.32.0.1",
    "192.0.1.1",
    "198.17.255.255",
    "198.20.0.1",
    "223.255.255.255",
    "169.253.255.255",
    "169.255.0.1",
    "168.63.129.17",
    "2606:4700:4700::1111",
    "2a00:1450:4001:81b::200e",
    "2001:4860:4860::8888",
    "::ffff:8.8.8.8",
    "64:ff9b::8.8.8.8",
    "2606:4700::5efe:8.8.8.8",
]

ODD_URLS = [
    "http://2130706433/",
    "http://0x7f000001/",
    "http://0x7f.0.0.1/",
    "http://0177.0.0.1/",
    "http://0177.0.0.01/",
    "http://00000177.0.0.1/",
    "http://127.1/",
    "http://127.0.1/",
    "http://0/",
    "http://0x/",
    "http://1.1.1.1.1/",
    "http://256.1.1.1/",
    "http://127.0.0.1./",
    "http://example.test./",
    "http://example.0x7f/",
    "http://017700000001/",
    "http://3232235521/",
    "http://192.168.257/",
    "http://１２７.0.0.1/",
    "http://①②⑦.⓪.⓪.①/",
    "http://127。0。0。1/",
    "http://ｌｏｃａｌｈｏｓｔ/",
    "http://ⓛⓞⓒⓐⓛⓗⓞⓢⓣ/",
    "http://loc\u00adalhost/",
    "http://local\u200bhost/",
    "http://127.0.0.1%2f@example.test/",
    "http://%31%32%37.0.0.1/",
    "http://127.0.0.1%00.example.test/",
    "http://example.test%2f.evil.test/",
    "http://example.test%5c/",
    "http://example.test\\@127.0.0.1/",
    "http:\\\\127.0.0.1\\",
    "http://127.0.0.1\\.example.test/",
    "http://user:pass@example.test/",
    "http://example.test@127.0.0.1/",
    "http://@127.0.0.1/",
    "http://example.test:80@127.0.0.1/",
    "http://example.test#@127.0.0.1/ x",
    "http://example .test/",
    "http://example.test\t/",
    "http://example.test\r\nHost: x/",
    "http://exam\x00ple.test/",
    "http://example.test\x7f/",
    " http://example.test/",
    "http://\u3000example.test/",
    "http://",
    "http:///",
    "http://:80/",
    "http:///example.test/",
    "http:example.test",
    "//example.test/",
    "example.test",
    "",
    "http://example.test:0/",
    "http://example.test:65536/",
    "http://example.test:99999/",
    "http://example.test:8O/",
    "http://example.test:-1/",
    "http://example.test:80:80/",
    "http://[::1/",
    "http://::1/",
    "http://[::1]x/",
    "http://[::1%25eth0]/",
    "http://[fe80::1%eth0]/",
    "http://[127.0.0.1]/",
    "http://[]/",
    "http://[v1.x]/",
    "http://[[::1]]/",
    "http://-example.test/",
    "http://example-.test/",
    "http://example..test/",
    "http://.example.test/",
    "http://exa$mple.test/",
    "http://exa,mple.test/",
    "http://exa|mple.test/",
    "http://exa<mple.test/",
    "http://" + "a" * 64 + ".test/",
    "http://" + ".".join(["a" * 60] * 5) + "/",
    "http://example.test/" + "a" * 9000,
    "file:///etc/passwd",
    "ftp://example.test/",
    "gopher://127.0.0.1:6379/_x",
    "dict://127.0.0.1:11211/stat",
    "ldap://127.0.0.1/",
    "javascript:alert(1)",
    "data:text/html,x",
    "jar:http://example.test!/",
    "unix:///run/x.sock",
    "http+unix://%2frun%2fx/",
    "ws://example.test/",
    "HTTP ://example.test/",
    "ht\ntp://example.test/",
]


def test_the_table_is_as_large_as_promised() -> None:
    assert len({*V4, *V6, *ODD_URLS}) >= 120


@pytest.mark.parametrize("address", [*V4, *V6])
def test_a_blocked_address_is_blocked(address: str) -> None:
    assert why_blocked(address)


@pytest.mark.parametrize("address", PUBLIC)
def test_a_public_address_is_not_blocked(address: str) -> None:
    assert why_blocked(address) is None


@pytest.mark.parametrize("url", ODD_URLS)
def test_an_odd_url_is_refused(url: str) -> None:
    with pytest.raises(FetchRefused):
        parse_target(url)


@pytest.mark.parametrize("text", ["", "x", "127.0.0.1.", "1.2.3", "::g"])
def test_what_is_no_address_is_neither_public_nor_loopback(text: str) -> None:
    assert why_blocked(text) == "not an address"
    assert not is_loopback(text)


@pytest.mark.parametrize(
    ("url", "host", "port", "normal"),
    [
        ("http://Example.TEST", "example.test", 80, "http://example.test/"),
        ("HTTPS://example.test:443/a?b#c", "example.test", 443, "https://example.test/a?b"),
        ("http://example.test:8080/", "example.test", 8080, "http://example.test:8080/"),
        ("http://example.test:/", "example.test", 80, "http://example.test/"),
        ("http://1.1.1.1/", "1.1.1.1", 80, "http://1.1.1.1/"),
        ("http://[2606:4700::0001]/", "2606:4700::1", 80, "http://[2606:4700::1]/"),
        ("http://bücher.test/ü", "xn--bcher-kva.test", 80, "http://xn--bcher-kva.test/ü"),
        ("http://my_host.test/", "my_host.test", 80, "http://my_host.test/"),
        ("http://example.test?x=1", "example.test", 80, "http://example.test?x=1"),
    ],
)
def test_a_plain_url_is_read_as_written(url: str, host: str, port: int, normal: str) -> None:
    target = parse_target(url)
    assert (target.host, target.port, target.url) == (host, port, normal)


@given(st.integers(0, 2**32 - 1))
def test_an_embedding_of_a_blocked_address_is_blocked(value: int) -> None:
    from ipaddress import IPv4Address, IPv6Address

    v4 = IPv4Address(value)
    mapped = IPv6Address((0xFFFF << 32) | value)
    nat64 = IPv6Address((0x0064FF9B << 96) | value)
    isatap = IPv6Address((0x26064700 << 96) | (0x5EFE << 32) | value)
    blocked = why_blocked(str(v4)) is not None
    for embedding in (mapped, nat64, isatap):
        assert (why_blocked(str(embedding)) is not None) is blocked
    for always in (IPv6Address(value), IPv6Address((0x2002 << 112) | (value << 80))):
        assert why_blocked(str(always))


@given(st.text(max_size=60))
def test_whatever_the_text_it_is_a_target_or_refused(text: str) -> None:
    for url in (text, f"http://{text}", f"http://{text}/", f"https://example.test{text}"):
        try:
            target = parse_target(url)
        except FetchRefused:
            continue
        assert target.host.isascii()
