"""Memory that this process shares with a server on its own host.

An array of shared memory is an ordinary array; that its bytes need not travel is found by its address, so views
and slices of it, and what other libraries make of it without a copy, count too.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import secrets
import threading
import time
import weakref
from collections import deque
from typing import Any

import numpy as np

from gemmd import _fork, _messages, errors
from gemmd._engine import Engine
from gemmd._header import Place, seconds_of
from gemmd._layout import address_of
from gemmd._servers import Plan
from gemmd._transfer import Deadline, ask, call

_FOLDER = "/dev/shm"
_LOCKED = ".flock"  # ends the names of objects that a server removes once nobody holds their lock
_SECONDS = 5.0  # for calls about regions, which are short: the server is on this host
_TICK = 0.5  # how often what has died is unregistered, and leases are looked at


class Region:
    """One shared-memory object, registered. Its mapping lives as long as an array that views it.

    server: the one of several that shares it; empty where the client has one.
    """

    def __init__(self, name: str, size: int, address: int, server: str) -> None:
        self.name = name
        self.server = server
        self.size = size
        self.address = address
        self.id = ""
        self.renew_at = 0.0

    def place(self, address: int) -> Place:
        """Where bytes at that address are."""
        return Place("shared", self.id, address - self.address)


def _make(name: str) -> int:
    """An empty object, as a file whose lock is held until its last descriptor is closed; mmap has one of its own.

    It is locked before it has a name, so that a server which finds it without a lock knows that its process is
    gone, and removes it.
    """
    folder = os.open(_FOLDER, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    file = -1
    try:
        file = os.open(_FOLDER, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        # Only with a folder does Python follow the link.
        os.link(f"/proc/self/fd/{file}", name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=True)
    except OSError:
        if file >= 0:
            os.close(file)
        raise
    finally:
        os.close(folder)
    return file


def _unlink(name: str, owner: int) -> None:
    if os.getpid() == owner:
        with contextlib.suppress(OSError):
            os.unlink(f"{_FOLDER}/{name}")


class Regions:
    """A client's regions. Thread-safe. Leases are renewed in the background; a lost one is registered anew."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._regions: dict[str, Region] = {}
        # Appended to while garbage is collected, where no lock may be taken.
        self._dead: deque[Region] = deque()
        self._is_ticking = False
        self._prefixes: dict[str, str] = {}  # of servers

    def create(self, size: int, server: str) -> mmap.mmap:
        """Zeroed memory of so many bytes, registered. It ends with the last array that views it.

        server: as of Region.

        ResourceExhausted: this host has no such memory; FailedPrecondition: shared memory is off; else the
        errors of Regions.Register.
        """
        name = self._name_prefix(server) + secrets.token_hex(16) + _LOCKED
        try:
            file = _make(name)
        except OSError as error:
            raise errors.FailedPrecondition(f"shared memory {name!r} cannot be made: {error}") from None
        try:
            # Takes the pages now: later, their lack would be SIGBUS instead of an error.
            os.posix_fallocate(file, 0, size)
            memory = mmap.mmap(file, size)
        except OSError as error:
            _unlink(name, os.getpid())
            raise errors.ResourceExhausted(f"shared memory of {size} bytes cannot be made: {error}") from None
        finally:
            os.close(file)
        region = Region(name, size, address_of(np.frombuffer(memory, np.uint8)), server)
        weakref.finalize(memory, _unlink, name, os.getpid())
        try:
            self._register(region)
        except BaseException:
            _unlink(name, os.getpid())
            raise
        weakref.finalize(memory, self._dead.append, region).atexit = False
        with self._lock:
            self._regions[name] = region
            must_tick, self._is_ticking = not self._is_ticking, True
        if must_tick:
            self._engine.timer.after(_TICK, self._tick)
        return memory

    @property
    def is_any(self) -> bool:
        """Whether find() may find one."""
        return bool(self._regions)

    def find(self, address: int, size: int) -> Region | None:
        """The region that holds all of these bytes; None where there is none."""
        if not self._regions:
            return None
        with self._lock:
            for region in self._regions.values():
                # A new one may lie where a dead one did, which is unregistered only later.
                is_there = region.address <= address and address + size <= region.address + region.size
                if is_there and region not in self._dead:
                    return region
        return None

    def register_again(self, region: Region) -> None:
        """For a region that the server has lost."""
        self._register(region)

    def close(self) -> None:
        """Unregisters every region, and removes its object; the arrays go on as memory of this process."""
        if _fork.is_forked():
            return
        with self._lock:
            regions, self._regions = list(self._regions.values()), {}
        for region in regions:
            _unlink(region.name, os.getpid())
            self._unregister(region)

    def _name_prefix(self, server: str) -> str:
        if server not in self._prefixes:
            request, kind = _messages.ServerInfoRequest(), _messages.ServerInfoResponse
            info = self._call(server, "Admin/ServerInfo", request, kind)
            if not info.shared_memory_prefix:
                raise errors.FailedPrecondition(
                    "shared memory is off on this server (gemmd --shared-memory.name-prefix)"
                )
            self._prefixes[server] = str(info.shared_memory_prefix)
        return self._prefixes[server]

    def _call(self, server: str, name: str, request: Any, answer: Any) -> Any:
        end = Deadline(_SECONDS)
        plan = Plan(server=server)
        return ask(self._engine, plan, end, lambda one: call(self._engine, one, name, request, answer, end))

    def _once(
        self, server: str, name: str, request: Any, seconds: float
    ) -> tuple[bytes | None, errors.Error | None]:
        """One attempt: the answer, or the error."""
        data = request.SerializeToString()
        tour = self._engine.servers.tour(Plan(server=server))
        try:
            found, error, _ = tour.begin().link.unary(name, data, seconds)
            tour.end(error)
            return found, error
        finally:
            tour.leave()

    def _register(self, region: Region) -> None:
        request = _messages.RegisterRegionRequest()
        request.posix.name, request.posix.size_bytes = region.name, region.size
        answer = self._call(region.server, "Regions/Register", request, _messages.RegisterRegionResponse)
        region.id = answer.region
        region.renew_at = time.monotonic() + seconds_of(answer.lease) / 3

    def _unregister(self, region: Region) -> None:
        request = _messages.UnregisterRegionRequest(region=region.id)
        with contextlib.suppress(Exception):  # the server is gone, and the region with it; or its lease ends
            self._once(region.server, "Regions/Unregister", request, 2.0)

    def _tick(self) -> None:
        with contextlib.suppress(RuntimeError):  # closed
            self._engine.helpers.submit(self._look)

    def _look(self) -> None:
        gone = []
        with contextlib.suppress(IndexError):
            while True:
                gone.append(self._dead.popleft())
        with self._lock:
            gone = [each for each in gone if self._regions.pop(each.name, None) is not None]
            due = [each for each in self._regions.values() if time.monotonic() >= each.renew_at]
            self._is_ticking = bool(self._regions)
        for region in gone:
            self._unregister(region)
        for region in due:
            self._renew(region)
        if self._is_ticking:
            self._engine.timer.after(_TICK, self._tick)

    def _renew(self, region: Region) -> None:
        request: Any = _messages.RenewRegionRequest(region=region.id)
        try:
            found, error = self._once(region.server, "Regions/Renew", request, _SECONDS)
            if error is None and found is not None:
                lease = seconds_of(_messages.RenewRegionResponse.FromString(found).lease)
                region.renew_at = time.monotonic() + lease / 3
            elif isinstance(error, errors.NotFound):
                self._register(region)
        except (errors.Error, errors.ClosedError):
            pass  # asked again at the next tick
