"""Whatever happens to the disk: what was reported durable is read back, in order, and nothing else.

A history is drawn: appends, commits, forgetting, closing, power cuts and killed processes between
any two operations on files, damaged bytes.  A model knows what may be missing.
"""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from semcast.disk.commit_queue import CommitQueue
from semcast.disk.entries import HEAD
from semcast.disk.log_header import LogOwner
from semcast.disk.segment_log import SegmentLog, open_log, verify_log
from semcast.sim.files import SimFiles

OWNER = LogOwner("quotes", "a")
SALT = b"saltsalt"


class PowerCut(Exception):
    pass


class FusedFiles(SimFiles):
    """The power goes out before, or after, the operation at which the fuse has burned down."""

    def __init__(self) -> None:
        super().__init__()
        self.fuse: int | None = None

    def _burn(self) -> None:
        if self.fuse is not None:
            self.fuse -= 1
            if self.fuse <= 0:
                raise PowerCut

    def append(self, name, data):
        self._burn()
        super().append(name, data)
        self._burn()

    def truncate(self, name, size):
        self._burn()
        super().truncate(name, size)

    def sync(self, name):
        self._burn()
        super().sync(name)
        self._burn()

    def sync_names(self):
        self._burn()
        super().sync_names()

    def replace(self, name, data):
        self._burn()
        super().replace(name, data)

    def remove(self, name):
        self._burn()
        super().remove(name)


class History:
    """The log through its lives, and what a correct one may answer."""

    def __init__(self, seed: int, segment_bytes: int) -> None:
        self.rng = Random(seed)
        self.files = FusedFiles()
        self.segment_bytes = segment_bytes
        self.bodies: dict[int, bytes] = {}  # of records that may be on the disk
        self.durable = 0
        self.unreadable: set[int] = set()
        self.base = 1
        self.asked_base = 1
        self.batch_of: dict[int, int] = {}  # record → first of its batch, since the log was opened
        self.fresh = 0
        self.reopen()

    def reopen(self) -> None:
        while True:
            try:
                self.log = open_log(self.files, OWNER, SALT, self.segment_bytes)
                break
            except PowerCut:
                self.files.fuse = None
                self.files.cut_power(self.rng)
        self.check(self.log)
        self.queue = CommitQueue(self.log.next_batch())

    def check(self, log: SegmentLog) -> None:
        found = dict(log.bodies())
        assert [*found] == sorted(found)
        assert self.base <= log.base <= self.asked_base
        self.base = log.base
        for number, body in found.items():  # Nothing is invented.
            assert body == self.bodies[number], number
        last = max([*found, self.durable, self.base - 1])
        expected = set(range(self.base, last + 1)) - self.unreadable
        missing = expected - found.keys()
        if missing:  # A bad entry in the last readable batch looks like a torn one.
            hidden = min(missing)
            damaged = max(n for n in self.unreadable & self.batch_of.keys() if n < hidden)
            later = {n for n, first in self.batch_of.items() if damaged < first and n <= last}
            assert later <= self.unreadable
        reported = {
            number
            for each in log.damage
            if not each.is_torn
            for number in range(each.first, each.last + 1)
        }
        assert reported == set(range(self.base, log.last + 1)) - found.keys()
        assert log.read(range(self.base, log.last + 1)) == [
            found.get(number) for number in range(self.base, log.last + 1)
        ]
        self.bodies = found
        self.unreadable = reported
        self.durable = log.last
        self.batch_of.clear()

    def crash(self) -> None:
        self.files.fuse = None
        self.files.cut_power(self.rng)
        self.reopen()

    def kill(self) -> None:
        """The process dies, the machine does not: what was written is there, synced or not."""
        self.files.fuse = None
        self.reopen()

    def append(self, count: int) -> None:
        for _ in range(count):
            self.fresh += 1
            body = b"%d" % self.fresh + bytes(self.rng.choice((0, 0, 30, 700)))
            self.queue._encode = lambda record: record
            self.queue.add([(self.fresh, body)])
            batch = self.queue._batch
            self.bodies[batch.first + batch.count - 1] = body

    def commit(self) -> None:
        batch = self.queue.begin()
        if batch is not None:
            self.log.commit(batch)
            self.queue.end(batch)
            self.durable = self.queue.durable
            self.batch_of |= dict.fromkeys(range(batch.first, self.durable + 1), batch.first)

    def forget(self) -> None:
        number = self.rng.randint(self.base, self.durable + 1)
        self.asked_base = max(number, self.asked_base)
        self.log.forget_before(number)
        self.base = max(number, self.base)

    def damage(self) -> None:
        """A bit changes in the body or the head of a record that is durable."""
        readable = [n for n in range(self.base, self.durable + 1) if n not in self.unreadable]
        if not readable:
            return
        number = self.rng.choice(readable)
        for segment in self.log.segments:
            data = self.files._files[segment.name].data
            needle = self.bodies[number]
            for at in range(len(data) - HEAD.size - len(needle) + 1):
                *_, size, place, first = HEAD.unpack_from(data, at)
                if first + place == number and size == len(needle):
                    data[at + self.rng.randrange(HEAD.size + size)] ^= 1 << self.rng.randrange(8)
                    self.unreadable.add(number)
                    return

    def close(self) -> None:
        self.log.close()
        self.batch_of.clear()
        self.crash()


steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 6)),
        st.tuples(st.just("commit"), st.none()),
        st.tuples(st.just("commit"), st.none()),
        st.tuples(st.just("forget"), st.none()),
        st.tuples(st.just("damage"), st.none()),
        st.tuples(st.sampled_from(("close", "crash", "kill")), st.none()),
        st.tuples(st.sampled_from(("cut", "fail")), st.integers(1, 8)),
    ),
    max_size=25,
)


@settings(deadline=None, max_examples=300)
@given(steps=steps, seed=st.integers(0, 2**32), segment_bytes=st.sampled_from([1, 150, 1 << 20]))
def test_any_history(steps, seed, segment_bytes):
    history, die = History(seed, segment_bytes), None
    for name, argument in steps:
        try:
            if name == "append":
                history.append(argument)
            elif name in ("cut", "fail"):
                history.files.fuse = argument
                die = history.crash if name == "cut" else history.kill
            else:
                getattr(history, name)()
        except PowerCut:
            die()
    before = {name: history.files.read(name) for name in history.files.names()}
    verify_log(history.files)
    assert before == {name: history.files.read(name) for name in history.files.names()}
    history.crash()


def test_what_is_forgotten_for_must_be_durable():
    queue = CommitQueue(open_log(SimFiles(), OWNER, SALT).next_batch())
    queue.add([(7, "a"), (9, "b")])
    queue.forget_before(2)
    assert queue.take_forgotten() == 0
    batch = queue.begin()
    queue.add([(11, "c")])
    assert (queue.begin(), queue.take_forgotten()) == (None, 0)
    assert (queue.end(batch), queue.durable) == (9, 2)
    assert (queue.take_forgotten(), queue.take_forgotten()) == (2, 0)
    assert queue.begin().first == 3
