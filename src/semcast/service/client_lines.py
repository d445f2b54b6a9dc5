"""The clients that talk to one server of the store, and what each of them waits for.

A client numbers its requests; this server takes them in that order, each once.  An update may be on
its way while later requests of the same client wait.  A query is answered after every update before
it, in a state that is no earlier than what the client has seen [VSD §3].
"""

from collections import deque
from collections.abc import Iterator
from typing import Final

import msgspec

from semcast.service.commands import is_update
from semcast.service.store_bundle import bundled
from semcast.terms.ids import Pid, ViewId
from semcast.terms.store import (
    DATAGRAM_BYTES,
    REQUESTS_MAX,
    StoreAnswer,
    StoreBundle,
    StoreReply,
    StoreRequest,
)

ANSWER_BYTES: Final = 32  # of an answer, beside its body


class PendingRequest(msgspec.Struct, gc=False):
    """A request that is not answered.  `sent_in` is the view in which this server multicast it, 0
    if it did not yet; `was_sent`: in this view or in one before.  `is_issued`: it waits to be
    multicast, or was, in this view."""

    number: int
    body: bytes
    is_update: bool
    sent_in: ViewId = 0
    was_sent: bool = False
    is_issued: bool = False


class ClientLine:
    """One client.  `expected` is the number of its next request; `answers` are those that it may
    still ask for again."""

    __slots__ = (
        *("answers", "client", "expected", "heard_at", "last", "level", "oldest", "opened"),
        *("pending", "source"),
    )

    def __init__(self, client: int, expected: int) -> None:
        self.client = client
        self.expected = self.oldest = expected
        self.source: Pid = 0
        self.heard_at = 0.0
        self.opened = self.last = 0
        self.level: ViewId = 0
        self.pending: deque[PendingRequest] = deque()
        self.answers: dict[int, StoreAnswer] = {}

    def __repr__(self) -> str:
        return f"ClientLine({self.client}, expected={self.expected}, last={self.last})"

    def find(self, number: int) -> PendingRequest | None:
        """The request of this number, if it waits."""
        pending = self.pending
        if pending and pending[0].number == number:
            return pending[0]
        return next((request for request in pending if request.number == number), None)

    @property
    def query(self) -> PendingRequest | None:
        """The query that is next, if no update has to be answered before it."""
        first = self.pending[0] if self.pending else None
        return None if first is None or first.is_update else first

    def next_updates(self) -> list[PendingRequest]:
        """Updates to be multicast; one that follows a query waits until that is answered."""
        found: list[PendingRequest] = []
        for request in self.pending:
            if not request.is_update:
                break
            if not request.is_issued:
                found.append(request)
        return found

    def saw(self, last: int, level: ViewId) -> None:
        """The client has seen so much, at a server of this level."""
        if last > self.last:
            self.last = last
        if level > self.level:
            self.level = level

    def take_token(self, request: StoreRequest) -> None:
        """Learn what the client has seen."""
        self.saw(request.last, request.level)
        if request.opened > self.opened:
            self.opened = request.opened
        oldest = request.oldest
        if oldest <= self.oldest:
            return
        self.oldest = oldest
        answers = self.answers
        if self.expected <= oldest:  # It has taken all of them.
            answers.clear()
        else:
            for number in [number for number in answers if number < oldest]:
                del answers[number]
        while self.pending and self.pending[0].number < oldest:
            self.pending.popleft()
        self.expected = max(self.expected, oldest)


class ClientLines:
    """Lives as long as the server.  Bounded: a client that waits for nothing gives way, and so does
    one that waits for a query and was not heard for `silent_s`: it has left, or asks elsewhere.

    Invariant: `lines` is ordered by when each client was heard last, the longest ago first.
    """

    def __init__(self, lines_max: int, silent_s: float, datagram_bytes: int) -> None:
        self.lines_max = lines_max
        self.silent_s = silent_s
        self.datagram_bytes = datagram_bytes
        self.lines: dict[int, ClientLine] = {}
        self.replies: dict[int, list[StoreAnswer]] = {}  # by client, to be sent

    def __repr__(self) -> str:
        return f"ClientLines({list(self.lines.values())})"

    def __iter__(self) -> Iterator[ClientLine]:
        return iter(self.lines.values())

    def get(self, client: int) -> ClientLine | None:
        """The line of a client that this server knows."""
        return self.lines.get(client)

    def on_request(
        self, source: Pid, request: StoreRequest, now: float
    ) -> tuple[ClientLine, list[PendingRequest]] | None:
        """Requests came; returns the line and those that are new.  What was answered is answered
        again."""
        line = self.lines.pop(request.client, None)
        if line is None:
            if request.first != request.oldest or not self._make_room(now):
                return None  # The client asks again, from the oldest on.
            line = ClientLine(request.client, request.oldest)
        self.lines[request.client] = line
        line.source, line.heard_at = source, now
        line.take_token(request)
        if not request.bodies:  # Say that this server is there.
            self.replies.setdefault(line.client, [])
        new: list[PendingRequest] = []
        end = line.oldest + REQUESTS_MAX  # What a client has beyond, it sends again.
        for number, body in enumerate(request.bodies, request.first):
            if number == line.expected and number < end:
                line.expected += 1
                pending = PendingRequest(number, body, not body or is_update(body))
                line.pending.append(pending)
                new.append(pending)
            elif number in line.answers and self._is_stale(number, body, line, request):
                del line.answers[number]
                again = PendingRequest(number, body, is_update=False)
                line.pending = deque(sorted((*line.pending, again), key=_by_number))
                new.append(again)
            elif number in line.answers:
                self.replies.setdefault(line.client, []).append(line.answers[number])
        return line, new

    @staticmethod
    def _is_stale(number: int, body: bytes, line: ClientLine, request: StoreRequest) -> bool:
        """Whether it was a query, and the client has seen more elsewhere since."""
        return line.answers[number].index < request.last and not (not body or is_update(body))

    def _make_room(self, now: float) -> bool:
        """A client that waits asks again and again.  Updates end by themselves, so they are waited
        for: who has multicast one answers it [VSD fig. 8, I3]."""
        if len(self.lines) < self.lines_max:
            return True
        silent_since = now - self.silent_s
        for line in self:
            is_silent = line.query is not None and line.heard_at <= silent_since
            if not line.pending or is_silent:
                del self.lines[line.client]
                return True
        return False

    def answer(self, line: ClientLine, pending: PendingRequest, answer: StoreAnswer) -> None:
        """A request is answered; the reply leaves with `take_replies`."""
        if line.pending[0] is pending:
            line.pending.popleft()
        else:
            line.pending.remove(pending)
        line.answers[answer.number] = answer
        self.replies.setdefault(line.client, []).append(answer)

    def take_replies(
        self, level: ViewId
    ) -> Iterator[tuple[tuple[Pid], StoreRequest | StoreReply | StoreBundle]]:
        """What is to be sent: replies to clients that share a socket go together, and one that
        would get too large is several."""
        by_source: dict[Pid, list[StoreReply]] = {}
        for client, answers in self.replies.items():
            if (line := self.lines.get(client)) is not None:
                replies = by_source.setdefault(line.source, [])
                if len(answers) == 1:
                    replies.append(StoreReply(client, level, (answers[0],)))
                else:
                    replies += [StoreReply(client, level, part) for part in _parts(answers)]
        self.replies.clear()
        for source, replies in by_source.items():
            for datagram in bundled(replies, self.datagram_bytes):
                yield (source,), datagram


def _parts(answers: list[StoreAnswer]) -> Iterator[tuple[StoreAnswer, ...]]:
    """The answers in their order, each part of about `DATAGRAM_BYTES` or one larger answer."""
    part: list[StoreAnswer] = []
    size = 0
    for answer in answers:
        size += len(answer.body) + ANSWER_BYTES
        if part and (size > DATAGRAM_BYTES or len(part) == REQUESTS_MAX):
            yield tuple(part)
            part, size = [], len(answer.body) + ANSWER_BYTES
        part.append(answer)
    yield tuple(part)


def _by_number(pending: PendingRequest) -> int:
    return pending.number
