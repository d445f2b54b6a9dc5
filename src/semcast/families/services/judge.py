"""Judges a run of a service: by the monitors, by whether every client is answered, and by whether
the answers are those of one server that never fails.

The last check needs no monitor: it executes the requests again, one after the other in the order
of the service, on a dictionary, and compares every reply.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from semcast.families.case import LAST_WORD, AnyCase
from semcast.families.referee import Player, Referee
from semcast.families.services.ledger_service import LedgerService
from semcast.families.views.judge import ViewReferee
from semcast.service.replica_state import decode_value, digest_of, encode_value
from semcast.terms.events import EXECUTE, INSTALL, REPLY, Event
from semcast.terms.ids import Lineage


class ServiceReferee(ViewReferee):
    """Servers must come together as members of a group with views do; then all that clients have
    asked is answered."""

    def __init__(self, case: AnyCase) -> None:
        super().__init__(case)
        # By place, the execution of the latest view; by view, the version that it began with.
        self._executed: defaultdict[Lineage, dict[int, Event]] = defaultdict(dict)
        self._versions: defaultdict[Lineage, dict[int, int]] = defaultdict(dict)
        self._replied: dict[tuple[Lineage, int, int], Event] = {}
        begins = {INSTALL: self._on_view}
        self.monitors.add({EXECUTE: self._on_execute, REPLY: self._on_reply, **begins})

    def _on_execute(self, event: Event) -> None:
        """It is executed again at the end."""
        places = self._executed[event.lineage]
        if places.setdefault(event.position, event).view < event.view:
            places[event.position] = event

    def _on_view(self, event: Event) -> None:
        self._versions[event.lineage].setdefault(event.view, event.version)

    def _on_reply(self, event: Event) -> None:
        self._replied[event.lineage, event.client, event.request] = event

    def verdict(self, players: Sequence[Player], quiet: bool) -> tuple[list[str], int]:
        """Also, what does not come of the requests before."""
        self.found += self._different_replies()
        return super().verdict(players, quiet)

    def _different_replies(self) -> Iterator[str]:
        refused = _reply_to(LedgerService(0), LAST_WORD.payload)
        for lineage, places in self._executed.items():
            service = LedgerService(0)
            for place in sorted(places):
                event = places[place]
                if self._is_lost(event):
                    continue
                reply = self._replied.get((lineage, event.client, event.request))
                if reply is not None and reply.digest == refused:
                    continue
                service.server = event.peer
                expected = _reply_to(service, encode_value(0))
                if reply is not None and reply.digest != expected:
                    name = f"{event.client}:{event.request}"
                    yield f"replies: request {name}, the {place}th, was answered as by another past"
                    break

    def _is_lost(self, event: Event) -> bool:
        """Whether the group went on without what this server executed."""
        later = ((v, at) for v, at in self._versions[event.lineage].items() if v > event.view)
        return min(later, default=(0, event.position))[1] < event.position

    def owes_liveness(self, players: Sequence[Player]) -> bool:
        """Whether the servers that live can go on."""
        return super().owes_liveness(self._servers(players))

    def is_settled(self, players: Sequence[Player]) -> bool:
        """Whether the servers are in one view, and no client waits for them."""
        return super().is_settled(self._servers(players)) and not self._waiting(players)

    def is_complete(self, players: Sequence[Player], quiet: bool) -> bool:
        """Whether the servers are in one view."""
        return super().is_settled(self._servers(players))

    def speakers(self, players: Sequence[Player]) -> list[Player]:
        """Every client asks once more."""
        return [one for one in self._clients(players) if one.is_up]

    def unsettled(self, players: Sequence[Player]) -> str:
        """Who is where, or who waits."""
        waiting = [one.life for one in self._waiting(players)]
        beside = f"; not answered: {waiting}" if waiting else ""
        return super().unsettled(self._servers(players)) + beside

    def leftovers(self, players: Sequence[Player]) -> Iterator[str]:
        """What any process should not have; replicas are compared where views begin."""
        yield from Referee.leftovers(self, players)

    def _servers(self, players: Sequence[Player]) -> Sequence[Player]:
        return players[: self.case.more.servers]

    def _clients(self, players: Sequence[Player]) -> Sequence[Player]:
        return players[self.case.more.servers :]

    def _waiting(self, players: Sequence[Player]) -> list[Player]:
        return [one for one in self._clients(players) if one.is_up and one.status.is_blocked]


def _reply_to(service: LedgerService, body: bytes) -> int:
    """The digest of the reply to a request, which changes the items unless it fails."""
    before = dict(service.items)
    try:
        reply = service.execute(decode_value(body))
    except Exception as error:
        service.items = before
        reply = f"{type(error).__name__}: {error}"
    return digest_of(encode_value(reply))
