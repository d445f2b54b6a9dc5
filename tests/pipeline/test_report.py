"""Reports: nothing is lost, everything is escaped, nothing is fetched; a browser agrees."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from semcast.cli.main import main
from semcast.experiments.experiment import Parameters
from semcast.experiments.registry import experiment
from semcast.pipeline.report.command_results import RESULT_TYPES, parse_result
from semcast.pipeline.report.report import report
from semcast.traces.kept_results import CHECK as KEPT_CHECK
from semcast.traces.kept_results import PROFILE as KEPT_PROFILE
from semcast.traces.kept_results import keep

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
VOID = {"meta", "img", "br", "link", "hr"}
HOSTILE = "<script>alert('x')</script> & \"quoted\""
PNG = b"\x89PNG\r\n\x1a\n" + b"rest"

EVENTS = [
    {"pid": 2, "n": 7, "kind": "deliver", "seq": 9, "item": -(2**60), "note": None},
    {"pid": 2, "n": 8, "kind": "deliver", "seq": 7, "item": 5, "note": None},
]
VIOLATED = {
    "status": "fail",
    "reason": HOSTILE,
    "violations": 14,
    "examples": [{"run_id": 1, "what": "7 after 9", "events": EVENTS}],
}
CHECK = {
    "verdict": "fail",
    "events": 12345,
    "properties": {
        "integrity": {"status": "pass", "reason": "", "violations": 0, "examples": []},
        "fifo_order": VIOLATED,
        "total_order": {"status": "not applicable", "reason": "s-rm does not guarantee it"},
    },
}
PROFILE = {
    "messages": 1_000_000,
    "never_obsolete": 0.65,
    "purgeable": {"10": 0.1, "1000": 0.3},
    "advice": {"buffer": None, "k": None, "predicted_rate": None, "reason": "65 % is needed"},
}
SWARM = {"protocol": "s-rm", "seeds": 20, "violations": 0, "first_failure": None}


class Page(HTMLParser):
    """A page that refuses tags which do not match, and remembers what it holds."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.words.append(data)

    @property
    def text(self) -> str:
        return "\n".join(self.words)


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., tuple[dict[str, Any], Page]]:
    """`write(**files)`: the answer and the page of a directory with these files."""
    results = tmp_path / "results"
    results.mkdir()

    def written(**files: object) -> tuple[dict[str, Any], Page]:
        for name, content in files.items():
            path = results / name.replace("__", "/").replace("_dot_", ".")
            path.parent.mkdir(parents=True, exist_ok=True)
            is_bytes = isinstance(content, bytes)
            path.write_bytes(content if is_bytes else json.dumps(content).encode())
        out = tmp_path / "report.html"
        told = report(results, out)
        assert told["html"] == str(out)
        return dict(told), Page(out.read_text())

    return written


def test_verdicts_stand_on_top_and_failures_first(write) -> None:
    told, page = write(check_dot_json=CHECK, a_dot_json=SWARM, profile_dot_json=PROFILE)
    assert (told["verdicts"], told["failed"], told["not_shown"]) == (2, 1, [])
    text = page.text
    places = [
        text.index(said)
        for said in (
            "1 of 2 verdicts failed.",
            "violated: fifo_order; holding: 1 of 3; not applicable: 1",
            "20 seeds, no violation",
            "Counterexamples to fifo_order",
            "Run 1: 7 after 9",
            "13 more.",
            "65 % is needed",
        )
    ]
    assert places == sorted(places)
    assert str(-(2**60)) not in text, "a hash is shown by its end"


def test_words_stand_for_the_variable_names_of_own_results(write) -> None:
    bench = b"system,cpu_us_per_delivery,rate,purged_ratio,rate_min\nsemcast,1.5,100,0.75,90\n"
    sweep = b"delay_ms,result,runs,mean,low,high\n10,accepted_rate,3,100,99,101\n"
    _, page = write(bench_dot_csv=bench, sweep_dot_csv=sweep, profile_dot_json=PROFILE)
    lines = page.text.splitlines()
    for words in (
        "delivered at every fast receiver (messages/s)",
        "delivered at every fast receiver (messages/s), least",
        "skipped by the slow receiver (share)",
        "time that the slow receiver takes for a message (ms)",
        "accepted from the sender (messages/s)",
        "never superseded (share)",
    ):
        assert words in lines
    assert not {"rate_min", "delay_ms", "accepted_rate", "never_obsolete"} & set(lines)


def test_a_table_of_the_readers_own_keeps_its_names(write) -> None:
    _, page = write(quotes_dot_csv=b"key,delay_ms,rate\nACME,10,3\n")
    assert {"key", "delay_ms", "rate"} <= set(page.text.splitlines())


def test_events_have_the_time_since_the_first_of_them(write) -> None:
    start = 1_795_000_000_000_000_000
    events = [{"pid": 2, "ts_ns": start + 1_500_000, "n": 7}, {"pid": 0, "ts_ns": start, "n": 3}]
    violated = {**VIOLATED, "examples": [{"run_id": 1, "what": "7 after 9", "events": events}]}
    _, page = write(check_dot_json={**CHECK, "properties": {"fifo_order": violated}})
    lines = page.text.splitlines()
    assert {"process", "time (ms)", "event", "1.5"} <= set(lines)
    assert "ts_ns" not in lines


def test_good_results_are_called_good(write) -> None:
    _, page = write(a_dot_json=SWARM)
    assert "The verdict passed." in page.text


def test_a_directory_without_results(write) -> None:
    told, page = write()
    assert (told["verdicts"], told["failed"]) == (0, 0)
    assert "These results contain no verdicts." in page.text


def test_every_word_is_escaped_and_nothing_is_fetched(write) -> None:
    hostile = {**CHECK, "properties": {HOSTILE: VIOLATED}}
    advice = {**PROFILE, "advice": {"reason": HOSTILE}}
    _, page = write(
        check_dot_json=hostile,
        profile_dot_json=advice,
        other_dot_json={HOSTILE: HOSTILE},
        swarm_dot_json={**SWARM, "protocol": HOSTILE, "more": {HOSTILE: [HOSTILE] * 9}},
        **{"<b>_dot_txt": b"", "table_dot_csv": f"a\n{HOSTILE.replace(chr(34), '')}\n".encode()},
        figure_dot_png=PNG,
    )
    tags = {tag for tag, _ in page.seen}
    assert tags.isdisjoint({"script", "link", "iframe", "object", "form"})
    assert not {name for _, attrs in page.seen for name in attrs if name.startswith("on")}
    for _, attrs in page.seen:
        for name in ("src", "href"):
            assert (attrs.get(name) or "#").startswith(("data:image/png;base64,", "#"))
    assert HOSTILE in page.text


def test_no_style_fetches_anything(write, tmp_path: Path) -> None:
    write(a_dot_json=SWARM)
    assert not re.search(
        r"https?:|url\(|@import|@font-face", (tmp_path / "report.html").read_text()
    )


UNREADABLE: dict[str, tuple[bytes, str]] = {
    "half_dot_json": (b'{"verdict": "pa', "cannot be read: not JSON"),
    "list_dot_json": (b"[1, 2]", "cannot be read: JSON, but not an object"),
    "other_dot_json": (b'{"a": 1}', "JSON, but not the output of a command"),
    "odd_dot_json": (
        b'{"verdict": "pass", "properties": [1]}',
        "cannot be read: Expected `object`",
    ),
    "latin_dot_json": (b'{"a": "\xff"}', "cannot be read: 'utf-8' codec"),
    "fake_dot_png": (b"GIF89a", "cannot be read: not a PNG picture"),
    "ragged_dot_csv": (b"a,b\n1,2\n3\n", "cannot be read: line 3 does not have 2 columns"),
    "empty_dot_csv": (b"", "cannot be read: an empty table"),
    "notes_dot_txt": (b"mine", "unsupported type of file, 4 bytes"),
    "trace__runs.parquet": (b"PAR1", "cannot be read: "),
    "trace__events__kind=deliver__a.parquet": (b"PAR1", "an incomplete trace"),
    "sweep__sweep.json": (b'{"experiment": ', "cannot be read: "),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_what_cannot_be_shown_is_named(name: str, write) -> None:
    content, why = UNREADABLE[name]
    told, page = write(**{name: content})
    [source] = told["not_shown"]
    assert source in page.text
    assert why in page.text


def test_answers_are_found_between_lines_for_people(write) -> None:
    said = f"progress\n{json.dumps(SWARM)}\nmore\n{json.dumps(CHECK)}\n"
    told, _ = write(log_dot_json=said.encode())
    assert (told["verdicts"], told["not_shown"]) == (2, [])


def test_a_trace_says_what_ran(write, tmp_path: Path) -> None:
    chosen = experiment("slow-receiver")
    short = chosen.parameters({"seconds": 1.0, "warmup_s": 0.0})
    chosen.run(Parameters(short), 5, str(tmp_path / "results" / "trace"))
    told, page = write()
    assert told["not_shown"] == []
    assert "s-rm, order fifo · 1 run · " in page.text
    trace = tmp_path / "results" / "trace"
    assert f"Not checked: semcast check {trace}" in " ".join(page.text.split())
    assert f"semcast explain {trace}" in page.text
    assert "slow-receiver" in page.text


def test_the_last_check_and_profile_of_a_trace_are_on_its_card(write, tmp_path: Path) -> None:
    """Nobody has to name a file; a result that is older than the trace is not believed."""
    trace = tmp_path / "results" / "trace"
    chosen = experiment("slow-receiver")
    chosen.run(Parameters(chosen.parameters({"seconds": 1.0, "warmup_s": 0.0})), 5, str(trace))
    assert main(["check", str(trace)]) == 0
    keep(trace, KEPT_PROFILE, PROFILE)
    told, page = write()
    assert told["verdicts"] == 1
    assert "pass: holding: 9 of " in page.text
    assert "Not checked" not in page.text
    assert "No buffer suffices. 65 % is needed" in page.text
    os.utime(trace / KEPT_CHECK, (1, 1))
    told, page = write()
    assert told["verdicts"] == 0
    assert "Not checked" in page.text
    html = (tmp_path / "report.html").read_text()
    advice, fold = html.index("No buffer suffices. 65 % is needed"), html.index(">Profile<")
    assert advice < fold, "the advice is seen without a click"


def test_a_long_table_is_folded_and_no_number_has_nineteen_digits(write) -> None:
    rows = "".join(f"{n},{2**62 + n}\n" for n in range(21))
    _, page = write(items_dot_csv=f"n,item\n{rows}".encode())
    assert "21 rows" in page.text
    assert not re.search(r"\d{17}", page.text.replace(",", ""))


def test_an_svg_is_shown_in_place_of_the_png_beside_it(write, tmp_path: Path) -> None:
    svg = b"<svg xmlns='x'><script>alert(1)</script></svg>"
    told, _ = write(rate_dot_png=PNG, rate_dot_svg=svg, bad_dot_svg=b"no picture")
    assert told["not_shown"] == ["bad.svg"]
    text = Path(told["html"]).read_text(encoding="utf-8")
    assert "data:image/svg+xml;base64," in text
    assert "data:image/png" not in text
    assert "alert(1)" not in text, "a picture runs no script"


def test_an_unfinished_sweep_is_told_as_such(write) -> None:
    plan = {"experiment": "stock", "grid": {"f": [1]}, "parameters": {}, "repeat": 1, "seed": 1}
    told, page = write(s__sweep_dot_json={**plan, "is_live": False, "version": "0"})
    assert told["failed"] == 1
    assert "not finished; run the same command again to resume" in page.text


def test_a_picture_is_shown_with_its_numbers(write) -> None:
    told, page = write(rate_dot_png=PNG, rate_dot_csv=b"x,y\n1,2.5\n")
    assert told["not_shown"] == []
    assert page.text.index("rate.png") < page.text.index("rate.csv") < page.text.index("2.5")


SAID: dict[str, dict[str, Any]] = {
    "check": CHECK,
    "profile": PROFILE,
    "sim swarm": SWARM,
    "sim mutants": {"mutants": [{"name": "canary", "caught": True, "by": None}]},
    "sim": {"experiment": "stock", "seed": 1, "parameters": {}, "results": {}, "violations": 0},
    "demo": {"reliable": {"converged": True}, "semantic": {"converged": True}, "settings": {}},
    "sweep": {"runs": 1, "skipped": 0, "failed": 0, "seconds": 1.5, "out": "o", "digest": "d"},
    "figures": {"figures": []},
    "bench": {"results": [], "settings": {}},
    "lake": {"files": 1, "rows": 2, "quarantined": 0},
    "model throughput": {"purge_ratio": 0.5, "purge_ratio_limit": 0.5, "sender_rate": 9.0},
    "model gossip": {"rounds": 4, "probability": [0.1]},
}


@pytest.mark.parametrize("command", SAID)
def test_answers_are_recognised_by_their_keys(command: str) -> None:
    answer = parse_result(SAID[command])
    assert answer is not None
    assert answer.command == command
    judged = answer.to_verdict()
    assert judged is None or judged.passed == (command != "check")


def test_every_answer_that_is_recognised_is_tried_here() -> None:
    assert {kind.command for kind in RESULT_TYPES} == SAID.keys()


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "swarm.json").write_text(json.dumps(SWARM))
    out = tmp_path / "new" / "report.html"
    for _ in range(2):  # The second time the report lies beside what it is about.
        assert main(["report", str(tmp_path), "--out", str(out), "--json"]) == 0
        answer = json.loads(capsys.readouterr().out)
        assert answer == {"html": str(out), "verdicts": 1, "failed": 0, "not_shown": []}
    assert main(["report", str(tmp_path / "none"), "--out", str(out)]) == 2
    assert capsys.readouterr().err == f"semcast: {tmp_path / 'none'}: not a directory\n"
    assert main(["report", str(tmp_path), "--out", str(tmp_path / "swarm.json" / "x")]) == 2
    assert "semcast: out: " in capsys.readouterr().err


def test_a_report_needs_no_spark() -> None:
    code = "import sys, semcast.pipeline.report.report; sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium: install chromium to try pages in it")
def test_a_browser_shows_it(write, tmp_path: Path) -> None:
    write(check_dot_json=CHECK, profile_dot_json=PROFILE)
    assert CHROMIUM is not None
    options = ("--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'c'}")
    shown = subprocess.run(
        [CHROMIUM, *options, "--dump-dom", (tmp_path / "report.html").as_uri()],
        check=True,
        capture_output=True,
        text=True,
        timeout=120,
    ).stdout
    assert Page(shown).text.split() == Page((tmp_path / "report.html").read_text()).text.split()
