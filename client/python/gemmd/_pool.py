"""The servers that an extra's workers share, in this process: a client of each, and names to be released there."""

from __future__ import annotations

import atexit
import contextlib
import functools
import heapq
import threading
import time
import weakref
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple, TypeVar

from gemmd import errors
from gemmd._address import addresses_of
from gemmd._fleet import Fleet, FleetPolicy, Verdict
from gemmd._resolve import resolve_by_host
from gemmd._servers import verdict_of
from gemmd.client import Client
from gemmd.retry import RetryPolicy

T = TypeVar("T")

# One server of several is given up soon: another one, or the patient client, makes the product. Waits for a full
# store are as long as sending the matrix along.
_QUICK = RetryPolicy(patience=1.0, max_pushback=0.5)
_PATIENT = RetryPolicy()
# The quick client has tried more than once.
_POLICY = FleetPolicy(failures=1)
_EXIT_SECONDS = 5.0


class PoolKey(NamedTuple):
    """What a pool is known by in every process: its servers' addresses, in order, and the tenant."""

    servers: tuple[str, ...]
    tenant: str | None = None


def servers_of(address: Any) -> tuple[str, ...]:
    """The addresses that Client(address) would use now; a name's are looked up."""
    found: dict[str, None] = {}
    for each in addresses_of(address):
        found.update(dict.fromkeys([each.target] if each.servers is None else resolve_by_host(*each.servers)))
    return tuple(found)


class Place:
    """One server: its client, and a thread that releases names there.

    A finalizer may run anywhere, and must not wait for a server; a server that is away must not hold up another's.
    """

    def __init__(self, client: Client) -> None:
        self.client = client
        self._lock = threading.Lock()
        self._uploads: weakref.WeakValueDictionary[bytes, Any] = weakref.WeakValueDictionary()
        # Into which a finalizer may put.
        self._queue: SimpleQueue[tuple[float, str] | threading.Event] = SimpleQueue()
        threading.Thread(target=self._follow, name="gemmd-releases", daemon=True).start()

    def upload_of(self, digest: bytes) -> Any:
        """A lock that the upload of that matrix takes: two at once would both send all of it."""
        with self._lock:
            lock = self._uploads.get(digest)
            if lock is None:
                lock = self._uploads[digest] = threading.Lock()
            return lock

    def release(self, name: str, seconds: float = 0) -> None:
        """After so many seconds, or at flush(), nothing has that name there."""
        self._queue.put((time.monotonic() + seconds, name))

    def flush(self, seconds: float) -> bool:
        """Waits until all names that were given before are released; False: it took longer."""
        done = threading.Event()
        self._queue.put(done)
        return done.wait(max(0.0, seconds))

    def _follow(self) -> None:
        due: list[tuple[float, str]] = []  # a heap
        while True:
            what = self._next(due)
            if isinstance(what, threading.Event):
                for _, name in due:
                    self._release(name)
                due.clear()
                what.set()
            elif what is not None:
                heapq.heappush(due, what)
            while due and due[0][0] <= time.monotonic():
                self._release(heapq.heappop(due)[1])

    def _next(self, due: list[tuple[float, str]]) -> tuple[float, str] | threading.Event | None:
        """What comes before the first is due; None: nothing."""
        try:
            return self._queue.get(timeout=max(0.0, due[0][0] - time.monotonic()) if due else None)
        except Empty:
            return None

    def _release(self, name: str) -> None:
        # A server that is away has lost it, or evicts it after its lease. After exit the client is closed.
        with contextlib.suppress(errors.Error, RuntimeError, ValueError):
            self.client.release(name)


class Pool:
    """Thread-safe. It lives as long as the process."""

    def __init__(self, key: PoolKey) -> None:
        self.servers = key.servers
        self.every = Client(key.servers, tenant=key.tenant, retry=_PATIENT)
        self._places = {each: Place(Client(each, tenant=key.tenant, retry=_QUICK)) for each in key.servers}
        self._lock = threading.Lock()
        self._fleet = Fleet(_POLICY)
        self._fleet.set_servers(key.servers)

    def at(self, server: str) -> Client:
        """The client of that server alone."""
        return self._places[server].client

    def place(self, server: str) -> Place:
        """That server."""
        return self._places[server]

    def order(self, first: int) -> list[str]:
        """The servers that are well, from that one on; all of them where none is."""
        cut = first % len(self.servers)
        turned = [*self.servers[cut:], *self.servers[:cut]]
        with self._lock:
            ill = {each.address for each in self._fleet.states(time.monotonic()) if each.is_left_out}
        ill |= {each.address for each in self.every.servers() if each.health == "not_serving"}
        return [each for each in turned if each not in ill] or turned

    def attempt(self, server: str, work: Callable[[], T]) -> T:
        """work() at that server, which is left out for a while where it ends with Unavailable."""
        with self._lock:
            choice = self._fleet.begin_at(server, time.monotonic())
        assert choice is not None
        verdict = Verdict.UNTOLD
        try:
            found = work()
            verdict = Verdict.ANSWERED
            return found
        except errors.Error as error:
            verdict = verdict_of(error)
            raise
        finally:
            with self._lock:
                self._fleet.end(choice, verdict, time.monotonic())

    def run(self, first: int, work: Callable[[str], T], inline: Callable[[Client], T]) -> T:
        """work() at the server of that number, or at the next that answers; else inline() by the patient client.

        work: a matrix that it named and that is gone is NotFound; inline() names none.
        """
        for server in self.order(first):
            there = functools.partial(work, server)
            with contextlib.suppress(errors.Unavailable, errors.NotFound):
                return self.attempt(server, functools.partial(_when_there_is_room, there))
        return inline(self.every)

    def flush(self, seconds: float) -> None:
        """Waits until all names that were given back before are released, or so long."""
        end = time.monotonic() + seconds
        for each in self._places.values():
            each.flush(end - time.monotonic())


def _when_there_is_room(work: Callable[[], T]) -> T:
    """work(), which a server may refuse for a while, as a patient client makes it."""
    for _ in range(_PATIENT.max_attempts - 1):
        try:
            return work()
        except errors.ResourceExhausted as error:
            if error.retry_after is None or error.retry_after > _PATIENT.max_pushback:
                raise
            pause = error.retry_after
        time.sleep(pause)
    return work()


_lock = threading.Lock()
_pools: dict[PoolKey, Pool] = {}
_holders: weakref.WeakSet[Any] = weakref.WeakSet()


def pool_of(key: PoolKey) -> Pool:
    """The only pool of that key here. ForkedError in a child of a process that used gemmd."""
    with _lock:
        if key not in _pools:
            is_first = not _pools
            _pools[key] = Pool(key)
            if is_first:
                # Clients close at exit too, by a handler that their making has registered. Handlers run in reverse.
                atexit.register(_end)
        return _pools[key]


def let_go_at_exit(holder: Any) -> None:
    """Has its let_go() called then."""
    _holders.add(holder)


def _end() -> None:
    for each in list(_holders):
        each.let_go()
    end = time.monotonic() + _EXIT_SECONDS
    for pool in _pools.values():
        pool.flush(end - time.monotonic())
