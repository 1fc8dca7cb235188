"""Public addresses: every notation of an address, and the addresses of host names."""

import ipaddress
from collections.abc import Mapping, Sequence

import pytest

from artifactflow_nb.errors import ToolError, UsageError
from artifactflow_nb.tools.web.guard import RequestGuard, address_problem, connect_address, parse_numeric_host

PUBLIC_4, PUBLIC_6 = "93.184.215.14", "2606:2800:21f:cb07:6820:80da:af6b:8b2c"

NAMES: Mapping[str, Sequence[str]] = {
    "www.iana.org": [PUBLIC_4],
    "both.iana.org": [PUBLIC_6, PUBLIC_4],
    "mapped.iana.org": [f"::ffff:{PUBLIC_4}"],
    "nat64.iana.org": [f"64:ff9b::{PUBLIC_4}"],
    "xn--mnchen-3ya.de": [PUBLIC_4],
    "loop.iana.org": ["127.0.0.1"],
    "mixed.iana.org": [PUBLIC_4, "10.0.0.1"],
    "mixed6.iana.org": [PUBLIC_6, "::1"],
    "late.iana.org": [*[PUBLIC_4] * 30, "169.254.169.254"],
    "zone.iana.org": ["fe80::1%eth0"],
    "mapped-loop.iana.org": ["::ffff:127.0.0.1"],
    "broken.iana.org": ["not an address"],
    "empty.iana.org": [],
}


class Table:
    """A resolver with these answers."""

    def __init__(self, answers: Mapping[str, Sequence[str]]) -> None:
        self.answers = answers
        self.queries: list[str] = []

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        self.queries.append(host)
        if host not in self.answers:
            raise OSError(f"{host} is not known")
        return self.answers[host]


PUBLIC = [
    "http://www.iana.org",
    "https://www.iana.org/a?b=c#d",
    "HTTPS://WWW.IANA.ORG/",
    "http://www.iana.org.",
    "http://www.iana.org:80/",
    "https://www.iana.org:443/",
    "http://www.iana.org:443/",
    "https://both.iana.org/",
    "https://mapped.iana.org/",
    "https://nat64.iana.org/",
    "https://münchen.de/straße",
    "http://8.8.8.8/",
    "http://1.1.1.1:443/",
    "http://100.63.255.255/",
    "http://100.128.0.0/",
    "http://172.15.0.1/",
    "http://172.32.0.1/",
    "http://192.0.1.1/",
    "http://198.17.255.255/",
    "http://198.20.0.1/",
    "http://223.255.255.254/",
    f"http://[{PUBLIC_6}]/",
    "http://[2001:200::1]/",
    "http://[2001:4860:4860::8888]/",
    "http://[::ffff:8.8.8.8]/",
    "http://[64:ff9b::8.8.8.8]/",
    "http://[2606:2800:21f::200:5efe:8.8.8.8]/",
]

REFUSED = [
    # this machine, private networks, link-local, metadata
    "http://127.0.0.1/",
    "http://127.255.255.254/",
    "http://0.0.0.0/",
    "http://0.1.2.3/",
    "http://10.0.0.1/",
    "http://172.16.0.1/",
    "http://172.31.255.255/",
    "http://192.168.1.1/",
    "http://169.254.169.254/latest/meta-data/",
    "http://169.254.170.2/",
    "http://100.64.0.1/",
    "http://100.100.100.200/",
    "http://168.63.129.16/",
    "http://192.0.0.192/",
    # special purposes
    "http://192.0.2.1/",
    "http://192.31.196.1/",
    "http://192.52.193.1/",
    "http://192.88.99.1/",
    "http://192.175.48.1/",
    "http://198.18.0.1/",
    "http://198.19.255.255/",
    "http://198.51.100.1/",
    "http://203.0.113.1/",
    "http://224.0.0.1/",
    "http://239.255.255.250/",
    "http://240.0.0.1/",
    "http://255.255.255.255/",
    # other spellings of IPv4, also of public addresses
    "http://2130706433/",
    "http://017700000001/",
    "http://0x7f000001/",
    "http://0x7f.0.0.1/",
    "http://0177.0.0.1/",
    "http://127.1/",
    "http://127.0.1/",
    "http://0/",
    "http://0x/",
    "http://127.0.0.01/",
    "http://134744072/",
    "http://１２７.０.０.１/",
    "http://127。0。0。1/",
    "http://①②⑦.0.0.1/",
    "http://127.0.0.1./",
    "http://1.2.3.4.5/",
    "http://256.1.1.1/",
    "http://1.2.3.08/",
    "http://127.0.0.1%2f/",
    # IPv6
    "http://[::]/",
    "http://[::1]/",
    "http://[0:0:0:0:0:0:0:1]/",
    "http://[::127.0.0.1]/",
    "http://[::8.8.8.8]/",
    "http://[::ffff:127.0.0.1]/",
    "http://[::ffff:7f00:1]/",
    "http://[::ffff:169.254.169.254]/",
    "http://[::ffff:0:127.0.0.1]/",
    "http://[64:ff9b::127.0.0.1]/",
    "http://[64:ff9b::a00:1]/",
    "http://[64:ff9b:1::8.8.8.8]/",
    "http://[64:ff9b:1:a00:0:100::]/",
    "http://[100::1]/",
    "http://[100:0:0:1::1]/",
    "http://[2001::1]/",
    "http://[2001:0:4136:e378:8000:63bf:3fff:fdd2]/",
    "http://[2001:2::1]/",
    "http://[2001:10::1]/",
    "http://[2001:20::1]/",
    "http://[2001:db8::1]/",
    "http://[2002:7f00:1::]/",
    "http://[2002:a00:1::1]/",
    "http://[2002:808:808::1]/",
    "http://[2606:2800:21f::5efe:10.0.0.1]/",
    "http://[2606:2800:21f::200:5efe:192.168.1.1]/",
    "http://[2620:4f:8000::1]/",
    "http://[3fff::1]/",
    "http://[3ffe::1]/",
    "http://[4000::1]/",
    "http://[5f00::1]/",
    "http://[fc00::1]/",
    "http://[fd00:ec2::254]/",
    "http://[fe80::1]/",
    "http://[fe80::1%25eth0]/",
    "http://[fe80::1%eth0]/",
    "http://[2606:2800:21f::1%25eth0]/",
    "http://[fec0::1]/",
    "http://[feff::1]/",
    "http://[ff02::1]/",
    "http://[::1/",
    "http://::1/",
    "http://[v1.x]/",
    "http://[127.0.0.1]/",
    # names
    "http://localhost/",
    "http://LOCALHOST./",
    "http://a.localhost/",
    "http://printer.local/",
    "http://metadata.google.internal/",
    "http://host.docker.internal/",
    "http://router.lan/",
    "http://wiki.corp/",
    "http://box.home.arpa/",
    "http://hidden.onion/",
    "http://intranet/",
    "http://ｌｏｃａｌｈｏｓｔ/",
    "http://loop.iana.org/",
    "http://mixed.iana.org/",
    "http://mixed6.iana.org/",
    "http://late.iana.org/",
    "http://zone.iana.org/",
    "http://mapped-loop.iana.org/",
    "http://broken.iana.org/",
    "http://empty.iana.org/",
    "http://unknown.iana.org/",
    # the rest of the address
    "http://www.iana.org:8080/",
    "http://www.iana.org:0/",
    "http://www.iana.org:99999/",
    "http://www.iana.org:22/",
    "http://user:secret@www.iana.org/",
    "http://user@127.0.0.1/",
    "http://www.iana.org@127.0.0.1/",
    "http://127.0.0.1\\@www.iana.org/",
    "http://www.iana.org\\.local/",
    "http://www.iana.org /",
    "http://www.iana.org\t/",
    "http://www.iana.org/a\r\nHost: localhost",
    "http://www%2eiana.org/",
    "http://-.iana.org/",
    "http://www..iana.org/",
    "http://www.iana.org../",
    "http:///path",
    "http:www.iana.org",
    "//www.iana.org/",
    "www.iana.org",
    "ftp://www.iana.org/",
    "file:///etc/passwd",
    "gopher://www.iana.org/",
    "data:text/plain,x",
    "javascript:alert(1)",
    "http://" + "a" * 300 + ".org/",
    "http://www.iana.org/" + "a" * 5000,
    "",
]


@pytest.mark.parametrize("url", PUBLIC)
async def test_public_address_is_accepted(url: str):
    """Every resolved address is public itself."""
    target = await RequestGuard(resolver=Table(NAMES)).check(url)
    assert target.addresses
    assert not any(map(address_problem, target.addresses))


@pytest.mark.parametrize("url", REFUSED)
async def test_address_that_is_not_public_is_refused(url: str):
    """Each address of the table is refused with a message."""
    with pytest.raises(ToolError, match=r"\w"):
        await RequestGuard(resolver=Table(NAMES)).check(url)


def test_table_has_no_duplicates():
    """The table covers at least 150 notations, and no notation occurs twice."""
    forms = PUBLIC + REFUSED
    assert len(set(forms)) == len(forms) >= 150


@pytest.mark.parametrize(
    ("first", "last", "before", "after"),
    [
        ("10.0.0.0", "10.255.255.255", "9.255.255.255", "11.0.0.0"),
        ("100.64.0.0", "100.127.255.255", "100.63.255.255", "100.128.0.0"),
        ("127.0.0.0", "127.255.255.255", "126.255.255.255", "128.0.0.0"),
        ("172.16.0.0", "172.31.255.255", "172.15.255.255", "172.32.0.0"),
        ("198.18.0.0", "198.19.255.255", "198.17.255.255", "198.20.0.0"),
        ("2001:db8::", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", "2001:db7::1", "2001:db9::"),
        ("3fff::", "3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff", "3ffd::", "3fff:1000::"),
    ],
)
def test_range_is_refused_up_to_its_last_address(first: str, last: str, before: str, after: str):
    """The first and the last address of a range are refused, their neighbours outside are not."""
    assert address_problem(ipaddress.ip_address(first))
    assert address_problem(ipaddress.ip_address(last))
    assert address_problem(ipaddress.ip_address(before)) is None
    assert address_problem(ipaddress.ip_address(after)) is None


def test_refusal_names_the_kind_of_address():
    """The reason names the range, and the IPv4 address that is embedded in an IPv6 address."""
    assert address_problem(ipaddress.ip_address("10.1.2.3")) == "a private network"
    hidden = address_problem(ipaddress.ip_address("2002:a9fe:a9fe::"))
    assert hidden == "the IPv4 address 169.254.169.254 in another form, which is link-local (cloud metadata is there)"


def test_mapped_ipv4_address_is_connected_to_as_ipv4():
    """Other addresses stay unchanged."""
    assert connect_address(ipaddress.ip_address("::ffff:8.8.8.8")) == ipaddress.ip_address("8.8.8.8")
    assert connect_address(ipaddress.ip_address("2606:2800::1")) == ipaddress.ip_address("2606:2800::1")


@pytest.mark.parametrize(
    ("written", "means"),
    [
        ("127.1", "127.0.0.1"),
        ("0x7f.1", "127.0.0.1"),
        ("010.1.2.3", "8.1.2.3"),
        ("1.2.772", "1.2.3.4"),
        ("0", "0.0.0.0"),  # noqa: S104 - an address to read
    ],
)
def test_numeric_hosts_are_parsed_like_resolvers_do(written: str, means: str):
    """A host of one to four decimal, octal or hexadecimal numbers is an IPv4 address."""
    assert str(parse_numeric_host(written)) == means


async def test_name_is_resolved_once_and_the_checked_addresses_are_used():
    """A name that resolves differently after the check has no effect on the target."""

    class Turncoat:
        queries = 0

        async def resolve(self, host: str, port: int) -> Sequence[str]:
            self.queries += 1
            return [PUBLIC_4] if self.queries == 1 else ["127.0.0.1"]

    resolver = Turncoat()
    guard = RequestGuard(resolver=resolver)
    target = await guard.check("http://www.iana.org/")
    assert (list(map(str, target.addresses)), resolver.queries) == ([PUBLIC_4], 1)
    with pytest.raises(ToolError, match="leads to 127.0.0.1"):
        await guard.check("http://www.iana.org/")


async def test_numeric_host_is_not_resolved():
    """The resolver is not called for a numeric address."""
    resolver = Table(NAMES)
    await RequestGuard(resolver=resolver).check("http://8.8.8.8/")
    assert resolver.queries == []


@pytest.mark.parametrize(
    ("allowed", "url", "passes"),
    [
        ("127.0.0.1", "http://127.0.0.1:8080/", True),
        ("127.0.0.1:8080", "http://127.0.0.1:8080/", True),
        ("127.0.0.1:8080", "http://127.0.0.1:8081/", False),
        ("127.0.0.1:8080", "http://127.0.0.2:8080/", False),
        ("127.0.0.1", "http://2130706433/", False),
        ("[::1]:9000", "http://[0::1]:9000/", True),
        ("[::1]:9000", "http://127.0.0.1:9000/", False),
        ("loop.iana.org", "http://loop.iana.org/", True),
        ("Loop.IANA.org.", "http://loop.iana.org/", True),
        ("loop.iana.org", "http://a.loop.iana.org/", False),
        ("127.0.0.1", "http://loop.iana.org/", False),
        ("127.0.0.1", "http://[::ffff:127.0.0.1]/", True),
        ("loop.iana.org:443", "https://loop.iana.org/", True),
        ("loop.iana.org", "http://user:pw@loop.iana.org/", False),
        ("loop.iana.org", "ftp://loop.iana.org/", False),
    ],
)
async def test_allowed_host_need_not_be_public(allowed: str, url: str, passes: bool):
    """A host is allowed at one port or at all ports; the notation of its address is checked anyway."""
    guard = RequestGuard([allowed], Table(NAMES))
    if passes:
        assert (await guard.check(url)).addresses
    else:
        with pytest.raises(ToolError):
            await guard.check(url)


@pytest.mark.parametrize("entry", ["http://localhost", "a b", "", "host:port", "127.1", "user@host", "*.example.org"])
def test_malformed_allowed_host_is_a_usage_error(entry: str):
    """The error shows how to write an entry."""
    with pytest.raises(UsageError, match="allowed_hosts has .* Write it as"):
        RequestGuard([entry])


async def test_credentials_are_not_repeated():
    """No message about an address contains its password."""
    for url in ["http://me:hunter2@www.iana.org/", "ftp://me:hunter2@www.iana.org/", "http://me:hunter2@a b/"]:
        with pytest.raises(ToolError) as caught:
            await RequestGuard(resolver=Table(NAMES)).check(url)
        assert "hunter2" not in str(caught.value)


async def test_target_is_normalized():
    """Host, port and path are normalized: lower case, ASCII, without the scheme's default port."""
    guard = RequestGuard(["münchen.de:8443"], Table(NAMES))
    target = await guard.check("HTTPS://MÜNCHEN.de:8443/straße?q=ü#top")
    assert target.url == "https://xn--mnchen-3ya.de:8443/stra%C3%9Fe?q=%C3%BC"
    assert target.authority == "xn--mnchen-3ya.de:8443"
    assert (await guard.check("http://[::ffff:8.8.8.8]:80/")).authority == "8.8.8.8"
