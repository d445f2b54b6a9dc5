"""The page of `semcast explain`: its data in Python, and what a reader sees in Chromium."""

import json
import re
from pathlib import Path
from shutil import copytree

import pytest

from semcast.cli.main import main
from semcast.pages import explain as page_module
from semcast.pages.explain import explain
from semcast.sim.swarm_trace import recorded_swarm
from semcast.terms.errors import SemcastError

FAILING = 4  # a seed of s-rm that the mutant breaks


@pytest.fixture(scope="module")
def broken(tmp_path_factory) -> Path:
    trace = tmp_path_factory.mktemp("trace") / "broken"
    with recorded_swarm(trace, "s-rm", "forget-purged") as recorder:
        for seed in (0, FAILING):
            recorder.run(seed)
    return trace


@pytest.fixture(scope="module")
def views(tmp_path_factory) -> Path:
    trace = tmp_path_factory.mktemp("trace") / "views"
    with recorded_swarm(trace, "s-vsm") as recorder:
        recorder.run(3)
    return trace


def about(page: Path) -> dict:
    text = page.read_text(encoding="utf-8")
    found = re.search(r'id="about">(.*?)</script>', text, flags=re.DOTALL)
    assert found
    return json.loads(found[1])


def test_it_shows_the_first_run_that_broke_a_guarantee(broken, tmp_path):
    facts = explain(broken, tmp_path / "page.html")
    assert facts["run"] == FAILING
    assert facts["violations"] > 0
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "FAIL agreement" in text
    assert "[SRM §4.2]" in text
    assert about(tmp_path / "page.html")["around"] >= 0


def test_a_run_too_long_to_judge_has_what_the_last_check_kept(broken, tmp_path, monkeypatch):
    trace, page = tmp_path / "broken", tmp_path / "page.html"
    copytree(broken, trace)
    monkeypatch.setattr(page_module, "JUDGED_MAX", 0)
    facts = explain(trace, page)
    assert (facts["run"], facts["violations"]) == (0, 0)
    assert main(["check", str(trace)]) == 1
    facts = explain(trace, page)
    assert (facts["run"], facts["violations"] > 0) == (FAILING, True)
    assert about(page)["violations"]
    assert explain(trace, page, run_id=0)["violations"] == 0
    (trace / "check.json").write_text('{"events": 1, "properties": {"agreement": 7}}')
    assert explain(trace, page)["run"] == 0


def test_recovery_of_publish_and_subscribe_is_in_the_trace(tmp_path):
    with recorded_swarm(tmp_path / "trace", "rpbcast") as recorder:
        for seed in range(6):
            recorder.run(seed)
    names = {path.name for path in (tmp_path / "trace" / "events").iterdir()}
    assert {"kind=nack", "kind=repair"} <= names
    assert main(["check", str(tmp_path / "trace")]) == 0


def test_a_random_number_of_a_run_is_not_shown(capsys):
    from semcast.cli.explain import _answer
    from semcast.cli.output import Output

    facts = {"html": "", "run": 4, "events": 1, "violations": 0, "verdict": "pass"}
    _answer(Output(False), facts)
    _answer(Output(False), {**facts, "run": -(2**62)})
    assert capsys.readouterr().out.splitlines() == [
        "ok  no violation in run 4, 1 event",
        "ok  no violation in 1 event",
    ]


def test_a_run_can_be_named_and_a_wrong_one_is_refused(broken, tmp_path):
    assert explain(broken, tmp_path / "page.html", run_id=0)["violations"] == 0
    with pytest.raises(SemcastError, match="no run 9; the trace has 0, 4"):
        explain(broken, tmp_path / "page.html", run_id=9)


def test_around_names_an_event_by_process_and_number(broken, tmp_path):
    for name in ("0", "p0"):
        explain(broken, tmp_path / "page.html", run_id=FAILING, around=(name, 40))
        assert about(tmp_path / "page.html")["around"] > 0
    with pytest.raises(SemcastError, match="no event 99999 of process 0"):
        explain(broken, tmp_path / "page.html", around=("0", 99999))


def test_the_page_loads_nothing_from_elsewhere(broken, tmp_path):
    explain(broken, tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert not re.search(r"https?://|\bsrc=|@import|\bhref=", text)


def test_names_of_other_people_cannot_leave_their_place(views, tmp_path, monkeypatch):
    monkeypatch.setattr(page_module, "_item_names", lambda columns, names: ["</script><b>x"])
    explain(views, tmp_path / "page.html")
    assert "</script><b>x" not in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_the_command_writes_beside_the_trace_by_default(broken, capsys):
    assert main(["explain", str(broken), "--run", "0", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert facts["html"] == str(broken / "explain.html")
    assert main(["explain", str(broken), "--around", "nonsense"]) == 2
    assert "PROCESS:N" in capsys.readouterr().err
    assert main(["check", str(broken), "--json"]) == 1, "the page does not disturb the trace"


def test_a_long_run_has_the_events_around_its_focus_and_densities_of_the_rest(
    broken, tmp_path, monkeypatch, browser
):
    monkeypatch.setattr(page_module, "EMBEDDED_MAX", 200)
    explain(broken, tmp_path / "page.html")
    data = about(tmp_path / "page.html")
    assert data["isWhole"] is False
    assert {name: size for name, _, size in data["columns"]}["kind"] == 200
    found = browser(
        tmp_path / "page.html",
        "select(-1); look(0, about.end + 1); draw();"
        "return [count, [...C.density].reduce((a, b) => a + b), $('shown').textContent]",
    )
    assert found[0] == 200
    assert found[1] > 200
    assert "zoom in" in found[2]


@pytest.mark.parametrize("width", [420, 1200])
@pytest.mark.parametrize("scheme", [0, 1], ids=["dark", "light"])
def test_the_page_fits_the_screen_and_follows_the_scheme(broken, tmp_path, browser, width, scheme):
    explain(broken, tmp_path / "page.html")
    found = browser(
        tmp_path / "page.html",
        "const lanes = $('lanes').getContext('2d').getImageData(0, 0, $('lanes').width, 40).data;"
        "const colours = new Set(); for (let i = 0; i < lanes.length; i += 4)"
        " colours.add(lanes[i] + ',' + lanes[i + 1] + ',' + lanes[i + 2]);"
        "return { wide: document.documentElement.scrollWidth, paper: [lanes[0], colours.size],"
        " isDown: plan.isDown, detail: $('detail').textContent }",
        width=width,
        scheme=scheme,
    )
    assert found["wide"] <= width
    assert found["isDown"] == (width == 420)
    assert (found["paper"][0] < 40) == (scheme == 0)
    assert found["paper"][1] > 3, "something is drawn"
    assert "agreement: process 0 delivered nothing" in found["detail"]


def test_events_arrive_as_they_were_recorded(broken, tmp_path, browser):
    """The columns that the browser decodes equal those that Python wrote."""
    from semcast.traces.parquet import read_trace

    explain(broken, tmp_path / "page.html", run_id=FAILING)
    script = (
        "return [...C.kind].map((kind, i) => [about.kinds[kind], C.lane[i], C.n[i],"
        " C.stream[i] < 0 ? -1 : laneOf(C.stream[i]), C.stream[i] < 0 ? 0 : C.seq[i], C.by[i],"
        " C.peer[i], C.buffered[i], noteOf(i)])"
    )
    found = browser(tmp_path / "page.html", script)
    expected = [
        [e.kind, e.pid, e.n, e.sender, e.seq, e.by_seq, e.peer, e.buffered, e.note]
        for e in read_trace(broken, FAILING).events
    ]
    assert found == expected


def test_steps_filters_and_clicks(broken, tmp_path, browser):
    explain(broken, tmp_path / "page.html", run_id=FAILING)
    found = browser(
        tmp_path / "page.html",
        """
        const shown = () => {
          draw();
          return Number($('shown').textContent.match(/, ([\\d,]+) of/)[1].replace(',', ''));
        };
        look(0, about.end + 1); const all = shown();
        $('sender').value = 0; $('sender').onchange(); const ofOne = shown();
        $('sender').value = -1; $('sender').onchange();
        for (const chip of document.querySelectorAll('.chip[aria-pressed=true]'))
          if (chip.dataset.kind !== 'nack') chip.click();
        const nacks = shown();
        select(-1); step(1); const first = about.kinds[C.kind[state.selected]];
        const before = C.t[state.selected]; step(1); const isLater = C.t[state.selected] >= before;
        const [x, y] = plan.at(C.t[state.selected], C.lane[state.selected]);
        const hit = nearest(x + 2, y - 2) >= 0;
        near(state.selected, 40); draw();
        return { all, ofOne, nacks, first, isLater, hit, span: state.b - state.a,
                 text: $('detail').textContent };
        """,
    )
    assert found["all"] > found["ofOne"] > 0
    assert 0 < found["nacks"] < 100
    assert found["first"] == "nack"
    assert found["isLater"]
    assert found["hit"]
    assert "requests the missing numbers" in found["text"]
    assert "[SRM §5.3]" in found["text"]


def test_views_are_marked(views, tmp_path, browser):
    explain(views, tmp_path / "page.html")
    found = browser(tmp_path / "page.html", "return [about.views.length, Boolean(C.view)]")
    assert found[0] >= 1
    assert found[1]
