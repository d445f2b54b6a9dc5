"""What a machine keeps from one run to the next so that frames stay sealed: keys, incarnations.

The key ring is a small file that only its owner may read.  One key seals; every key of the ring
opens, so a new key is first carried to all machines and then used.  Edits hold a lock and replace
the file as a whole: a reader sees the old ring or the new one.  A key's number is a hash of it,
so it is the same on every machine and a truncated key is found out.
An incarnation is never handed out twice, even if the clock is set back: the last one is on disk
before the next is used, since a nonce that repeats would betray what it sealed.
"""

import fcntl
import os
import secrets
import tomllib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from stat import S_IMODE
from tempfile import mkstemp
from typing import Final

import msgspec

from semcast.terms.errors import ConfigError, unknown_value
from semcast.wire.sealing import CIPHERS, SECRET_BYTES, Key

CIPHER: Final = "aes-256-gcm"
KEYS_MAX: Final = 16
FILE_BYTES_MAX: Final = 65_536
INCARNATION_MAX: Final = 2**63 - 1

_PREFIX: Final = "semcast-key-1-"
_ID_BYTES: Final = 4
_HEADING: Final = (
    "# Keys of Semcast groups. Anyone with them can read and send: keep this file secret.\n"
)


def keys_path() -> Path:
    """Where the key ring is, unless said otherwise."""
    configured = os.environ.get("SEMCAST_KEYS")
    return Path(configured) if configured else _xdg_dir("XDG_CONFIG_HOME", ".config") / "keys.toml"


def incarnation_path() -> Path:
    """Where the last incarnation is, of this user on this machine."""
    return _xdg_dir("XDG_STATE_HOME", ".local/state") / "incarnation"


def new_key(cipher: str = CIPHER) -> Key:
    """A key that nobody had before."""
    if cipher not in CIPHERS:
        raise unknown_value("cipher", cipher, CIPHERS)
    return _key(cipher, secrets.token_bytes(SECRET_BYTES))


def encode_key(key: Key) -> str:
    """The key as one word, to be carried to another machine."""
    number = [*CIPHERS].index(key.cipher)
    packed = bytes((number,)) + key.secret + key.id.to_bytes(_ID_BYTES, "big")
    return _PREFIX + urlsafe_b64encode(packed).decode().rstrip("=")


def decode_key(text: str) -> Key:
    """The key of such a word, if it is whole."""
    word = text.strip()
    if not word.startswith(_PREFIX):
        raise ConfigError(f"key: not a Semcast key, which starts with {_PREFIX}")
    encoded = word.removeprefix(_PREFIX)
    try:
        packed = urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4))
        cipher = [*CIPHERS][packed[0]]
        key = _key(cipher, packed[1:-_ID_BYTES])
    except (ValueError, IndexError):
        key = None
    if key is None or encode_key(key) != word:
        raise ConfigError("key: damaged or incomplete; copy the whole key")
    return key


def id_text(number: int) -> str:
    """A key's number as people see it."""
    return f"{number:08x}"


class KeyRing(msgspec.Struct, frozen=True):
    """Keys in the order they came; a ring that is not empty has an active one, to seal with."""

    keys: tuple[Key, ...] = ()
    active: Key | None = None

    @classmethod
    def load(cls, path: Path) -> "KeyRing":
        """The ring in this file; empty if there is none."""
        try:
            data = _read_secret(path)
        except FileNotFoundError:
            return cls()
        except OSError as error:
            raise ConfigError(f"keys: cannot read {path}: {error.strerror}") from error
        return _parse(data, path)

    def find(self, text: str) -> Key:
        """The key of this number, as `id_text` writes it."""
        for key in self.keys:
            if id_text(key.id) == text.lower():
                return key
        if not self.keys:
            raise ConfigError(f"key: no key {text!r}, the key ring is empty; run semcast keys new")
        raise unknown_value("key", text, [id_text(key.id) for key in self.keys])

    def with_key(self, key: Key) -> "KeyRing":
        """With one more key; the first becomes active."""
        if key in self.keys:
            return self
        if any(key.id == other.id for other in self.keys):
            raise ConfigError(
                f"key: id {id_text(key.id)} collides with another key; create a new one"
            )
        if len(self.keys) == KEYS_MAX:
            raise ConfigError(
                f"keys: the ring holds {KEYS_MAX} keys, the maximum; "
                "remove one with semcast keys remove"
            )
        return KeyRing((*self.keys, key), self.active or key)

    def with_active(self, key: Key) -> "KeyRing":
        """With this one to seal."""
        return KeyRing(self.keys, key)

    def without_key(self, key: Key) -> "KeyRing":
        """Without this one, which must not be the active one."""
        if key == self.active:
            raise ConfigError(
                f"key: {id_text(key.id)} is active; "
                "first activate another one with semcast keys use"
            )
        return KeyRing(tuple(other for other in self.keys if other != key), self.active)


def edit(path: Path, change: Callable[[KeyRing], KeyRing]) -> KeyRing:
    """Change the ring in this file; two who do so at once do it one after the other."""
    path = Path(os.path.realpath(path))  # A link stays a link.
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _locked(path.with_name(f"{path.name}.lock")):
            before = KeyRing.load(path)
            after = change(before)
            if after != before:
                _replace(path, _format(after))
    except OSError as error:
        raise ConfigError(
            f"keys: cannot write {path}: {error.strerror}; set SEMCAST_KEYS to a writable file"
        ) from error
    return after


class KeyRingWatcher:
    """The ring of a running member: the last good one, however the file fares meanwhile.

    `problem` is what the latest `poll` found wrong; each problem is told by one poll only.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.problem: str | None = None
        self._mark = self._look()
        self.ring = KeyRing.load(path)

    def poll(self) -> KeyRing | None:
        """The new ring, if the file changed since the last call and is good."""
        self.problem = None
        mark = self._look()
        if mark == self._mark:
            return None
        self._mark = mark
        if mark is None:
            self.problem = f"keys: {self.path} was removed; still using its last keys"
            return None
        try:
            ring = KeyRing.load(self.path)
        except ConfigError as error:
            self.problem = f"{error}; still using the previous keys"
            return None
        if ring == self.ring:
            return None
        self.ring = ring
        return ring

    def _look(self) -> tuple[int, ...] | None:
        try:
            found = self.path.stat()
        except OSError:
            return None
        return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def next_incarnation(path: Path, now_us: int) -> int:
    """A number above all that this file ever gave, and on disk before it is used."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _locked(path) as file:
            stored = os.pread(file, 64, 0).decode(errors="replace").strip()
            if stored and not (stored.isdecimal() and int(stored) < INCARNATION_MAX):
                raise ConfigError(
                    f"incarnation: {path} is damaged; if the clock is right, delete it"
                )
            incarnation = max(int(stored or 0) + 1, now_us)
            os.pwrite(file, b"%020d\n" % incarnation, 0)  # one length: nothing of the old remains
            os.fsync(file)
            _sync_directory(path.parent)
    except OSError as error:
        raise ConfigError(
            f"incarnation: cannot write {path}: {error.strerror};"
            " set XDG_STATE_HOME to a writable directory"
        ) from error
    return incarnation


def _xdg_dir(variable: str, usual: str) -> Path:
    try:
        return Path(os.environ.get(variable) or Path.home() / usual) / "semcast"
    except RuntimeError as error:
        raise ConfigError(
            f"{variable}: not set, and there is no home directory; set {variable}"
        ) from error


def _key(cipher: str, secret: bytes) -> Key:
    digest = blake2b(cipher.encode() + secret, digest_size=_ID_BYTES, person=b"semcast-key")
    return Key(int.from_bytes(digest.digest(), "big") or 1, cipher, secret)


def _read_secret(path: Path) -> bytes:
    with path.open("rb") as file:
        mode = S_IMODE(os.fstat(file.fileno()).st_mode)
        if mode & 0o077:
            raise ConfigError(
                f"keys: {path} is accessible to other users (mode {mode:04o}); run chmod 600 {path}"
            )
        return file.read(FILE_BYTES_MAX)


class _KeyRingFile(msgspec.Struct, forbid_unknown_fields=True):
    active: str = ""
    keys: tuple[str, ...] = ()


def _parse(data: bytes, path: Path) -> KeyRing:
    try:
        found = msgspec.convert(tomllib.loads(data.decode()), _KeyRingFile)
        ring = KeyRing()
        for text in found.keys:
            ring = ring.with_key(decode_key(text))
        return ring.with_active(ring.find(found.active)) if ring.keys else ring
    except (ValueError, msgspec.ValidationError) as error:
        raise ConfigError(f"keys: {path} is damaged: {error}") from error


def _format(ring: KeyRing) -> bytes:
    keys = "".join(f'    "{encode_key(key)}",\n' for key in ring.keys)
    active = id_text(ring.active.id) if ring.active else ""
    return f'{_HEADING}active = "{active}"\nkeys = [\n{keys}]\n'.encode()


@contextmanager
def _locked(path: Path) -> Iterator[int]:
    """The file, made if need be, while nobody else has it so."""
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield file
    finally:
        os.close(file)


def _replace(path: Path, data: bytes) -> None:
    """All or nothing, also if the machine stops meanwhile."""
    file, name = mkstemp(prefix=f".{path.name}.", dir=path.parent)  # Mode 0600.
    try:
        with os.fdopen(file, "wb") as temporary:
            temporary.write(data)
            temporary.flush()
            os.fsync(temporary.fileno())
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
    _sync_directory(path.parent)


def _sync_directory(path: Path) -> None:
    directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
