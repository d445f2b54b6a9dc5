"""What a member of changing views tells people when something keeps it from going on."""

from collections.abc import Collection

from semcast.core.views.recipe import quorum
from semcast.runtime.membership.gathering import RosterAgreement
from semcast.runtime.membership.introductions import PeerDirectory, ViewMemberReport
from semcast.terms.ids import Lineage, Pid
from semcast.terms.views import MINORITY, GroupView


def minority(view: GroupView, suspects: Collection[Pid], known: PeerDirectory) -> str:
    """How many there are, and how many it takes."""
    reached = [life for life in view.members if life.pid not in suspects]
    names = ", ".join(known.name_of(life.pid) for life in reached)
    return (
        f"minority: this member reaches {len(reached)} of the {len(view.members)} members of view "
        f"{view.id} ({names}) and needs {quorum(len(view.members))}"
    )


def excluded(followed: Lineage, known: PeerDirectory) -> str:
    """Why a life ended; `followed` is the lineage of the group that it found instead, or 0."""
    name = known.own_name
    if not followed:
        return f"the group excluded {name}, which was silent or too slow"
    others = ", ".join(known.names_in(followed)) or "others"
    return (
        f"{name} reached too few members of its group, and {others} run a group of the same name "
        "that was founded separately"
    )


def rejoins(why: str, followed: Lineage) -> str:
    """What an excluded member does, and how to keep it from being excluded again."""
    remedy = "; check that it is not stopped or overloaded, or use a longer timeout"
    return f"{why}; it rejoins{'' if followed else remedy}"


def who_is_here(gathering: RosterAgreement) -> str:
    """The members that were heard so far, and those that were not."""
    names = ", ".join([gathering.own.name, *gathering.found])
    missing = f", missing: {', '.join(gathering.missing)}" if gathering.missing else ""
    return f"{1 + len(gathering.found)} of {gathering.members} are here ({names}){missing}"


def joining(gathering: RosterAgreement | None, running: object) -> str:
    """How far a process is on its way into a group; `running` is one that it found, or None."""
    if running is not None:
        return "the group runs and takes this member in"
    return "no member has answered" if gathering is None else who_is_here(gathering)


def two_groups(own: Collection[str], rival: Lineage, known: PeerDirectory) -> str:
    """Two groups of one name run apart, and only a person can say which is to stay."""
    others = ", ".join(known.names_in(rival)) or "unnamed processes"
    return (
        f"two groups have this name: one with {', '.join(own)}, another with {others}, "
        "founded separately; they never merge: restart the members of one group, and they join "
        "the other"
    )


def join_timeout(waited_s: float, obstacle: str, known: PeerDirectory) -> str:
    """Why this process did not get into a group in time."""
    reachable = ", ".join([known.own_name, *sorted(known.names.values())])
    text = f"join: timed out after {waited_s:g} s; reachable: {reachable}{obstacle}"
    if known.mismatched:
        text += f"; different settings: {', '.join(sorted(known.mismatched.values()))}"
    if known.colliding:
        text += f"; the name's hash collides with that of: {', '.join(sorted(known.colliding))}"
    return text


def no_state(donor: Pid, known: PeerDirectory) -> str:
    """A member that should send its application's state did not."""
    name = known.name_of(donor)
    return f"; received no state from {name}, whose application must keep reading messages"


def too_few(gathering: RosterAgreement) -> str:
    """Not all founders were there."""
    missing = f", missing: {', '.join(gathering.missing)}" if gathering.missing else ""
    return f"; founding the group needs {gathering.members} members{missing}"


def no_group() -> str:
    """There is nothing to join, and this process may not found it."""
    return "; no such group is running; found one with members or peers"


def running(standing: ViewMemberReport, known: PeerDirectory) -> str:
    """The group that runs, as one of its members reported it."""
    lives, gone = standing.members, set(standing.suspects)
    members = ", ".join(known.name_of(pid) for pid, _ in lives)
    text = f"; the group's view {standing.view} has {members}"
    if standing.status == MINORITY:
        reached = ", ".join(known.name_of(pid) for pid, _ in lives if pid not in gone)
        text += f"; it needs {quorum(len(lives))} of them to continue and only reaches {reached}"
    return text
