"""What a live process of an experiment is told to do, and what it tells in return."""

from collections.abc import Callable, Iterator
from itertools import chain, islice, repeat, tee
from random import Random
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from semcast.terms.errors import ConfigError, unknown_value
from semcast.terms.items import item_tag
from semcast.terms.limits import check_finite, check_positive, check_range
from semcast.terms.messages import Update
from semcast.workloads.game import Game
from semcast.workloads.predecessor_lists import list_predecessors
from semcast.workloads.stock import STOCK_GROUPS, quotes
from semcast.workloads.synthetic import overwrites

STREAMS: Final = ("stock", "game", "overwrites", "plain")


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """What a process sends: a stream at a rate, or as fast as it can if the rate is None.

    `stream` "plain" has no items, so that nothing is ever obsolete; "game" has a pace of its own,
    which `rate` does not change; `r` and `d` are for "overwrites".  With `reach`, each message
    names the latest on its item, if it lies at most so far back, as relations other than by item
    need it.
    """

    stream: str = "stock"
    rate: float | None = 1000.0
    seconds: float = 10.0
    size: int = 64
    seed: int | str = 1
    r: float = 0.5
    d: int = 1
    reach: int | None = None

    def __post_init__(self) -> None:
        if self.stream not in STREAMS:
            raise unknown_value("stream", self.stream, STREAMS)
        if self.rate is not None:
            check_positive("rate", self.rate)
        check_finite("seconds", self.seconds)
        check_range("size", self.size, 0)

    def schedule(self) -> Iterator[tuple[float, Update]]:
        """An endless stream with the time at which each message is due, the same for one seed."""
        names = {item_tag(name): name for name in self._names()}
        times, plain = tee(self._traffic(Random(self.seed)))
        traffic: Iterator[Update] = (sent for _, sent in plain)
        if self.reach is not None:
            traffic = list_predecessors(traffic, self.reach)
        for (due, _), sent in zip(times, traffic, strict=True):
            item = sent.item
            if isinstance(item, int):  # Live applications have names for their items.
                sent = replace(sent, item=names.get(item) or f"item {item:x}")
            yield due, sent

    def prepared(self, limit: int) -> Iterator[tuple[float, Update]]:
        """The same, what its time needs made up at once: at most so many messages."""
        schedule, needed = self.schedule(), (self.rate or 0.0) * self.seconds
        return chain(list(islice(schedule, min(limit, round(needed)))), schedule)

    @property
    def is_flood(self) -> bool:
        """Whether it has no pace and may be sent over and over."""
        return self.rate is None and self.stream != "game" and self.reach is None

    def flood(self, count: int) -> list[Update]:
        """What comes first, to be sent over and over."""
        return [update for _, update in islice(self.schedule(), count)]

    def _names(self) -> list[str]:
        if self.stream == "stock":
            return [f"stock-{number}" for number in range(sum(n for n, _ in STOCK_GROUPS))]
        return [f"item-{number}" for number in range(self.d)]

    def _traffic(self, rng: Random) -> Iterator[tuple[float, Update]]:
        if self.stream == "game":
            game = Game()
            return ((number / game.rounds_per_s, sent) for number, sent in game.messages(rng))
        streams: dict[str, Callable[[], Iterator[Update]]] = {
            "stock": lambda: quotes(rng, size=self.size),
            "overwrites": lambda: overwrites(self.r, self.d, rng, size=self.size),
            "plain": lambda: repeat(Update(bytes(self.size))),
        }
        gap = 0.0 if self.rate is None else 1 / self.rate
        return ((number * gap, sent) for number, sent in enumerate(streams[self.stream]()))


class WorkerPlan(msgspec.Struct, frozen=True, kw_only=True):
    """One live process.  `options` are those of `join`; `service_s` is what its application
    spends on each message, for `slow_s` from the start signal or, if None, for ever.  A stamped
    payload begins with the sender's monotonic clock in nanoseconds; all processes of an
    experiment stamp, or none does.  `only_counts` is for the highest speed and for messages
    without items: what was taken is not looked at.  `keeps_diary`: what is sent and what is taken
    is noted, message by message."""

    group: str
    name: str
    options: dict[str, Any] = {}
    load: Load | None = None
    service_s: float = 0.0
    slow_s: float | None = None
    is_stamped: bool = False
    only_counts: bool = False
    keeps_diary: bool = False

    def __post_init__(self) -> None:
        check_finite("service_s", self.service_s)
        if "name" in self.options:
            raise ConfigError("options: set the name in the plan, not in its options")


class WorkerStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How a process is doing: `taken` were taken by its application, `skipped` told to it.

    `age_s` is how old a stamped message was that its application took last; `forgotten` is without
    how many members it goes on, `resident_bytes` the memory it uses, or
    None where the system does not tell.  With views, `view` is the one it is in and `members` how
    many are.
    """

    sent: int = 0
    taken: int = 0
    skipped: int = 0
    held: int = 0
    queued: int = 0
    forgotten: int = 0
    age_s: float | None = None
    is_blocked: bool = False
    is_sending: bool = False
    slowest: str | None = None
    resident_bytes: int | None = None
    view: int = 0
    members: int = 0

    @property
    def accounted(self) -> int:
        """Messages of the group that this member is done with."""
        return self.taken + self.skipped


class MessageTimes(msgspec.Struct, frozen=True, kw_only=True):
    """Messages in the order in which they were sent, or taken: 64-bit numbers of this machine.

    `at_ns` counts from the start signal; `item` is a tag, 0 without an item.
    """

    at_ns: bytes
    seq: bytes
    item: bytes


class WorkerResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a process has to show when it stops.

    `seconds` is how long it sent, `took_s` when it took its last message, `cpu_s` the processor
    time, all since the start signal.  `state` is a hash over the last number of every sender and
    item.  Latencies are one-way, of stamped messages, a sample.
    """

    sent: int
    taken: int
    skipped: int
    seconds: float
    took_s: float = 0.0
    cpu_s: float
    state: str
    latencies_us: list[float] = []
    sent_diary: MessageTimes | None = None
    taken_diary: MessageTimes | None = None
    snapshot: Any = None


class WorkerReport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of a process's standard output."""

    is_ready: bool = False
    tick: WorkerStatus | None = None
    result: WorkerResult | None = None
    error: str | None = None


class WorkerCommand(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a running process is told: to go on without a member, or to leave."""

    forget: str | None = None
    stop: bool = False


class StartSignal(msgspec.Struct, frozen=True):
    """The start signal: a moment of the monotonic clock that all processes of a machine share."""

    at: float
