"""The demonstration as it runs: redrawn in place on a terminal, otherwise a line each second."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Final

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from semcast.cli.output import REFRESH_S, Output, bar, width

if TYPE_CHECKING:
    from semcast.experiments.demo import Look, Outcome, Settings, Variant

LINE_S: Final = 1.0
BARS: Final = {"sender": "sender_rate", "fast members": "fast_rate", "slow member": "slow_rate"}
STYLES: Final = {"reliable": "red", "semantic": "cyan", "semantic_item": "green"}
LABEL: Final = 14
NUMBER: Final = 10


@dataclass
class Stage:
    """One run: what is being done, the last look at it, and in the end what was measured."""

    name: str
    variant: "Variant"
    notice: str = ""
    look: "Look | None" = None
    outcome: "Outcome | None" = None


class View:
    """Shows all runs; `show` redraws them, if there is a terminal to do so."""

    def __init__(
        self, settings: "Settings", output: Output, show: Callable[[Group], None] | None
    ) -> None:
        from semcast.experiments.demo import VARIANTS

        self._settings = settings
        self._output = output
        self._show = show
        self._stages = {name: Stage(name, variant) for name, variant in VARIANTS.items()}
        self._shown_at = 0.0

    def on_notice(self, name: str, notice: str, look: "Look | None") -> None:
        """A run goes on; what comes with a look comes often and is not always shown."""
        stage, now = self._stages[name], monotonic()
        stage.notice, stage.look = notice, look or stage.look
        every_s = LINE_S if self._show is None else REFRESH_S
        if look is not None and now - self._shown_at < every_s:
            return
        self._shown_at = now
        if self._show is not None:
            self._show(Group(*self.picture()))
        else:
            told = f": {self._rates(look)}; {self._state(look)}" if look else ""
            self._output.say(f"{stage.variant.title}: {notice}{told}")

    def on_outcome(self, name: str, outcome: "Outcome") -> None:
        """A run was measured."""
        stage = self._stages[name]
        stage.notice, stage.outcome = "", outcome
        if self._show is not None:
            self._show(Group(*self.picture()))

    def picture(self) -> list[Text]:
        """All runs under each other, with bars on one scale."""
        lines: list[Text] = []
        for stage in self._stages.values():
            style = STYLES[stage.name]
            title = Text(stage.variant.title, f"bold {style}")
            title.append(f"  {stage.notice}" if stage.notice else "", "not bold dim")
            lines += [Text(), title]
            rates = stage.outcome or stage.look
            if rates is not None:
                lines += [
                    self._bar(label, getattr(rates, key), style) for label, key in BARS.items()
                ]
            if stage.look is not None:
                lines.append(Text(f"  {self._state(stage.look)}", "dim"))
        return lines

    def _bar(self, label: str, rate: float, style: str) -> Text:
        columns = max(10, width() - 2 - LABEL - NUMBER - 1)
        line = Text(f"  {label:<{LABEL}}{f'{rate:,.0f}/s':>{NUMBER}} ")
        return line.append(bar(rate / self._settings.rate, columns), style)

    @staticmethod
    def _rates(look: "Look") -> str:
        return ", ".join(f"{label} {getattr(look, key):,.0f}/s" for label, key in BARS.items())

    def _state(self, look: "Look") -> str:
        told = (
            f"slowest: {look.slowest or 'none'}; buffers {look.held:,} of "
            f"{self._settings.buffer:,} messages, skipped {look.skipped:,}"
        )
        return told + ("; the sender is blocked" if look.is_blocked else "")


@contextmanager
def viewing(settings: "Settings", output: Output) -> Iterator[View]:
    """A view for the time of the runs."""
    if not output.people.isatty():
        yield View(settings, output, None)
        return
    console = Console(file=output.people, highlight=False, width=width())
    with Live(console=console, auto_refresh=False) as live:
        yield View(settings, output, lambda picture: live.update(picture, refresh=True))
