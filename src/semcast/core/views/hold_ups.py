"""Finds out what holds a member up: another member that takes too little, or too little processor
time of its own.

Idea: a condition counts if it holds for more than half of the time.  A slow member takes a message
now and then, so a sender that waits for it finds room now and then; a process that gets too little
processor time does run now and then.
Rejected: a condition that holds without a break.  Only a stopped member brings that about, and the
failure detector notices a stopped member.
"""

from dataclasses import dataclass, field

from semcast.core.member import Member
from semcast.core.views.recipe import ViewRecipe
from semcast.terms.ids import Incarnation, Rank


@dataclass(slots=True)
class Prevalence:
    """Counts up while something holds and down while it does not, between 0 and `most_s`."""

    most_s: float
    at: float
    balance_s: float = 0.0
    holds: bool = False

    def note(self, holds: bool, now: float) -> float:
        """From now on it holds, or not; returns how far the count is."""
        passed_s = now - self.at if self.holds else self.at - now
        self.balance_s = min(max(self.balance_s + passed_s, 0.0), self.most_s)
        self.at, self.holds = now, holds
        return self.balance_s


@dataclass(slots=True)
class HoldUps:
    """Lives as long as the process."""

    recipe: ViewRecipe
    now: float
    refusals: Prevalence = field(init=False)  # of what the application offers, in this view
    lateness: Prevalence = field(init=False)  # of the driver: it runs later than it was asked to
    laggard: Rank | None = None  # when there was room last
    was_late: bool = False

    def __post_init__(self) -> None:
        most_s = 2 * self.recipe.exclude_after_s
        self.lateness = Prevalence(most_s, self.now)
        self.enter(self.now)

    def enter(self, now: float) -> None:
        """A view begins."""
        self.refusals = Prevalence(2 * self.recipe.exclude_after_s, now)

    def on_submit(self, is_refused: bool, member: Member, now: float) -> None:
        """The application offered something; was there room for all of it?  A sender that offers
        more than the group takes is refused most of the time, and nobody is to blame for that
        unless it is the same member all the time that is far behind.  In primary views, whose next
        one needs many of its members, only who takes nothing is."""
        if self.recipe.overflow != "exclude":
            return  # Nobody is put out, and this is said of every message.
        self.refusals.note(is_refused, now)
        if is_refused:
            return
        before = self.laggard
        self.laggard = None if self.recipe.is_primary else member.outbox.laggard
        if self.laggard is None or self.laggard != before:
            self.refusals.balance_s = 0.0

    def on_run(self, due: float, now: float) -> None:
        """The process runs now; it had asked to run at `due`."""
        if now - due >= self.recipe.heartbeat_s:  # A busy process is somewhat late all the time.
            self.lateness.note(True, max(due, self.lateness.at))
            self.lateness.note(False, now)

    def is_late(self, now: float) -> bool:
        """Whether this process was late for `exclude_after_s` longer than it was in time.  It stays
        late until it was in time for as long as it was late."""
        balance_s = self.lateness.note(False, now)
        least_s = 0.0 if self.was_late else self.recipe.exclude_after_s
        self.was_late = balance_s > 0 and balance_s >= least_s
        return self.was_late

    def expelled(self, member: Member, now: float) -> tuple[Incarnation, ...]:
        """Under overflow "exclude", the one that is furthest behind in the own stream, if there has
        been no room for `exclude_after_s` longer than there was."""
        refused_s = self.refusals.note(self.refusals.holds, now)
        if self.recipe.overflow != "exclude" or refused_s < self.recipe.exclude_after_s:
            return ()
        return member.slowest
