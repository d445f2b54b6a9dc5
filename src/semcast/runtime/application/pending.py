"""What `join`, `replicate` and `serve` return: something that is still to be started."""

from abc import ABC, abstractmethod
from collections.abc import Generator
from types import TracebackType
from typing import Any, Generic, TypeVar

from semcast.runtime.application.loop_bound import LoopBound

H = TypeVar("H", bound=LoopBound)


class Pending(ABC, Generic[H]):
    """`async with` it, or await it and close what you get yourself."""

    _made: H | None = None

    @abstractmethod
    async def start(self) -> H:
        """Get in; raises SemcastError, and then nothing is left open."""

    def __await__(self) -> Generator[Any, None, H]:
        return self.start().__await__()

    async def __aenter__(self) -> H:
        self._made = await self.start()
        return self._made

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._made is not None
        await self._made.close()
