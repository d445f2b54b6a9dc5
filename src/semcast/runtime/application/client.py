"""`semcast.Client`: asks a replicated service."""

from dataclasses import replace
from random import SystemRandom
from time import monotonic
from typing import Any

from semcast.runtime.application.request_body import encode_body
from semcast.runtime.application.service_connection import GIVE_UP, ServiceConnection
from semcast.service.client import ServiceClient
from semcast.service.recipe import PRIMARY_BACKUP
from semcast.service.replica_state import decode_value
from semcast.terms.errors import RequestFailed, RequestUnknown
from semcast.terms.ids import Incarnation
from semcast.terms.machine import Machine
from semcast.terms.service import FAILED, FORGOTTEN, UNANSWERED
from semcast.terms.store import WITHDRAWN


class Client(ServiceConnection):
    """A client of a replicated service.

        async with semcast.Client("bank") as client:
            balance = await client.request(["ada", 100])

    It finds the servers of `group` by multicast, or at the addresses `peers`; which of them is the
    primary it finds out by itself.  It repeats a request until it is answered; the servers
    execute it once.  A client asks one request at a time, and others wait: to ask several at once,
    open several clients.

    `give_up` is how long a request waits for its answer, its wait for earlier ones included.
    Options are those of `semcast.join` that say how to reach the group: peers, multicast,
    interface, ip, bind, key, datagram, message_max, socket_buffer, config.
    """

    def __init__(self, group: str, *, give_up: float | str = GIVE_UP, **options: Any) -> None:
        settings = {"protocol": PRIMARY_BACKUP, "relation": "update-fin"}
        super().__init__(group, settings, give_up, options)

    def _machine(self, recipe: Any, life: Incarnation, rng: SystemRandom) -> Machine:
        recipe = replace(recipe, give_up_s=self._give_up_s)
        return ServiceClient(recipe, life, rng, monotonic())

    async def request(self, request: Any) -> Any:
        """Ask the service, and return its reply.

        Raises `RequestFailed` if the service refused the request: nothing was changed.  Raises
        `RequestUnknown` if no answer came within `give_up`, or if the servers have forgotten this
        client.  Nobody knows then whether the request was executed; if it was not, it still may be,
        but not after the next request of this client was answered.
        """
        answered = await self._answer(encode_body(request), monotonic() + self._give_up_s)
        if answered.status == FAILED:
            raise RequestFailed(decode_value(answered.body))
        if answered.status in (UNANSWERED, WITHDRAWN):
            raise RequestUnknown(self._silence())
        if answered.status == FORGOTTEN:
            group = self.options.group
            raise RequestUnknown(
                f"the servers of {group} have forgotten this client, which was silent for long"
            )
        return decode_value(answered.body)
