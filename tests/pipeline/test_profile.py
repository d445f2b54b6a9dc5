"""Profiles on Spark against the definitions, read word for word."""

import csv
import gzip
import json
import re
import subprocess
import sys
from bisect import bisect_right
from collections import Counter
from random import Random
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from semcast.cli.main import main
from semcast.core.recipe import Recipe
from semcast.core.relation.update_fin import UpdateFinAnnotator
from semcast.models.advice import DistanceCurve, Rates
from semcast.pipeline import spark_session
from semcast.pipeline.profile import local_profile
from semcast.pipeline.profile.profile import ItemFrequency
from semcast.pipeline.profile.profile_files import facts_of
from semcast.pipeline.profile.spark_profile import profile_rows, profile_trace
from semcast.pipeline.profile.trace_counts import open_trace
from semcast.pipeline.reading.file_splits import FileSplit
from semcast.pipeline.reading.keyed_source import open_source
from semcast.pipeline.reading.keyed_text import KeyedColumns
from semcast.specs.relation import ObsolescenceRelation, as_carried
from semcast.terms.events import CRASH, MULTICAST, Event
from semcast.terms.messages import DataMessage, Update
from semcast.traces.distance_tracker import covers_of
from semcast.traces.keyed import read_keyed
from semcast.workloads.distances import never_obsolete
from semcast.workloads.replay import row_distances, row_links

KEYED = "sender string, place bigint, key string, kind string"
BUFFERS = (10, 40, 100, 1000)


def frame(spark, streams):
    lines = [
        (sender, place, key, kind)
        for sender, rows in streams.items()
        for place, (key, kind) in enumerate(rows, 1)
    ]
    return spark.createDataFrame(lines, KEYED)


def plain(streams):
    """What a profile must say of streams of (key, kind), by the definitions."""
    distances, needed = [], 0.0
    for rows in streams:
        told = [(key, kind, None, 0) for key, kind in rows]
        distances += row_distances(told)
        needed += never_obsolete(row_links(told)) * len(rows)
    return plain_distances(distances) | {
        "never_obsolete": pytest.approx(needed / len(distances)) if distances else 1,
        "items": len({key for rows in streams for key, _ in rows}),
    }


def plain_distances(distances):
    """The same of distances, 0 for none."""
    far = sorted(distance for distance in distances if distance)
    total = len(distances)
    return {
        "messages": total,
        "p50": far[-(-len(far) // 2) - 1] if far else None,
        "p90": far[-(-len(far) * 9 // 10) - 1] if far else None,
        "purgeable": [
            pytest.approx(sum(1 <= d <= n for d in distances) / max(total, 1)) for n in BUFFERS
        ],
    }


def told(stream):
    distances = stream.distances
    return {
        "messages": distances.messages,
        "items": stream.items,
        "never_obsolete": distances.never_obsolete,
        "p50": distances.percentile(0.5),
        "p90": distances.percentile(0.9),
        "purgeable": distances.purge_ratio(BUFFERS).tolist(),
    }


def random_streams(seed, count):
    rng = Random(seed)
    streams = {
        "distinct": [(str(n), "U") for n in range(50)],
        "one key": [("a", "U")] * 50,
        "deletes": [("a", "D")] * 3,
        "nothing superseded": [("a", "R"), ("b", "C"), ("a", "R")],
    }
    for number in range(count):
        keys = [f"k{n}" for n in range(rng.choice([1, 3, 30]))]
        kinds = rng.choice(["U", "UUUC", "UD", "UCDR", "UUUUUUDR"])
        length = rng.choice([1, 2, 5, 100])
        streams[f"s{number}"] = [(rng.choice(keys), rng.choice(kinds)) for _ in range(length)]
    return streams


@pytest.mark.parametrize("is_shuffled", [False, True])
def test_keyed_rows(spark, is_shuffled):
    """Many senders; in order, cut where partitions end, and in no order at all."""
    streams = random_streams(3, 90)
    rows = frame(spark, streams)
    profile = profile_rows(rows.repartition(5) if is_shuffled else rows.coalesce(1))
    assert told(profile.total) == plain(streams.values())
    assert profile.stream_count == 94
    lengths = [stream.distances.messages for stream in profile.streams]
    assert lengths == sorted(lengths, reverse=True)
    assert {stream.name["sender"]: told(stream) for stream in profile.streams} == {
        sender: plain([rows]) for sender, rows in streams.items()
    }
    updates = Counter(Counter(key for rows in streams.values() for key, _ in rows).values())
    assert sum(each.items for each in profile.frequencies) == sum(updates.values())
    assert {n: items for n, items in profile.frequencies if n < 1000} == {
        n: items for n, items in updates.items() if n < 1000
    }


def test_only_the_longest_of_many_streams_are_shown(spark):
    streams = {f"s{n}": [("k", "U")] * (1 + n // 60) for n in range(130)}
    profile = profile_rows(frame(spark, streams))
    assert (profile.stream_count, len(profile.streams)) == (130, 100)
    assert [stream.distances.messages for stream in profile.streams] == [3] * 10 + [2] * 60 + [
        *[1] * 30
    ]
    assert profile.frequencies == [(210, 1)]
    assert (profile.total.items, profile.total.distances.messages) == (1, 210)


@pytest.mark.parametrize("rows", [[], [("a", "U")]], ids=["empty", "one"])
def test_streams_at_the_edge(spark, rows):
    profile = profile_rows(frame(spark, {"s": rows}), Rates(100, 10))
    assert told(profile.total) == plain([rows])
    assert profile.streams == []


def test_distances_beyond_the_steps_of_a_curve_are_exact(spark):
    """4,000 keys in a new order each time: distances from 1 to 8,000, a hot key between them."""
    rng = Random(5)
    rows = []
    for _ in range(4):
        keys = [f"k{n}" for n in range(4000)]
        rng.shuffle(keys)
        rows += [(key, "U") for each in keys for key in (each, "hot")[: rng.choice((1, 1, 1, 2))]]
    distances = list(row_distances((key, kind, None, 0) for key, kind in rows))
    profile = profile_rows(frame(spark, {"s": rows}), Rates(1000, 500))
    curve = profile.total.distances
    assert told(profile.total) == plain([rows])
    assert curve.x.size < 1600 < len(set(distances))
    far = sorted(distance for distance in distances if distance)
    assert curve.min_buffer(Rates(1000, 500)) == far[-(-len(rows) // 2) - 1] > 1024
    assert curve.upto.tolist() == [bisect_right(far, x) for x in curve.x.tolist()]


def test_huge_distances(spark):
    far = 40_000_000_000
    lines = [("s", 1, "a", "U"), ("s", far, "a", "U"), ("s", far + 1, "b", "U")]
    curve = profile_rows(spark.createDataFrame(lines, KEYED)).total.distances
    assert (curve.percentile(0.5), curve.limit) == (far - 1, pytest.approx(1 / 3))


def random_messages(rng, relation, sender):
    """A stream annotated for a relation; some messages are kept."""
    # A fin names the updates of one request before it: the profile does not see past kept ones.
    kept = 0 if relation == "update-fin" else rng.choice([0, 0.3])
    annotator = UpdateFinAnnotator(Recipe(members=2))
    for seq in range(1, rng.choice([1, 4, 60]) + 1):
        covered = sorted(n for n in range(1, min(seq, 6)) if rng.random() < 0.2)
        item, never_purge = rng.choice([None, 1, 2, 3]), rng.random() < kept
        if relation == "update-fin":  # A fin covers what requests before it updated, nothing else.
            annotation = annotator.annotate(seq, item, Update(never_purge=never_purge))
            annotator.remember(seq, annotation)
            covered = list(annotation[1])
        covers = covers_of(covered, relation)
        yield DataMessage(sender=sender, seq=seq, item=item, covers=covers, never_purge=never_purge)


@pytest.mark.parametrize("is_rich", [False, True])
def test_traces(spark, as_trace, tmp_path, is_rich):
    """Every relation, or item tags with nothing kept, which takes the short way."""
    rng = Random(7)
    relations = ("item", "bitmap:8", "list", "update-fin", "all", "none") if is_rich else ("item",)
    runs, expected = [], {}
    for run_id in range(1, 31):
        relation = relations[run_id % len(relations)]
        obsolescence, events = ObsolescenceRelation(relation), [Event(CRASH, 1)]
        for sender in (0, 1):
            messages = list(random_messages(rng, relation, sender))
            if not is_rich:
                messages = [DataMessage(sender, m.seq, m.item) for m in messages]
            for message in messages:
                obsolescence.on_multicast(as_carried(message))
                sent = Event(MULTICAST, sender, sender=sender, seq=message.seq, message=message)
                events.append(sent)
            expected[run_id, sender] = by_relation(obsolescence, messages)
        run = {"protocol": "s-rm", "order": "fifo", "f": 0, "complete": True, "parameters": {}}
        runs.append(SimpleNamespace(events=events, relation=relation, crashed=(1,), n=2, **run))
    as_trace(tmp_path, runs)
    profile = profile_trace(spark, tmp_path)
    here = local_profile.profile_trace(open_trace(tmp_path), Rates(10, 3))
    assert facts_of(here, Rates(10, 3)) == facts_of(profile, Rates(10, 3))
    assert here.frequencies == profile.frequencies
    found = {(s.name["run_id"], s.name["sender"]): told(s) for s in profile.streams}
    assert found == expected
    total = profile.total.distances
    assert total.messages == sum(each["messages"] for each in expected.values())
    assert total.superseded == sum(s.distances.superseded for s in profile.streams)


def by_relation(obsolescence, messages):
    last = len(messages)
    [sender] = {m.sender for m in messages}

    def pairs(seq, others):
        return [n for n in others if obsolescence.directly(sender, min(seq, n), max(seq, n))]

    nearest = [max(pairs(m.seq, range(1, m.seq)), default=m.seq) for m in messages]
    needed = [m for m in messages if not pairs(m.seq, range(m.seq + 1, last + 1))]
    return plain_distances([m.seq - n for m, n in zip(messages, nearest, strict=True)]) | {
        "items": len({m.item for m in messages} - {None}),
        "never_obsolete": pytest.approx(len(needed) / last),
    }


def command(capfd, *words):
    code = main(["profile", *map(str, words)])
    out, err = capfd.readouterr()
    return code, out, err


@pytest.fixture
def edits(tmp_path):
    path = tmp_path / "edits.csv"
    lines = ["page,who,what", *(f"p{n % 7},{n % 2},U" for n in range(200)), "p1,0,D", "p9,1,R"]
    path.write_text("\n".join(lines))
    return path


def test_the_command_answers_and_writes_files(spark, edits, tmp_path, capfd):
    out = tmp_path / "out"
    rates = ("--sender-rate", 100, "--receiver-rate", 25)
    code, answer, people = command(
        capfd, edits, "--key", "page", "--kind", "what", *rates, "--out", out, "--json"
    )
    facts = json.loads(answer)
    rows = [(row.key, row.kind) for row in read_keyed(edits, key="page", kind="what")]
    expected = plain([rows])
    assert code == 0
    assert facts["messages"] == 202
    assert facts["items"] == 8
    assert facts["never_obsolete"] == expected["never_obsolete"]
    assert facts["distance_p50"] == facts["distance_p90"] == 7
    assert list(facts["purgeable"]) == ["10", "40", "100", "1000"]
    assert list(facts["purgeable"].values()) == expected["purgeable"]
    assert facts["advice"].pop("reason").startswith("75 % of the messages must be purged")
    assert facts["advice"] == {"buffer": 7, "k": 7, "predicted_rate": 100.0}
    assert facts["bad_rows"] == 0
    assert people.startswith("YES  With a buffer of 7 messages a sender at 100/s is not slowed")
    assert re.search(r"\n +7 .* 9\d %  ██████████ +100/s  <- advised\n", people), people
    assert "next: open " in people
    assert json.loads((out / "profile.json").read_bytes())["purgeable"] == facts["purgeable"]
    assert (out / "profile.png").read_bytes().startswith(b"\x89PNG")
    assert "buffer (messages)</text>" in (out / "profile.svg").read_text(encoding="utf-8")
    [*_, last] = csv.DictReader((out / "profile.csv").read_text().splitlines())
    assert int(last["messages"]) == sum(n > 7 for n in range(1, 202))  # all U and the D


def test_each_sender_is_told_and_bad_rows_are_counted(spark, edits, capfd):
    with edits.open("a") as file:
        file.write("\np1,0,X\n")
    code, answer, people = command(
        capfd, edits, "--key", "page", "--sender", "who", "--kind", "what", "--json"
    )
    facts = json.loads(answer)
    assert (code, facts["messages"], facts["bad_rows"], facts["stream_count"]) == (0, 202, 1, 2)
    assert [stream["sender"] for stream in facts["streams"]] == ["0", "1"]
    assert "the first: " in people
    assert "edits.csv:204: what is not one of U, C, D, R" in people.replace("'X' ", "")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--key", "title"), "no column 'title', it has page, who, what"),
        ((), "add --key COLUMN, one of page, who, what"),
        (("--sender", "who"), "sender: only for keyed files"),
        (("--key", "page", "--sender-rate", "5"), "receiver-rate: required"),
        (("--key", "page", "--kind", "who"), "is not one of U, C, D, R"),
    ],
)
def test_bad_input_is_told_in_one_line(spark, edits, capfd, words, said):
    code, out, err = command(capfd, edits, *words)
    assert (code, out) == (2, "")
    assert said in err
    assert len(err.splitlines()) == 1


def both_ways(capfd, *words):
    """The answer, which must be the same in this process and on Spark."""
    code, here, people = command(capfd, *words, "--json")
    assert ("s in this process" in people) == (code == 0)
    again, there, told_there = command(capfd, *words, "--json", "--master", "local[2]")
    assert ("s on Spark" in told_there) == (again == 0)
    assert (code, here) == (again, there)
    assert people.splitlines()[0] == told_there.splitlines()[0]  # an error, or the bad rows
    return json.loads(here) if here else people


def many_rows(count, keys, senders):
    rng = Random(count)
    for n in range(count):
        yield (f"k{rng.randrange(keys)}", rng.randrange(-50, 50), f"s{n % senders}", "UUUD"[n % 4])


@pytest.mark.parametrize("options", [(), ("--kind",), ("--sender",), ("--order",), None])
@pytest.mark.parametrize("ending", ["csv", "csv.gz", "jsonl", "parquet", "directory"])
def test_files_give_the_same_in_this_process_and_on_spark(spark, tmp_path, capfd, ending, options):
    names = {"--key": "id", "--order": "when", "--sender": "who", "--kind": "what"}
    chosen = names if options is None else {n: names[n] for n in ("--key", *options)}
    rows = list(many_rows(5000, 1500, 3))
    path = tmp_path / f"rows.{ending}"
    if ending == "directory":
        path.mkdir()
        write_rows(path / "a.csv", rows[:1000])
        write_rows(path / "b.csv", rows[1000:])
    else:
        write_rows(path, rows)
    words = [word for pair in chosen.items() for word in pair]
    facts = both_ways(capfd, path, *words, "--sender-rate", 100, "--receiver-rate", 40)
    assert facts["messages"] == 5000
    assert facts["stream_count"] == (3 if "--sender" in chosen else 1)


def write_rows(path, rows):
    names = ("id", "when", "who", "what")
    if path.suffix == ".parquet":
        columns = zip(*rows, strict=True)
        pq.write_table(pa.table(dict(zip(names, columns, strict=True))), path, row_group_size=700)
        return
    if path.suffix == ".jsonl":
        lines = [json.dumps(dict(zip(names, row, strict=True))) for row in rows]
    else:
        lines = [",".join(names), *(",".join(map(str, row)) for row in rows)]
    data = "\n".join(lines).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (["a,1,x,U", "b", "a,2,x,U", "a,z,x,U", "c,3,y,U"], ("--order", "when")),
        (["a,1,x,U", "b", "a,2,x,U", "a,z,x,Q", "c,3,y,U"], ("--sender", "who", "--kind", "what")),
        (["a,1,x,Q", "b", "a,2,x,U"], ("--kind", "what")),
        (["a,1,x,Q", "b"], ("--kind", "what")),
        (["a,z,x,Q", "b"], ("--sender", "who", "--order", "when")),
        ([], ()),
        ([], ("--sender", "who")),
        ([f"k,1,s{n},U" for n in range(130)], ("--sender", "who")),
        (
            [f"k{n % 1300},1,s,U" for n in range(4000)] * 2,
            ("--sender-rate", 9, "--receiver-rate", 2),
        ),
    ],
)
def test_odd_files_give_the_same_in_both_ways(spark, tmp_path, capfd, lines, words):
    path = tmp_path / "rows.csv"
    path.write_text("\n".join(["id,when,who,what", *lines]))
    both_ways(capfd, path, "--key", "id", *words)


def test_a_trace_gives_the_same_in_both_ways(semcast, record, tmp_path, capfd):
    facts = both_ways(capfd, record(tmp_path / "trace"))
    assert (facts["messages"], facts["distance_p50"]) == (3, 2)


@pytest.mark.parametrize("words", [("--key", "nothing"), ("--key", "id", "--order", "nothing")])
def test_a_missing_column_is_told_before_spark_starts(tmp_path, capfd, monkeypatch, words):
    monkeypatch.setattr(spark_session, "open_session", pytest.fail)
    (tmp_path / "rows.csv").write_text("id,when\n")
    code, _, err = command(capfd, tmp_path / "rows.csv", *words, "--master", "local[2]")
    assert (code, "no column 'nothing'" in err) == (2, True)
    code, _, err = command(capfd, tmp_path / "other.csv", *words, "--master", "local[2]")
    assert (code, "other.csv" in err) == (2, True)


SHORT = """
import sys
from semcast.cli.main import main
from semcast.core.recipe import Recipe
from semcast.core.relation.update_fin import UpdateFinAnnotator
code = main(sys.argv[1:])
assert not {"pyspark", "pandas", "matplotlib"} & set(sys.modules), "a short command imports much"
import pyarrow
assert len(pyarrow.table({"a": [1]}).to_pandas()) == 1, "pandas cannot be used any more"
sys.exit(code)
"""


@pytest.mark.parametrize(("command", "code"), [("profile", 0), ("check", 1)])
def test_small_traces_need_neither_spark_nor_pandas(record, tmp_path, command, code):
    words = [sys.executable, "-c", SHORT, command, str(record(tmp_path / "trace"))]
    done = subprocess.run(words, check=False, capture_output=True, text=True)
    assert done.returncode == code
    assert "Error" not in done.stderr


def test_large_sources_are_for_spark(tmp_path, monkeypatch):
    (tmp_path / "rows.csv").write_text("id\na\n")
    source = open_source(tmp_path / "rows.csv", KeyedColumns("id"))
    assert local_profile.fits_files(source)
    monkeypatch.setattr(local_profile, "BYTES_MAX", 4)
    assert not local_profile.fits_files(source)
    assert local_profile.fits_trace([])
    assert not local_profile.fits_trace([FileSplit("x", 0, (0,), 0, local_profile.ROWS_MAX)])


def test_a_trace_takes_no_key(spark, tmp_path, capfd):
    (tmp_path / "events").mkdir()
    code, _, err = command(capfd, tmp_path, "--key", "page")
    assert code == 2
    assert "is a trace" in err


def test_the_figure_speaks_of_a_buffer():
    from matplotlib.figure import Figure

    from semcast.pipeline.profile.profile_figure import _draw_rate

    axes = Figure().add_subplot()
    curve = DistanceCurve(100, 90, np.array([1, 7]), np.array([10, 90]))
    _draw_rate(axes, curve, Rates(100, 25))
    assert "a buffer of 7" in [text.get_text() for text in axes.texts]


def test_every_bar_has_a_label_and_a_curve_has_no_false_edges():
    from matplotlib.figure import Figure

    from semcast.pipeline.profile.profile_figure import _draw_distances, _draw_items

    bars, items = Figure().subplots(1, 2)
    _draw_distances(bars, DistanceCurve(100, 90, np.array([1, 700]), np.array([10, 90])))
    labels = [label.get_text() for label in bars.get_xticklabels()]
    assert labels == ["none", "1", "2–3", *labels[3:]]
    assert len(labels) == len(bars.patches)
    frequencies = [ItemFrequency(400, 3), ItemFrequency(300, 30)]
    _draw_items(items, SimpleNamespace(frequencies=frequencies))
    [stairs] = items.patches
    assert stairs.get_data().baseline is None
    assert (items.get_xscale(), items.get_yscale()) == ("log", "linear")
    assert items.get_ylim()[0] == 0
