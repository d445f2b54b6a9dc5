"""Whether another process runs under a name, asked without speaking under that name.

A question carries a number drawn by the process that asks; a process that has the name repeats the
number.  So only a process that holds the group's key and runs now can hold another one up: forged
frames are not opened, and a recorded answer has the number of an earlier question.
Rejected: to listen for frames of a namesake; recordings of this name's last process look like one.
"""

from typing import Final

from semcast.runtime.membership.gathering import Hello, encode_hello, read_greeting

PROBES: Final = 3  # questions, since one may be lost
PROBE_PERIOD_S: Final = 0.05


class NameProbe:
    """One process's questions and answers; `answers` counts those to its own questions."""

    def __init__(self, name: str, nonce: int) -> None:
        self._name = name
        self._nonce = nonce
        self.answers = 0

    def question(self) -> bytes:
        """The body of a frame that asks who else has this name."""
        return encode_hello(Hello(self._name, 0, self._nonce, 0))

    def on_probe(self, body: bytes) -> bytes | None:
        """What to answer to a question, if anything; raises RemoteProtocolError on nonsense."""
        hello = read_greeting(body)
        if hello.name != self._name:
            return None
        if hello.echo == self._nonce:
            self.answers += 1
        if hello.echo or hello.nonce == self._nonce:
            return None
        return encode_hello(Hello(self._name, 0, self._nonce, hello.nonce))
