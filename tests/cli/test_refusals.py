"""Bad input: exit code 2 and one line on standard error, with the field and what it allows."""

import pytest

from semcast.cli import main

MODEL = ("model", "throughput", "--d", "1", "--sender-rate", "100", "--receiver-rate", "50")
SLOW = ("sim", "slow-receiver")
SWARM = ("sim", "swarm", "--protocol", "s-rm")
SWEEP = ("sweep", "slow-receiver", "--out", "/nowhere/out")

STORE = ("--peers", "a=127.0.0.1:9", "--give-up", "0.1 s", "--key", "none")

REFUSED = {
    "key that is no UTF-8": (("store", "get", "\udcff", *STORE), "request: '\\udcff' is not UTF-8"),
    "value that is no UTF-8": (
        ("store", "set", "k", "\udcff", *STORE),
        "'\\udcff' is not UTF-8 text",
    ),
    "large increment": (("store", "incr", "k", "--by", "9" * 26, *STORE), "cannot encode it: "),
    "watch for nothing": (
        ("store", "watch", "k", "--count", "0", *STORE),
        "count: 0 is not at least",
    ),
    "key file with NUL": (("store", "get", "k", *STORE, "--key", "a\0b"), "has a NUL character"),
    "host that is none": (("store", "get", "k", *STORE, "--peers", "a=b..c:1"), "not a valid host"),
    "long host": (("store", "get", "k", *STORE, "--peers", f"a={'h' * 999}:1"), "not a valid host"),
    "large request": (("request", "bank", "9" * 26, *STORE), "MessagePack cannot encode it"),
    "request that is no UTF-8": (("request", "bank", '"\udcff"', *STORE), "is not JSON"),
    "deep request": (("request", "bank", "[" * 100_000, *STORE), "is not JSON"),
    "empty request": (("request", "bank", "", *STORE), "request: '' is not JSON"),
    "long value": (("serve", "--name", "a", "--memory", "--peers", "x" * 9999), f"'{'x' * 299}…"),
    "missing file": (
        ("profile", "/nowhere", "--key", "a"),
        "/nowhere: No such file or directory",
    ),
    "unknown command": (
        ("bogus",),
        "unknown command 'bogus'; see semcast --help",
    ),
    "unknown experiment": (
        ("sim", "bogus"),
        "experiment: unknown value 'bogus'; allowed: list, swarm",
    ),
    "unknown model": (("model", "bogus"), "command: unknown value 'bogus'; allowed: throughput"),
    "no subcommand": (("sim",), "Missing command; see semcast sim --help"),
    "unknown option": (
        (*SWARM, "--bogus"),
        "option: unknown value '--bogus'; allowed: --protocol, ",
    ),
    "misspelt option": ((*SWARM, "--sedes", "3"), "--seeds"),
    "missing option": (("sim", "swarm"), "Missing option '--protocol'; see semcast sim swarm"),
    "missing value": (("sim", "swarm", "--protocol"), "'--protocol' requires an argument"),
    "missing argument": (("figures",), "Missing argument"),
    "extra argument": ((*SWARM, "more"), "unexpected extra argument"),
    "bad number": ((*SWARM, "--seeds", "many"), "'--seeds': "),
    "unknown protocol": (
        ("sim", "swarm", "--protocol", "x"),
        "protocol: unknown value 'x'; allowed: s-sm",
    ),
    "no seeds": ((*SWARM, "--seeds", "0"), "seeds: 0 is not at least 1"),
    "no jobs": ((*SWARM, "--jobs", "0"), "jobs: 0 is not at least 1"),
    "unknown mutant": ((*SWARM, "--mutant", "x"), "mutant: unknown value 'x'; allowed: "),
    "mutants of none": (
        ("sim", "mutants", "--protocol", "x"),
        "protocol: unknown value 'x'; allowed:",
    ),
    "no seeds for mutants": (("sim", "mutants", "--seeds", "0"), "seeds: 0 is not at least 1"),
    "unknown parameter": (
        (*SLOW, "--set", "x=1"),
        "parameter of slow-receiver: unknown value 'x'; allowed:",
    ),
    "not a setting": ((*SLOW, "--set", "x"), "set: 'x' is not of the form NAME=VALUE"),
    "setting of two lines": ((*SLOW, "--set", "x\ny"), "set: 'x\\ny' is not of the form"),
    "experiment's protocol": (
        (*SLOW, "--set", "protocol=x"),
        "protocol: unknown value 'x'; allowed: s-sm",
    ),
    "no members": ((*SLOW, "--set", "members=0"), "members: 0 is not"),
    "no buffer": ((*SLOW, "--set", "buffer=0"), "buffer: 0 is not"),
    "k = 0": ((*SLOW, "--set", "k=0", "--set", "relation=bitmap"), "k: 0 is not"),
    "f >= n": ((*SLOW, "--set", "f=3"), "f: 3 is not in 0..2"),
    "r out of range": ((*SLOW, "--set", "r=1.5"), "r: 1.5 is not a number from 0 to 1"),
    "not a whole number": ((*SLOW, "--set", "members=x"), "members: 'x' is not a whole number"),
    "model's r": ((*MODEL, "--buffer", "9", "--r", "2"), "r: 2 is not allowed, must be 0 to 1"),
    "model's buffer": ((*MODEL, "--r", "0.5", "--buffer", "0"), "buffer: 0 is not at least 1"),
    "model's k": ((*MODEL, "--r", "0.5", "--buffer", "9", "--k", "0"), "k: 0 is not at least 1"),
    "model's rate": (
        (*MODEL, "--r", "0.5", "--buffer", "9", "--sender-rate", "0"),
        "sender-rate: 0.0 is not a finite number above 0",
    ),
    "sweep of nothing": (SWEEP, "Missing option '--grid'"),
    "sweep of what is not there": (
        ("sweep", "bogus", "--grid", "r=1", "--out", "/nowhere/out"),
        "experiment: unknown value 'bogus'; allowed:",
    ),
    "sweep over no values": ((*SWEEP, "--grid", "r"), "grid: 'r' is not of the form NAME=VALUE"),
    "sweep over one twice": ((*SWEEP, "--grid", "r=1", "--grid", "r=0"), "grid: r is given twice"),
    "sweep over words": ((*SWEEP, "--grid", "d=1,two"), "d: 'two' is not a whole number"),
    "sweep by no setting": (
        (*SWEEP, "--grid", "d=1", "--conf", "x=1"),
        "conf: 'x' is not a Spark setting",
    ),
    "live sweep on Spark": (
        (*SWEEP, "--grid", "d=1", "--live", "--master", "local[1]"),
        "live: cannot run on Spark",
    ),
    "small demo": (("demo", "--members", "2"), "members: 2 is not within 3..32"),
    "demo without end": (("demo", "--seconds", "inf"), "seconds: inf is not a finite number"),
    "demo too slow": (("demo", "--slow-ms", "101"), "slow-ms: 101.0 is not within 0..100"),
    "demo not slow": (("demo", "--slow-ms", "0"), "slow-ms: 0.0 is not a finite number above 0"),
}


@pytest.mark.parametrize(("argv", "reason"), REFUSED.values(), ids=REFUSED)
def test_one_line_and_exit_code_2(argv, reason, semcast):
    done = semcast(*argv)
    assert done.code == 2
    assert done.out == ""
    assert reason in done.err
    assert done.err.startswith("semcast: ")
    assert done.err.endswith("\n")
    assert done.err.count("\n") == 1


def test_unusable_directories(semcast, tmp_path):
    file = tmp_path / "file"
    file.touch()
    short = ("--set", "seconds=1", "--set", "warmup_s=0")
    for argv in (
        (*SLOW, *short, "--trace", str(file)),
        (*SLOW, *short, "--trace", str(file / "below")),
        ("demo", "--out", str(file / "below")),
    ):
        done = semcast(*argv)
        assert done.code == 2
        assert done.err.count("\n") == 1
        assert str(file) in done.err


def test_a_trace_is_not_overwritten(semcast, tmp_path):
    argv = (*SLOW, "--set", "seconds=1", "--set", "warmup_s=0", "--trace", str(tmp_path / "t"))
    assert semcast(*argv).code == 0
    again = semcast(*argv)
    assert again.code == 2
    assert "already holds a trace" in again.err


def test_a_checkout_has_its_own_way_to_install(monkeypatch, tmp_path):
    assert main._how_to_install("spark").startswith("run make setup in ")
    monkeypatch.setattr(main, "__file__", str(tmp_path / "site-packages/semcast/cli/main.py"))
    assert main._how_to_install("spark") == "pip install 'semcast[spark]'"
