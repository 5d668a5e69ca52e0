"""The parts of a product over several servers, and their attempts: a state machine without clock, lock or socket.

The rules are those of the C++ library's client/split, and docs/several-servers.md explains them to users.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from gemmd import errors


@dataclass(frozen=True)
class SplitPolicy:
    """Times in seconds.

    tile_rows: a part begins at a multiple of so many rows. least_part_flops: no part has less to compute.
    after_medians: once half of the parts have ended, one that takes so many times their median is asked for at
    another server too, and the first answer is taken. after_at_least: but not sooner. most_hedged: a product's
    share of such parts, rounded down. most_repeats: a part whose numerics id is not that of the others is computed
    anew so often.
    """

    tile_rows: int = 128
    least_part_flops: float = 2.0**28
    after_medians: float = 2.0
    after_at_least: float = 0.05
    most_hedged: float = 0.5
    most_repeats: int = 2


POLICY = SplitPolicy()


class Rows(NamedTuple):
    """Rows of D."""

    begin: int
    end: int

    def __str__(self) -> str:
        return f"rows {self.begin} to {self.end} of D"


def cut_rows(rows: int, flops_of_row: float, servers: int, policy: SplitPolicy) -> list[Rows]:
    """The rows of each part: as many parts as there are servers or fewer, equal up to a tile."""
    tiles = -(-rows // policy.tile_rows)
    worth = int(min(rows * flops_of_row / policy.least_part_flops, servers))
    parts = max(1, min(servers, tiles, worth))
    edges = [min(rows, tiles * i // parts * policy.tile_rows) for i in range(parts + 1)]
    return [Rows(*each) for each in itertools.pairwise(edges)]


class Begin(NamedTuple):
    """An attempt that begins, which has its own retries.

    first: the server to go to if it serves; empty: any. avoided: servers to go to only where no other serves.
    """

    attempt: int
    part: int
    first: str
    avoided: tuple[str, ...]


class Actions(NamedTuple):
    """What is to be done now: attempts that begin, and those to cancel."""

    begins: list[Begin]
    cancels: list[int]


class Answer(NamedTuple):
    """What tells of an answer."""

    server: str
    numerics_id: str


@dataclass
class Part:
    """winner: the attempt whose answer is taken; -1: there is none yet."""

    rows: Rows
    winner: int = -1
    answer: Answer = field(default_factory=lambda: Answer("", ""))
    is_hedged: bool = False
    repeats: int = 0


@dataclass
class _Attempt:
    part: int
    server: str  # that it was to go to first
    began: float
    is_open: bool = True
    is_wanted: bool = True


@dataclass
class SplitRun:
    """REQUIRES: calls one at a time. Times count from where the product began. Part i goes to server i first."""

    policy: SplitPolicy
    rows: Sequence[Rows]
    servers: Sequence[str]
    parts: list[Part] = field(default_factory=list)
    error: BaseException | None = None  # of the product; it stays once there is one
    _attempts: list[_Attempt] = field(default_factory=list)
    _took: list[float] = field(default_factory=list)  # by answers that were taken, sorted
    _in_end_order: list[int] = field(default_factory=list)  # their parts
    _hedged: int = 0

    def __post_init__(self) -> None:
        self.parts = [Part(each) for each in self.rows]

    @property
    def is_over(self) -> bool:
        """Nothing is under way, and nothing more begins."""
        return not any(each.is_open for each in self._attempts)

    @property
    def next_wake(self) -> float:
        """When something will be due, if nothing ends before; infinity: never."""
        return min(map(self._hedge_time, range(len(self.parts))), default=math.inf)

    def is_wanted(self, attempt: int) -> bool:
        """Whether the attempt's answer would be taken."""
        return self._attempts[attempt].is_wanted

    def start(self, now: float) -> Actions:
        """REQUIRES: called once, first."""
        return Actions([self._begin(i, self.servers[i], (), now) for i in range(len(self.parts))], [])

    def succeed(self, attempt: int, answer: Answer, now: float) -> Actions:
        """An attempt has ended. Its answer is taken where is_wanted() was true before."""
        actions = Actions([], [])
        ended = self._end(attempt)
        if ended is None:
            return actions
        part = self.parts[ended.part]
        part.winner, part.answer = attempt, answer
        self._took = sorted([*self._took, now - ended.began])
        self._in_end_order.append(ended.part)
        self._cancel(ended.part, actions)
        self._compare_numerics(now, actions)
        return actions

    def fail(self, attempt: int, why: BaseException) -> Actions:
        """An attempt has ended without an answer."""
        actions = Actions([], [])
        ended = self._end(attempt)
        # Another attempt at the part may still be answered.
        if ended is None or self.open(ended.part):
            return actions
        if len(self.parts) > 1 and isinstance(why, errors.Error):
            why.message = f"{self.parts[ended.part].rows}: {why.message}"
        self._stop(why, actions)
        return actions

    def wake(self, now: float) -> Actions:
        """Begins what is due."""
        due = [i for i in range(len(self.parts)) if self._hedge_time(i) <= now]
        return Actions([self._hedge(i, now) for i in due if self._may_hedge()], [])

    def _begin(self, part: int, first: str, avoided: Sequence[str], now: float) -> Begin:
        self._attempts.append(_Attempt(part, first, now))
        return Begin(len(self._attempts) - 1, part, first, tuple(avoided))

    def _end(self, attempt: int) -> _Attempt | None:
        """None where nobody wants it."""
        ended = self._attempts[attempt]
        was_wanted, ended.is_wanted, ended.is_open = ended.is_wanted, False, False
        return ended if was_wanted else None

    def open(self, part: int) -> list[int]:
        """Attempts at the part that are under way and wanted."""
        return [i for i, each in enumerate(self._attempts) if each.part == part and each.is_wanted]

    def _cancel(self, part: int, actions: Actions) -> None:
        for attempt in self.open(part):
            self._attempts[attempt].is_wanted = False
            actions.cancels.append(attempt)

    def _stop(self, why: BaseException, actions: Actions) -> None:
        self.error = why
        for part in range(len(self.parts)):
            self._cancel(part, actions)

    def _may_hedge(self) -> bool:
        most = self.policy.most_hedged * len(self.parts)
        return self.error is None and 2 * len(self._took) >= len(self.parts) and self._hedged + 1 <= most

    def _hedge_time(self, part: int) -> float:
        open_ = self.open(part)
        if not self._may_hedge() or self.parts[part].is_hedged or not open_:
            return math.inf
        median = self._took[len(self._took) // 2]
        wait = max(self.policy.after_at_least, self.policy.after_medians * median)
        return self._attempts[open_[0]].began + wait

    def _hedge(self, part: int, now: float) -> Begin:
        self.parts[part].is_hedged = True
        self._hedged += 1
        avoided = [each.server for each in self._attempts if each.part == part]
        # The first that ended its own part has what this one needs, and nothing to do.
        ended = (self.parts[i] for i in self._in_end_order)
        idle = (each.answer.server for each in ended if each.winner >= 0)
        first = next((server for server in idle if server not in avoided), "")
        return self._begin(part, first, avoided, now)

    def _compare_numerics(self, now: float, actions: Actions) -> None:
        """Bits are those of one server where all parts have one numerics id."""
        if any(each.winner < 0 for each in self.parts):
            return
        rows: Counter[str] = Counter()
        for each in self.parts:
            rows[each.answer.numerics_id] += each.rows.end - each.rows.begin
        common = rows.most_common(1)[0][0]  # of two as frequent the one that comes first
        alike = [each.answer.server for each in self.parts if each.answer.numerics_id == common]
        odd = [i for i, each in enumerate(self.parts) if each.answer.numerics_id != common]
        # One that gave both may do so again, but no other is known to be better.
        others = [self.parts[i].answer.server for i in odd if self.parts[i].answer.server not in alike]
        for part in (self.parts[i] for i in odd):
            if part.repeats < self.policy.most_repeats:
                continue
            why = errors.FailedPrecondition(
                f"{part.rows} have numerics id {part.answer.numerics_id!r} of {part.answer.server}, and others "
                f"{common!r} of {alike[0]}: the bits of D would not be those of one server; repeated "
                f"{part.repeats} times"
            )
            self._stop(why, actions)
            return
        for i in odd:
            self.parts[i].repeats += 1
            self.parts[i].winner = -1
            actions.begins.append(self._begin(i, alike[i % len(alike)], others, now))
