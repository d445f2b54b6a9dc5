"""`semcast bench`: what it tells people and programs, and what it refuses."""

import csv
import re

import pytest

from semcast.bench import benchmark

QUICK = ("--receivers", "1", "--seconds", "0.5")
ROW = {
    "system": "semcast",
    "version": "semcast 1",
    "receivers": 4,
    "size": 100,
    "datagram": None,
    "sealed": False,
    "rate": 2000.0,
    "sender_rate": 2100.0,
    "cpu_us_per_delivery": 5.0,
    "missed_ratio": 0.0,
    "runs": 2,
    "spread": {"rate": [1000.0, 3000.0], "missed_ratio": [0.0, 0.0]},
}


@pytest.fixture(autouse=True)
def surroundings(monkeypatch, tmp_path):
    """Nothing of the machine's own settings takes part."""
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "SEMCAST_KEYS"):
        monkeypatch.setenv(name, str(tmp_path / name))


@pytest.fixture
def measured(monkeypatch):
    """Lets a benchmark find these rows, without a run; the arguments it was given come back."""
    given = []

    def measure(*rows):
        monkeypatch.setattr(benchmark, "measure", lambda *args: given.append(args) or list(rows))
        return given

    return measure


@pytest.mark.parametrize("command", ["", "throughput", "latency", "slow-receiver"])
def test_help_has_an_example(semcast, command):
    done = semcast("bench", *command.split(), "--help")
    assert done.code == 0
    assert re.search(r"Example:\s+semcast bench", done.out)


def test_throughput_beside_another_system(semcast, monkeypatch):
    monkeypatch.setenv("SEMCAST_PEERS", "a=127.0.0.1:7101")  # A benchmark has its own options.
    done = semcast("bench", "throughput", *QUICK, "--against", "udp", "--json")
    answer = done.answer
    assert done.code == 0
    assert [row["system"] for row in answer["results"]] == ["semcast", "udp"]
    for row in answer["results"]:
        assert row.keys() >= {"receivers", "size", "rate", "sender_rate", "cpu_us_per_delivery"}
        assert row["rate"] > 0
    settings = answer["settings"]
    assert (settings["benchmark"], settings["receivers"], settings["size"]) == (
        "throughput",
        1,
        100,
    )
    assert settings.keys() >= {"python", "cores", "load", "repeat"}
    assert "messages per second delivered" in done.err


def test_slow_receiver(semcast):
    argv = ("--rate", "1000", "--slow-rate", "500", "--json")
    done = semcast("bench", "slow-receiver", *QUICK, *argv)
    [row] = done.answer["results"]
    assert done.code == 0
    assert row["wrong_items"] == 0
    assert row.keys() >= {"staleness_p50_ms", "staleness_p99_ms", "purged_ratio"}


def test_people_see_numbers_and_bars_with_their_spread(semcast, measured):
    measured(ROW, {**ROW, "system": "udp", "rate": 1000.0})
    done = semcast("bench", "throughput", "--repeat", "2")
    assert (done.code, done.err) == (0, "")
    assert "1 sender, full speed, 4 receivers; 100-byte messages, 5 s" in done.out
    lines = [line for line in done.out.splitlines() if "1,000 to 3,000" in line]
    ours, other = lines
    assert ours.split()[:2] == ["semcast", "2,000"]
    assert ours.count("█") >= 2 * other.count("█") - 1 > 0


def test_one_run_alone_has_no_bars(semcast, measured):
    measured({**ROW, "runs": 1, "spread": {}})
    done = semcast("bench", "throughput")
    assert "sent (messages/s)" in done.out
    assert "█" not in done.out


def test_settings_reach_the_runs(semcast, measured):
    given = measured({**ROW, "latency_p50_us": 100.0, "latency_p99_us": 400.0})
    argv = ("--datagram", "1400,8KiB", "--key", "none,new", "--size", "200", "--repeat", "2")
    assert "one-way latency, p99" in semcast("bench", "latency", "--rate", "50", *argv).out
    [(name, settings, cases, repeat, _)] = given
    assert (name, repeat) == ("latency", 2)
    assert (settings.rate, settings.size, settings.receivers) == (50.0, 200, 4)
    assert [(case.datagram, case.key is not None) for case in cases] == [
        (1400, False),
        (1400, True),
        (8192, False),
        (8192, True),
    ]


def test_files(semcast, measured, tmp_path):
    measured(ROW, {**ROW, "system": "udp"})
    answer = semcast("bench", "throughput", "--out", str(tmp_path / "out"), "--json").answer
    assert (tmp_path / "out" / "throughput.png").read_bytes().startswith(b"\x89PNG")
    with open(answer["csv"], newline="") as file:
        lines = list(csv.DictReader(file))
    assert [line["system"] for line in lines] == ["semcast", "udp"]
    assert (lines[0]["rate"], lines[0]["rate_max"]) == ("2000.0", "3000.0")


def test_a_loss_that_must_not_be_fails(semcast, measured):
    measured({**ROW, "spread": {"missed_ratio": [0.0, 0.25]}})
    done = semcast("bench", "throughput")
    assert done.code == 1
    assert "semcast: 25.00% did not reach every receiver" in done.out


REFUSED = {
    "unknown system": (
        ("--against", "udp,x"),
        "against: unknown value 'x'; allowed: semcast, semcast-reli",
    ),
    "no receivers": (("--receivers", "0"), "receivers: 0 is not within 1..64"),
    "tiny messages": (("--size", "7"), "size: 7 is not within 8..60000"),
    "no time": (("--seconds", "0"), "seconds: 0.0 is not a finite number of at least 0.5"),
    "tiny datagrams": (("--datagram", "100"), "datagram: 100 is not in 576..61440"),
    "no datagram": (("--datagram", "1400,x"), "datagram: 'x' is not a size"),
    "unknown key": (("--key", "x"), "key: 'x' is not none, new or a key ring file"),
    "no runs": (("--repeat", "0"), "repeat: 0 is not at least 1"),
}


@pytest.mark.parametrize(("argv", "said"), REFUSED.values(), ids=REFUSED.keys())
def test_refused(semcast, argv, said):
    done = semcast("bench", "throughput", *argv)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"semcast: {said}")
    assert done.err.count("\n") == 1


def test_refused_of_the_slow_receiver(semcast):
    assert "slow-rate: 0.0" in semcast("bench", "slow-receiver", "--slow-rate", "0").err
    assert "order: unknown value 'x'" in semcast("bench", "slow-receiver", "--order", "x").err
    assert "buffer: 0" in semcast("bench", "slow-receiver", "--buffer", "0").err
    assert "command: unknown value 'x'; allowed: throughput" in semcast("bench", "x").err
