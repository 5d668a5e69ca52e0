"""The choice among several servers, without clock and sockets: the rules of the C++ library's client/fleet."""

import hashlib
import math
import pathlib
import random as stdlib_random

import pytest

from gemmd._fleet import Fleet, FleetPolicy, Health, Verdict, Wish, in_order_of

ORDERS = pathlib.Path(__file__).parents[1] / "client/fleet/orders.txt"


def digest_of(number):
    return hashlib.sha256(str(number).encode()).digest()


def names(count):
    return [f"gpu-{each}:50051" for each in range(count)]


class Three:
    """A fleet of three servers, and the time."""

    def __init__(self):
        self.fleet = Fleet()
        self.fleet.set_servers(names(3))
        self.now = 1000.0

    def begin(self, **wish):
        return self.fleet.begin(Wish(**wish), self.now)

    def fail(self, name, verdict=Verdict.UNAVAILABLE):
        self.fleet.end(self.fleet.begin_at(name, self.now), verdict, self.now)

    def chosen(self, calls=6):
        """The servers of the next calls, each over before the next begins."""
        found = set()
        for _ in range(calls):
            choice = self.begin()
            found.add(choice.server)
            self.fleet.end(choice, Verdict.ANSWERED, self.now)
        return found

    def state(self, name):
        return next(each for each in self.fleet.states(self.now) if each.address == name)


A, B, C = names(3)


def test_the_order_is_that_of_every_client():
    lines = [each.split() for each in ORDERS.read_text().splitlines() if not each.startswith("#")]
    assert len(lines) == 11
    for digest, *wanted in lines:
        assert in_order_of(bytes.fromhex(digest), sorted(wanted)) == wanted
        # The fleet follows it too.
        fleet = Fleet()
        fleet.set_servers(sorted(wanted))
        assert fleet.begin(Wish(bytes.fromhex(digest)), 0).server == wanted[0]


def test_calls_without_an_operand_go_in_turn():
    three = Three()
    assert [three.begin().server for _ in range(6)] == [A, B, C, A, B, C]


def test_a_server_that_fails_several_times_is_left_out_twice_as_long_each_time():
    three = Three()
    three.fail(B)
    three.fail(B)
    assert three.chosen() == {A, B, C}  # and an answer in between begins the count anew
    for _ in range(3):
        three.fail(B)
    for seconds in (1, 2, 4, 8, 16, 32, 60, 60):
        assert three.chosen() == {A, C}
        assert three.state(B).is_left_out
        three.now += seconds - 2**-10
        assert three.chosen() == {A, C}
        three.now += 2**-10
        assert not three.state(B).is_left_out
        trial = three.begin(met=[A, C])
        assert (trial.server, trial.is_trial) == (B, True)
        assert three.chosen() == {A, C}  # one trial at a time
        three.fleet.end(trial, Verdict.UNAVAILABLE, three.now)
    three.now += 60
    assert three.chosen() == {A, B, C}
    three.fail(B, Verdict.GONE)
    assert three.chosen() == {A, C}
    three.now += 1  # as the first time
    assert three.chosen() == {A, B, C}


def test_a_server_that_is_gone_is_left_out_at_once_though_it_ends_what_it_has():
    three = Three()
    taken = three.fleet.begin_at(B, three.now)
    three.fail(B, Verdict.GONE)
    three.fleet.end(taken, Verdict.ANSWERED, three.now)
    assert three.chosen() == {A, C}
    # It was started again, and said so.
    three.fleet.set_health(B, Health.NOT_SERVING)
    three.fleet.set_health(B, Health.SERVING)
    assert three.chosen() == {A, B, C}


def test_a_server_that_is_gone_is_left_out_for_one_failure_of_each_trial():
    three = Three()
    three.fail(B, Verdict.GONE)
    for seconds in (1, 2, 4):
        three.now += seconds - 2**-10
        assert not three.fleet.has_other([A, C], three.now)
        three.now += 2**-10
        assert three.fleet.has_other([A, C], three.now)
        three.fail(B)  # one of the three in a row that it takes else
    assert three.state(B).failures == 4


def test_what_began_before_it_was_left_out_says_nothing_new():
    three = Three()
    taken = [three.fleet.begin_at(B, three.now) for _ in range(10)]
    for each in taken:
        three.fleet.end(each, Verdict.GONE, three.now)
    assert three.state(B).failures == 10
    three.now += 1
    assert three.fleet.has_other([A, C], three.now)


def test_there_is_one_trial_at_a_time_also_where_the_others_have_load():
    three = Three()
    three.fail(B, Verdict.GONE)
    for name in 5 * (A, C):
        three.fleet.begin_at(name, three.now)
    three.now += 1
    assert three.begin().server == B  # for its load
    assert three.chosen() == {A, C}
    three.now += 1  # as late as after another failure
    assert B in three.chosen()


def test_a_call_that_was_cancelled_says_nothing():
    three = Three()
    for _ in range(10):
        three.fail(B, Verdict.UNTOLD)
    assert three.chosen(3) == {A, B, C}
    assert three.state(B).failures == 0


def test_where_none_serves_all_are_asked():
    three = Three()
    for name in (A, B, C):
        three.fleet.set_health(name, Health.NOT_SERVING)
    assert not three.fleet.has_other([], three.now)
    assert three.chosen(3) == {A, B, C}
    assert three.begin(met=[A, B]).server == C


def test_the_home_of_a_handle_goes_before_the_load():
    three = Three()
    assert {three.begin(home=C).server for _ in range(10)} == {C}
    assert three.begin(home=C, met=[C]).server != C


def test_an_empty_fleet_chooses_none():
    fleet = Fleet()
    assert fleet.begin(Wish(), 0) is None
    assert fleet.begin_at(A, 0) is None
    fleet.set_health(A, Health.SERVING)
    assert fleet.states(0) == ()


def test_addresses_that_change_leave_nothing():
    three = Three()
    old = three.fleet.begin_at(A, three.now)
    for number in range(100):
        three.fleet.set_servers([f"new-{number}"])
        choice = three.begin()
        assert choice.server == f"new-{number}"
        three.fleet.end(choice, Verdict.ANSWERED, three.now)
        assert len(three.fleet.states(three.now)) == 1
    assert old.server == A  # as long as its attempt goes on
    three.fleet.end(old, Verdict.GONE, three.now)
    three.fleet.set_servers([A])
    assert not three.state(A).is_left_out


@pytest.mark.parametrize("count", [2, 3, 5, 8])
def test_a_replica_that_goes_moves_its_own_operands_alone(count):
    digests, every = 4000, names(count)
    moved = 0
    for number in range(digests):
        before = in_order_of(digest_of(number), every)
        assert in_order_of(digest_of(number), every[:-1]) == [each for each in before if each != every[-1]]
        moved += before[0] == every[-1]
    # 1/n, within four standard deviations of what chance does.
    share = 1 / count
    assert moved < digests * share + 4 * math.sqrt(digests * share * (1 - share))


class History:
    """A client's calls in random order, over servers that fail, leave and come back."""

    def __init__(self, seed):
        self.random = stdlib_random.Random(seed)
        self.fleet = Fleet()
        self.now = 1000.0
        self.open = []
        self.listed = {}  # by name, the attempts under way that the fleet knows of

    def run(self, steps):
        self.set_servers()
        for _ in range(steps):
            what = self.random.randrange(20)
            if what < 9:
                self.begin()
            elif what < 15:
                if self.open:
                    self.end(self.random.randrange(len(self.open)))
            elif what < 17:
                self.now += self.random.randrange(3000) / 1000
            elif what < 19:
                if self.listed:
                    self.fleet.set_health(self.random.choice(list(self.listed)), self.random.choice(list(Health)))
            elif self.random.randrange(4) == 0:
                self.set_servers()
        while self.open:
            self.end(0)
        assert all(each.in_flight == 0 for each in self.fleet.states(self.now))

    def set_servers(self):
        now = self.random.sample(names(6), self.random.randrange(7))
        self.listed = {name: self.listed.get(name, []) for name in now}
        self.fleet.set_servers(now)
        assert [each.address for each in self.fleet.states(self.now)] == now

    def begin(self):
        before = self.fleet.states(self.now)
        digest = digest_of(self.random.randrange(5)) if self.random.randrange(2) else b""
        met = {each.address for each in before if self.random.randrange(4) == 0}
        home = self.random.choice(names(6)) if self.random.randrange(5) == 0 else ""
        has_other = self.fleet.has_other(met, self.now)
        choice = self.fleet.begin(Wish(digest, home, met), self.now)
        if not before:
            assert choice is None
            return
        self.open.append(choice)
        self.listed[choice.server].append(choice)
        able = [each for each in before if not each.is_left_out and each.health != "not_serving"]
        assert has_other == any(each.address not in met for each in able)
        best = [each for each in able or before if each.address not in met] or able or before
        by_name = {each.address: each for each in best}
        # None was chosen though better ones were there.
        assert choice.server in by_name
        if home in by_name:
            assert choice.server == home
            return
        most = math.ceil(1.25 * (1 + sum(each.in_flight for each in best)) / len(best))
        assert by_name[choice.server].in_flight + 1 <= most
        if digest:
            order = in_order_of(digest, by_name)
            assert choice.server == next(each for each in order if by_name[each].in_flight + 1 <= most)

    def end(self, index):
        choice = self.open.pop(index)
        mine = self.listed.get(choice.server, [])
        if choice in mine:
            mine.remove(choice)
        self.fleet.end(choice, self.random.choice(list(Verdict)), self.now)
        for each in self.fleet.states(self.now):
            assert each.in_flight == len(self.listed[each.address])


def test_no_server_is_picked_or_loaded_that_should_not_be():
    for seed in range(200):
        History(seed).run(200)


def simulate(servers, operands, in_flight, skew, requests):
    """The hit rate, the load of the busiest server over the mean, and how many have the operand asked for most.

    Closed loops of products by operands, of which some are asked for far more often than others.
    """
    random = stdlib_random.Random(7)
    asked = random.choices(range(operands), [(each + 1) ** -skew for each in range(operands)], k=requests)
    fleet = Fleet()
    fleet.set_servers(names(servers))
    holders = [set() for _ in range(operands)]
    digests = [digest_of(each) for each in range(operands)]
    under_way, hits = [], 0
    for operand in asked:
        if len(under_way) == in_flight:
            fleet.end(under_way.pop(random.randrange(in_flight)), Verdict.ANSWERED, 0)
        choice = fleet.begin(Wish(digests[operand]), 0)
        under_way.append(choice)
        hits += choice.server in holders[operand]
        holders[operand].add(choice.server)
    most = max(each.attempts for each in fleet.states(0))
    return hits / requests, most * servers / requests, len(holders[0])


@pytest.mark.parametrize(("servers", "operands", "skew"), [(3, 30, 0.0), (4, 100, 1.0), (8, 200, 0.8)])
def test_operands_are_found_and_no_replica_is_overloaded(servers, operands, skew):
    hit_rate, most_of_mean, _ = simulate(servers, operands, 64, skew, 20000)
    assert hit_rate >= 0.95
    assert most_of_mean <= 1.3


def test_one_hot_operand_is_on_as_many_servers_as_its_load_needs():
    _, most_of_mean, holders = simulate(4, 1, 64, 0, 10000)
    assert holders == 4
    assert most_of_mean <= 1.3
    # One after another they stay together.
    assert simulate(4, 1, 1, 0, 1000)[2] == 1


def test_another_policy():
    fleet = Fleet(FleetPolicy(failures=1, first_ejection=5, longest_ejection=7))
    fleet.set_servers([A, B])
    fleet.end(fleet.begin_at(A, 0), Verdict.UNAVAILABLE, 0)
    assert fleet.begin(Wish(), 4.9).server == B
    trial = fleet.begin(Wish(met=[B]), 5)
    assert trial.is_trial
    fleet.end(trial, Verdict.UNAVAILABLE, 5)
    assert not fleet.has_other([B], 11.9)
    assert fleet.has_other([B], 12)
