"""A logger that lost its disk gets back what there is to get before it counts again.

Until then it acknowledges nothing, answers no census, sponsors nobody and reclaims nothing.
Guarantees: done once enough other loggers said how far every stream goes, and each number up to
there is here or absent at the logger that said so.  An acknowledged message is at `copies` loggers,
so L - copies + 1 others (or all there are) know of it; those that lost their disks too have
nothing to say, and are not waited for.
A number that its publisher no longer holds, and after that no other logger has, is lost: written
down as such, so that who lacks it is told instead of waiting for ever.
"""

from semcast.core.pubsub.message_log import MessageLog
from semcast.core.pubsub.recipe import PubsubRecipe
from semcast.core.span_set import SpanSet
from semcast.terms.effects import Effects
from semcast.terms.ids import EVERYONE, NEVER, Rank, Seq
from semcast.terms.pubsub import ResyncRequest, StreamSpans, StreamStatus


class LogResync:
    """One life of a logger.  Invariant: the log is complete if and only if `deadline` is NEVER."""

    def __init__(self, recipe: PubsubRecipe, pid: Rank, log: MessageLog, now: float) -> None:
        self.log = log
        self.inc = log.storage.inc
        self.retry_s = recipe.retry_s
        self.others = tuple(logger for logger in recipe.logger_pids if logger != pid)
        self.enough = min(len(self.others), len(recipe.logger_pids) - recipe.copies + 1)
        self.last_seqs: dict[Rank, dict[Rank, Seq]] = {}  # logger → sender → last
        self.without_disk: set[Rank] = set()  # loggers that lost their disks too
        self.not_held: dict[Rank, dict[Rank, SpanSet]] = {}  # process → sender → not held there
        self.deadline = NEVER if log.is_complete else now

    def __repr__(self) -> str:
        return f"LogResync(heard={list(self.last_seqs)}, deadline={self.deadline})"

    def on_time(self, now: float, out: Effects) -> None:
        """Ask again."""
        if now < self.deadline:
            return
        self.deadline = now + self.retry_s
        if not self.last_seqs:
            out.send.append((EVERYONE, ResyncRequest(self.inc)))
        silent = [logger for logger in self.others if logger not in self.last_seqs]
        if silent:
            out.send.append((silent, ResyncRequest(self.inc)))
        self._conclude()

    def on_status_list(self, logger: Rank, streams: tuple[StreamStatus, ...]) -> None:
        """Another logger says how far every stream goes."""
        if not self.log.is_complete and logger in self.others:
            self.last_seqs[logger] = {heard.sender: heard.last for heard in streams}
            self._conclude()

    def on_resync(self, logger: Rank) -> None:
        """Another logger asks the same: it has nothing to say, so it is not waited for."""
        if not self.log.is_complete and logger in self.others:
            self.without_disk.add(logger)
            self._conclude()

    def on_not_held(self, peer: Rank, part: StreamSpans, out: Effects) -> None:
        """A logger, or the publisher itself, does not hold these."""
        sender = part.sender
        if peer == sender:
            for logger in self.others:  # Only what they say after the publisher counts.
                self.not_held.get(logger, {}).pop(sender, None)
        absent = self.not_held.setdefault(peer, {}).setdefault(sender, SpanSet())
        for first, last in part.spans:
            absent.add(first, last)
        self._declare_lost(sender, out)
        self._conclude()

    def _declare_lost(self, sender: Rank, out: Effects) -> None:
        stream = self.log.tracker.streams.get(sender)
        if stream is None:
            return
        lost = SpanSet(stream.missing)
        for process in (sender, *self.others):
            absent = self.not_held.get(process, {}).get(sender, SpanSet())
            lost = SpanSet(span for first, last in lost for span in absent.within(first, last))
        if lost:
            self.log.resolve(StreamSpans(sender, tuple(lost)), out, is_lost=True)

    def poll(self) -> None:
        """Something came: perhaps it was the last."""
        if not self.log.is_complete:
            self._conclude()

    def _conclude(self) -> None:
        heard = self.last_seqs.keys() | self.without_disk
        if self.log.is_complete or (
            len(self.last_seqs) < self.enough and len(heard) < len(self.others)
        ):
            return
        streams = self.log.tracker.streams
        for logger, lasts in self.last_seqs.items():
            for sender, last in lasts.items():
                absent = self.not_held.get(logger, {}).get(sender, SpanSet())
                stream = streams.get(sender)
                missing = stream.missing.within(1, last) if stream is not None else ()
                if any(absent.outside(first, until) for first, until in missing):
                    return
        self.log.is_complete = True
        self.deadline = NEVER
