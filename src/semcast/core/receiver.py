"""In order, without gaps: from datagrams to the frontier.

Guarantees: the frontier of a stream passes a message only when it was queued for delivery or
when a notice says that it was purged; never by guessing [SRB §2.2].  Under causal order it also
waits for the message's causal predecessors, so a frontier speaks for them too [SRM §4.4].
Bounded: messages ahead of a gap count as held; when room is short they give way to the one that
closes it and are asked for again, so that a full buffer never blocks its own head.  However wide
a notice is, it is taken in portions.
"""

from collections import defaultdict
from collections.abc import Sequence

from semcast import kernel
from semcast.core.member_buffers import MemberBuffers
from semcast.core.purged_spans import PurgedSpans
from semcast.core.recipe import Recipe
from semcast.core.reorder_buffer import ReorderBuffer
from semcast.terms.effects import Effects
from semcast.terms.ids import Rank, Seq
from semcast.terms.messages import DataMessage, Nack, PurgeNotice

SKIPS_MAX = 1 << 16  # of a stream, on what one datagram says: each is an event of its own


class Receiver:
    """Lives as long as the member.  Invariant: frontier[s] <= known[s] for every sender s."""

    def __init__(
        self, recipe: Recipe, rank: Rank, buffers: MemberBuffers, bases: Sequence[Seq] = ()
    ) -> None:
        bases = bases or (0,) * recipe.members
        self.rank = rank
        self.buffers = buffers
        self.trace = buffers.trace
        self.replicated = recipe.replicated
        self.notices_max = recipe.buffer
        self.indirect_max = recipe.far_behind_messages
        self.frontier: list[Seq] = list(bases)
        self.known: list[Seq] = list(bases)  # the highest seq heard of,
        self.sent_upto: list[Seq] = list(bases)  # and that has left its sender for certain
        # Of streams that were heard of; in a large group most members are silent.
        self.reorder: defaultdict[Rank, ReorderBuffer] = defaultdict(ReorderBuffer)
        self.notices: defaultdict[Rank, PurgedSpans] = defaultdict(PurgedSpans)
        self.disturbed: set[Rank] = set()  # at least the streams of which either has something
        self.reordered_count = 0  # how many messages are held ahead of a gap, over all streams
        self.waiting: dict[Rank, None] = {}  # streams whose head waits for causal predecessors
        self.gaps: dict[Rank, None] = {}  # streams with frontier < known
        self.refused_next: dict[Rank, DataMessage] = {}  # streams of which a message found no room
        self.moved: dict[Rank, None] = {}  # streams whose frontier moved since last asked
        self.has_news = False  # since last asked, anything that bears on gaps
        self.forgotten: set[Rank] = set()
        # When the view is being left: how far frontiers may go, and where the streams end.
        self.limit: list[Seq] | None = None
        self.ends: Sequence[Seq] | None = None
        self.contiguous: list[Seq] = [0] * recipe.members  # up to where all is here

    def __repr__(self) -> str:
        ahead = {sender: early for sender, early in self.reorder.items() if early}
        return f"Receiver(frontier={self.frontier}, known={self.known}, ahead={ahead})"

    def learn_sent(self, sender: Rank, seq: Seq) -> None:
        """`seq` was sent: the end of a stream may have been lost."""
        self.learn_indirect(sender, seq)
        self.sent_upto[sender] = max(self.sent_upto[sender], min(seq, self.known[sender]))
        self.has_news = True

    def learn_indirect(self, sender: Rank, seq: Seq) -> None:
        """Somebody says that `seq` exists; it may be on its way."""
        if self.ends is not None:
            seq = min(seq, self.ends[sender])
        if seq > self.known[sender] and (self.replicated or sender not in self.forgotten):
            self.known[sender] = seq
            self.gaps[sender] = None
            self.has_news = True

    def on_own(self, seq: Seq) -> None:
        """The member's own messages are in order by nature."""
        self.frontier[self.rank] = self.known[self.rank] = seq
        self.moved[self.rank] = None

    def on_run(self, run: kernel.Run, source: Rank, out: Effects) -> None:
        """Take what comes next, keep what comes early, discard what was here before."""
        sender, first = run.sender, run.first
        self.has_news = True
        if self.ends is not None:
            run = run.slice_run(0, max(0, min(run.count, self.ends[sender] - first + 1)))
        elif (
            first == self.frontier[sender] + 1
            and not (run.after or self.waiting)
            and self.limit is None
            and (sender not in self.disturbed or self._is_quiet(sender))
        ):
            admitted = self.buffers.admit(run, source, out)
            if admitted:
                last = self.frontier[sender] = first + admitted - 1
                self.moved[sender] = None
                if self.refused_next:
                    self.refused_next.pop(sender, None)
                if last >= self.known[sender]:
                    self.known[sender] = last
                    self.gaps.pop(sender, None)
                if admitted == run.count:
                    return
            run = run.slice_run(admitted, run.count)
        if not self._keep_run(run):
            self._take_each(run.messages(), source, out)

    def _is_quiet(self, sender: Rank) -> bool:
        """Whether nothing is known of the stream beyond its frontier."""
        if self.reorder[sender] or self.notices[sender]:
            return False
        self.disturbed.discard(sender)
        return True

    def _take_each(self, messages: Sequence[DataMessage], source: Rank, out: Effects) -> None:
        limit = self.limit
        for message in messages:
            sender, seq = message.sender, message.seq
            if seq > self.known[sender]:
                self.known[sender] = seq
                self.gaps[sender] = None
            if seq > self.sent_upto[sender]:
                self.sent_upto[sender] = seq
            if seq <= self.frontier[sender] or seq in self.reorder[sender]:
                self._discard(message, "duplicate", source, out)
            elif (
                seq == self.frontier[sender] + 1
                and (limit is None or seq <= limit[sender])
                and self._is_due(message)
            ):
                if not self._admit(message, source, out):
                    self.refused_next[sender] = message
                    self._discard(message, "full", source, out)
                elif self.reorder[sender] or self.notices[sender] or self.waiting:
                    self._advance(sender, source, out)
                elif seq == self.known[sender]:
                    self.gaps.pop(sender, None)
            else:
                self._keep_ahead(message, source, out)

    def _keep_run(self, run: kernel.Run) -> bool:
        """Keep what comes in a row beyond everything known of a stream, if there is room for it."""
        sender, first = run.sender, run.first
        if first <= self.known[sender] + 1 or run.after or not self.buffers.take_run(run):
            return False  # The first one may be next in order, or be here.
        self._add_early(run)
        self.known[sender] = self.sent_upto[sender] = first + run.count - 1
        self.gaps[sender] = None
        return True

    def _add_early(self, run: kernel.Run) -> None:
        self.reorder[run.sender].add(run)
        self.reordered_count += run.count
        self.disturbed.add(run.sender)

    def on_notices(self, notices: tuple[PurgeNotice, ...], source: Rank, out: Effects) -> None:
        """Some messages were purged: they are nothing to wait for."""
        reach = [frontier + SKIPS_MAX for frontier in self.frontier]
        for notice in notices:
            sender = notice.sender
            # The witness may itself be purged; it only says that the stream goes that far.
            self.learn_sent(sender, max(notice.last, notice.witness))
            first = max(notice.first, self.frontier[sender] + 1)
            last = min(notice.last, reach[sender])  # The rest will be told when asked for.
            if self.ends is not None:
                last = min(last, self.ends[sender])
            if first <= last:
                self.notices[sender].add(first, last, notice.witness)
                self.disturbed.add(sender)
                self._advance(sender, source, out)
                if len(self.notices[sender]) > self.notices_max and self.ends is None:
                    self.notices[sender].drop_furthest()  # It will be told again.

    def _is_due(self, message: DataMessage) -> bool:
        """Whether every causal predecessor was passed here."""
        frontier = self.frontier
        for sender, seq in message.after:
            if frontier[sender] < seq:
                self.learn_sent(sender, seq)
                self.buffers.exempt(sender, seq)
                self.waiting[message.sender] = None
                return False
        return True

    def _admit(self, message: DataMessage, source: Rank, out: Effects) -> bool:
        """Take the next message of its stream; what is early gives way to it."""
        run = kernel.run_of([message])
        admitted = self.buffers.admit(run, source, out)
        while not admitted and self._give_way(message.sender, out):
            admitted = self.buffers.admit(run, source, out)
        if admitted:
            self._move(message.sender, message.seq)
        return admitted > 0

    def _move(self, sender: Rank, frontier: Seq) -> None:
        self.frontier[sender] = frontier
        self.moved[sender] = None
        if self.refused_next:
            self.refused_next.pop(sender, None)

    def _give_way(self, sender: Rank, out: Effects) -> bool:
        """Drop the message furthest ahead; it counts nowhere and will be asked for again."""
        for stream in (sender, *sorted(self.reorder)):
            if self.reorder[stream]:
                self._drop_early(stream, self.reorder[stream].last, out)
                return True
        return False

    def _drop_early(self, sender: Rank, seq: Seq, out: Effects) -> DataMessage:
        message = self.reorder[sender].pop(seq)
        self.reordered_count -= 1
        self.buffers.count_released(message, out)
        return message

    def forget(self, member: Rank, out: Effects) -> None:
        """Nobody may have what is missing of its stream; whoever does will say so again.

        Nor of the streams of those forgotten before: what this one said of them goes with it.
        """
        for seq in list(self.reorder[member]):
            self._drop_early(member, seq, out)
        self.forgotten.add(member)
        self.has_news = True
        for sender in self.forgotten:
            self.known[sender] = max(self.frontier[sender], self.reorder[sender].last)
            self.sent_upto[sender] = self.known[sender]
            if self.known[sender] == self.frontier[sender]:
                self.gaps.pop(sender, None)

    def _keep_ahead(self, message: DataMessage, source: Rank, out: Effects) -> None:
        if self.buffers.fits(message):
            self._add_early(kernel.run_of([message]))
            self.buffers.count_held(message)
        else:
            if self.limit is not None:  # No frontier moves: nothing will give way to it.
                self.refused_next[message.sender] = message
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
        ahead, notices = self.reorder[sender], self.notices[sender]
        limit = self.known[sender] if self.limit is None else self.limit[sender]
        while (seq := self.frontier[sender] + 1) <= limit:
            if seq in ahead:
                if not self._is_due(ahead.messages[seq]):
                    return
                self._take_early(sender, limit, source, out)
                continue
            hole = notices.find(seq)
            if hole is None:
                break
            # A purged message that came all the same is delivered: skip only up to it.
            early = ahead.next_after(seq)
            last = min(hole.last, limit) if early is None else min(hole.last, limit, early - 1)
            self._skip(PurgeNotice(sender, seq, last, hole.witness), source, out)
        notices.forget(self.frontier[sender])
        if self.frontier[sender] == self.known[sender]:
            self.gaps.pop(sender, None)

    def _take_early(self, sender: Rank, limit: Seq, source: Rank, out: Effects) -> None:
        """Take early messages that have become next; if they do not just pass, the first."""
        ahead, first = self.reorder[sender], self.frontier[sender] + 1
        last = first if self.buffers.is_above_bound() else limit  # Then each needs a decision.
        count = self.buffers.admit(ahead.run(first, last), source, out, is_counted=True)
        if count:
            self.reordered_count -= count
            ahead.remove_run(first, first + count - 1)
            self._move(sender, first + count - 1)
            return
        message = self._drop_early(sender, first, out)
        if not self._admit(message, source, out):
            self.refused_next[sender] = message
            self._discard(message, "full", source, out)  # A notice may do instead.

    def _skip(self, gone: PurgeNotice, source: Rank, out: Effects) -> None:
        sender = gone.sender
        self._move(sender, gone.last)
        self.buffers.skipped += gone.last - gone.first + 1
        if self.replicated:
            self.buffers.store.add_notice(sender, gone.first, gone.last, gone.witness)
        self.trace.skipped(gone, source, self.buffers.messages, out)

    def _discard(self, message: DataMessage, reason: str, source: Rank, out: Effects) -> None:
        if out.events is not None:
            self.trace.discarded(message, reason, source, self.buffers.messages, out)

    def end_at(self, cut: Sequence[Seq]) -> None:
        """The streams end at `cut`: all of that is wanted, and nothing beyond.

        What is here beyond it is kept: it may be all that survives of another cut.
        """
        self.ends = [max(end, reached) for end, reached in zip(cut, self.frontier, strict=True)]
        self.contiguous = list(self.frontier)
        self.has_news = True
        for sender, end in enumerate(self.ends):
            self.buffers.exempt_upto[sender] = self.known[sender] = self.sent_upto[sender] = end
            if self.frontier[sender] < end:
                self.gaps[sender] = None
            else:
                self.gaps.pop(sender, None)

    def first_missing(self, sender: Rank) -> Seq:
        """Beyond the frontier and what is held back next to it; work by what has come since."""
        ahead, notices = self.reorder[sender], self.notices[sender]
        seq = max(self.frontier[sender], self.contiguous[sender]) + 1
        while True:
            if seq in ahead:
                seq += 1
            elif (hole := notices.find(seq)) is not None:
                seq = hole.last + 1
            else:
                break
        self.contiguous[sender] = seq - 1
        return seq

    def find_reordered(self, nack: Nack) -> tuple[list[DataMessage], list[PurgeNotice]]:
        """Answer from what is held back: when a view ends it may be all that survives."""
        sender = nack.sender
        messages: list[DataMessage] = []
        notices: list[PurgeNotice] = []
        for first, last in nack.spans:
            for low, high in self.reorder[sender].spans.within(first, last):
                messages += map(self.reorder[sender].messages.__getitem__, range(low, high + 1))
            for hole in self.notices[sender].holes:
                low, high = max(first, hole.first), min(last, hole.last)
                if low <= high:
                    notices.append(PurgeNotice(sender, low, high, hole.witness))
        return messages, notices

    def deliver_upto_cut(self, cut: Sequence[Seq], out: Effects) -> None:
        """Let the frontiers go to the cut, and what lies beyond it go."""
        self.limit = list(cut)
        self.has_news = True
        for sender, end in enumerate(cut):
            for seq in [seq for seq in self.reorder[sender] if seq > end]:
                self._drop_early(sender, seq, out)
            self._advance(sender, sender, out)

    def missing(self, sender: Rank, limit: int) -> tuple[tuple[Seq, Seq], ...]:
        """The first ranges of the stream that hold up the frontier, `limit` ranges at the most.

        Of what was only heard of nothing, while something else is missing for certain, and never so
        much that it would seem to be far behind.
        """
        notices = self.notices[sender]
        ranges: list[tuple[Seq, Seq]] = []
        seq, left = self.frontier[sender] + 1, self.sent_upto[sender]
        known = left if seq <= left else min(self.known[sender], seq - 1 + self.indirect_max)
        if self.ends is not None:
            known, seq = self.known[sender], self.first_missing(sender)
        for first, last in self.reorder[sender].spans.outside(seq, known):
            while (hole := notices.find(first)) is not None:
                first = hole.last + 1
            if first <= last:
                ranges.append((first, last))
            if len(ranges) == limit:
                break
        return tuple(ranges)
