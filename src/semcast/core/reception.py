"""In order, without gaps: from datagrams to the frontier.

Guarantees: the frontier of a stream passes a message only when it was queued for delivery or
when a notice says that it was purged; never by guessing [SRB §2.2].  Under causal order it also
waits for the message's causal predecessors, so a frontier speaks for them too [SRM §4.4].
Bounded: messages ahead of a gap count as held; when room is short they give way to the one that
closes it and are asked for again, so that a full buffer never blocks its own head.  However wide
a notice is, it is taken in portions.
"""

from bisect import bisect_right

from semcast.core.holdings import Holdings
from semcast.core.holes import Holes
from semcast.core.recipe import Recipe
from semcast.terms.effects import Effects
from semcast.terms.events import DISCARD, SKIP, Event
from semcast.terms.messages import Message, Purged, Rank, Seq

SKIPS_MAX = 1 << 16  # of a stream, on what one datagram says: each is an event of its own


class Reception:
    """Lives as long as the member.  Invariant: frontier[s] <= known[s] for every sender s."""

    def __init__(self, recipe: Recipe, rank: Rank, holdings: Holdings) -> None:
        self.rank = rank
        self.holdings = holdings
        self.elsewhere = recipe.elsewhere
        self.notices_max = recipe.buffer
        self.frontier: list[Seq] = [0] * recipe.members
        self.known: list[Seq] = [0] * recipe.members  # the highest seq heard of
        self.ahead: list[dict[Seq, Message]] = [{} for _ in range(recipe.members)]
        self.notices: list[Holes] = [Holes() for _ in range(recipe.members)]
        self.early = 0  # how many messages are held ahead of a gap, over all streams
        self.waiting: dict[Rank, None] = {}  # streams whose head waits for causal predecessors
        self.gaps: dict[Rank, None] = {}  # streams with frontier < known
        self.refused: dict[Rank, Message] = {}  # streams whose next message found no room
        self.moved: dict[Rank, None] = {}  # streams whose frontier moved since last asked
        self.forgotten: set[Rank] = set()

    def __repr__(self) -> str:
        ahead = {sender: sorted(seqs) for sender, seqs in enumerate(self.ahead) if seqs}
        return f"Reception(frontier={self.frontier}, known={self.known}, ahead={ahead})"

    def learn(self, sender: Rank, seq: Seq) -> None:
        """Somebody says that `seq` exists: the end of a stream may have been lost."""
        if seq > self.known[sender] and (self.elsewhere or sender not in self.forgotten):
            self.known[sender] = seq
            self.gaps[sender] = None

    def on_own(self, message: Message) -> None:
        """The member's own message is in order by nature."""
        self.frontier[message.sender] = self.known[message.sender] = message.seq
        self.moved[message.sender] = None

    def on_messages(self, messages: tuple[Message, ...], source: Rank, out: Effects) -> None:
        """Take what comes next, keep what comes early, discard what was here before."""
        for message in messages:
            sender, seq = message.sender, message.seq
            if seq > self.known[sender]:
                self.known[sender] = seq
                self.gaps[sender] = None
            if seq <= self.frontier[sender] or seq in self.ahead[sender]:
                self._discard(message, "duplicate", source, out)
            elif seq == self.frontier[sender] + 1 and self._is_due(message):
                if not self._enqueue(message, source, out):
                    self.refused[sender] = message
                    self._discard(message, "full", source, out)
                elif self.ahead[sender] or self.notices[sender] or self.waiting:
                    self._advance(sender, source, out)
                elif seq == self.known[sender]:
                    self.gaps.pop(sender, None)
            else:
                self._keep_ahead(message, source, out)

    def on_notices(self, notices: tuple[Purged, ...], source: Rank, out: Effects) -> None:
        """Some messages were purged: they are nothing to wait for."""
        reach = [frontier + SKIPS_MAX for frontier in self.frontier]
        for notice in notices:
            sender = notice.sender
            # The witness may itself be purged; it only says that the stream goes that far.
            self.learn(sender, max(notice.last, notice.witness))
            first = max(notice.first, self.frontier[sender] + 1)
            last = min(notice.last, reach[sender])  # The rest will be told when asked for.
            if first <= last:
                self.notices[sender].add(first, last, notice.witness)
                self._advance(sender, source, out)
                if len(self.notices[sender]) > self.notices_max:
                    self.notices[sender].forget_last()  # It will be told again.

    def _is_due(self, message: Message) -> bool:
        """Whether every causal predecessor was passed here."""
        frontier = self.frontier
        for sender, seq in message.deps:
            if frontier[sender] < seq:
                self.learn(sender, seq)
                self.waiting[message.sender] = None
                return False
        return True

    def _enqueue(self, message: Message, source: Rank, out: Effects) -> bool:
        admitted = self.holdings.admit(message, source, out)
        while not admitted and self._give_way(message.sender, out):
            admitted = self.holdings.admit(message, source, out)
        if admitted:
            self._move(message.sender, message.seq)
        return admitted

    def _move(self, sender: Rank, frontier: Seq) -> None:
        self.frontier[sender] = frontier
        self.moved[sender] = None
        if self.refused:
            self.refused.pop(sender, None)

    def _give_way(self, sender: Rank, out: Effects) -> bool:
        """Drop the message furthest ahead; it counts nowhere and will be asked for again."""
        for stream in (sender, *range(len(self.ahead))):
            if self.ahead[stream]:
                self._drop_early(stream, max(self.ahead[stream]), out)
                return True
        return False

    def _drop_early(self, sender: Rank, seq: Seq, out: Effects) -> Message:
        message = self.ahead[sender].pop(seq)
        self.early -= 1
        self.holdings.drop(message, out)
        return message

    def forget(self, member: Rank, out: Effects) -> None:
        """Nobody may have what is missing of its stream; whoever does will say so again.

        Nor of the streams of those forgotten before: what this one said of them goes with it.
        """
        for seq in list(self.ahead[member]):
            self._drop_early(member, seq, out)
        self.forgotten.add(member)
        for sender in self.forgotten:
            self.known[sender] = max([self.frontier[sender], *self.ahead[sender]])
            if self.known[sender] == self.frontier[sender]:
                self.gaps.pop(sender, None)

    def _keep_ahead(self, message: Message, source: Rank, out: Effects) -> None:
        if self.holdings.fits(message):
            self.ahead[message.sender][message.seq] = message
            self.early += 1
            self.holdings.take(message)
        else:
            self._discard(message, "full", source, out)

    def _advance(self, sender: Rank, source: Rank, out: Effects) -> None:
        """Move the frontier as far as it goes, and what waited for it under causal order."""
        self._advance_one(sender, source, out)
        while self.waiting:
            waiting, self.waiting = self.waiting, {}
            before = sum(self.frontier)
            for stream in waiting:
                self._advance_one(stream, source, out)
            if sum(self.frontier) == before:
                return

    def _advance_one(self, sender: Rank, source: Rank, out: Effects) -> None:
        ahead, notices = self.ahead[sender], self.notices[sender]
        early: list[Seq] = []
        while True:
            seq = self.frontier[sender] + 1
            message = ahead.get(seq)
            if message is not None:
                if not self._is_due(message):
                    return
                self._drop_early(sender, seq, out)
                if not self._enqueue(message, source, out):
                    self.refused[sender] = message
                    self._discard(message, "full", source, out)  # A notice may do instead.
                continue
            hole = notices.at(seq)
            if hole is None:
                break
            # A purged message that came all the same is delivered: skip only up to it.
            early = early or sorted(ahead)
            place = bisect_right(early, seq)
            last = min(hole.last, early[place] - 1) if place < len(early) else hole.last
            self._skip(Purged(sender, seq, last, hole.witness), source, out)
        notices.forget(self.frontier[sender])
        if self.frontier[sender] == self.known[sender]:
            self.gaps.pop(sender, None)

    def _skip(self, gone: Purged, source: Rank, out: Effects) -> None:
        sender = gone.sender
        self._move(sender, gone.last)
        self.holdings.skipped += gone.last - gone.first + 1
        if self.elsewhere:
            self.holdings.store.skip(sender, gone.first, gone.last, gone.witness)
        if out.events is not None:
            held = self.holdings.messages
            for seq in range(gone.first, gone.last + 1):
                event = Event(SKIP, self.rank, sender, seq, None, gone.witness, "", source, held)
                out.events.append(event)

    def _discard(self, message: Message, reason: str, source: Rank, out: Effects) -> None:
        if out.events is not None:
            sender, seq, held = message.sender, message.seq, self.holdings.messages
            event = Event(DISCARD, self.rank, sender, seq, None, 0, reason, source, held)
            out.events.append(event)

    def missing(self, sender: Rank, limit: int) -> tuple[tuple[Seq, Seq], ...]:
        """The first ranges of the stream that hold up the frontier, `limit` ranges at the most."""
        ahead, notices = self.ahead[sender], self.notices[sender]
        ranges: list[tuple[Seq, Seq]] = []
        seq, known = self.frontier[sender] + 1, self.known[sender]
        for early in [*sorted(ahead), known + 1]:
            while seq < early and len(ranges) < limit:
                hole = notices.at(seq)
                if hole is not None:
                    seq = hole.last + 1
                    continue
                ranges.append((seq, early - 1))
                break
            seq = max(seq, early + 1)
        return tuple(ranges)
