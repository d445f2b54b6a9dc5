"""A logger that lost its disk gets back what there is to get before it counts again.

Until then it acknowledges nothing, answers no census, sponsors nobody and reclaims nothing.
Guarantees: done once enough other loggers said how far every stream goes, and each number up to
there is here or absent at the logger that said so.  An acknowledged message is at `copies` loggers,
so L - copies + 1 others (or all there are) know of it; those that lost their disks too have
nothing to say, and are not waited for.
A number that its publisher no longer holds, and after that no other logger has, is lost: written
down as such, so that who lacks it is told instead of waiting for ever.
"""

from semcast.core.pubsub.log import Log
from semcast.core.pubsub.recipe import PubsubRecipe
from semcast.core.ranges import Ranges
from semcast.terms.effects import Effects
from semcast.terms.ids import EVERYONE, NEVER, Rank, Seq
from semcast.terms.pubsub import Heard, Part, Resync


class Resynchronisation:
    """One life of a logger.  Invariant: the log is complete if and only if `deadline` is NEVER."""

    def __init__(self, recipe: PubsubRecipe, pid: Rank, log: Log, now: float) -> None:
        self.log = log
        self.inc = log.storage.inc
        self.retry_s = recipe.retry_s
        self.others = tuple(logger for logger in recipe.keepers if logger != pid)
        self.enough = min(len(self.others), len(recipe.keepers) - recipe.copies + 1)
        self.lasts: dict[Rank, dict[Rank, Seq]] = {}  # logger → sender → last
        self.empty: set[Rank] = set()  # loggers that lost their disks too
        self.absent: dict[Rank, dict[Rank, Ranges]] = {}  # process → sender → not held there
        self.deadline = NEVER if log.is_complete else now

    def __repr__(self) -> str:
        return f"Resynchronisation(heard={list(self.lasts)}, deadline={self.deadline})"

    def on_time(self, now: float, out: Effects) -> None:
        """Ask again."""
        if now < self.deadline:
            return
        self.deadline = now + self.retry_s
        if not self.lasts:
            out.send.append((EVERYONE, Resync(self.inc)))
        silent = [logger for logger in self.others if logger not in self.lasts]
        if silent:
            out.send.append((silent, Resync(self.inc)))
        self._conclude()

    def on_lasts(self, logger: Rank, streams: tuple[Heard, ...]) -> None:
        """Another logger says how far every stream goes."""
        if not self.log.is_complete and logger in self.others:
            self.lasts[logger] = {heard.sender: heard.last for heard in streams}
            self._conclude()

    def on_resync(self, logger: Rank) -> None:
        """Another logger asks the same: it has nothing to say, so it is not waited for."""
        if not self.log.is_complete and logger in self.others:
            self.empty.add(logger)
            self._conclude()

    def on_absent(self, peer: Rank, part: Part, out: Effects) -> None:
        """A logger, or the publisher itself, does not hold these."""
        sender = part.sender
        if peer == sender:
            for logger in self.others:  # Only what they say after the publisher counts.
                self.absent.get(logger, {}).pop(sender, None)
        absent = self.absent.setdefault(peer, {}).setdefault(sender, Ranges())
        for first, last in part.spans:
            absent.add(first, last)
        self._declare_lost(sender, out)
        self._conclude()

    def _declare_lost(self, sender: Rank, out: Effects) -> None:
        stream = self.log.tracker.streams.get(sender)
        if stream is None:
            return
        lost = Ranges(stream.missing)
        for process in (sender, *self.others):
            absent = self.absent.get(process, {}).get(sender, Ranges())
            lost = Ranges(span for first, last in lost for span in absent.within(first, last))
        if lost:
            self.log.settle(Part(sender, tuple(lost)), out, is_lost=True)

    def poll(self) -> None:
        """Something came: perhaps it was the last."""
        if not self.log.is_complete:
            self._conclude()

    def _conclude(self) -> None:
        heard = self.lasts.keys() | self.empty
        if self.log.is_complete or (
            len(self.lasts) < self.enough and len(heard) < len(self.others)
        ):
            return
        streams = self.log.tracker.streams
        for logger, lasts in self.lasts.items():
            for sender, last in lasts.items():
                absent = self.absent.get(logger, {}).get(sender, Ranges())
                stream = streams.get(sender)
                missing = stream.missing.within(1, last) if stream is not None else ()
                if any(absent.outside(first, until) for first, until in missing):
                    return
        self.log.is_complete = True
        self.deadline = NEVER
