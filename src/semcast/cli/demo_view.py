"""The demonstration as it runs: both groups side by side on a terminal, otherwise lines."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING, Final

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from semcast.cli.output import REFRESH_S, Output, bar, clock, sparkline, terminal_columns
from semcast.cli.past_waits import WaitTime
from semcast.terms.palette import REFERENCE, SEMANTIC, SLOW, WRONG, Colour

if TYPE_CHECKING:
    from semcast.experiments.demo import DemoOutcome, DemoSample, DemoSettings, DemoVariant

LINE_S: Final = 1.0
BESIDE_S: Final = 6.0  # what a demo usually takes beside its seconds: to start, settle and check
CLOCK_PER_S: Final = 2.0  # how often the clock is drawn while nothing else happens
HISTORY_S: Final = 0.5  # between two marks of a sparkline
COLUMNS_MAX: Final = 120
LABEL: Final = 15
NUMBER: Final = 8
CLOCK: Final = 14  # columns of the time so far and the expected one
COLOURS: Final = {"reliable": REFERENCE, "semantic": SEMANTIC}
MEANINGS: Final = {
    "reliable": "keeps every quote",
    "semantic": "skips replaced quotes",
}
RATES: Final = ("sender_rate", "fast_rate", "slow_rate")
HISTORY_MIN: Final = 18  # columns beside a number from which a history is shown, too
OLD_S: Final = 2.0  # Quotes that are older than this are worth a warning.


def style(colour: Colour) -> str:
    """The colour as rich calls it."""
    return f"color({colour.terminal})"


@dataclass
class DemoStage:
    """One run: its current step, its last state, its history, and in the end its outcome."""

    variant: "DemoVariant"
    notice: str = "starting"
    look: "DemoSample | None" = None
    outcome: "DemoOutcome | None" = None
    history: dict[str, list[float]] = field(default_factory=dict)
    noted_at: float = 0.0

    def note(self, look: "DemoSample", now: float) -> None:
        """Remember a state, and now and then add it to the history."""
        self.look = look
        if now - self.noted_at >= HISTORY_S:
            self.noted_at = now
            for key in (*RATES, "age_s"):
                self.history.setdefault(key, []).append(getattr(look, key) or 0.0)


class DemoView:
    """Shows both runs; `show` redraws them, if there is a terminal to do so."""

    def __init__(
        self, settings: "DemoSettings", output: Output, show: Callable[[], None] | None
    ) -> None:
        from semcast.experiments.demo import VARIANTS

        self._settings = settings
        self._output = output
        self._show = show
        self._stages = {name: DemoStage(variant) for name, variant in VARIANTS.items()}
        self._began = monotonic()
        self._estimate = WaitTime("demo", BESIDE_S + settings.seconds)
        self._expected_s = self._estimate.expected_s
        self._shown_at: dict[str, float] = {}

    def on_progress(self, name: str, notice: str, look: "DemoSample | None") -> None:
        """Show the current step of a run; states come often and are not all shown."""
        stage, now = self._stages[name], monotonic()
        stage.notice = notice
        if look is not None:
            stage.note(look, now)
        shown_by = "screen" if self._show else name
        every_s = REFRESH_S if self._show else LINE_S
        if look is not None and now - self._shown_at.get(shown_by, 0.0) < every_s:
            return
        self._shown_at[shown_by] = now
        if self._show is not None:
            self._show()
        else:
            state = f": {self._state(look)}" if look else ""
            self._output.print_text(f"{stage.variant.title}: {notice}{state}")

    def on_outcome(self, name: str, outcome: "DemoOutcome") -> None:
        """Show what was measured of a run."""
        stage = self._stages[name]
        stage.notice, stage.outcome = "done", outcome
        if self._show is not None:
            self._show()
            if self._is_done:
                self._estimate.remember(monotonic() - self._began)

    def render(self) -> list[Text]:
        """Both runs side by side, with bars on one scale."""
        names, rate = self._settings.names, self._settings.rate
        slow = names[self._settings.slow]
        fast = f"{names[1]} to {names[self._settings.slow - 1]}"
        reads = f"{slow} reads {1000 / self._settings.slow_ms:,.0f}/s"
        offered = f"{rate:,.0f} quotes/s offered; {reads}"
        if self._columns() < LABEL + len(offered) + CLOCK:
            offered = f"{rate:,.0f} quotes/s; {reads}"
        title = Text(f"{'semcast demo':<{LABEL}}", "bold").append(offered, "not bold")
        room = self._columns() - title.cell_len
        title.append(f"{self._clock(room - 2):>{max(2, room)}}", "not bold")
        return [
            title,
            Text(),
            self._row("", lambda stage: Text(stage.variant.title.upper(), "bold")),
            self._row("", self._meaning),
            self._row("sender", lambda stage: self._bar(stage, "sender_rate")),
            self._row(f"fast {fast}", lambda stage: self._bar(stage, "fast_rate")),
            self._row(f"slow {slow}", lambda stage: self._bar(stage, "slow_rate")),
            self._row(f"age at {slow}", self._age),
            self._row(f"buffer of {slow}", self._buffer),
            self._row(f"{slow} skipped", self._skipped),
            *([] if self._is_done else [self._row("now", lambda stage: Text(stage.notice))]),
        ]

    def _clock(self, room: int) -> str:
        """The time so far and, while it runs, the expected time, in words if there is room."""
        now = clock(monotonic() - self._began)
        if self._is_done:
            return now
        texts = (f"{now} {word} {clock(self._expected_s)}" for word in ("of about", "of"))
        return next((text for text in texts if len(text) <= room), now)

    @property
    def _is_done(self) -> bool:
        return all(stage.outcome is not None for stage in self._stages.values())

    @staticmethod
    def _columns() -> int:
        return min(terminal_columns(), COLUMNS_MAX) - 1

    def _block(self) -> int:
        """The columns of one run."""
        return (self._columns() - LABEL) // 2

    def _row(self, label: str, cell: Callable[[DemoStage], Text]) -> Text:
        line = Text(f"{label:<{LABEL}}")
        for name, stage in self._stages.items():
            text = cell(stage)
            text.truncate(self._block() - 1, pad=True)
            if text.style == "" or text.style == "bold":
                text.stylize(style(COLOURS[name]))
            line.append_text(text).append(" ")
        line.rstrip()
        return line

    def _meaning(self, stage: DemoStage) -> Text:
        name = next(name for name, each in self._stages.items() if each is stage)
        return Text(MEANINGS[name])

    def _bar(self, stage: DemoStage, key: str) -> Text:
        state = stage.outcome or stage.look
        if state is None:
            return Text("")
        rate, (bars, marks) = getattr(state, key), self._widths()
        share = bar(rate / self._settings.rate, bars)
        history = sparkline(stage.history.get(key, []), marks, self._settings.rate)
        return Text(f"{f'{rate:,.0f}/s':>{NUMBER}} {share:<{bars}} {history}")

    def _widths(self) -> tuple[int, int]:
        """The columns of a bar, and of the history beside it if there is room for one."""
        room = self._block() - NUMBER - 2
        if room < HISTORY_MIN:
            return max(0, room), 0
        bars = max(8, room // 2)
        return bars, room - bars - 1

    def _age(self, stage: DemoStage) -> Text:
        if stage.outcome is not None:
            age_s = stage.outcome.staleness_p50_ms / 1000
        elif stage.look is None or stage.look.age_s is None:
            return Text("")
        else:
            age_s = stage.look.age_s
        is_old = age_s >= OLD_S
        bars, marks = self._widths()
        text = f"{age_s:>{NUMBER - 2}.1f} s {'!! old' if is_old else 'old':<{bars}}"
        ages = [each.history.get("age_s", []) for each in self._stages.values()]
        oldest = max(OLD_S, *(max(values, default=0.0) for values in ages))
        history = sparkline(stage.history.get("age_s", []), marks, oldest)
        return Text(f"{text} {history}", style(WRONG) if is_old else "")

    def _buffer(self, stage: DemoStage) -> Text:
        if stage.look is None:
            return Text("")
        is_full = stage.look.held >= 0.95 * self._settings.buffer
        text = (
            f"{stage.look.held:>{NUMBER},} of {self._settings.buffer:,}{' full' if is_full else ''}"
        )
        return Text(text, style(SLOW) if is_full else "")

    def _skipped(self, stage: DemoStage) -> Text:
        if stage.outcome is not None:
            skipped = stage.outcome.purged_ratio
            return Text(f"{skipped:>{NUMBER}.0%}{', replaced' if skipped else ''}")
        return Text(f"{stage.look.skipped:>{NUMBER},}" if stage.look else "")

    def _state(self, look: "DemoSample") -> str:
        waits = "; the sender waits for room" if look.is_blocked else ""
        age = f", {look.age_s:.1f} s old" if look.age_s is not None else ""
        return (
            f"sender {look.sender_rate:,.0f}/s, fast members {look.fast_rate:,.0f}/s, slow member "
            f"{look.slow_rate:,.0f}/s{age}; its buffer {look.held:,} of {self._settings.buffer:,}, "
            f"skipped {look.skipped:,}{waits}"
        )


@contextmanager
def demo_view(settings: "DemoSettings", output: Output) -> Iterator[DemoView]:
    """A view for the time of the runs."""
    if not output.human_stream.isatty():
        yield DemoView(settings, output, None)
        return
    console = Console(file=output.human_stream, highlight=False, width=terminal_columns())
    views: list[DemoView] = []
    live = Live(
        console=console,
        get_renderable=lambda: Group(*(line for view in views for line in view.render())),
        refresh_per_second=CLOCK_PER_S,
    )
    with live:
        views.append(DemoView(settings, output, live.refresh))
        yield views[0]
