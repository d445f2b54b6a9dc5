"""Draws the case of a seed: a group of 1 to 8 participants, 1 to 3 loggers, and their faults.

Odd seeds crash processes at failpoints inside handlers, even ones at random times.  Processes are
numbered: loggers first, then founders, then late joiners.  Enough loggers always remain that
messages can be acknowledged and a publisher can find out which ones are.  Every publisher is up at
the end, to report which of its numbers it never used.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from random import Random

import msgspec
from msgspec.structs import replace

from semcast.core.pubsub.recipe import SELECTIONS, PubsubRecipe
from semcast.families.case import AnyCase, Case, SenderLoad
from semcast.families.draws import (
    draw_cuts,
    draw_isolations,
    draw_jumps,
    draw_link,
    draw_senders,
    draw_slow_disks,
    draw_surroundings,
)
from semcast.families.testing import Choice
from semcast.faults import (
    Constant,
    Crash,
    Disconnection,
    Exponential,
    Failpoint,
    FailpointCrash,
    Fault,
    LateJoin,
    LeaveAt,
)
from semcast.terms.ids import Rank

RATES = (15.0, 50.0, 150.0)
LOGGER_FAILPOINTS = (
    "append",
    "append",
    "reclaim",
    "purge",
    "ack",
    "repair",
    "gossip",
    "recoveryreply",
    "resyncrequest",
)
MEMBER_FAILPOINTS = (
    "deliver",
    "deliver",
    "receive",
    "skip",
    "join",
    "gossip",
    "repairrequest",
    "welcome",
)
SENDER_FAILPOINTS = (
    "multicast",
    "acknowledge",
    "acknowledge",
    "deliver",
    "publication",
    "recoveryquery",
    "unusedseqs",
)


class MoreOfPubsub(msgspec.Struct, frozen=True, kw_only=True):
    """`unaware[p]` are the founders that p does not know of at first.  `declines[p]` = k: the
    application of p does not want every k-th message recovered.  Who is `silent` never subscribes.
    """

    unaware: dict[Rank, tuple[Rank, ...]] = {}
    declines: dict[Rank, int] = {}
    silent: tuple[Rank, ...] = ()


PubsubCase = Case[PubsubRecipe, MoreOfPubsub]


def draw(choice: Choice, seed: int, rng: Random) -> AnyCase:
    """The case of one seed."""
    protocol = choice.protocol
    loggers = 0 if protocol == "pbcast" else rng.choice((1, 2, 2, 3))
    participants = rng.choice((1, 2, 3, 3, 4, 5, 6, 8))
    late = rng.randint(0, participants - 1) if rng.random() < 0.4 else 0
    members = loggers + participants
    recipe = draw_recipe(choice, members, loggers, members - late, rng)
    phase_s = rng.uniform(0.6, 1.6)
    # A logger may publish and subscribe too, but with its disk it would lose what either needs.
    busy = rng.random() < 0.2
    senders = tuple(draw_publishers(participants, 0 if busy else loggers, phase_s, rng))
    moves = tuple(draw_joins_and_leaves(recipe, phase_s, rng))
    leavers = [each.pid for each in moves if isinstance(each, LeaveAt)]
    publishers = [sender.pid for sender in senders]
    case = PubsubCase(
        seed=seed,
        recipe=recipe,
        processes=members,
        senders=senders,
        more=MoreOfPubsub(
            unaware=dict(draw_unknown_members(recipe, rng)) if rng.random() < 0.5 else {},
            declines={loggers: rng.choice((2, 5))} if rng.random() < 0.15 else {},
            silent=() if busy else tuple(range(loggers)),
        ),
        link=draw_link(rng),
        sync=rng.choice((Constant(0.0), Constant(0.002), Exponential(0.01))),
        faults=(
            *draw_cuts(members, phase_s, rng),
            *moves,
            *draw_disconnections(range(loggers, members), phase_s, rng),
            *draw_outages(recipe, publishers, leavers, phase_s, busy, seed % 2, rng),
        ),
        phase_s=phase_s,
        quiet_within_s=20.0,
        still_s=2.0,
        has_last_words=rng.random() < 0.25,
    )
    case = draw_surroundings(case, draw_others(members, phase_s, rng), rng)
    if seed % 2 and recipe.recovery == "at-least-once":
        case = replace(case, faults=(*case.faults, *draw_cursor_crash(case, rng)))
    return draw_disks(draw_slow_subscribers(case, rng), rng)


def draw_disks(case: AnyCase, rng: Random) -> AnyCase:
    """Some disks are slow for a while, and loggers have more or less of their logs there alone."""
    slow = tuple(draw_slow_disks(range(case.processes), case.phase_s, rng))
    recipe = dataclasses.replace(case.recipe, log_buffer=rng.choice((1, 3, 20, 1000)))
    return replace(case, recipe=recipe, faults=(*case.faults, *slow))


def draw_slow_subscribers(case: AnyCase, rng: Random) -> AnyCase:
    """In half of the cases the applications of some subscribers take their time; where loggers
    subscribe, most of theirs do."""
    share = rng.choice((0.0, 0.4))
    loggers, silent = case.recipe.logger_pids, case.more.silent
    subscribers = [pid for pid in range(case.processes) if pid not in silent]
    slow = [pid for pid in subscribers if rng.random() < (0.7 if pid in loggers else share)]
    return replace(
        case,
        service_s={pid: rng.choice((0.001, 0.005, 0.015)) for pid in slow},
        take={pid: rng.choice((1, 1, 4)) for pid in slow},
    )


def draw_others(members: int, phase_s: float, rng: Random) -> Iterator[Fault]:
    """Clocks that jump, and processes that are cut off where it hurts."""
    yield from draw_jumps(members, phase_s, rng)
    yield from draw_isolations(
        (*LOGGER_FAILPOINTS, *MEMBER_FAILPOINTS, *SENDER_FAILPOINTS), members, rng
    )


def draw_publishers(count: int, first: Rank, phase_s: float, rng: Random) -> Iterator[SenderLoad]:
    """Some of the participants from `first` on; some are idle early."""
    for sender in draw_senders(count, phase_s, rng, RATES):
        messages = max(2, int(sender.count * rng.choice((0.1, 0.5, 1.0))))
        yield replace(sender, pid=sender.pid + first, count=messages)


def draw_recipe(
    choice: Choice, members: int, loggers: int, founders: int, rng: Random
) -> PubsubRecipe:
    """Settings across their whole range, small buffers and short periods above all."""
    relation = rng.choice(("item", "item", "all", "none"))
    retain = rng.choice(("all", "latest", "latest", 0.05, 0.4)) if relation != "none" else "all"
    period_s = rng.choice((0.02, 0.05))
    return PubsubRecipe(
        members=members,
        protocol=choice.protocol,
        order=choice.order or rng.choice(("none", "fifo")),
        relation=relation,
        chain_limit=rng.choice((None, None, 3)) if relation == "item" else None,
        loggers=tuple(range(loggers)),
        copies=max(1, rng.choice((1, loggers - 1, loggers, loggers))),
        founders=founders,
        sponsors=rng.randint(1, max(1, min(3, founders - 1))),
        retain=retain,
        age_s=rng.choice((None, None, None, None, None, None, None, 0.3)),
        recovery=rng.choice(("at-most-once", "at-least-once")),
        recovery_first=rng.choice(("gossip", "logger", "adaptive")),
        multicast_at=rng.choice((None, None, 2, 3)),
        selection=rng.choice(SELECTIONS),
        period_s=period_s,
        period_max_s=period_s * rng.choice((1, 4)),
        rounds=rng.choice((1, 3, 10)),
        retry_s=rng.choice((0.02, 0.05)),
        heartbeat_min_s=0.02,
        heartbeat_max_s=rng.choice((0.05, 0.2)),
        buffer=rng.choice((2, 10, 100)),
        gossip_buffer=rng.choice((1, 4, 20, 1000)),
        block=rng.choice((1, 4, 16, 64)),
        datagram_bytes=rng.choice((200, 1400)),
        service_max=rng.choice((20.0, 1000.0)),
    )


def draw_unknown_members(
    recipe: PubsubRecipe, rng: Random
) -> Iterator[tuple[Rank, tuple[Rank, ...]]]:
    """Three of ten entries of everybody's membership are missing."""
    for pid in range(recipe.members):
        others = [p for p in range(recipe.founders) if p != pid and rng.random() < 0.3]
        if others:
            yield pid, tuple(others)


def draw_joins_and_leaves(recipe: PubsubRecipe, phase_s: float, rng: Random) -> Iterator[Fault]:
    """Who is no founder arrives in the midst of it; some leave."""
    for pid in range(recipe.founders, recipe.members):
        yield LateJoin(pid, rng.uniform(0, phase_s))
    for pid in range(len(recipe.logger_pids), recipe.members):
        if rng.random() < 0.1:
            yield LeaveAt(pid, rng.uniform(0, phase_s))


def draw_disconnections(pids: Sequence[Rank], phase_s: float, rng: Random) -> Iterator[Fault]:
    """Some are connected from 1 to 50 % of the time, and say when they go or do not."""
    if rng.random() < 0.5:
        return
    for pid in pids:
        if rng.random() < 0.6:
            continue
        connected, cycle_s = rng.uniform(0.01, 0.5), rng.uniform(0.1, 0.8)
        announced = rng.random() < 0.7
        start = rng.uniform(0, cycle_s)
        while start < phase_s:
            end = start + cycle_s * (1 - connected)
            yield Disconnection(pid, start, end, announced)
            start += cycle_s


def draw_outages(
    recipe: PubsubRecipe,
    senders: Sequence[Rank],
    leavers: Sequence[Rank],
    phase_s: float,
    busy: bool,
    at_failpoints: int,
    rng: Random,
) -> Iterator[Fault]:
    """Crashes of loggers, publishers and subscribers; most come back, some without their disk.

    A logger that lost its disk has to ask the others, so no logger is gone for good then.
    """
    loggers = len(recipe.logger_pids)
    may_go = min(loggers - recipe.copies, recipe.copies - 1)
    has_all_loggers = True
    for pid in range(recipe.members):
        is_logger = pid < loggers
        if rng.random() > (0.45 if is_logger or pid in senders else 0.25) or pid in leavers:
            continue
        is_gone = rng.random() < 0.15 and (pid < may_go if is_logger else pid not in senders)
        back_after_s = None if is_gone else rng.uniform(0.01, 0.5)
        loses_disk = rng.random() < 0.4 and is_logger and not busy and has_all_loggers
        has_all_loggers = has_all_loggers and not (is_gone and is_logger)
        victims = [sender for sender in senders if sender not in leavers]
        if loses_disk and back_after_s is not None and victims:
            yield from draw_double_outage(pid, rng.choice(victims), back_after_s, phase_s, rng)
            continue
        if not at_failpoints:
            when = rng.uniform(0, phase_s)
            yield Crash(pid, when, back_after_s=back_after_s, loses_disk=loses_disk)
            continue
        kind = rng.choice(
            LOGGER_FAILPOINTS
            if is_logger
            else SENDER_FAILPOINTS
            if pid in senders
            else MEMBER_FAILPOINTS
        )
        nth, keep = rng.choice((1, 2, 5, 20)), rng.choice((0.0, 0.3, 0.7, 1.0))
        point = Failpoint(pid, kind, None, nth, keep)
        yield FailpointCrash(point, back_after_s=back_after_s, loses_disk=loses_disk)


def draw_cursor_crash(case: AnyCase, rng: Random) -> Iterator[Fault]:
    """A subscriber that nothing else happens to crashes between its cursor and a delivery."""
    harmed = {
        each.pid for each in case.faults if isinstance(each, Crash | FailpointCrash | LeaveAt)
    } | {sender.pid for sender in case.senders}
    subscribers = range(len(case.recipe.logger_pids), case.processes)
    spared = [pid for pid in subscribers if pid not in harmed]
    if spared and rng.random() < 0.5:
        point = Failpoint(rng.choice(spared), "deliver", None, rng.choice((2, 5, 20)), 0.0)
        yield FailpointCrash(point, back_after_s=rng.uniform(0.01, 0.3))


def draw_double_outage(
    logger: Rank, publisher: Rank, back_after_s: float, phase_s: float, rng: Random
) -> Iterator[Fault]:
    """A publisher comes back, and asks what is kept, just after a logger that lost everything."""
    at = rng.uniform(0, phase_s)
    yield Crash(logger, at, back_after_s=back_after_s, loses_disk=True)
    if rng.random() < 0.8:
        down = max(0.0, at + back_after_s - 0.02 + rng.uniform(-0.001, 0.004))
        yield Crash(publisher, down, back_after_s=0.02)
