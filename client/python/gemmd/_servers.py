"""The servers of a client, and the way of each call over them."""

from __future__ import annotations

import functools
import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from gemmd import _fork, errors
from gemmd._address import MOST_SERVERS, Address
from gemmd._fleet import Choice, Fleet, Health, ServerState, Verdict, Wish
from gemmd._header import Place
from gemmd._health import HealthWatch
from gemmd._resolve import resolve_by_host
from gemmd._server import Server

_log = logging.getLogger("gemmd")

# Seconds between two looks at a name whose servers are well.
_LOOK = 30.0
# Between two looks, at least.
_LOOK_PAUSE = 1.0
# Homes beyond so many are forgotten, and looked for again.
_MOST_HOMES = 4096


class Plan(NamedTuple):
    """What a call asks of its server.

    server: it goes to this one alone; empty: to any. digest: of the operand that the server should hold; empty:
    none. things: keys of what one server alone has. first: the one that it goes to if that one serves; empty: any.
    avoided: those that it goes to only where no other serves, as if they had failed.
    """

    server: str = ""
    digest: bytes = b""
    things: tuple[str, ...] = ()
    first: str = ""
    avoided: tuple[str, ...] = ()


ANY = Plan()


def key_of_handle(handle: str) -> str:
    """All handles of a server's process have one key: "a1b2c3d4-7" is the process, and a number."""
    return handle.partition("-")[0]


def key_of_name(name: str) -> str:
    """A name has its own, which is no handle's."""
    return f"@{name}"


def plan_of(*places: Place, server: str = "") -> Plan:
    """The plan of a call about matrices there, the one whose server matters most first."""
    digest = next((bytes(each.name) for each in places if each.kind == "digest"), b"")  # type: ignore[arg-type]
    things = [key_of_handle(str(each.name)) for each in places if each.kind == "handle"]
    things += [key_of_name(str(each.name)) for each in places if each.kind == "name"]
    return Plan(server, digest, tuple(things))


class Tour:
    """The way of one call: attempt by attempt, each at one server. Here of a client that has one."""

    def __init__(self, server: Server, plan: Plan) -> None:
        self.plan = plan
        self._server = server

    @property
    def is_one_of_several(self) -> bool:
        """Whether the client has other servers."""
        return False

    @property
    def has_other(self) -> bool:
        """Whether another attempt may go to a server that this call has not met."""
        return False

    def begin(self) -> Server:
        """Chooses the server of the next attempt. InvalidArgument: there is not the one that was asked for."""
        if self.plan.server and self.plan.server != self._server.name:
            raise errors.InvalidArgument(f"server is {self.plan.server!r}; it must be {self._server.name}")
        return self._server

    def end(self, error: errors.Error | None) -> None:
        """The attempt has ended so; nothing where there is none. The error gets its server's name."""

    def leave(self) -> None:
        """Ends an attempt of which nothing is to be told."""

    def learn(self, handle: str = "") -> None:
        """The server of the last attempt has the plan's things, and what has this handle, if any."""

    def may_search(self, error: errors.Error) -> bool:
        """Whether another server may have what this one does not find."""
        return error.code == "NOT_FOUND" and self.has_other


class One:
    """The only server of a client: it costs no choice, no health check and no lookup."""

    are_several = False

    def __init__(self, server: Server) -> None:
        self.only = server
        self.want_plans = server.link.affinity_header  # else calls have no use for theirs

    @property
    def names(self) -> list[str]:
        """The servers' addresses."""
        return [self.only.name]

    def tour(self, plan: Plan) -> Tour:
        """The way of a call."""
        return Tour(self.only, plan)

    def states(self) -> tuple[ServerState, ...]:
        """The servers as this client sees them."""
        return (ServerState(self.only.name, in_flight=self.only.in_flight),)

    def learn(self, things: Sequence[str], server: str) -> None:
        """Remembers where things are that one server alone has."""

    def close(self) -> None:
        """Ends every connection."""
        self.only.close()


class Several:
    """Servers of which a Fleet chooses. Thread-safe.

    A name's addresses are looked up here, and then on a thread of its own, every half minute and when a server
    fails. connect() makes a server of its address, and of the name that it was found by.
    """

    are_several = True
    want_plans = True

    def __init__(
        self,
        addresses: Sequence[Address],
        connect: Callable[[Address, str], Server],
    ) -> None:
        self._addresses = list(addresses)
        self._connect = connect
        self._has_names = any(each.servers for each in addresses)
        self._changed = threading.Condition()
        self._fault: errors.Error | None = None  # why there is no server
        self._fleet = Fleet()
        self._servers: dict[str, Server] = {}
        self._gone: list[Server] = []  # whose addresses are gone, until their last attempt has ended
        self._homes: dict[str, str] = {}
        self._must_look = False
        self._closed = False
        _fork.use_grpc()
        self._look()
        if self._has_names:
            threading.Thread(target=self._follow, name="gemmd-names", daemon=True).start()

    @property
    def names(self) -> list[str]:
        """The servers' addresses, in the order in which they were given."""
        with self._changed:
            return list(self._servers)

    def tour(self, plan: Plan) -> Tour:
        """The way of a call."""
        return _TourOfSeveral(self, plan)

    def states(self) -> tuple[ServerState, ...]:
        """The servers as this client sees them."""
        with self._changed:
            return self._fleet.states(time.monotonic())

    def learn(self, things: Sequence[str], server: str) -> None:
        """Remembers where things are that one server alone has."""
        if not things:
            return
        with self._changed:
            if len(self._homes) + len(things) > _MOST_HOMES:
                self._homes.clear()
            self._homes.update(dict.fromkeys(things, server))

    def close(self) -> None:
        """Ends every connection."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            every = [*self._servers.values(), *self._gone]
            self._servers, self._gone = {}, []
        for each in every:
            each.close()

    def choose(self, plan: Plan, met: set[str]) -> tuple[Server, Choice]:
        """An attempt's server; `met` becomes empty where no other is left. Raises why there is none."""
        with self._changed:
            if self._closed:
                raise errors.ClosedError("the client is closed")
            now = time.monotonic()
            if plan.server:
                choice = self._fleet.begin_at(plan.server, now)
                if choice is None and self._fault is None:
                    raise errors.InvalidArgument(
                        f"server is {plan.server!r}; it must be one of {', '.join(self._servers)}"
                    )
            else:
                if not self._fleet.has_other(met, now):
                    met.clear()
                home = self._home_of(plan.things) or plan.first
                choice = self._fleet.begin(Wish(plan.digest, home, met), now)
            if choice is None:
                self._look_soon()
                raise _again(self._fault)
            server = self._servers[choice.server]
            server.users += 1
            return server, choice

    def report(self, server: Server, choice: Choice, verdict: Verdict) -> None:
        """The attempt ended so."""
        with self._changed:
            server.users -= 1
            self._fleet.end(choice, verdict, time.monotonic())
            has_failed = verdict in (Verdict.UNAVAILABLE, Verdict.GONE)
            may_be_freed = server.users == 0 and server in self._gone
            if self._has_names and (has_failed or may_be_freed):
                self._look_soon()

    def has_other(self, met: set[str]) -> bool:
        """Whether a server may be asked that was not met."""
        with self._changed:
            return self._fleet.has_other(met, time.monotonic())

    def _home_of(self, things: Sequence[str]) -> str:
        return next((self._homes[each] for each in things if each in self._homes), "")

    def _hear(self, name: str, health: Health) -> None:
        with self._changed:
            self._fleet.set_health(name, health)
            if self._has_names and health is Health.NOT_SERVING:
                self._look_soon()

    def _look_soon(self) -> None:
        self._must_look = True
        self._changed.notify_all()

    def _look(self) -> None:
        """Looks up the names among the entries, and adds and removes servers accordingly."""
        found: dict[str, tuple[Address, str]] = {}  # a name may stand for an address that the list has too
        fault: errors.Error | None = None
        for each in self._addresses:
            if each.servers is None:
                found.setdefault(each.target, (each, ""))
                continue
            try:
                targets = resolve_by_host(*each.servers)
            except errors.Error as error:
                # Servers that are known stay: a resolver that fails says nothing of them.
                if self.names:
                    return
                if self._fault is None:
                    _log.warning("%s has no address now: %s", each.target, error)
                fault = error
                continue
            for target in targets:
                found.setdefault(target, (Address(target), each.servers[0]))
        found = dict(list(found.items())[:MOST_SERVERS])
        if not found and fault is None:
            fault = errors.Unavailable("servers have no address")
        with self._changed:
            self._fault = fault
        self._set(found)

    def _set(self, found: dict[str, tuple[Address, str]]) -> None:
        known = self.names
        made = {name: self._connect(*what) for name, what in found.items() if name not in known}
        with self._changed:
            if self._closed:
                late = list(made.values())
            else:
                late = []
                every = {**self._servers, **made}
                self._gone += [each for name, each in self._servers.items() if name not in found]
                self._servers = {name: every[name] for name in found}
                self._fleet.set_servers(list(found))
                for name, server in made.items():
                    server.watch = HealthWatch(server.link, functools.partial(self._hear, name))
        for each in late:
            each.close()

    def _free_gone(self) -> None:
        with self._changed:
            free = [each for each in self._gone if each.users == 0]
            self._gone = [each for each in self._gone if each.users > 0]
        for each in free:
            each.close()

    def _follow(self) -> None:
        while True:
            with self._changed:
                begun = time.monotonic()
                self._wait(begun + _LOOK_PAUSE, lambda: self._closed)
                self._wait(begun + _LOOK, lambda: self._closed or self._must_look)
                if self._closed:
                    return
                self._must_look = False
            self._look()
            self._free_gone()

    def _wait(self, until: float, is_over: Callable[[], bool]) -> None:
        self._changed.wait_for(is_over, max(0.0, until - time.monotonic()))


Servers = One | Several


class _TourOfSeveral(Tour):
    """Used by one thread at a time, but for leave(), which another one may call at any time."""

    def __init__(self, servers: Several, plan: Plan) -> None:
        self.plan = plan
        self._servers = servers
        self._met = set(plan.avoided)  # besides servers that failed, or did not find something
        self._lock = threading.Lock()
        self._attempt: tuple[Server, Choice] | None = None  # that is under way
        self._last = ""  # the last attempt's server

    @property
    def is_one_of_several(self) -> bool:
        return True

    @property
    def has_other(self) -> bool:
        return not self.plan.server and self._servers.has_other(self._met)

    def begin(self) -> Server:
        attempt = self._servers.choose(self.plan, self._met)
        with self._lock:
            self._attempt = attempt
        self._last = attempt[0].name
        return attempt[0]

    def end(self, error: errors.Error | None) -> None:
        with self._lock:
            attempt, self._attempt = self._attempt, None
        if attempt is None:
            return
        verdict = verdict_of(error)
        self._servers.report(*attempt, verdict)
        if error is None:
            return
        error.server = attempt[0].name
        if verdict in (Verdict.UNAVAILABLE, Verdict.GONE) or error.code == "NOT_FOUND":
            self._met.add(attempt[0].name)

    def leave(self) -> None:
        with self._lock:
            attempt, self._attempt = self._attempt, None
        if attempt is not None:
            self._servers.report(*attempt, Verdict.UNTOLD)

    def learn(self, handle: str = "") -> None:
        things = [*self.plan.things, *([key_of_handle(handle)] if handle else [])]
        self._servers.learn(things, self._last)


def verdict_of(error: errors.Error | None) -> Verdict:
    """What an attempt's end tells of its server."""
    if error is None:
        return Verdict.ANSWERED
    if error.code == "UNAVAILABLE":
        return Verdict.GONE if error.is_unreachable or error.is_draining else Verdict.UNAVAILABLE
    # The caller's clock, or the caller, ended it.
    return Verdict.UNTOLD if error.code in ("CANCELLED", "DEADLINE_EXCEEDED") else Verdict.ANSWERED


def _again(fault: errors.Error | None) -> errors.Error:
    """A new error of the same words: each call raises its own."""
    assert fault is not None  # an empty list has one
    told = type(fault)(fault.message)
    told.is_unreachable = fault.is_unreachable
    return told
