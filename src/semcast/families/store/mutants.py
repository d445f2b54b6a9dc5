"""Deliberately broken servers of the store, each with one likely mistake."""

from collections import deque
from collections.abc import Callable, Collection, Sequence
from typing import Any

import msgspec

from semcast.families.testing import MutantTable
from semcast.service.client_lines import ClientLine, PendingRequest
from semcast.service.exchange import Exchange, ExchangePlan
from semcast.service.point_to_point import PointToPoint
from semcast.service.store_client import SentRequest, StoreClient
from semcast.service.store_desk import StoreDesk
from semcast.service.store_disk import StoreDisk
from semcast.service.store_messages import QueryAnswer, QueryBatch, UpdateEntry
from semcast.service.store_recipe import REPLICATED_DATA, StoreRecipe
from semcast.service.store_replica import StoreReplica
from semcast.service.store_server import StoreServer
from semcast.service.store_state import Executed, StoreState
from semcast.service.update_log import LogBatch
from semcast.terms.effects import Effects
from semcast.terms.ids import Incarnation, Pid
from semcast.terms.store import Parcel, StoreProgress, StoreRequest

MUTANTS = MutantTable()


@MUTANTS.add(
    "quorum-of-the-view", StoreReplica, "_reached", scenario="few-know", swarm=REPLICATED_DATA
)
def quorum_of_the_view(original: Any) -> Callable[..., Any]:
    """An update is safe when a majority of the members of the view has it."""

    def reached(self: StoreReplica) -> int:
        numbers = [self.reached.get(life.pid, 0) for life in self.view.members]
        return sorted(numbers, reverse=True)[len(numbers) // 2]

    return reached


@MUTANTS.add(
    "every-view-is-primary", StoreRecipe, "has_quorum", scenario="all-alone", swarm=REPLICATED_DATA
)
def every_view_is_primary(original: Any) -> Callable[..., Any]:
    """Updates are executed in minorities."""

    def has_quorum(self: StoreRecipe, pids: Collection[Pid]) -> bool:
        return bool(pids)

    return has_quorum


@MUTANTS.add(
    "old-reads", StoreDesk, "_is_new_enough", scenario="slow-server", swarm=REPLICATED_DATA
)
def old_reads(original: Any) -> Callable[..., Any]:
    """A server answers from the state it has, whatever the client has seen."""

    def is_new_enough(self: StoreDesk, last: int) -> bool:
        return self.replica.has_state

    return is_new_enough


@MUTANTS.add(
    "ask-for-what-is-not-here",
    StoreDesk,
    "_is_known_here",
    scenario="slow-turns",
    swarm=REPLICATED_DATA,
)
def ask_for_what_is_not_here(original: Any) -> Callable[..., Any]:
    """A query is given to a server in turn, even if the view lacks what its client has seen."""

    def is_known_here(self: StoreDesk, line: ClientLine) -> bool:
        return True

    return is_known_here


@MUTANTS.add(
    "acknowledge-before-the-disk",
    StoreDisk,
    "write_batch",
    scenario="power-cut",
    swarm=REPLICATED_DATA,
)
def acknowledge_before_the_disk(original: Any) -> Callable[..., Any]:
    """An update counts as persisted as soon as it is written."""

    def write_batch(self: StoreDisk, batch: LogBatch, safe: int, out: Effects) -> None:
        original(self, batch, safe, out)
        self.length = batch.last

    return write_batch


@MUTANTS.add(
    "expertise-before-the-disk",
    StoreReplica,
    "_tell",
    scenario="power-cut-of-two",
    swarm=REPLICATED_DATA,
)
def expertise_before_the_disk(original: Any) -> Callable[..., Any]:
    """A server says what it knows before it is on its disk."""

    def tell(self: StoreReplica) -> None:
        self._awaited = 0
        original(self)

    return tell


@MUTANTS.add(
    "persisted-counts-as-safe",
    StoreReplica,
    "on_progress",
    scenario="few-know",
    swarm=REPLICATED_DATA,
)
def persisted_counts_as_safe(original: Any) -> Callable[..., Any]:
    """What one server has on its disk counts as safe, as if it had executed it."""

    def on_progress(self: StoreReplica, source: Pid, progress: StoreProgress) -> bool:
        claimed = msgspec.structs.replace(progress, executed=progress.persisted)
        is_member: bool = original(self, source, claimed)
        return is_member

    return on_progress


@MUTANTS.add(
    "execute-repetitions", StoreState, "execute", scenario="lost-answers", swarm=REPLICATED_DATA
)
def execute_repetitions(original: Any) -> Callable[..., Any]:
    """An update that comes again runs again."""

    def execute(self: StoreState, entry: UpdateEntry) -> Executed:
        session = self.sessions.get(entry[0])
        if session is not None and entry[1] <= session.number and entry[4]:
            session.number = entry[1] - 1
        result: Executed = original(self, entry)
        return result

    return execute


@MUTANTS.add(
    "drop-what-founders-lack",
    StoreReplica,
    "_droppable",
    scenario="founder-away",
    swarm=REPLICATED_DATA,
)
def drop_what_founders_lack(original: Any) -> Callable[..., Any]:
    """Updates are dropped as soon as they are executed here."""

    def droppable(self: StoreReplica) -> int:
        return self.executed

    return droppable


@MUTANTS.add(
    "parcels-come-twice", PointToPoint, "on_parcel", scenario="rotation", swarm=REPLICATED_DATA
)
def parcels_come_twice(original: Any) -> Callable[..., Any]:
    """A parcel that comes again is delivered again."""

    def on_parcel(self: PointToPoint, source: Pid, parcel: Parcel, out: Effects) -> bytes | None:
        inc, last = self._from.get(source, (parcel.inc, 0))
        if (parcel.to_inc, parcel.inc) == (self.life.inc, inc) and 0 < parcel.number <= last:
            self._from[source] = inc, parcel.number - 1
        body: bytes | None = original(self, source, parcel, out)
        self._from[source] = inc, max(last, self._from.get(source, (inc, 0))[1])
        return body

    return on_parcel


@MUTANTS.add(
    "count-after-the-test", StoreDesk, "on_queries", scenario="rotation", swarm=REPLICATED_DATA
)
def count_after_the_test(original: Any) -> Callable[..., Any]:
    """The first query of a view goes to the first member."""

    def on_queries(self: StoreDesk, batch: QueryBatch, origin: Incarnation, out: Effects) -> None:
        self.query_counter -= 1
        original(self, batch, origin, out)
        self.query_counter += 1

    return on_queries


@MUTANTS.add(
    "count-without-a-state", Exchange, "_counts", scenario="lost-disk-counts", swarm=REPLICATED_DATA
)
def count_without_a_state(original: Any) -> Callable[..., Any]:
    """A server whose disk was lost counts in a quorum at once."""

    def counts(self: Exchange, pid: Pid) -> bool:
        return True

    return counts


@MUTANTS.add(
    "longer-log-wins", Exchange, "_most_expert", scenario="long-minority", swarm=REPLICATED_DATA
)
def longer_log_wins(original: Any) -> Callable[..., Any]:
    """Components that merge take the longest history, whatever its level: confirmed updates of a
    shorter one are dropped."""

    def most_expert(self: Exchange, lives: Sequence[Incarnation]) -> Incarnation:
        return max(lives, key=lambda life: self.found[life.pid].length)

    return most_expert


@MUTANTS.add(
    "safe-of-the-donor", Exchange, "_cumulative", scenario="heard-by-one", swarm=REPLICATED_DATA
)
def safe_of_the_donor(original: Any) -> Callable[..., Any]:
    """The members of a view take for safe what the one with the longest history knows to be safe:
    not the maximum over all [VSD def. 1]."""

    def cumulative(self: Exchange) -> ExchangePlan:
        plan: ExchangePlan = original(self)
        return plan if plan.donor is None else plan._replace(safe=self.found[plan.donor.pid].safe)

    return cumulative


@MUTANTS.add(
    "minority-takes-a-level",
    StoreReplica,
    "_settle_in",
    scenario="parted-and-merged",
    swarm=REPLICATED_DATA,
)
def minority_takes_a_level(original: Any) -> Callable[..., Any]:
    """A server counts every view as the highest primary view that it knows of."""

    def settle_in(self: StoreReplica, plan: ExchangePlan, after: int, out: Effects) -> None:
        original(self, plan._replace(is_primary=True), after, out)

    return settle_in


@MUTANTS.add(
    "gather-in-minorities",
    StoreServer,
    "_sets_pace",
    scenario="left-alone",
    swarm=REPLICATED_DATA,
)
def gather_in_minorities(original: Any) -> Any:
    """Queries wait until the updates before them are safe, which they never are in a minority."""

    def sets_pace(self: StoreServer) -> bool:
        return self.recipe.confirm == "quorum" and self.replica.is_established

    return property(sets_pace)


@MUTANTS.add(
    "refuse-every-update", StoreDesk, "_may_update", scenario="few-know", swarm=REPLICATED_DATA
)
def refuse_every_update(original: Any) -> Callable[..., Any]:
    """A server takes every view for a minority."""

    def may_update(self: StoreDesk) -> bool:
        return False

    return may_update


@MUTANTS.add(
    "refuse-what-was-sent", StoreDesk, "on_sent", scenario="long-minority", swarm=REPLICATED_DATA
)
def refuse_what_was_sent(original: Any) -> Callable[..., Any]:
    """A server forgets that it has multicast an update, and refuses it when the view is lost."""

    def on_sent(self: StoreDesk, requests: list[PendingRequest]) -> None:
        original(self, requests)
        for request in requests:
            request.was_sent = False

    return on_sent


@MUTANTS.add(
    "withdraw-what-was-sent",
    StoreClient,
    "_may_withdraw",
    scenario="given-up",
    swarm=REPLICATED_DATA,
)
def withdraw_what_was_sent(original: Any) -> Callable[..., Any]:
    """A client says of an update that it was not made, though a server may have it."""

    def may_withdraw(self: StoreClient, sent: SentRequest) -> bool:
        return True

    return may_withdraw


@MUTANTS.add(
    "wait-for-withdrawn-requests",
    ClientLine,
    "take_token",
    scenario="given-up",
    swarm=REPLICATED_DATA,
)
def wait_for_withdrawn_requests(original: Any) -> Callable[..., Any]:
    """A server does not learn that its client has skipped the number of a withdrawn request, and
    takes nothing behind it."""

    def take_token(self: ClientLine, request: StoreRequest) -> None:
        expected = self.expected
        original(self, request)
        self.expected = expected

    return take_token


@MUTANTS.add(
    "forget-pending-updates", StoreDesk, "enter", scenario="few-know", swarm=REPLICATED_DATA
)
def forget_pending_updates(original: Any) -> Callable[..., Any]:
    """At a view change a server forgets the updates that it has multicast: it does not answer them
    when it executes them, and its clients have to go elsewhere."""

    def enter(self: StoreDesk) -> None:
        for line in self.lines:
            line.pending = deque(each for each in line.pending if not each.was_sent)
        original(self)

    return enter


@MUTANTS.add(
    "answers-of-earlier-views", StoreDesk, "on_answer", scenario="slow-turns", swarm=REPLICATED_DATA
)
def answers_of_earlier_views(original: Any) -> Callable[..., Any]:
    """An answer that was on its way when the view changed is taken in the next one."""

    def on_answer(self: StoreDesk, answer: QueryAnswer, out: Effects) -> None:
        line = self.lines.get(answer.client)
        if line is not None and line.query is not None and line.query.number == answer.number:
            line.query.sent_in = self.replica.view.id
        original(self, msgspec.structs.replace(answer, view=self.replica.view.id), out)

    return on_answer


@MUTANTS.add(
    "wait-for-all-to-be-in-place",
    Exchange,
    "_cumulative",
    scenario="slow-to-come-back",
    swarm=REPLICATED_DATA,
)
def wait_for_all_to_be_in_place(original: Any) -> Callable[..., Any]:
    """A view waits for a server that comes back, however long it takes what it lacks."""

    def cumulative(self: Exchange) -> ExchangePlan:
        plan: ExchangePlan = original(self)
        return plan._replace(needs_quorum=False)

    return cumulative
