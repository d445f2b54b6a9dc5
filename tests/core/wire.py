"""A fake wire: a few members joined by lists.  No simulator, no hidden schedule.

`Wire` carries out effects.  What is sent waits in `transit` until somebody carries it; time moves
from deadline to deadline, and in `run` by a little with each carrying.  `down` members neither
hear nor act; `lose` decides what is lost.
"""

from collections.abc import Callable, Iterable
from random import Random

from semcast.core.member import Member
from semcast.core.recipe import Recipe
from semcast.specs.monitors import Monitors
from semcast.terms.effects import Effects
from semcast.terms.events import Event
from semcast.terms.ids import EVERYONE, NEVER
from semcast.terms.machine import ForgetMember
from semcast.terms.messages import Data, Datagram, DataMessage, Update
from semcast.terms.outputs import ROOM, Delivery

PLENTY = 1 << 40
LATENCY_S = 0.001


class Wire:
    """One group on one list.  Every input of a member goes through here."""

    def __init__(
        self,
        recipe: Recipe,
        *,
        seed: int = 0,
        ready: Iterable[int] | None = None,
        recording: bool = True,
        judged: bool = False,
    ) -> None:
        self.recipe = recipe
        self.members = [
            Member(recipe, rank, Random(f"{seed}/{rank}")) for rank in range(recipe.members)
        ]
        self.now = 0.0
        self.transit: list[tuple[int, int, Datagram]] = []
        self.delivered: list[list[DataMessage]] = [[] for _ in self.members]
        self.skips: list[list[int]] = [[] for _ in self.members]  # before each delivery
        self.events: list[Event] = []
        self.recording = recording
        self.monitors: Monitors | None = None
        if judged:
            self.monitors = Monitors(
                recipe.protocol, recipe.order, recipe.relation, recipe.f, recipe.members
            )
        self.down: set[int] = set()
        self.lose: Callable[[int, int, Datagram], bool] = lambda source, target, datagram: False
        self.sent = 0
        self.roomy: set[int] = set()
        self.most_held = [0] * recipe.members
        for rank in range(recipe.members) if ready is None else ready:
            self.ready(rank, PLENTY)

    def seqs(self, rank: int, sender: int = 0) -> list[int]:
        """The numbers that `rank` delivered of `sender`, in order of delivery."""
        return [m.seq for m in self.delivered[rank] if m.sender == sender]

    def kinds(self, kind: str, rank: int) -> list[Event]:
        """What `rank` recorded of one kind."""
        return [e for e in self.events if e.kind == kind and e.pid == rank]

    def send(self, rank: int, *updates: Update) -> int:
        """Multicast, return how many were accepted."""
        out = Effects(recording=self.recording)
        accepted = self.members[rank].submit(updates, self.now, out)
        self.carry_out(rank, out)
        return accepted

    def items(self, rank: int, *items: int | None) -> int:
        """Multicast one message per item, in one batch."""
        return self.send(rank, *(Update(item=item) for item in items))

    def ready(self, rank: int, count: int) -> None:
        out = Effects(recording=self.recording)
        self.members[rank].on_ready(count, self.now, out)
        self.carry_out(rank, out)

    def forget(self, rank: int, member: int, *, drained: bool = False) -> None:
        out = Effects(recording=self.recording)
        self.members[rank].on_command(ForgetMember(member, drained), self.now, out)
        self.carry_out(rank, out)

    def flush(self, rank: int) -> None:
        out = Effects(recording=self.recording)
        self.members[rank].on_idle(self.now, out)
        self.carry_out(rank, out)

    def hand(self, source: int, target: int, datagram: Datagram) -> Effects:
        """Give one datagram to a member at once."""
        out = Effects(recording=self.recording)
        self.members[target].on_datagrams(source, (datagram,), self.now, out)
        if out.refused:
            raise out.refused[0]
        self.carry_out(target, out)
        return out

    def carry_out(self, rank: int, out: Effects) -> None:
        for delivery in [output for output in out.outputs if isinstance(output, Delivery)]:
            self.delivered[rank] += delivery.run.messages()
            self.skips[rank] += [delivery.skipped, *[0] * (delivery.run.count - 1)]
        if out.events:
            self.events += out.events
            if self.monitors is not None:
                for event in out.events:
                    self.monitors.on_event(event)
        if ROOM in out.outputs:
            self.roomy.add(rank)
        self.most_held[rank] = max(self.most_held[rank], self.members[rank].buffers.messages)
        for to, datagram in out.send:
            self.sent += 1
            targets = range(len(self.members)) if to is EVERYONE else to
            self.transit += [(rank, t, datagram) for t in targets if t != rank]

    def carry(self) -> int:
        """Deliver what is in transit now; what that causes waits for the next call."""
        moving, self.transit = self.transit, []
        for source, target, datagram in moving:
            if target not in self.down and not self.lose(source, target, datagram):
                self.hand(source, target, datagram)
        return len(moving)

    @property
    def deadline(self) -> float:
        """When the next member that is up wants to be called."""
        up = (m for m in self.members if m.rank not in self.down)
        return min((m.deadline for m in up), default=NEVER)

    def tick(self) -> None:
        """Let time pass up to the next deadline."""
        self.now = max(self.now, self.deadline)
        for member in self.members:
            if member.rank not in self.down and member.deadline <= self.now:
                out = Effects(recording=self.recording)
                member.on_time(self.now, out)
                self.carry_out(member.rank, out)

    def run(self, *, until: float = NEVER, steps: int = 100_000) -> None:
        """Carry and tick until nothing is left to do, or until a time."""
        for _ in range(steps):
            if self.now >= until:
                return
            if self.carry():
                self.now += LATENCY_S
                if self.deadline <= self.now:
                    self.tick()
            elif self.deadline == NEVER or self.deadline > until:
                self.now = max(self.now, until if until != NEVER else 0.0)
                return
            else:
                self.tick()
        raise AssertionError(f"not quiet after {steps} steps: {self.members}")

    def judge(self) -> None:
        """Liveness: the run was left to fall quiet."""
        assert self.monitors is not None
        correct = frozenset(range(len(self.members))) - self.down
        self.monitors.on_end(correct, complete=True)
        assert not self.monitors.violations, "\n".join(map(str, self.monitors.violations))


def data_of(transit: Iterable[tuple[int, int, Datagram]]) -> list[Data]:
    """The batches among what is in transit."""
    return [datagram for _, _, datagram in transit if isinstance(datagram, Data)]
