"""The journal of a live member, if its options ask for a trace."""

import asyncio
import logging
import os
from collections.abc import Sequence
from pathlib import Path

from semcast.core.recipe import Recipe
from semcast.core.views.recipe import ViewRecipe
from semcast.runtime.gathering import Seat
from semcast.runtime.options import Options
from semcast.terms.errors import ConfigError
from semcast.terms.views import Life
from semcast.traces.journal import Journal
from semcast.traces.journal_file import Header
from semcast.traces.settling import run_id_of

log = logging.getLogger("semcast")


def check_trace(options: Options) -> None:
    """Refuse a directory that cannot be written."""
    trace = options.trace
    if trace is None:
        return
    try:
        trace.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"trace: cannot write {trace}: {error.strerror}") from error
    if not os.access(trace, os.W_OK):
        raise ConfigError(f"trace: cannot write {trace}: not allowed")


def open_journal(
    options: Options, roster: Sequence[Seat], rank: int, recipe: Recipe
) -> Journal | None:
    """Where the member of this rank records its events."""
    if options.trace is None:
        return None
    names = tuple(seat.name for seat in roster)
    incarnations = [seat.incarnation for seat in roster]
    header = Header(
        run_id=run_id_of(options.group, names, incarnations),
        pid=rank,
        names=names,
        incarnations=(1,) * len(roster),  # Nobody comes back into a fixed membership.
        group=options.group,
        protocol=recipe.protocol,
        order=recipe.order,
        relation=recipe.relation,
        f=recipe.f,
    )
    return _open(options.trace, header)


def open_view_journal(options: Options, run: int, life: Life, recipe: ViewRecipe) -> Journal | None:
    """The same for a member of changing views, who knows only itself; its later lives go on in it,
    since their events say whose they are."""
    if options.trace is None:
        return None
    header = Header(
        run_id=run,
        pid=life.pid,
        inc=life.inc,
        names=(options.name,),
        incarnations=(),
        group=options.group,
        protocol=recipe.protocol,
        order=recipe.order,
        relation=recipe.relation,
        f=0,
    )
    return _open(options.trace, header)


def _open(trace: Path, header: Header) -> Journal:
    try:
        return Journal(trace, header)
    except OSError as error:
        raise ConfigError(f"trace: cannot write {trace}: {error.strerror}") from error


async def close_journal(journal: Journal) -> None:
    """Make Parquet of it, in a thread: that takes its time."""
    try:
        await asyncio.to_thread(journal.close)
    except OSError as error:
        log.warning("trace: %s is not complete: %s", journal.path, error.strerror)
