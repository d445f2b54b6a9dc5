"""Which wire versions the other processes speak, and whose frames cannot be read.

A hello is authenticated, so the versions that it announces count.  The version in the header of a
frame that cannot be read is a claim that any process can make: it is only reported to the user.
"""

import logging
from collections.abc import Iterable
from typing import Final

from semcast.runtime.membership.gathering import CANDIDATES_MAX, Hello
from semcast.wire.frames import LOWEST, Claim, common, member_id, spoken

RECENT_S: Final = 1.0  # since its hello: a process may be about to join

log = logging.getLogger("semcast")


class Versions:
    """Lives as long as the session.  Processes go by the number that the session gives them."""

    def __init__(self) -> None:
        self._names: dict[int, str] = {}  # by their numbers on frames
        self._heard: dict[int, tuple[tuple[int, int], float]] = {}  # announced, and when
        self._warned: dict[str, str] = {}  # who cannot be understood here, and why
        self._logged: set[str] = set()  # once each, since a claim costs nothing

    def know(self, names: Iterable[str]) -> None:
        """These may be heard, and should be called by name."""
        for name in names:
            if len(self._names) < CANDIDATES_MAX:
                self._names[member_id(name)] = name

    def on_hello(self, number: int, hello: Hello, now: float) -> bool:
        """Whether there is a version that the process and this one both speak."""
        self.know([hello.name])
        if number in self._heard or len(self._heard) < CANDIDATES_MAX:
            self._heard[number] = hello.versions, now
        if common([spoken(), hello.versions]) is not None:
            self._warned.pop(hello.name, None)
            return True
        self._tell(hello.name, hello.versions[0])
        return False

    def on_claim(self, claim: Claim) -> None:
        """A frame came that cannot be read."""
        self._tell(self._names.get(claim.sender, "somebody"), claim.version)

    def _tell(self, name: str, version: int) -> None:
        is_newer = version > spoken()[1]
        what = "a newer" if is_newer else "an older"
        reported = f"{name} runs {what} version of semcast; upgrade "
        reported += "this process" if is_newer else "that process"
        self._warned[name] = reported
        if name not in self._logged:
            self._logged.add(name)
            log.warning("%s", reported)

    def speakable(self, members: Iterable[int], now: float) -> int:
        """The highest version that these, and whoever may be about to join them, announced."""
        recent = (number for number, (_, at) in self._heard.items() if now - at < RECENT_S)
        unknown = (LOWEST, LOWEST), 0.0
        announced = [self._heard.get(number, unknown)[0] for number in {*members, *recent}]
        understood = [each for each in announced if common([spoken(), each]) is not None]
        return common([spoken(), *understood]) or LOWEST

    def __str__(self) -> str:
        """Who cannot be understood, to end a sentence with."""
        return "".join(f"; {text}" for text in self._warned.values())
