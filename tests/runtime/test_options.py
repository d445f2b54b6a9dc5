"""Every option through the call, the environment and the file; each error in one line."""

import os
import socket
from dataclasses import fields
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semcast.core.recipe import Recipe
from semcast.runtime.options.options import Options, option_fields, option_help
from semcast.runtime.transport.addresses import (
    PeerAddress,
    format_address,
    multicast_address,
    parse_address,
)
from semcast.terms.errors import ConfigError

TRIO = "a=10.0.0.1:7000,b=10.0.0.2:7000,c=10.0.0.3:7000"
NAMES = [field.name for field in option_fields()]

# One value of each option that is not its default, as text and as it is normalised.
SAMPLES = {
    "name": ("ada", "ada"),
    "members": ("5", 5),
    "peers": ("10.0.0.1:7000", (PeerAddress("10.0.0.1:7000", "10.0.0.1", 7000),)),
    "bind": ("10.0.0.1:7000", ("10.0.0.1", 7000)),
    "multicast": ("239.192.0.7:7000", ("239.192.0.7", 7000)),
    "interface": ("eth0", "eth0"),
    "ip": ("6", 6),
    "protocol": ("s-sm", "s-sm"),
    "order": ("item", "item"),
    "relation": ("bitmap", "bitmap"),
    "k": ("64", 64),
    "chain_limit": ("8", 8),
    "f": ("0", 0),
    "buffer": ("100", 100),
    "buffer_bytes": ("1 MiB", 1 << 20),
    "purge": ("lazy", "lazy"),
    "overflow": ("error", "error"),
    "echo": ("no", False),
    "timeout": ("2 s", 2.0),
    "rejoin": ("no", False),
    "period": ("30 ms", 0.03),
    "fanout": ("2", 2),
    "datagram": ("8 KiB", 8192),
    "coalesce": ("200 us", 0.0002),
    "bandwidth": ("10 MiB/s", 10.0 * (1 << 20)),
    "message_max": ("16 MiB", 16 << 20),
    "key": ("ring.toml", Path("ring.toml")),
    "data": ("out/data", Path("out/data")),
    "trace": ("out/trace", Path("out/trace")),
    "metrics": ("127.0.0.1:9100", ("127.0.0.1", 9100)),
    "control": ("no", False),
    "join_timeout": ("2 min", 120.0),
    "linger": ("0", 0.0),
    "socket_buffer": ("8 MiB", 8 << 20),
}
# What an option needs beside it.
BESIDE = {"peers": {"bind": "10.0.0.1:7000"}, "members": {}}


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch, tmp_path):
    for name in os.environ:
        if name.startswith("SEMCAST_"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


def write(text, name="quotes.toml"):
    Path(name).write_text(text)
    return name


def resolve(**given):
    return Options.resolve("quotes", given)


def refused(*args, **given):
    with pytest.raises(ConfigError) as error:
        Options.resolve(*args or ("quotes",), given)
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize("name", NAMES)
def test_every_option_can_be_set_in_every_way(name, monkeypatch):
    text, expected = SAMPLES[name]
    beside = BESIDE.get(name, {"members": 3})
    assert getattr(resolve(**beside | {name: text}), name) == expected
    for table in ("", "[groups.quotes]\n"):
        config = write(f"{table}{name} = '{text}'")
        assert getattr(resolve(**beside, config=config), name) == expected
    monkeypatch.setenv(f"SEMCAST_{name.upper()}", text)
    assert getattr(resolve(**beside), name) == expected


@pytest.mark.parametrize("name", NAMES)
def test_samples_are_not_the_defaults_and_help_is_one_line(name):
    assert getattr(resolve(members=3), name) != SAMPLES[name][1]
    assert 10 < len(option_help()[name]) <= 100
    assert "\n" not in option_help()[name]


def test_help_tells_the_defaults():
    assert option_help()["buffer_bytes"] == "maximum buffered payload; default: 64 MiB"
    assert list(option_help()) == ["config", *NAMES]


def test_the_defaults():
    options = resolve(members=3)
    assert options.name == f"{socket.gethostname()}-{os.getpid()}"
    assert options.multicast == multicast_address("quotes", 4)
    assert (options.peers, options.bind, options.interface, options.key) == (None,) * 4
    assert (options.protocol, options.order, options.relation) == ("s-rm", "fifo", "item")
    assert (options.buffer, options.buffer_bytes, options.message_max) == (
        65_536,
        64 << 20,
        1 << 20,
    )
    assert (options.period, options.join_timeout, options.linger) == (0.02, 30.0, 5.0)
    assert options.control is True
    assert Options(group="quotes", members=3, buffer=None) == options


def test_a_default_name_fits(monkeypatch):
    monkeypatch.setattr(socket, "gethostname", lambda: "h" * 64)
    assert len(resolve(members=3).name) == 64
    assert resolve(members=3).name.endswith(f"h-{os.getpid()}")


def test_the_call_wins_over_the_environment_over_the_groups_table_over_the_top(monkeypatch):
    def buffer(**given):
        return resolve(members=3, **given).buffer

    config = write("buffer = 1\n[groups.other]\nbuffer = 2")
    assert buffer() == 65_536
    assert buffer(config=config) == 1
    config = write("buffer = 1\n[groups.quotes]\nbuffer = 3")
    assert buffer(config=config) == 3
    monkeypatch.setenv("SEMCAST_CONFIG", config)
    assert buffer() == 3
    assert buffer(config=write("buffer = 5", "mine.toml")) == 5
    monkeypatch.setenv("SEMCAST_BUFFER", "6")
    assert buffer() == 6
    assert buffer(buffer=None) == 6
    assert buffer(buffer=7) == 7
    monkeypatch.setenv("SEMCAST_BUFFER", " ")  # as good as unset
    assert buffer() == 3


@pytest.mark.parametrize(
    ("written", "name", "expected"),
    [
        ("members = 5", "members", 5),
        ("buffer_bytes = 1024", "buffer_bytes", 1024),
        ("period = 0.5", "period", 0.5),
        ("period = 2", "period", 2.0),
        ("control = false", "control", False),
        ("key = false", "key", False),
        ("key = 'none'", "key", False),
        ("ip = 6", "ip", 6),
        ("peers = ['n=h:1', 'm=h:2']\nname = 'n'", "members", 2),
    ],
)
def test_values_of_toml(written, name, expected):
    given = {} if "members" in written or "peers" in written else {"members": 3}
    assert getattr(resolve(**given, config=write(written)), name) == expected


@pytest.mark.parametrize("text", ["1", "true", "YES"])
def test_words_for_true(text, monkeypatch):
    monkeypatch.setenv("SEMCAST_CONTROL", text)
    assert resolve(members=3).control is True


@pytest.mark.parametrize("text", ["0", "False", "no"])
def test_words_for_false(text, monkeypatch):
    monkeypatch.setenv("SEMCAST_CONTROL", text)
    assert resolve(members=3).control is False


def test_known_variables_that_are_no_options_are_let_be(monkeypatch):
    monkeypatch.setenv("SEMCAST_KEYS", "/somewhere")
    monkeypatch.setenv("SEMCAST_KERNEL", "plain")
    resolve(members=3)


BAD = [
    ("members", "0", "0 is not in 1..65536"),
    ("members", "few", "'few' is not a whole number"),
    ("members", "65537", "65537 is not in 1..65536"),
    ("buffer", "-1", "-1 is not at least 1"),
    ("buffer", "9" * 5000, f"'{'9' * 5000}' is not a whole number"),
    ("f", "3", "3 is not in 0..2 (members - 1)"),
    ("f", "-1", "-1 is not at least 0"),
    ("k", "0", "0 is not at least 1"),
    ("fanout", "0", "0 is not at least 1"),
    ("chain_limit", "0", "0 is not at least 1"),
    ("ip", "5", "unknown value '5'; allowed: 4, 6"),
    ("protocol", "tcp", "unknown value 'tcp'; allowed: s-sm, s-rm, sm, rm, s-vsm, vsm, vs"),
    ("order", "any", "unknown value 'any'; allowed: fifo, item, causal, total"),
    (
        "order",
        "total",
        "total needs a protocol with views, such as s-vsm; s-rm allows fifo, item, causal",
    ),
    ("purge", "never", "unknown value 'never'; allowed: eager, lazy"),
    ("overflow", "drop", "unknown value 'drop'; allowed: block, error, exclude"),
    (
        "overflow",
        "exclude",
        "exclude needs a protocol with views, such as s-vsm; s-rm allows block or error",
    ),
    (
        "relation",
        "newest",
        "unknown value 'newest'; allowed: item, bitmap, list, all, update-fin, none, "
        "an object with methods obsoletes and sent",
    ),
    ("period", "0 ms", "'0 ms' is not above 0"),
    ("join_timeout", "0", "'0' is not above 0"),
    ("bandwidth", "0 B/s", "'0 B/s' is not above 0"),
    ("datagram", "575", "575 is not in 576..61440"),
    ("datagram", "61 KiB", "62464 is not in 576..61440"),
    ("message_max", "1023 B", "1023 is not in 1024..16777216"),
    ("message_max", "17 MiB", "17825792 is not in 1024..16777216"),
    ("control", "maybe", "unknown value 'maybe'; allowed: 1, true, yes, 0, false, no"),
    ("name", "n" * 65, "name too long, 65 bytes; give 1..64 bytes of UTF-8"),
    ("name", "a\tb", "'a\\tb' is not printable text"),
    ("bind", "10.0.0.1", "'10.0.0.1' is not an address; write host:port, or [::1]:port"),
    ("bind", "::1:7000", "'::1:7000' is not an address; write host:port, or [::1]:port"),
    ("bind", "[h]:7000", "'[h]:7000' is not an address; write host:port, or [::1]:port"),
    (
        "bind",
        "[10.0.0.1]:7000",
        "'[10.0.0.1]:7000' is not an address; write host:port, or [::1]:port",
    ),
    ("bind", "h:65536", "'h:65536' is not an address; write host:port, or [::1]:port"),
    ("bind", ":7000", "':7000' is not an address; write host:port, or [::1]:port"),
    ("bind", "[::1]:7000", "[::1]:7000 is an IPv6 address, but ip is 4; set ip=6"),
    ("multicast", "[ff15::1]:7000", "[ff15::1]:7000 is an IPv6 address, but ip is 4; set ip=6"),
    (
        "multicast",
        "10.0.0.1:7000",
        "'10.0.0.1:7000' is not a multicast address and a port; use one in 224.0.0.0/4 or ff00::/8",
    ),
    (
        "multicast",
        "239.192.0.1:0",
        "'239.192.0.1:0' is not a multicast address and a port; use one in 224.0.0.0/4 or ff00::/8",
    ),
    ("peers", TRIO, "cannot tell which entry is this member; set name or bind"),
    ("peers", "a=h:1,a=h:2", "a appears 2 times"),
    ("peers", "a=h:1,b=h:1", "h:1 appears 2 times"),
    ("peers", "a=h:0", "'a=h:0' has port 0; give the port that this peer listens on"),
    ("peers", "=h:1", "name is empty; give 1..64 bytes of UTF-8"),
    ("peers", "h:1,", "'' is not an address; write host:port, or [::1]:port"),
]


@pytest.mark.parametrize(("name", "text", "problem"), BAD, ids=lambda value: value[:20])
def test_a_wrong_value_says_what_is_wrong_and_where_it_stands(name, text, problem, monkeypatch):
    beside = {} if name in ("members", "peers") else {"members": 3}
    assert refused(**beside, **{name: text}) == f"{name}: {problem}"
    toml = f'{name} = "{text}"'.replace("\t", "\\t")
    config = write(toml)
    assert refused(**beside, config=config) == f"quotes.toml: {name}: {problem}"
    config = write(f"[groups.quotes]\n{toml}")
    assert refused(**beside, config=config) == f"quotes.toml: groups.quotes.{name}: {problem}"
    monkeypatch.setenv(f"SEMCAST_{name.upper()}", text)
    assert refused(**beside) == f"SEMCAST_{name.upper()}: {problem}"


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "value", [object(), [], {}, -1, ""], ids=["object", "[]", "{}", "-1", "''"]
)
def test_no_option_takes_a_value_of_a_wrong_type(name, value):
    beside = {} if name == "members" else {"members": 3}
    assert refused(**beside | {name: value}).startswith(f"{name}: ")


@pytest.mark.parametrize("name", sorted(set(NAMES) - {"control", "echo", "rejoin"}))
def test_only_a_flag_is_true(name):
    assert refused(**{"members": 3} | {name: True}).startswith(f"{name}: ")


def test_unknown_names_name_the_nearest(monkeypatch):
    assert refused(bufer=3) == "bufer: unknown option; did you mean buffer?"
    config = write("fan_out = 3")
    assert refused(config=config) == "quotes.toml: fan_out: unknown option; did you mean fanout?"
    config = write("[groups.other]\nmember = 3")
    assert refused(config=config) == (
        "quotes.toml: groups.other.member: unknown option; did you mean members?"
    )
    config = write("config = 'x'")
    assert refused(config=config).startswith("quotes.toml: config: unknown option; ")
    monkeypatch.setenv("SEMCAST_PEER", "h:1")
    assert refused() == "SEMCAST_PEER: unknown option; did you mean SEMCAST_PEERS?"


def test_files_that_cannot_be_read(monkeypatch):
    assert refused(config="no.toml") == "cannot read no.toml: No such file or directory"
    assert refused(config=write("members =")).startswith("quotes.toml: not valid TOML: ")
    Path("latin.toml").write_bytes(b"name = '\xe9'")
    assert refused(config="latin.toml").startswith("latin.toml: not valid TOML: ")
    for text in ("groups = 3", "[groups]\nquotes = 3"):
        assert refused(config=write(text)) == (
            "quotes.toml: groups must contain tables; write [groups.quotes]"
        )
    monkeypatch.setenv("SEMCAST_CONFIG", "no.toml")
    assert refused() == "cannot read no.toml: No such file or directory"


@pytest.mark.parametrize(
    ("group", "problem"),
    [
        ("", "name is empty; give 1..64 bytes of UTF-8"),
        ("é" * 33, "name too long, 66 bytes; give 1..64 bytes of UTF-8"),
        ("a\nb", "'a\\nb' is not printable text"),
        ("\ud800", "'\\ud800' is not printable text"),
        (None, "None is not printable text"),
    ],
)
def test_names_of_groups(group, problem):
    assert refused(group, members=3) == f"group: {problem}"
    with pytest.raises(ConfigError, match=r"^group: "):
        Options(group=group, members=3)


def test_either_members_or_peers_are_needed():
    assert refused() == (
        "members or peers: one is required; give the number of members or their addresses"
    )
    assert (
        refused(members=2, peers=TRIO, name="a") == "members: 2 differs from the number of peers, 3"
    )
    assert resolve(members=3, peers=TRIO, name="a").members == 3


def test_peers_say_where_this_member_listens():
    options = resolve(peers=TRIO, name="b")
    assert options.peers[1] == ("b", "10.0.0.2", 7000)
    assert (options.members, options.bind, options.multicast) == (3, ("10.0.0.2", 7000), None)
    assert resolve(peers=TRIO, name="b", bind="0.0.0.0:7000").bind == ("0.0.0.0", 7000)


def test_an_address_says_which_peer_this_member_is():
    assert resolve(peers=TRIO, bind="10.0.0.3:7000").name == "c"
    unnamed = resolve(peers=["[::1]:7000", "[0::2]:7000"], bind="[0:0::2]:7000", ip=6)
    assert unnamed.name == "[::2]:7000"
    assert resolve(peers=[("H", 1), "a = b=h:2"], bind="h:2").name == "a = b"
    assert resolve(peers=[("H", 1), "a = b=h:2"], bind="h:1").name == "h:1"


def test_a_stranger_among_the_peers_is_refused():
    assert refused(peers=TRIO, name="d") == "name: d is not in peers, which has a, b, c"
    assert (
        refused(peers="h:1,[::1]:1", bind="h:2")
        == "bind: h:2 is not in peers, which has h:1, [::1]:1"
    )
    assert refused(peers=[]) == "peers: the list is empty; it must contain at least this member"
    assert refused(peers=7) == "peers: 7 is not a list of host:port or name=host:port"
    assert refused(peers=TRIO, name="a", multicast="239.192.0.1:1") == (
        "multicast: cannot be combined with peers; give one of them"
    )


def test_addresses_of_another_version_are_refused():
    assert refused(peers="a=[::1]:1", name="a") == (
        "bind: [::1]:1 is an IPv6 address, but ip is 4; set ip=6"
    )
    assert refused(peers="a=h:1,b=[::1]:1", name="a").startswith(
        "peers: [::1]:1 is an IPv6 address"
    )
    assert refused(members=1, bind="127.0.0.1:0", ip=6).startswith(
        "bind: 127.0.0.1:0 is an IPv4 address"
    )


@pytest.mark.parametrize("name", NAMES)
def test_normalising_twice_changes_nothing(name):
    options = resolve(**BESIDE.get(name, {"members": 3}) | {name: SAMPLES[name][0]})
    assert Options(**{f.name: getattr(options, f.name) for f in fields(options)}) == options


class Newest:
    """A relation of the application's own."""

    def obsoletes(self, seq, item, payload):
        return []

    def sent(self, seq, item, payload):
        pass


def test_a_relation_may_be_an_object():
    mine = Newest()
    options = resolve(members=3, relation=mine)
    assert options.relation is mine
    assert options.recipe(1400).relation == "list"


def test_the_key_may_be_refused_in_the_call():
    config = write("key = 'ring.toml'")
    assert resolve(members=3, key=False, config=config).key is False


def test_the_recipe_has_what_was_asked_for():
    given = {"relation": "bitmap", "k": 64, "f": 0, "buffer": 9, "buffer_bytes": "1 KiB"}
    given |= {"purge": "lazy", "overflow": "error", "period": "30 ms", "fanout": 2}
    given |= {"coalesce": "2 ms", "bandwidth": "1 KB/s", "protocol": "s-sm"}
    given |= {"message_max": "2 KiB"}
    assert resolve(peers=TRIO, name="a", **given).recipe(1344, 2 << 20) == Recipe(
        members=3,
        protocol="s-sm",
        relation="bitmap",
        k=64,
        f=0,
        buffer=9,
        buffer_bytes=1024,
        message_bytes=2048,
        window_bytes=2 << 20,
        gossip_after=2,
        gossip_after_bytes=512 << 10,
        direct_gossip=True,
        purge="lazy",
        overflow="error",
        period_s=0.03,
        fanout=2,
        datagram_bytes=1344,
        coalesce_s=0.002,
        bandwidth_max=1000.0,
        unicast=True,
    )
    assert resolve(members=3, order="item", chain_limit=8).recipe(1400, 2 << 20) == Recipe(
        members=3,
        order="item",
        chain_limit=8,
        buffer=65_536,
        message_bytes=1 << 20,
        window_bytes=2 << 20,
        period_s=0.02,
        gossip_after=4096,
        gossip_after_bytes=512 << 10,
        direct_gossip=True,
        coalesce_s=0.001,
    )


def test_what_does_not_go_together_is_refused_as_the_recipe_says_it():
    assert refused(members=3, order="item", purge="lazy") == (
        "order: item needs purge eager, not lazy"
    )
    assert refused(members=3, protocol="rm", chain_limit=3) == (
        "chain_limit: needs relation item, not none"
    )


COMMON = {"protocol", "order", "relation", "k", "chain_limit", "f", "members", "peers", "purge"}
COMMON |= {"message_max"}


@pytest.mark.parametrize("name", NAMES)
def test_the_digest_is_of_what_members_must_share(name):
    plain = resolve(members=3).digest()
    changed = resolve(**BESIDE.get(name, {"members": 3}) | {name: SAMPLES[name][0]}).digest()
    assert (plain != changed) == (name in COMMON)


def test_members_that_say_the_same_otherwise_have_one_digest():
    ours = resolve(peers=TRIO, name="a").digest()
    assert ours == resolve(peers="c=h:3,b=h:2,a=h:1", name="c", f=1).digest()
    assert ours != resolve(peers="d=h:3,b=h:2,a=h:1", name="a").digest()
    assert ours != resolve(members=3).digest()
    assert 0 < ours < 1 << 64
    rm = resolve(members=3, protocol="rm")
    assert rm.digest() == resolve(members=3, protocol="rm", relation="none").digest()
    assert resolve(members=3).digest() == 9381447798511183692  # at every version


@given(st.text(min_size=1))
def test_a_group_meets_at_an_address_of_its_own_scope(group):
    host, port = multicast_address(group, 4)
    first, second, *_ = map(int, host.split("."))
    assert first == 239
    assert 192 <= second <= 195
    assert 20_000 <= port <= 29_999
    host, same = multicast_address(group, 6)
    assert host.startswith("ff15::")
    assert same == port


def test_an_address_does_not_depend_on_the_process():
    assert multicast_address("quotes", 4) == ("239.194.107.103", 26025)
    assert multicast_address("quotes", 6) == ("ff15::fe8e:6b67", 26025)


@given(
    st.ip_addresses().map(str) | st.from_regex("[a-z][a-z0-9.-]*", fullmatch=True),
    st.integers(0, 65535),
)
def test_an_address_is_read_as_it_is_shown(host, port):
    assert parse_address(format_address((host, port)), "bind") == (host, port)


def test_with_views_members_only_found_the_group():
    alone = resolve(protocol="s-vsm")
    assert (alone.members, alone.order, alone.has_views) == (0, "fifo", True)
    assert alone.digest() == resolve(protocol="s-vsm", members=3).digest()
    assert resolve(protocol="vs").order == "total"
    assert resolve(protocol="vsm", order="total", overflow="exclude").overflow == "exclude"


def test_with_views_a_recipe_has_the_times_that_were_asked_for():
    recipe = resolve(protocol="s-vsm", timeout="8 s", buffer=77).recipe(1000)
    assert (recipe.timeout_s, recipe.heartbeat_s, recipe.timeout_max_s) == (8.0, 0.8, 8.0)
    assert recipe.recipe_of(5).buffer == 77
    assert recipe.recipe_of(5).f == 2


def test_with_views_what_does_not_go_together_is_said():
    assert refused(protocol="s-vsm", f=1) == (
        "f: cannot be set with views, where it is the largest minority; remove it"
    )
    assert refused(protocol="s-vsm", relation=Newest()).startswith(
        "relation: an object cannot be reused after a rejoin"
    )
    assert resolve(protocol="s-vsm", relation=Newest(), rejoin=False).rejoin is False
    assert refused(protocol="vs", order="fifo") == "order: vs supports total, not fifo"
    assert "order: total needs relation item" in refused(
        protocol="s-vsm", order="total", relation="bitmap"
    )
