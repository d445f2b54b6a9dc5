"""Every check says so when something is wrong, and what to do about it."""

import sys
from pathlib import Path

import pytest

from semcast.disk.log_header import LogOwner
from semcast.disk.segment_log import open_log
from semcast.runtime.operations import control, doctor
from semcast.runtime.operations.doctor import DoctorCheck
from semcast.runtime.operations.system_info import UdpCounters
from semcast.runtime.storage import keyring
from semcast.runtime.storage.directory_files import DirectoryFiles
from semcast.runtime.transport.sockets import BufferShortfall
from semcast.terms.errors import ConfigError

WANTED = 4 << 20


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's own files stay as they are."""
    monkeypatch.delenv("SEMCAST_KEYS", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(control, "directory", lambda: tmp_path / "control")
    return tmp_path


def statuses(*names: str, interface: str | None = None) -> dict[str, str]:
    found = {check.name: check.status for check in doctor.run_checks(interface, None)}
    return {name: found[name] for name in names}


def test_a_machine_that_can_run_these_tests_is_well():
    checks = list(doctor.run_checks("127.0.0.1", "quotes"))
    names = [check.name for check in checks]
    assert len(set(names)) == len(names)
    assert {"multicast 127.0.0.1 IPv4", "group quotes"} <= set(names)
    assert "multicast 127.0.0.1 IPv6" not in names
    assert [check for check in checks if check.status == "fail"] == []
    assert all(check.advice for check in checks if check.status != "ok")


def test_the_verdict_is_the_worst_status():
    well, doubtful, broken = (DoctorCheck("it", status, "") for status in ("ok", "warn", "fail"))
    assert doctor.overall_status([]) == doctor.overall_status([well]) == "ok"
    assert doctor.overall_status([well, doubtful]) == "warn"
    assert doctor.overall_status([broken, doubtful, well]) == "fail"


def test_missing_packages():
    assert doctor.required("msgspec", None).status == "fail"
    assert doctor.required("msgspec", "0.19") == DoctorCheck("msgspec", "ok", "0.19")
    found = doctor.optional("uvloop", None, "faster members", "speed")
    assert (found.status, found.advice) == (
        "warn",
        "for faster members: pip install 'semcast[speed]'",
    )


def test_which_kernel_runs():
    assert doctor.kernel_build("", asked="") == DoctorCheck("kernel", "ok", "compiled")
    plain = doctor.kernel_build("not built", asked="")
    assert (plain.status, plain.found) == ("warn", "plain: not built")
    assert plain.advice == "with a C compiler: pip install --force-reinstall semcast"
    asked = doctor.kernel_build("requested by SEMCAST_KERNEL", asked="plain")
    assert (asked.status, asked.advice) == ("warn", "unset SEMCAST_KERNEL")


def test_keys_that_cannot_be_imported_do_not_end_the_examination(monkeypatch):
    monkeypatch.setitem(sys.modules, "semcast.runtime.storage.keyring", None)
    monkeypatch.delattr("semcast.runtime.storage.keyring")
    found = statuses("keys", "incarnation", "open files")
    assert found == {"keys": "fail", "incarnation": "fail", "open files": "ok"}


@pytest.mark.parametrize(
    ("check", "found"),
    [
        (doctor.udp_on_loopback, "a datagram of 61,440 bytes was lost"),
        (doctor.tcp_on_loopback, "a connection was not accepted"),
    ],
)
def test_loopback_that_carries_nothing(check, found, monkeypatch):
    monkeypatch.setattr(doctor, "_is_ready", lambda _: False)
    told = check()
    assert (told.status, told.found) == ("fail", found)
    assert told.advice == "allow loopback traffic in the firewall"


def test_loopback_that_is_down(monkeypatch):
    def refuse(*_: object, **__: object) -> None:
        raise ConfigError("ip: loopback has no IPv4 address; ip link set lo up")

    monkeypatch.setattr(doctor, "resolve_interface", refuse)
    found = {check.name: check for check in doctor.run_checks(None, None)}
    for name in ("udp lo", "tcp lo", "multicast lo IPv4", "socket buffers"):
        assert found[name].status == "fail"
        assert found[name].advice == "ip link set lo up"


def test_filtered_multicast_fails_on_loopback_and_where_asked_for(monkeypatch):
    monkeypatch.setattr(doctor, "probe_multicast", lambda *_: "nothing came back; use peers=")
    name = doctor.resolve_interface(None, 4, sealed=False).name
    asked = list(doctor.check_multicast(name, "quotes"))
    assert [check.status for check in asked] == ["fail", "warn", "fail", "warn"]
    assert asked[0] == DoctorCheck("multicast lo IPv4", "fail", "nothing came back", "use peers=")
    assert [check.status for check in doctor.check_multicast(None, "quotes")][2:] == [
        "warn",
        "warn",
    ]


def test_no_way_out_of_the_machine_is_only_a_warning(monkeypatch):
    loopback = doctor.resolve_interface(None, 4, sealed=False)
    monkeypatch.setattr(doctor, "resolve_interface", lambda *_: loopback)
    *_, out = doctor.check_multicast(None, "quotes")
    assert (out.name, out.status, out.found) == ("multicast out IPv6", "warn", "no default route")


def test_an_interface_that_is_not_there():
    asked = "multicast no-such-0 IPv4"
    assert statuses(asked, interface="no-such-0") == {asked: "fail"}


def test_a_group_whose_port_somebody_holds_alone(monkeypatch):
    def refuse(*_: object) -> None:
        raise ConfigError("port: 7 is taken; choose another one")

    monkeypatch.setattr(doctor, "open_multicast", refuse)
    found = [check for check in doctor.run_checks(None, "quotes") if check.name == "group quotes"]
    assert found == [DoctorCheck("group quotes", "fail", "port: 7 is taken", "choose another one")]


def test_small_socket_buffers():
    short = [
        BufferShortfall("receive", WANTED, 212_992, "sysctl -w net.core.rmem_max=4194304"),
        BufferShortfall("send", WANTED, 1_000, "sysctl -w net.core.wmem_max=4194304"),
    ]
    assert doctor.check_buffers(WANTED, short) == DoctorCheck(
        "socket buffers",
        "warn",
        "receive 212,992, send 1,000 of the requested 4,194,304 bytes",
        "sysctl -w net.core.rmem_max=4194304 && sysctl -w net.core.wmem_max=4194304",
    )
    assert doctor.check_buffers(WANTED, []).status == "ok"


def test_lost_datagrams():
    assert doctor.udp_loss(None).status == "ok"
    assert doctor.udp_loss(UdpCounters(received=0, lost=0)).status == "ok"
    assert doctor.udp_loss(UdpCounters(received=100_000, lost=10)).status == "ok"
    found = doctor.udp_loss(UdpCounters(received=1_000, lost=10))
    assert (found.status, found.found.split(" ")[0]) == ("warn", "10")


@pytest.fixture
def data(tmp_path):
    with DirectoryFiles(tmp_path / "a") as files:
        log = open_log(files, LogOwner("quotes", "a"), b"saltsalt")
        for _ in range(3):
            batch = log.next_batch()
            batch.add([b"x" * 100])
            log.commit(batch)
    return tmp_path / "a"


def test_a_log_in_order_is_described(data):
    check = doctor.check_log(data)
    assert (check.status, check.found) == (
        "ok",
        "the log of a in group quotes: 3 records in 1 file",
    )


def test_a_torn_log_is_in_order_and_a_damaged_one_is_not(data):
    [segment] = data.glob("*.segment")
    whole = segment.read_bytes()
    segment.write_bytes(whole[:-5])
    check = doctor.check_log(data)
    assert (check.status, "a torn write, from record 3 on" in check.found) == ("ok", True)
    assert segment.read_bytes() == whole[:-5]
    segment.write_bytes(whole[:150] + b"!" + whole[151:])
    check = doctor.check_log(data)
    assert (check.status, "records 2 to 2 cannot be read" in check.found) == ("fail", True)


def test_a_log_that_is_not_there_or_in_use(data, tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    check = [each for each in doctor.run_checks(None, None, empty) if each.name == "data"]
    advice = "give the directory of a server"
    assert check == [DoctorCheck("data", "fail", f"no log in {empty}", advice)]
    assert [*empty.iterdir()] == []
    with DirectoryFiles(data), pytest.raises(ConfigError, match="in use by another process"):
        doctor.check_log(data)


def test_clocks():
    assert doctor.monotonic_clock(1e-9).status == "ok"
    assert doctor.monotonic_clock(0.0156).status == "warn"
    assert doctor.wall_clock(True) == DoctorCheck("wall clock", "ok", "synchronised")
    assert doctor.wall_clock(False).status == "warn"
    assert doctor.wall_clock(None).found == "synchronisation unknown"


def test_no_keys(home):
    found = doctor.keys()
    assert found.status == "warn"
    assert found.found == f"none in {home / 'semcast' / 'keys.toml'}"
    assert found.advice == "to use the network, run semcast keys new"


def test_keys_that_others_may_read():
    path = keyring.keys_path()
    key = keyring.new_key()
    keyring.edit(path, lambda ring: ring.with_key(key))
    assert doctor.keys().found == f"{keyring.id_text(key.id)} is active, 1 in {path}"
    path.chmod(0o644)
    found = doctor.run_guarded("keys", "fail", doctor.keys)
    assert (found.status, found.advice) == ("fail", f"run chmod 600 {path}")


def test_a_damaged_key_ring():
    path = keyring.keys_path()
    path.parent.mkdir()
    path.touch(mode=0o600)
    path.write_text("keys = 7")
    found = doctor.run_guarded("keys", "fail", doctor.keys)
    assert found.status == "fail"
    assert "damaged" in found.found


def test_an_incarnation_that_cannot_be_kept(home, monkeypatch):
    assert doctor.incarnation().status == "ok"
    (home / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(home / "file"))
    found = doctor.run_guarded("incarnation", "fail", doctor.incarnation)
    assert found.status == "fail"
    assert found.advice == "set XDG_STATE_HOME to a writable directory"


def test_control_sockets_in_a_directory_open_to_others(home):
    assert doctor.control_sockets().status == "ok"
    (home / "control").chmod(0o755)
    found = doctor.run_guarded("control sockets", "fail", doctor.control_sockets)
    assert (found.status, found.advice) == ("fail", f"run chmod 700 {home / 'control'}")


def test_control_sockets_where_a_file_is_in_the_way(home):
    (home / "control").touch()
    found = doctor.run_guarded("control sockets", "fail", doctor.control_sockets)
    assert found == DoctorCheck("control sockets", "fail", f"{home / 'control'}: File exists")


def test_few_open_files():
    assert doctor.open_files(64) == DoctorCheck("open files", "warn", "limit 64", "ulimit -n 256")
    assert doctor.open_files(1024).status == "ok"
    assert doctor.open_files(None).found == "no limit"


@pytest.mark.parametrize(
    ("version", "status"),
    [
        (None, "warn"),
        ("1.8.0_412", "warn"),
        ("11.0.2", "warn"),
        ("17.0.15", "ok"),
        ("21", "ok"),
        ("22-ea", "ok"),
        ("strange", "warn"),
    ],
)
def test_java_is_never_more_than_a_warning(version, status):
    assert doctor.java(version).status == status
