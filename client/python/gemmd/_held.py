"""Arrays that are on servers for as long as an object lives: sent once to each, whoever multiplies by them."""

from __future__ import annotations

import contextlib
import threading
import uuid
import weakref
from typing import Any, NamedTuple

from gemmd import errors
from gemmd._digest import Source
from gemmd._pool import Place, Pool, let_go_at_exit
from gemmd._sources import source_of
from gemmd.client import Client
from gemmd.resident import Resident

# A matrix that stays costs five small calls: fewer bytes are sent with each product sooner.
_LEAST_BYTES = 64 << 10
# dask.distributed drops the copy of one worker as soon as another has one, whose task may have to wait.
_LINGER_SECONDS = 10.0


class _Copy(NamedTuple):
    """factor: for products there. name: what this process holds it by; empty: there is nothing to release."""

    factor: Any
    place: Place
    name: str = ""

    def let_go(self, seconds: float = 0) -> None:
        if self.name:
            self.place.release(self.name, seconds)


class _Copies(dict[str, _Copy]):
    """By server. have_travelled: another process may be about to name the matrix as well."""

    have_travelled = False

    def let_go(self) -> None:
        for each in list(self.values()):
            each.let_go(_LINGER_SECONDS if self.have_travelled else 0)
        self.clear()


def _quiet(_done: int, _all: int) -> None:
    """Instead of a bar for each of many uploads."""


class Held:
    """A matrix of 2 dimensions, which must not change. Thread-safe.

    The first factor() of a server sends it there, under a name of this object's own. The name is released when the
    object goes, or at exit. The server keeps what has names of others too, so that processes, graphs and programs
    with the same matrix share one copy, and the last one ends it.

    It pickles as its array: the object in the other process has names of its own, and those of this one are
    released some seconds after it. A process that is killed releases nothing: the matrix may be evicted after its
    lease.
    """

    def __init__(self, array: Any) -> None:
        self.array = array
        self._lock = threading.Lock()
        self._locks: dict[str, threading.Lock] = {}
        self._copies = _Copies()
        self._source: Source | None = None
        let_go_at_exit(self)  # while clients are open, and so not by the finalizer
        weakref.finalize(self, self._copies.let_go).atexit = False

    def let_go(self) -> None:
        """Releases it now, everywhere."""
        self._copies.let_go()

    def factor(self, pool: Pool, server: str, deadline: float | None = None) -> Any:
        """What a product there is to name: a Resident; the array where it is small, or the server keeps no more."""
        if self.array.nbytes < _LEAST_BYTES:
            return self.array
        with self._lock_of(server):  # one upload to a server, and several servers at once
            copy = self._copies.get(server)
            if copy is None:
                place, source = pool.place(server), self._hashed()
                with place.upload_of(source.digest):
                    copy = self._copies[server] = self._put(place, source, deadline)
            return copy.factor

    def lost(self, server: str, factor: Any) -> None:
        """What factor() brought is not there any more: the next one sends it again."""
        with self._lock_of(server):
            copy = self._copies.get(server)
            if copy is not None and copy.factor is factor:  # else another caller has found that before
                del self._copies[server]
                copy.let_go()

    def _lock_of(self, server: str) -> threading.Lock:
        return self._locks.setdefault(server, threading.Lock())

    def _hashed(self) -> Source:
        with self._lock:
            if self._source is None:
                self._source = source_of(self.array)
            return self._source

    def _put(self, place: Place, source: Source, deadline: float | None) -> _Copy:
        found = _find(place.client, source, deadline)
        if found is not None and not found.names:
            # Somebody put it without a name: with one of ours it would end when we release that.
            return _Copy(found, place)
        name = f"held/{uuid.uuid4().hex}"
        try:
            # Nothing has the name: `replace` saves the question.
            made = place.client.put(source, name=name, replace=True, deadline=deadline, progress=_quiet)
        except (errors.ResourceExhausted, errors.PermissionDenied, errors.Unimplemented):
            return _Copy(self.array, place)
        return _Copy(made, place, name)

    def __reduce__(self) -> Any:
        self._copies.have_travelled = True
        return Held, (self.array,)

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + int(self.array.nbytes)


def _find(client: Client, source: Source, deadline: float | None) -> Resident | None:
    with contextlib.suppress(errors.NotFound):
        return client.resident(source.digest.hex(), deadline)
    return None
