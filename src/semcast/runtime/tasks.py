"""Tasks that run beside a group: one that fails says so, instead of being missed later."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

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
