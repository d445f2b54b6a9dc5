"""Pages on a phone and on a desk, light and dark: nothing is wider than the screen."""

import pytest

from semcast.cli.main import main
from semcast.pipeline.report.report import report
from semcast.sim.swarm_trace import recorded_swarm

SCRIPT = """
const wide = [...document.querySelectorAll('h1, h2, h3, p, img, pre, .card')]
  .filter((each) => each.getBoundingClientRect().right > innerWidth + 1)
  .map((each) => each.outerHTML.slice(0, 80));
const paper = getComputedStyle(document.body).backgroundColor;
await Promise.all([...document.images].map((image) => image.decode()));
return { wide, paper, scroll: document.documentElement.scrollWidth,
         high: document.body.scrollHeight,
         images: [...document.images].map((image) => image.getBoundingClientRect().width) };
"""


@pytest.fixture(scope="module")
def figures(tmp_path_factory):
    out = tmp_path_factory.mktemp("figures")
    assert main(["figures", "convergence", "--quick", "--out", str(out)]) == 0
    return out


@pytest.fixture(scope="module")
def results(tmp_path_factory, figures):
    out = tmp_path_factory.mktemp("results") / "out"
    with recorded_swarm(out / "broken", "s-rm", "forget-purged") as recorder:
        recorder.run(4)
    main(["check", str(out / "broken")])
    for name in ("convergence.svg", "convergence.csv", "convergence.png"):
        (out / name).write_bytes((figures / name).read_bytes())
    report(out, out.parent / "report.html")
    return out.parent / "report.html"


@pytest.mark.parametrize("width", [420, 1200])
@pytest.mark.parametrize("scheme", [0, 1], ids=["dark", "light"])
@pytest.mark.parametrize("page", ["figures", "report"])
def test_a_page_fits(page, width, scheme, figures, results, browser):
    path = figures / "index.html" if page == "figures" else results
    found = browser(path, SCRIPT, width=width, scheme=scheme)
    assert found["wide"] == []
    assert found["scroll"] <= width
    assert (found["paper"] == "rgb(13, 17, 23)") == (scheme == 0)
    assert found["images"]
    assert all(250 <= wide <= width for wide in found["images"]), "one panel a row on a phone"
    assert found["high"] < 6000


def test_figures_are_svg_with_text_that_follows_the_scheme(figures):
    svg = (figures / "convergence.svg").read_text(encoding="utf-8")
    assert svg.startswith("<svg ")
    assert "prefers-color-scheme: dark" in svg
    assert "var(--ink, #1f2328)" in svg
    assert "quick: few and short runs" in svg
    assert ">members that have it at first</text>" in svg
    page = (figures / "index.html").read_text(encoding="utf-8")
    assert page.count("data:image/svg+xml") == 3


def test_a_thing_has_one_colour_in_all_panels():
    from semcast.experiments.figures import FIGURES
    from semcast.experiments.plot import GREY, _looks

    looks = _looks(FIGURES["slow-receiver"])
    assert looks["no purging"].colour == GREY
    assert len({looks[name] for name in looks}) == len(looks)
    assert _looks(FIGURES["perturbed"])["semantic (fig. 8)"].colour == "#0969da"
