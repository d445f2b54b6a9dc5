"""Between standard input and output and a live group: lines in, lines out.

What may block happens in threads of its own, for a terminal may say nothing for ever and a pipe
may be full for ever, while the protocol has to go on: whoever stops reading makes this a slow
member, not a silent one.  Nothing is read before what was read is sent, so memory stays bounded
however long the input is.
"""

import asyncio
import os
import select
import signal
import sys
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from functools import partial
from time import monotonic
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

import msgspec

from semcast.runtime.application.group import RECEIVE_MAX, Group
from semcast.runtime.application.join import join
from semcast.runtime.application.mailbox import Message
from semcast.runtime.operations.snapshot import Snapshot
from semcast.terms.errors import BufferFull, ConfigError, LocalProtocolError
from semcast.terms.items import Item
from semcast.terms.messages import Update

CHUNK_BYTES: Final = 1 << 16
LINE_BYTES_MAX: Final = 64 << 20
BURST_S: Final = 0.01  # what a paced command does at once, and what it may be late and make up for
WRITE_S: Final = 1.0  # what a reader has to make room after a signal
WATCH_S: Final = 0.5  # between two looks at the members of the group
SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)

T = TypeVar("T")
Work: TypeAlias = Callable[[Group], Coroutine[Any, Any, None]]
ParseLine: TypeAlias = Callable[[bytes], Update]


class JsonLine(msgspec.Struct, forbid_unknown_fields=True):
    """One JSON line: what `pub` takes, and what `sub` prints, so that one can feed the other.

    `sender`, `seq` and `skipped` say where a message came from and are not sent on.
    """

    item: Item | None = None
    payload: str | None = None
    payload_base64: bytes | None = None
    never_purge: bool = False
    obsoletes: tuple[int, ...] = ()
    sender: str = ""
    seq: int = 0
    skipped: int = 0


_line = msgspec.json.Decoder(JsonLine)


def parse_text(line: bytes, item: str | None) -> Update:
    """The line is the payload."""
    return Update(line, item)


def parse_json(line: bytes, item: str | None) -> Update:
    """The line is an object; `item` is for those that name none."""
    try:
        parsed = _line.decode(line)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"cannot decode the message: {error}") from None
    if (parsed.payload is None) == (parsed.payload_base64 is None):
        raise ConfigError("the message needs exactly one of payload and payload_base64")
    payload = parsed.payload_base64 if parsed.payload is None else parsed.payload.encode()
    assert payload is not None
    about = item if parsed.item is None else parsed.item
    return Update(payload, about, parsed.never_purge, parsed.obsoletes)


def show_payload(message: Message) -> bytes:
    """The payload as a line."""
    return message.payload + b"\n"


def show_text(message: Message) -> bytes:
    """The time, the sender, the item, the payload and the number of skipped messages, as a line."""
    item = "-" if message.item is None else message.item
    now = datetime.now(UTC).astimezone()
    head = f"{now:%H:%M:%S}.{now.microsecond // 1000:03}  {message.sender}  {item}  "
    skips = f"  (skipped {message.skipped:,})" if message.skipped else ""
    return head.encode() + message.payload + skips.encode() + b"\n"


def show_json(message: Message) -> bytes:
    """The message as an object on a line."""
    fields: dict[str, object] = {
        "sender": message.sender,
        "item": message.item,
        "seq": message.seq,
        "skipped": message.skipped,
    }
    try:
        fields["payload"] = message.payload.decode()
    except UnicodeDecodeError:
        fields["payload_base64"] = message.payload
    if message.kept:
        fields["never_purge"] = True
    return msgspec.json.encode(fields) + b"\n"


class RateLimiter:
    """At most `rate` messages a second; None is any."""

    def __init__(self, rate: float | None) -> None:
        self._rate = rate
        self._due = 0.0
        self.at_once = RECEIVE_MAX if rate is None else max(1, int(rate * BURST_S))

    async def throttle(self, count: int) -> None:
        """Wait until more may follow the `count` messages that were just handled."""
        if self._rate is not None:
            now = monotonic()
            self._due = max(self._due, now - BURST_S) + count / self._rate
            await asyncio.sleep(self._due - now)


async def in_thread(call: Callable[[], T]) -> T:
    """The result of a call that may block for ever; it keeps neither loop nor process waiting."""
    result: Future[T] = Future()
    result.set_running_or_notify_cancel()  # A call that began cannot be taken back.

    def run() -> None:
        try:
            result.set_result(call())
        except OSError as error:
            result.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return await asyncio.wrap_future(result)


async def read_lines(descriptor: int) -> AsyncIterator[list[bytes]]:
    """Lines as they come, without their ends: all that are there, at least one."""
    parts: list[bytes] = []
    while chunk := await in_thread(partial(os.read, descriptor, CHUNK_BYTES)):
        parts.append(chunk)
        if b"\n" in chunk:
            *lines, rest = b"".join(parts).split(b"\n")
            parts = [rest]
            yield lines
        elif sum(map(len, parts)) > LINE_BYTES_MAX:
            raise ConfigError(f"standard input: a line has more than {LINE_BYTES_MAX} bytes")
    if rest := b"".join(parts):
        yield [rest]


async def write(descriptor: int, text: bytes) -> None:
    """Write all of it, even if cancelled meanwhile: half a line would spoil the next.

    Who is cancelled and cannot write is not kept waiting for a reader that may never come back.
    """
    if len(text) <= select.PIPE_BUF and select.select([], [descriptor], [], 0)[1]:
        os.write(descriptor, text)  # There is room for all of it.
        return

    def write_all() -> None:
        left = memoryview(text)
        while left:
            left = left[os.write(descriptor, left) :]

    writing = asyncio.ensure_future(in_thread(write_all))
    try:
        await asyncio.shield(writing)
    except asyncio.CancelledError:
        await asyncio.wait({writing}, timeout=WRITE_S)
        if not writing.done():
            raise BrokenPipeError("standard output: its reader has stopped reading") from None
        raise


async def publish(group: Group, parse: ParseLine, count: int | None, pace: RateLimiter) -> None:
    """Multicast the lines of standard input, `count` at most."""
    sent = 0
    async for lines in read_lines(sys.stdin.fileno()):
        for start in range(0, len(lines), pace.at_once):
            some = lines[start : start + pace.at_once]
            if count is not None:
                some = some[: count - sent]
            await _send(group, some, sent, parse)
            sent += len(some)
            if sent == count:
                return
            await pace.throttle(len(some))


async def _send(group: Group, lines: Sequence[bytes], before: int, parse: ParseLine) -> None:
    """Multicast lines; the error about a bad one names it, and those before it are sent."""
    updates = []
    problem = None
    try:
        for line in lines:
            updates.append(parse(line))  # noqa: PERF401  (those before a bad one are wanted)
    except ConfigError as error:
        problem = ConfigError(f"line {before + len(updates) + 1}: {error}")
    try:
        await group.multicast_many(updates)
    except (LocalProtocolError, BufferFull) as error:
        raise type(error)(f"line {group.snapshot().sent + 1}: {error}") from None
    if problem is not None:
        raise problem


class MessagePrinter:
    """Prints what the group says until there were `count` lines, if ever."""

    def __init__(
        self,
        show: Callable[[Message], bytes],
        item: str | None,
        count: int | None,
        pace: RateLimiter,
    ) -> None:
        self.lines = 0
        self._show = show
        self._item = item
        self._count = count
        self._pace = pace

    async def run(self, group: Group) -> None:
        """Take and print; the pace is that of taking, whatever is printed of it."""
        item, at_once = self._item, self._pace.at_once
        while self.lines != self._count:
            limit = at_once if self._count is None else min(at_once, self._count - self.lines)
            batch = await group.receive(limit)
            chosen = batch if item is None else [each for each in batch if str(each.item) == item]
            self.lines += len(chosen)
            if chosen:
                await write(sys.stdout.fileno(), b"".join(map(self._show, chosen)))
            await self._pace.throttle(len(batch))


async def report_changes(group: Group, report: Callable[[Snapshot, Snapshot], None]) -> None:
    """Compare the group with what it was, again and again."""
    before = group.snapshot()
    while True:
        await asyncio.sleep(WATCH_S)
        now = group.snapshot()
        report(before, now)
        before = now


async def drain(group: Group) -> None:
    """Take what the group says, own messages included, so that nothing waits for this member."""
    async for _ in group.batches():
        pass


class GroupStay(NamedTuple):
    """A member's time in a group: how it was at the end, and how long it lasted."""

    snapshot: Snapshot
    seconds: float

    @property
    def late(self) -> list[str]:
        """Who was not known to have everything that was sent."""
        return [peer.name for peer in self.snapshot.peers if peer.lag]


async def run_in_group(
    name: str,
    options: Mapping[str, Any],
    on_joined: Callable[[Snapshot], None],
    work: Work,
    *beside: Work,
    leaving: AbstractContextManager[None],
) -> GroupStay:
    """Join, work until the work is done or a signal comes, let everyone catch up, and leave.

    `leaving` is entered while the others catch up.
    """
    async with join(name, **options) as group:
        began = monotonic()
        on_joined(group.snapshot())
        main = asyncio.create_task(work(group))
        with ends_on_signals(main):
            await _until_done(main, [asyncio.create_task(other(group)) for other in beside])
            with leaving:
                await group.close()
    return GroupStay(group.snapshot(), monotonic() - began)


async def _until_done(main: asyncio.Task[None], beside: list[asyncio.Task[None]]) -> None:
    """Until `main` ends or is cancelled, or any of them fails."""
    running = {main, *beside}
    try:
        while main in running:
            done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                if not task.cancelled():
                    task.result()
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


@contextmanager
def ends_on_signals(work: asyncio.Task[None]) -> Iterator[None]:
    """The first signal ends the work; a second one ends the process."""
    loop = asyncio.get_running_loop()

    def restore() -> None:
        for number in SIGNALS:
            loop.remove_signal_handler(number)

    def stop() -> None:
        restore()
        work.cancel()

    for number in SIGNALS:
        loop.add_signal_handler(number, stop)
    try:
        yield
    finally:
        restore()
