"""What happens in a group besides messages, as its application sees it."""

import msgspec

from semcast.terms.outputs import Confirmed as Confirmed
from semcast.terms.views import MEMBER


class View(msgspec.Struct, frozen=True):
    """Who is in the group: `members` are names in rank order, and `id` grows with every change.

    `is_primary`: this view is the one of the group that may go on.  A member that can reach too
    few of its view is in none (`vs`: the view has no majority of the `members` that were asked
    for).  A fixed membership is one view, 1, for ever.
    """

    id: int
    members: tuple[str, ...]
    is_primary: bool


class ViewChange(msgspec.Struct, frozen=True):
    """The view changed, or what this member is in it.

    `joined` and `left` are names, against the view before; who came back as a new life of itself
    is in both.  `status` is this member's: "member"; "minority": too few members can be reached,
    so nothing is sent or delivered until that changes; "excluded": the group went on without this
    member, which joins again as a new life: what it multicasts meanwhile waits, and the numbers of
    its messages start at 1 again; `reason` says why.
    """

    view: View
    joined: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    status: str = MEMBER
    reason: str = ""
