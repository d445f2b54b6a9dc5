"""What a figure is: panels of curves, each curve one experiment swept over one parameter.

A curve names which key of the experiment's row it shows, so that one run of a point serves both
the simulated curve and the model beside it; a profile shows many keys of one run.  A panel's live
curves are run by real processes, and only if asked for.  `PaperValue` is what the paper's text
says, drawn as a mark; where simulation and paper disagree, `docs/results.md` says why.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from semcast.experiments.experiment import Value

LIVE = "live"
# A slow application is handed a few dozen messages before it is known to be slow.
LIVE_SPAN: Mapping[str, Value] = {"seconds": 8.0, "warmup_s": 3.0}


class Curve(NamedTuple):
    """`y` of `experiment` over the values `xs` of its parameter `x`, other parameters fixed.

    Without an `x` it is a profile: one run, and at each place n of `xs` its key `y_n`.
    """

    label: str
    experiment: str
    x: str
    xs: tuple[Value, ...]
    y: str
    fixed: Mapping[str, Value] = {}
    style: str = "simulation"  # or "model", "reliable", LIVE: how it is drawn

    def key(self, x: Value) -> str:
        """Which key of the row it shows at a place."""
        return self.y if self.x else f"{self.y}_{x}"

    def given(self, x: Value) -> dict[str, Value]:
        """The parameters of the run that it shows at a place."""
        return {**self.fixed, self.x: x} if self.x else dict(self.fixed)

    def live(self, *xs: Value, **fixed: Value) -> "Curve":
        """The same with real processes at a few places, in runs of a few seconds."""
        return self._replace(xs=xs, fixed={**self.fixed, **LIVE_SPAN, **fixed}, style=LIVE)


class PaperValue(NamedTuple):
    """A point that the paper's text states."""

    label: str
    x: float
    y: float


class Panel(NamedTuple):
    """One set of axes."""

    title: str
    x_label: str
    y_label: str
    curves: tuple[Curve, ...]
    readings: tuple[PaperValue, ...] = ()
    log_x: bool = False
    live: tuple[Curve, ...] = ()
    log_y: bool = False


class Figure(NamedTuple):
    """One picture; `source` names the paper's figure."""

    name: str
    title: str
    source: str
    panels: tuple[Panel, ...]
    note: str = ""

    def texts(self) -> Iterator[str]:
        """Titles, axes and names of curves, as they stand on the panels."""
        for panel in self.panels:
            yield from (panel.title, panel.x_label, *(curve.label for curve in panel.curves))

    def points(self) -> Iterator[tuple[str, dict[str, Value]]]:
        """Every run that the figure needs: (experiment, given parameters), with repetitions."""
        for panel in self.panels:
            for curve in panel.curves:
                for value in curve.xs:
                    yield curve.experiment, curve.given(value)
