"""Work that goes on beside a group.  A task that fails says so, instead of being missed later, and
what a thread opens is closed when nobody wants it any more."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

log = logging.getLogger("semcast")


def start_task(
    work: Coroutine[Any, Any, None],
    what: str,
    on_error: Callable[[BaseException], None] = lambda _: None,
) -> asyncio.Task[None]:
    """Run `work` beside everything else.  The caller keeps the task, so that it is not collected;
    `what` is the subject of the sentence that is logged if it fails."""
    task = asyncio.get_running_loop().create_task(work)

    def on_done(done: asyncio.Task[None]) -> None:
        error = None if done.cancelled() else done.exception()
        if error is not None:
            log.error("%s failed: %s", what, error, exc_info=error)
            on_error(error)

    task.add_done_callback(on_done)
    return task


async def open_in_thread(opening: Callable[[], T], close: Callable[[T], None]) -> T:
    """What a thread has opened.  The thread cannot be stopped: a caller that is cancelled waits for
    it, and `close` gets the result."""
    # No task: `asyncio.run` cancels all tasks at its end, and the result would be lost.
    working = asyncio.get_running_loop().run_in_executor(None, opening)

    def give_back(done: asyncio.Future[T]) -> None:
        if done.exception() is None:
            close(done.result())

    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        working.add_done_callback(give_back)
        await asyncio.wait([working])
        raise
