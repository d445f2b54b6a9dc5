"""What a deliberately broken protocol is: one method replaced, and who must notice."""

from collections.abc import Callable
from typing import Any, NamedTuple


class Mutant(NamedTuple):
    """`replaced` gets the original method, or property, and returns the broken one."""

    owner: type
    method: str
    replaced: Callable[[Any], Any]
    scenario: str
    protocol: str = "s-rm"
