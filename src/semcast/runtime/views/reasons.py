"""What a member of changing views tells people when something keeps it from going on."""

from collections.abc import Collection

from semcast.core.views.recipe import quorum
from semcast.runtime.views.introductions import Introductions
from semcast.terms.ids import Lineage, Pid
from semcast.terms.views import View


def minority(view: View, suspects: Collection[Pid], known: Introductions) -> str:
    """How many there are, and how many it takes."""
    reached = [life for life in view.members if life.pid not in suspects]
    names = ", ".join(known.name_of(life.pid) for life in reached)
    return (
        f"minority: this member reaches {len(reached)} of the {len(view.members)} members of view "
        f"{view.id} ({names}) and needs {quorum(len(view.members))}"
    )


def excluded(followed: Lineage, known: Introductions) -> str:
    """Why a life ended; `followed` is the lineage of the group that it found instead, or 0."""
    name = known.own.name
    if not followed:
        return f"the group excluded {name}, which was silent or too slow"
    others = ", ".join(known.names_in(followed)) or "others"
    return (
        f"{name} reached too few members of its group, and {others} run a group of the same name "
        "that was founded separately"
    )


def two_groups(own: Collection[str], rival: Lineage, known: Introductions) -> str:
    """Two groups of one name run apart, and only a person can say which is to stay."""
    others = ", ".join(known.names_in(rival)) or "unnamed processes"
    return (
        f"two groups have this name: one with {', '.join(own)}, another with {others}, "
        "founded separately; they never merge: restart the members of one group, and they join "
        "the other"
    )
