"""Sequential consistency, judged only by the answers that clients got: a search for one order of
all requests that explains every answer [VSD §1].

It uses no positions or versions, so it trusts no server.  The search takes exponential time, so it
is for small histories only.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TypeAlias, TypeVar

S = TypeVar("S", bound=Hashable)
Request: TypeAlias = Hashable
Seen: TypeAlias = tuple[Request, Hashable]  # a request and its answer


def explains(
    histories: Mapping[int, Sequence[Seen]],
    unknown: Sequence[Request],
    state: S,
    step: Callable[[S, Request], tuple[S, Hashable]],
) -> list[Request] | None:
    """An order in which one server could have executed the requests, None if there is none.

    `histories` has, by client, its requests in order, each with its answer.  The `unknown` requests
    may have been executed, at any time, or not.  `step` executes a request.
    """
    clients = sorted(histories)
    dead: set[tuple[tuple[int, ...], frozenset[int], S]] = set()
    order: list[Request] = []

    def search(at: tuple[int, ...], left: frozenset[int], state: S) -> bool:
        if all(at[i] == len(histories[client]) for i, client in enumerate(clients)):
            return True
        if (at, left, state) in dead:
            return False
        for i, client in enumerate(clients):
            if at[i] < len(histories[client]):
                request, answer = histories[client][at[i]]
                following, answered = step(state, request)
                if answered == answer:
                    order.append(request)
                    if search((*at[:i], at[i] + 1, *at[i + 1 :]), left, following):
                        return True
                    order.pop()
        for i in sorted(left):
            following, _ = step(state, unknown[i])
            order.append(unknown[i])
            if following != state and search(at, left - {i}, following):
                return True
            order.pop()
        dead.add((at, left, state))
        return False

    start = (0,) * len(clients)
    return order if search(start, frozenset(range(len(unknown))), state) else None
