"""Deliberately broken services: figure 1 of SVS as printed, and other likely mistakes."""

from collections.abc import Callable
from typing import Any

from semcast.core.relation.protocols import Annotation
from semcast.core.relation.update_fin import UpdateFinAnnotator
from semcast.core.views.member import ViewMember
from semcast.families.fixed.annotator_mutants import every_update_supersedes
from semcast.families.testing import MutantTable
from semcast.families.views.mutants import deliver_in_the_next_view
from semcast.service.recipe import PRIMARY_BACKUP
from semcast.service.replaced_requests import ReplacedRequests
from semcast.service.replica import Replica
from semcast.service.replica_state import ReplicaState
from semcast.terms.effects import Effects
from semcast.terms.ids import Pid, Seq
from semcast.terms.messages import COVERS_MAX, Update
from semcast.terms.service import Applied, Request

MUTANTS = MutantTable()


@MUTANTS.add(
    "answer-at-once", Replica, "_backups", scenario="primary-cut-off", swarm=PRIMARY_BACKUP
)
def answer_at_once(original: Any) -> Callable[..., Any]:
    """The primary waits for nobody."""

    def backups(self: Replica) -> list[Pid]:
        return []

    return backups


@MUTANTS.add(
    "answer-duplicates-early",
    Replica,
    "_is_complete",
    scenario="primary-cut-off",
    swarm=PRIMARY_BACKUP,
)
def answer_duplicates_early(original: Any) -> Callable[..., Any]:
    """Line 3 of figure 1: who asks again is answered before the acknowledgements are there."""

    def is_complete(self: Replica, request: Request) -> bool:
        return True

    return is_complete


@MUTANTS.add(
    "count-acknowledgements",
    Replica,
    "_on_applied",
    scenario="primary-and-one-backup-cut-off",
    swarm=PRIMARY_BACKUP,
)
def count_acknowledgements(original: Any) -> Callable[..., Any]:
    """Lines 11 and 12: as many acknowledgements as there are backups, whoever they are from."""

    def on_applied(self: Replica, source: Pid, applied: Applied) -> None:
        if self._is_of_view(applied):
            # The lowest of the counters goes up, and nobody knows whose it was.
            backups = self._backups()
            lowest, *others = sorted(self.acknowledged.get(pid, 0) for pid in backups)
            counters = sorted((max(lowest, applied.seq), *others))
            self.acknowledged = dict(zip(backups, counters, strict=True))

    return on_applied


@MUTANTS.add(
    "late-acknowledgement-counts",
    Replica,
    "_on_applied",
    scenario="primary-crash-as-it-answers",
    swarm=PRIMARY_BACKUP,
)
def late_acknowledgement_counts(original: Any) -> Callable[..., Any]:
    """Line 11: an acknowledgement counts for whatever the primary waits for."""

    def on_applied(self: Replica, source: Pid, applied: Applied) -> None:
        self.acknowledged[source] = self.sent

    return on_applied


@MUTANTS.add(
    "wait-across-views",
    Replica,
    "_end_view",
    scenario="last-backup-crash",
    swarm=PRIMARY_BACKUP,
)
def wait_across_views(original: Any) -> Callable[..., Any]:
    """Acknowledgements are awaited in the next view, where nobody gives them again."""

    def end_view(self: Replica, out: Effects) -> None:
        pending, in_progress = list(self.pending), dict(self.in_progress)
        self.pending.clear()
        original(self, out)
        self.pending.extend(each for each in pending if each.version)
        self.in_progress |= in_progress

    return end_view


@MUTANTS.add("no-backup-no-answer", Replica, "_complete", scenario="alone", swarm=PRIMARY_BACKUP)
def no_backup_no_answer(original: Any) -> Callable[..., Any]:
    """Line 12 is looked at when an acknowledgement comes, and only then."""

    def complete(self: Replica, out: Effects) -> None:
        if self.acknowledged:
            original(self, out)

    return complete


@MUTANTS.add(
    "keep-incomplete-updates",
    ReplicaState,
    "drop_gathered",
    scenario="primary-crash-in-a-request",
    swarm=PRIMARY_BACKUP,
)
def keep_incomplete_updates(original: Any) -> Callable[..., Any]:
    """Updates whose fin never came are applied with the first fin of the next view."""

    def drop_gathered(self: ReplicaState) -> None:
        return

    return drop_gathered


@MUTANTS.add(
    "apply-before-the-fin",
    ReplicaState,
    "gather",
    scenario="primary-crash-in-a-request",
    swarm=PRIMARY_BACKUP,
)
def apply_before_the_fin(original: Any) -> Callable[..., Any]:
    """An update takes effect when it comes."""

    def gather(self: ReplicaState, name: str, value: bytes | None) -> None:
        original(self, name, value)
        if value is not None:
            self.items[name] = value

    return gather


MUTANTS.add(
    "serve-before-the-flushed-set",
    ViewMember,
    "_show",
    scenario="slow-successor",
    swarm=PRIMARY_BACKUP,
)(deliver_in_the_next_view)


@MUTANTS.add(
    "execute-duplicates",
    Replica,
    "_on_request",
    scenario="primary-crash-as-it-answers",
    swarm=PRIMARY_BACKUP,
)
def execute_duplicates(original: Any) -> Callable[..., Any]:
    """A request that was answered by the primary before is executed again."""

    def on_request(self: Replica, source: Pid, request: Request, out: Effects) -> None:
        session = self.state.sessions.get(request.client)
        is_done = session is not None and session.number == request.number > 0
        if is_done and self.is_primary and request.client not in self.in_progress:
            self.waiting[request.client] = request, source
        else:
            original(self, source, request, out)

    return on_request


@MUTANTS.add(
    "fin-covers-the-fin-before",
    UpdateFinAnnotator,
    "annotate",
    scenario="slow-replica",
    swarm=PRIMARY_BACKUP,
)
def fin_covers_the_fin_before(original: Any) -> Callable[..., Any]:
    """A fin is purged like an update, and with it the reply that it carries."""

    def annotate(
        self: UpdateFinAnnotator, seq: Seq, item: int | None, update: Update
    ) -> Annotation:
        item, covers, keep = original(self, seq, item, update)
        before = seq - 1 - self.updates
        if item is None and before > 0:
            covers = tuple(sorted({*covers, seq - before})[:COVERS_MAX])
        return item, covers, keep

    return annotate


MUTANTS.add(
    "naive-relation",
    UpdateFinAnnotator,
    "annotate",
    scenario="slow-replica",
    swarm=PRIMARY_BACKUP,
)(every_update_supersedes)


@MUTANTS.add(
    "replaced-in-part",
    ReplacedRequests,
    "_is_replaced",
    scenario="slow-replica-packed",
    swarm=PRIMARY_BACKUP,
)
def replaced_in_part(original: Any) -> Callable[..., Any]:
    """A message with all updates of a request is purged once one of its items was overwritten."""

    def is_replaced(self: ReplacedRequests, wrote: frozenset[str], items: frozenset[str]) -> bool:
        return not wrote.isdisjoint(items)

    return is_replaced
