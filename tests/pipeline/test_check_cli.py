"""`semcast check` as people and programs meet it."""

from semcast.terms.events import DELIVER, MULTICAST, Event
from semcast.terms.messages import Message

FIRST, SECOND = Message(0, 1, payload=b"x"), Message(0, 2, payload=b"y")
SENT = [
    Event(MULTICAST, 0, 0, 1, FIRST, n=1, ts_ns=10),
    Event(MULTICAST, 0, 0, 2, SECOND, n=2, ts_ns=20),
    Event(DELIVER, 0, 0, 1, FIRST, n=3, ts_ns=30),
    Event(DELIVER, 0, 0, 2, SECOND, n=4, ts_ns=40),
]
PROPERTY = ("--property", "fifo_order", "--property", "agreement", "--property", "causal_order")


def test_a_broken_promise_is_told_with_the_events_that_prove_it(semcast, record, tmp_path) -> None:
    late = [
        *SENT,
        Event(DELIVER, 1, 0, 2, SECOND, n=1, ts_ns=50),
        Event(DELIVER, 1, 0, 1, FIRST, n=2, ts_ns=1_000_060),
    ]
    done = semcast("check", record(tmp_path / "trace", late), *PROPERTY, "--json")
    assert done.code == 1
    answer = done.answer
    assert answer["verdict"] == "fail"
    assert answer["events"] == 6
    found = answer["properties"]["fifo_order"]
    assert (found["status"], found["violations"]) == ("fail", 1)
    assert found["reason"] == "process 1 delivered 0:1 after 0:2"
    [example] = found["examples"]
    assert [(event["pid"], event["seq"], event["n"]) for event in example["events"]] == [
        (1, 2, 1),
        (1, 1, 2),
    ]
    assert answer["properties"]["agreement"]["status"] == "pass"
    assert answer["properties"]["causal_order"] == {
        "status": "not applicable",
        "reason": "s-rm with order fifo does not promise it",
        "violations": 0,
        "examples": [],
    }
    assert "0.000000 ms  process 1  deliver 0:2\n" in done.err
    assert "1.000010 ms  process 1  deliver 0:1\n" in done.err


def test_clocks_are_believed_as_far_as_one_says(semcast, record, tmp_path) -> None:
    early = [Event(DELIVER, 1, 0, 1, FIRST, n=1, ts_ns=1), *SENT]
    trace = record(tmp_path / "trace", early)
    assert semcast("check", trace, "--property", "integrity").code == 0
    done = semcast("check", trace, "--property", "integrity", "--skew-ms", "0")
    assert done.code == 1
    assert "process 1 delivered 0:1, which nobody had multicast" in done.out


def test_bad_input_is_refused_before_spark_starts(semcast, record, tmp_path) -> None:
    done = semcast("check", tmp_path)
    assert done.code == 2
    assert "not a trace" in done.err
    done = semcast("check", record(tmp_path / "trace"), "--property", "fifo")
    assert done.code == 2
    assert "property: 'fifo' is not one of agreement, at_most_once" in done.err


def test_a_process_that_is_not_listed_is_told_in_one_line(semcast, record, tmp_path) -> None:
    stranger = [*SENT, Event(DELIVER, 7, 0, 1, FIRST, n=1, ts_ns=50)]
    done = semcast("check", record(tmp_path / "trace", stranger), "--property", "fifo_order")
    assert done.code == 2
    assert "processes.parquet: run 1 has events of process 7, not listed\n" in done.err
    assert "Traceback" not in done.err
