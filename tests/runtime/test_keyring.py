"""The key ring survives bad files, bad pastes and two hands at once; incarnations never repeat."""

import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from semcast.runtime.storage import keyring
from semcast.runtime.storage.keyring import (
    KEYS_MAX,
    KeyRing,
    KeyRingWatcher,
    decode_key,
    edit,
    encode_key,
    id_text,
    new_key,
    next_incarnation,
)
from semcast.terms.errors import ConfigError
from semcast.wire.sealing import CIPHERS, Key

KEY = Key(0x11122567, "aes-256-gcm", bytes(range(32)))
TEXT = "semcast-key-1-AAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4fERIlZw"
CHACHA_TEXT = "semcast-key-1-AQABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4fn9JTcg"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "semcast" / "keys.toml"


def added(path, *keys):
    for key in keys:
        ring = edit(path, lambda ring, key=key: ring.with_key(key))
    return ring


def test_the_text_of_a_key_is_fixed():
    assert encode_key(KEY) == TEXT
    assert decode_key(f"  {TEXT}\n") == KEY
    assert decode_key(CHACHA_TEXT).cipher == "chacha20-poly1305"


@pytest.mark.parametrize("cipher", CIPHERS)
def test_keys_are_new_and_come_back_from_their_text(cipher):
    first, second = new_key(cipher), new_key(cipher)
    assert first.id != second.id
    assert first.secret != second.secret
    assert decode_key(encode_key(first)) == first
    assert len(encode_key(first).split()) == 1


def test_a_key_cut_short_or_mistyped_is_refused():
    text = encode_key(new_key())
    for size in range(len(text)):
        with pytest.raises(ConfigError, match=r"^key: "):
            decode_key(text[:size])
    for place in range(len(text)):
        other = "B" if text[place] == "A" else "A"
        with pytest.raises(ConfigError, match=r"^key: "):
            decode_key(text[:place] + other + text[place + 1 :])
    for bad in (text + "A", text + "=", text.lower(), "semcast-key-1-é", "5f21ac07"):
        with pytest.raises(ConfigError, match=r"^key: ") as refused:
            decode_key(bad)
        assert text[20:40] not in str(refused.value)


def test_the_first_key_seals_until_another_is_used(path):
    assert KeyRing.load(path) == KeyRing()
    first, second = new_key(), new_key()
    added(path, first, second)
    assert KeyRing.load(path) == KeyRing((first, second), first)
    edit(path, lambda ring: ring.with_active(ring.find(id_text(second.id))))
    assert KeyRing.load(path) == KeyRing((first, second), second)
    edit(path, lambda ring: ring.without_key(first))
    assert KeyRing.load(path) == KeyRing((second,), second)


def test_a_key_added_twice_is_there_once(path):
    key = new_key()
    added(path, key)
    before = path.stat()
    assert added(path, key).keys == (key,)
    assert path.stat() == before


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda ring: ring.without_key(ring.active), "key: .* is active; first activate another"),
        (lambda ring: ring.find("5f21ac07"), "key: unknown value '5f21ac07'; allowed:"),
        (lambda ring: KeyRing().find("5f21ac07"), "the key ring is empty; run semcast keys new"),
        (
            lambda ring: ring.with_key(Key(ring.active.id, "aes-256-gcm", bytes(32))),
            "key: id .* collides with another key",
        ),
    ],
)
def test_what_cannot_be_is_refused_and_leaves_the_file(path, change, told):
    added(path, new_key())
    before = path.read_bytes()
    with pytest.raises(ConfigError, match=told):
        edit(path, change)
    assert path.read_bytes() == before


def test_a_ring_has_a_bound(path):
    added(path, *(new_key() for _ in range(KEYS_MAX)))
    with pytest.raises(ConfigError, match="keys: the ring holds 16 keys, the maximum"):
        added(path, new_key())


def test_only_the_owner_may_read_the_file_and_its_folder(path):
    added(path, new_key())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    for mode in (0o640, 0o604, 0o622):
        path.chmod(mode)
        with pytest.raises(
            ConfigError, match=rf"accessible to other users \(mode {mode:04o}\); run chmod 600 "
        ):
            KeyRing.load(path)


@pytest.mark.parametrize(
    "content",
    [
        b"active = ",
        b"\xff",
        b"keys = 3",
        b'keys = ["semcast-key-1-AAAA"]',
        b"more = 1",
        b"active = 'x'\nkeys = [KEY]",
        b"keys = [KEY]",
    ],
)
def test_a_damaged_file_is_told_without_its_secrets(path, content):
    text = encode_key(new_key())
    path.parent.mkdir()
    path.write_bytes(content.replace(b"KEY", f"'{text}'".encode()))
    path.chmod(0o600)
    with pytest.raises(ConfigError, match=r"^keys: .*keys.toml is damaged: ") as refused:
        KeyRing.load(path)
    assert text not in str(refused.value)
    with pytest.raises(ConfigError):
        added(path, new_key())  # It is not overwritten either.


def test_a_folder_in_the_place_of_the_file_is_told(tmp_path):
    with pytest.raises(ConfigError, match=r"keys: cannot read .*: Is a directory"):
        KeyRing.load(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"cannot write .*; set SEMCAST_KEYS"):
        added(tmp_path / "file" / "keys.toml", new_key())


def test_edits_at_once_lose_nothing(path):
    keys = [new_key() for _ in range(KEYS_MAX)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda key: added(path, key), keys))
    ring = KeyRing.load(path)
    assert {key.id for key in ring.keys} == {key.id for key in keys}
    assert ring.active in ring.keys


def test_an_edit_that_fails_halfway_leaves_the_old_ring_alone(path, monkeypatch):
    added(path, new_key())
    before = path.read_bytes()

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(keyring.os, "replace", fail)
    with pytest.raises(ConfigError, match="No space left on device"):
        added(path, new_key())
    assert path.read_bytes() == before
    assert sorted(file.name for file in path.parent.iterdir()) == ["keys.toml", "keys.toml.lock"]


def test_a_ring_is_on_disk_before_it_replaces_the_old(path, monkeypatch):
    steps = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(
        keyring.os, "fsync", lambda file: (steps.append(os.fstat(file).st_ino), fsync(file))
    )
    monkeypatch.setattr(
        keyring.os, "replace", lambda *names: (steps.append("replace"), replace(*names))
    )
    added(path, new_key())
    assert steps == [path.stat().st_ino, "replace", path.parent.stat().st_ino]


def test_a_linked_file_is_edited_where_it_is(path, tmp_path):
    added(path, new_key())
    link = tmp_path / "link.toml"
    link.symlink_to(path)
    added(link, new_key())
    assert link.is_symlink()
    assert len(KeyRing.load(path).keys) == 2


def test_where_the_files_are(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", "/home/me")
    for name in ("SEMCAST_KEYS", "XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    assert str(keyring.keys_path()) == "/home/me/.config/semcast/keys.toml"
    assert str(keyring.incarnation_path()) == "/home/me/.local/state/semcast/incarnation"
    monkeypatch.setenv("XDG_CONFIG_HOME", "/c")
    monkeypatch.setenv("XDG_STATE_HOME", "/s")
    assert str(keyring.keys_path()) == "/c/semcast/keys.toml"
    assert str(keyring.incarnation_path()) == "/s/semcast/incarnation"
    monkeypatch.setenv("SEMCAST_KEYS", "/k.toml")
    assert str(keyring.keys_path()) == "/k.toml"


def test_a_watch_sees_the_file_appear_and_change(path):
    watch = KeyRingWatcher(path)
    assert watch.ring == KeyRing()
    assert watch.poll() is None
    first = added(path, new_key())
    assert watch.poll() == first
    assert watch.poll() is None
    second = added(path, new_key())
    assert watch.poll() == watch.ring == second
    assert watch.problem is None


def test_a_watch_does_not_wake_for_a_file_that_says_the_same(path):
    added(path, new_key())
    watch = KeyRingWatcher(path)
    os.utime(path, ns=(1, 1))
    assert watch.poll() is None


def test_a_watch_keeps_the_last_good_ring_and_tells_once(path):
    good = added(path, new_key())
    data = path.read_bytes()
    watch = KeyRingWatcher(path)

    def told():
        assert watch.poll() is None
        assert watch.ring == good
        problem = watch.problem
        assert watch.poll() is None
        assert watch.problem is None
        return problem

    path.write_bytes(b"nonsense")
    assert "is damaged" in told()
    path.chmod(0o644)
    assert "chmod 600" in told()
    path.unlink()
    assert "was removed; still using its last keys" in told()
    path.write_bytes(data)
    path.chmod(0o600)
    assert told() is None
    better = added(path, new_key())
    assert watch.poll() == better


def test_a_watch_does_not_begin_with_a_bad_file(path):
    added(path, new_key())
    path.chmod(0o644)
    with pytest.raises(ConfigError):
        KeyRingWatcher(path)


def test_incarnations_follow_the_clock_and_never_go_back(tmp_path):
    path = tmp_path / "state" / "incarnation"
    assert next_incarnation(path, 1000) == 1000
    assert next_incarnation(path, 1000) == 1001
    assert next_incarnation(path, 5) == 1002
    assert next_incarnation(path, 10**15) == 10**15
    assert next_incarnation(path, 7) == 10**15 + 1


def test_processes_at_once_get_different_incarnations(tmp_path):
    path = tmp_path / "incarnation"
    code = (
        "import sys; from pathlib import Path; from semcast.runtime.storage.keyring import *;"
        "print(*(next_incarnation(Path(sys.argv[1]), 5) for _ in range(50)))"
    )
    command = [sys.executable, "-c", code, str(path)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    given = [int(word) for process in running for word in process.communicate()[0].split()]
    assert sorted(given) == [*range(5, 105)]


def test_an_incarnation_is_on_disk_before_it_is_used(tmp_path, monkeypatch):
    path = tmp_path / "incarnation"
    synced = {}
    monkeypatch.setattr(
        keyring.os, "fsync", lambda file: synced.update({os.fstat(file).st_ino: path.read_text()})
    )
    assert next_incarnation(path, 77) == 77
    assert int(synced[path.stat().st_ino]) == 77
    assert tmp_path.stat().st_ino in synced


@pytest.mark.parametrize("content", ["x", "-5", "1" * 30, "12 34"])
def test_a_damaged_incarnation_is_told(tmp_path, content):
    path = tmp_path / "incarnation"
    path.write_text(content)
    with pytest.raises(ConfigError, match=r"incarnation: .* is damaged; .*delete it"):
        next_incarnation(path, 1)
    assert path.read_text() == content


def test_an_empty_incarnation_is_a_crash_before_the_first(tmp_path):
    path = tmp_path / "incarnation"
    path.touch()
    assert next_incarnation(path, 3) == 3


def test_a_state_folder_that_cannot_be_written_names_the_variable(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"cannot write .*; set XDG_STATE_HOME to"):
        next_incarnation(tmp_path / "file" / "incarnation", 1)
