"""Log lines about a running group: one line for each change, with what to do about it.

Once a second a snapshot is compared with the one before.  Changes of the membership are logged at
INFO.  A member logs at WARNING what it can do something about itself: that it is slow, that its
sender is blocked, that it is in a minority, that many frames are discarded.  That it was excluded,
which may be over within a second, its session logs at once.
"""

import logging
from typing import Final

from semcast.runtime.operations.snapshot import Snapshot
from semcast.terms.ids import view_number

BLOCKED_SHARE: Final = 0.1  # of the last seconds: a sender that waits longer is logged
BLOCKED_SNAPSHOTS: Final = 5  # seconds over which that share is measured
FASTER: Final = "make its application faster, or let it read fewer items"
DISCARDS_PER_S: Final = 100  # frames that are discarded for one reason

# A name of its own, so that who makes a member slow on purpose can do without these lines.
log = logging.getLogger("semcast.group")

_REMEDIES: Final = {
    "key": "a process uses another key; compare semcast keys list on both machines",
    "forged": "a process uses another key of the same id; replace one of them",
    "clear": "a process sends without a key; run semcast keys add there",
    "namesake": "another process uses this member's name; choose another name",
    "clone": "two processes have one identity; was a machine cloned?",
}


class GroupLog:
    """Lives as long as the group; remembers what it has logged, so that nothing repeats."""

    def __init__(self) -> None:
        self._recent: list[Snapshot] = []
        self._is_blocked = False
        self._discarded: set[str] = set()

    def note(self, now: Snapshot) -> None:
        """Compare with the last seconds, and log the changes."""
        if not self._recent:
            self._log_start(now)
        else:
            before = self._recent[-1]
            self._log_members(before, now)
            self._log_view(before, now)
            self._log_slow(before, now)
            self._log_blocked(self._recent[0], now)
            self._log_discards(before, now)
        self._recent = [*self._recent, now][-BLOCKED_SNAPSHOTS:]

    @staticmethod
    def _log_start(now: Snapshot) -> None:
        if now.view is None:
            names = sorted([now.name, *(peer.name for peer in now.peers)])
            log.info("group %s: members: %s", now.group, ", ".join(names))
        elif now.view.id:
            members = ", ".join(now.view.members)
            log.info("group %s: view %d: %s", now.group, view_number(now.view.id), members)

    @staticmethod
    def _log_members(before: Snapshot, now: Snapshot) -> None:
        left = {peer.name for peer in before.peers if peer.is_forgotten}
        for peer in now.peers:
            if peer.is_forgotten and peer.name not in left:
                log.info("group %s: %s left", now.group, peer.name)

    @staticmethod
    def _log_view(before: Snapshot, now: Snapshot) -> None:
        old, new = before.view, now.view
        if old is None or new is None:
            return
        if new.id != old.id and new.id:
            joined = [f"{name} joined" for name in new.members if name not in old.members]
            gone = [name for name in old.members if name not in new.members]
            known = (*new.excluded_s, *new.left_out_s)
            left = [f"{name} left" for name in gone if name not in known]
            slow = [
                f"{name} is left out for {new.left_out_s[name]:.1f} s, because it is too slow; "
                "give it more processor time"
                for name in gone
                if name in new.left_out_s and name not in new.excluded_s
            ]
            silent = [
                f"{name} was excluded after {new.excluded_s[name]:.1f} s of silence"
                for name in gone
                if name in new.excluded_s
            ]
            changes = "; ".join(["", *joined, *left, *slow, *silent])
            number, members = view_number(new.id), ", ".join(new.members)
            remedy = "; check that machine and the network" if silent else ""
            log.info("group %s: view %d: %s%s%s", now.group, number, members, changes, remedy)
        if new.status == "minority" != old.status:
            log.warning(
                "group %s: in a minority, so nothing is sent or delivered; waits for %d of %d "
                "members: check the others and the network",
                *(now.group, new.needed, len(new.members)),
            )

    @staticmethod
    def _log_slow(before: Snapshot, now: Snapshot) -> None:
        known = {slow.name for slow in before.slow}
        for slow in now.slow:
            if slow.name in known:
                continue
            if slow.name == now.name:
                log.warning("group %s: this member is slow: %s; %s", now.group, slow.why, FASTER)
            else:
                log.info("group %s: %s is slow: %s; %s", now.group, slow.name, slow.why, FASTER)
        for name in known - {slow.name for slow in now.slow}:
            log.info("group %s: %s keeps up again", now.group, name)

    def _log_blocked(self, first: Snapshot, now: Snapshot) -> None:
        elapsed_s = now.up_s - first.up_s
        share = (now.blocked_s_total - first.blocked_s_total) / elapsed_s if elapsed_s > 0 else 0.0
        if share >= BLOCKED_SHARE and not self._is_blocked:
            self._is_blocked = True
            log.warning(
                "group %s: this sender was blocked for %.0f %% of the last %.0f s%s; use a larger "
                "buffer, a semantic protocol with items, or forget the slow member",
                *(now.group, 100 * share, elapsed_s),
                f" by {now.blocked_by}" if now.blocked_by else "",
            )
        elif share == 0.0 and self._is_blocked:
            self._is_blocked = False
            log.info("group %s: this sender is no longer blocked", now.group)

    def _log_discards(self, before: Snapshot, now: Snapshot) -> None:
        elapsed_s = now.up_s - before.up_s
        for reason, count in now.discarded.items():
            new = count - before.discarded.get(reason, 0)
            if reason not in self._discarded and new > DISCARDS_PER_S * elapsed_s > 0:
                self._discarded.add(reason)
                remedy = _REMEDIES.get(reason, "run semcast doctor")
                log.warning(
                    "group %s: %d frames/s are discarded (%s): %s",
                    *(now.group, new / elapsed_s, reason, remedy),
                )
