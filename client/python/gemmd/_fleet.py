"""Chooses the server of each attempt, where a client knows several: a state machine without clock, lock or socket.

The rules are those of the C++ library's client/fleet/fleet.h, and docs/several-servers.md explains them to users.
"""

from __future__ import annotations

import enum
import hashlib
import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

_MASK = 2**64 - 1


class Health(enum.Enum):
    """The state of a server, as it says itself by grpc.health.v1."""

    UNKNOWN = "unknown"
    SERVING = "serving"
    NOT_SERVING = "not_serving"


class Verdict(enum.Enum):
    """The part of an attempt's end that tells of its server."""

    ANSWERED = "answered"  # with a result, or with a refusal of the request
    UNAVAILABLE = "unavailable"  # perhaps in passing
    GONE = "gone"  # it drains, or no connection could be made: it is left out at once
    UNTOLD = "untold"  # nothing


@dataclass(frozen=True)
class FleetPolicy:
    """Times in seconds.

    failures: attempts in a row that end with UNAVAILABLE leave their server out, for first_ejection; for twice as
    long each time that the attempt after it fails as well. load_bound: a server gets no attempt that would make its
    load more than so many times the mean, rounded up.
    """

    failures: int = 3
    first_ejection: float = 1.0
    longest_ejection: float = 60.0
    load_bound: float = 1.25


@dataclass(frozen=True)
class ServerState:
    """A server as a client sees it; attempts are this client's.

    health: "serving" or "not_serving", as the server says; "unknown" where it has no health service, does not let
    this client ask, or is the client's only one. is_left_out: its last attempts failed. failures: attempts that
    ended with UNAVAILABLE.
    """

    address: str
    health: str = "unknown"
    is_left_out: bool = False
    in_flight: int = 0
    attempts: int = 0
    failures: int = 0


class Wish(NamedTuple):
    """What an attempt asks of its server.

    digest: of the operand that the server should hold, 32 bytes; empty: it is no matter. home: the server that
    alone holds a part of the request, or that its caller wishes; empty: none. met: servers that the call has met
    already.
    """

    digest: bytes = b""
    home: str = ""
    met: Collection[str] = ()


@dataclass(eq=False)
class _Member:
    name: str
    hash: int
    health: Health = Health.UNKNOWN
    in_flight: int = 0
    attempts: int = 0
    failures: int = 0
    failures_in_row: int = 0
    ejection: float = 0.0  # the present or last one's length; 0: none
    ejected_until: float = -math.inf  # of an ejection: when a trial may be made


class Choice(NamedTuple):
    """An attempt that was counted. is_trial: its server was left out until now."""

    member: _Member
    is_trial: bool

    @property
    def server(self) -> str:
        """The server's name."""
        return self.member.name


def _number_of(data: bytes) -> int:
    return int.from_bytes(data[:8], "little")


def _hash_of(name: str) -> int:
    return _number_of(hashlib.sha256(name.encode()).digest())


def _weight_of(digest: int, name: int) -> int:
    """The finalizer of SplitMix64 (Steele, Lea, Flood): each bit of the sum changes half of the result's."""
    x = digest ^ name
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK
    return x ^ (x >> 31)


def in_order_of(digest: bytes, names: Iterable[str]) -> list[str]:
    """Names in the order in which servers of these names are to hold the operand.

    The highest random weight comes first, which moves no operand of the others where one server goes. Clients of
    every language have the same order.
    """
    number = _number_of(digest)
    return sorted(names, key=lambda name: (-_weight_of(number, _hash_of(name)), name))


class Fleet:
    """REQUIRES: calls one at a time. Times in seconds of any one clock. A server is called by its name."""

    def __init__(self, policy: FleetPolicy | None = None) -> None:
        self._policy = policy or FleetPolicy()
        self._members: dict[str, _Member] = {}
        self._turn = 0

    def set_servers(self, names: Sequence[str]) -> None:
        """The servers from now on; of those that were there before, what is known stays."""
        old = self._members
        self._members = {name: old.get(name) or _Member(name, _hash_of(name)) for name in names}

    def set_health(self, name: str, health: Health) -> None:
        """A server that was left out and says that it serves is back. Nothing where none has the name."""
        member = self._members.get(name)
        if member is None:
            return
        if health is Health.SERVING and member.health is not Health.SERVING:
            member.failures_in_row, member.ejection = 0, 0.0
        member.health = health

    def begin(self, wish: Wish, now: float) -> Choice | None:
        """Chooses the server of an attempt and counts it there; None: there is none.

        Servers that are neither left out nor not serving come first, and of these those that were not met. Among
        them: the home; else, up to the bound of the load, the first in the digest's order, or without a digest each
        in turn.
        """
        candidates = self._candidates(wish.met, now)
        return self._begin(self._choose(candidates, wish), now) if candidates else None

    def begin_at(self, name: str, now: float) -> Choice | None:
        """Counts an attempt there, whatever its state; None: there is none of that name."""
        member = self._members.get(name)
        return None if member is None else self._begin(member, now)

    def end(self, choice: Choice, verdict: Verdict, now: float) -> None:
        """REQUIRES: once for each choice."""
        member = choice.member
        member.in_flight -= 1
        if verdict is Verdict.UNTOLD:
            return
        # Attempts that began before it was left out say nothing new: one that drains ends what it has.
        is_news = choice.is_trial or member.ejection == 0
        if verdict is Verdict.ANSWERED:
            if is_news:
                member.failures_in_row, member.ejection = 0, 0.0
            return
        member.failures += 1
        member.failures_in_row += 1
        is_enough = verdict is Verdict.GONE or choice.is_trial or member.failures_in_row >= self._policy.failures
        if is_news and is_enough:
            self._eject(member, now)

    def has_other(self, met: Collection[str], now: float) -> bool:
        """Whether a server may be asked that was not met."""
        return any(self._may_begin(each, now) and each.name not in met for each in self._members.values())

    def states(self, now: float) -> tuple[ServerState, ...]:
        """The servers, in the order of the list."""
        return tuple(
            ServerState(
                each.name,
                each.health.value,
                self._is_left_out(each, now),
                each.in_flight,
                each.attempts,
                each.failures,
            )
            for each in self._members.values()
        )

    @staticmethod
    def _is_left_out(member: _Member, now: float) -> bool:
        return member.ejection > 0 and now < member.ejected_until

    def _may_begin(self, member: _Member, now: float) -> bool:
        return member.health is not Health.NOT_SERVING and not self._is_left_out(member, now)

    def _candidates(self, met: Collection[str], now: float) -> list[_Member]:
        """The servers of the first kind that there is any of."""
        every = list(self._members.values())
        able = [each for each in every if self._may_begin(each, now)]
        some = able or every
        return [each for each in some if each.name not in met] or some

    def _choose(self, candidates: list[_Member], wish: Wish) -> _Member:
        for each in candidates:
            if each.name == wish.home:
                return each
        if wish.digest:
            number = _number_of(wish.digest)
            order = sorted(candidates, key=lambda each: (-_weight_of(number, each.hash), each.name))
        else:
            shift = self._turn % len(candidates)
            self._turn += 1
            order = candidates[shift:] + candidates[:shift]
        load = 1 + sum(each.in_flight for each in order)
        most = math.ceil(self._policy.load_bound * (load / len(order)))
        # All of them above the mean: that is none, unless the bound is below 1.
        return next((each for each in order if each.in_flight + 1 <= most), order[0])

    def _begin(self, member: _Member, now: float) -> Choice:
        member.in_flight += 1
        member.attempts += 1
        is_trial = member.ejection > 0
        if is_trial:
            # One at a time: the next one comes as late as after another ejection.
            member.ejected_until = max(member.ejected_until, now + member.ejection)
        return Choice(member, is_trial)

    def _eject(self, member: _Member, now: float) -> None:
        policy = self._policy
        longer = min(2 * member.ejection, policy.longest_ejection)
        member.ejection = longer if member.ejection > 0 else policy.first_ejection
        member.ejected_until = now + member.ejection
