"""One product over several servers: its parts as a state machine, and over real servers on the CPU."""

import asyncio
import os
import random as stdlib_random
import signal
import threading
import time
from dataclasses import replace

import numpy as np
import pytest
from testing.processes import Server

import gemmd
import gemmd.aio
from gemmd import _prepare, _servers, _splitting
from gemmd._servers import Plan
from gemmd._split import Answer, Rows, SplitPolicy, SplitRun, cut_rows

NEVER = float("inf")
# None is hedged because this machine was busy.
SMALL = SplitPolicy(tile_rows=8, least_part_flops=1.0, most_hedged=0.0)


def run_of(parts):
    rows = [Rows(128 * i, 128 * i + 128) for i in range(parts)]
    return SplitRun(SplitPolicy(), rows, [f"s{i}" for i in range(parts)])


def test_parts_are_whole_tiles_and_as_equal_as_these_allow():
    policy = SplitPolicy(tile_rows=8, least_part_flops=1.0)
    for rows in range(1, 80):
        for servers in range(1, 6):
            parts = cut_rows(rows, 1.0, servers, policy)
            assert len(parts) == min(servers, -(-rows // 8))
            assert [each.begin for each in parts] == [0, *(each.end for each in parts[:-1])]
            assert parts[-1].end == rows
            assert all(each.begin % 8 == 0 for each in parts)
            tiles = [-(-(each.end - each.begin) // 8) for each in parts]
            assert max(tiles) <= min(tiles) + 1


def test_no_part_is_smaller_than_it_is_worth():
    policy = SplitPolicy(tile_rows=1, least_part_flops=10.0)
    assert [len(cut_rows(rows, 1.0, 4, policy)) for rows in (9, 19, 20, 39, 400)] == [1, 1, 2, 3, 4]


def test_a_late_part_is_hedged_at_the_first_that_ended():
    run = run_of(4)
    assert [(each.part, each.first, each.avoided) for each in run.start(0).begins] == [
        (i, f"s{i}", ()) for i in range(4)
    ]
    run.succeed(2, Answer("s2", "id"), 0.1)
    assert run.next_wake == NEVER  # fewer than half have ended
    run.succeed(0, Answer("s0", "id"), 0.2)
    assert run.next_wake == pytest.approx(0.4)
    assert run.wake(0.39).begins == []
    run.succeed(1, Answer("s1", "id"), 0.39)
    (hedge,) = run.wake(0.41).begins
    assert (hedge.part, hedge.first, hedge.avoided) == (3, "s2", ("s3",))
    assert run.parts[3].is_hedged
    assert run.next_wake == NEVER  # once a part
    assert run.succeed(hedge.attempt, Answer("s2", "id"), 0.5).cancels == [3]
    assert not run.is_over
    run.succeed(3, Answer("s3", "other"), 0.6)  # the late answer is nobody's
    assert run.is_over
    assert run.error is None
    assert run.parts[3].answer.server == "s2"


def test_no_more_parts_are_hedged_than_the_share_says():
    for parts, most in {1: 0, 2: 1, 3: 1, 4: 2, 5: 2}.items():
        run = run_of(parts)
        run.start(0)
        for i in range((parts + 1) // 2):
            run.succeed(i, Answer("s", "id"), 0.01)
        hedged = sum(len(run.wake(hour * 3600.0).begins) for hour in range(1, 10))
        assert hedged == min(most, parts - (parts + 1) // 2), parts


def test_an_error_ends_the_others_and_says_which_rows():
    run = run_of(3)
    run.start(0)
    assert run.fail(1, gemmd.InvalidArgument("b.rows is 3")).cancels == [0, 2]
    assert str(run.error) == "rows 128 to 256 of D: b.rows is 3"
    for other in (0, 2):
        assert not run.is_over
        run.fail(other, gemmd.errors.Cancelled("cancelled"))
    assert run.is_over
    assert isinstance(run.error, gemmd.InvalidArgument)


def test_one_of_two_attempts_may_fail():
    for is_hedge in (False, True):
        run = run_of(2)
        run.start(0)
        run.succeed(1, Answer("s1", "id"), 0.001)
        (hedge,) = run.wake(0.06).begins
        fails, stays = (hedge.attempt, 0) if is_hedge else (0, hedge.attempt)
        assert run.fail(fails, gemmd.Unavailable("away")).cancels == []
        run.succeed(stays, Answer("s1", "id"), 0.07)
        assert run.is_over
        assert run.error is None


def test_rows_of_another_numerics_id_are_computed_anew_where_the_others_were():
    run = run_of(3)
    run.start(0)
    run.succeed(0, Answer("s0", "odd"), 0.1)
    run.succeed(1, Answer("s1", "id"), 0.1)
    (again,) = run.succeed(2, Answer("s2", "id"), 0.1).begins
    assert (again.part, again.first, again.avoided) == (0, "s1", ("s0",))
    (again,) = run.succeed(again.attempt, Answer("s0", "odd"), 0.1).begins
    assert run.succeed(again.attempt, Answer("s0", "odd"), 0.1).begins == []
    assert run.is_over
    assert isinstance(run.error, gemmd.FailedPrecondition)
    assert "rows 0 to 128 of D have numerics id 'odd' of s0, and others 'id' of s1" in str(run.error)


def test_random_histories_end_and_have_one_numerics_id():
    random = stdlib_random.Random(20261130)
    refused = hedged = repeated = 0
    for _ in range(1000):
        run = run_of(random.randint(1, 6))
        begun = [each.attempt for each in run.start(0).begins]
        open_ = list(begun)
        now = 0.0
        while open_:
            now += random.random() / 10
            if run.next_wake <= now:
                open_ += [each.attempt for each in run.wake(now).begins]
            if random.random() < 0.5:
                continue
            attempt = open_.pop(random.randrange(len(open_)))
            if not run.is_wanted(attempt):
                actions = run.fail(attempt, gemmd.errors.Cancelled("cancelled"))
            elif random.random() < 0.03:
                actions = run.fail(attempt, gemmd.errors.Internal("no"))
            else:
                name = "odd" if random.random() < 0.2 else "id"
                actions = run.succeed(attempt, Answer(f"s{attempt}", name), now)
            open_ += [each.attempt for each in actions.begins]
            assert all(not run.is_wanted(each) for each in actions.cancels)
            assert run.is_over == (not open_)
        hedges = sum(each.is_hedged for each in run.parts)
        assert 2 * hedges <= len(run.parts)
        hedged += hedges
        repeated += sum(each.repeats for each in run.parts)
        refused += run.error is not None
        if run.error is None:
            assert len({each.answer.numerics_id for each in run.parts}) == 1
            assert all(each.winner >= 0 for each in run.parts)
    assert min(refused, hedged, repeated) > 50


@pytest.fixture(autouse=True)
def small(monkeypatch):
    for module in (_prepare, _splitting):
        monkeypatch.setattr(module, "POLICY", SMALL)


@pytest.fixture
def three():
    servers = [Server("--cpu.threads=1") for _ in range(3)]
    yield servers
    for each in servers:
        each.kill()


def stop(server):
    """Returns when none of its threads runs any more."""
    os.kill(server.process.pid, signal.SIGSTOP)
    assert os.WIFSTOPPED(os.waitpid(server.process.pid, os.WUNTRACED)[1])


def of(servers, **arguments):
    return gemmd.Client([each.address for each in servers], **arguments)


def normal(random, *shape):
    return random.standard_normal(shape, dtype="f4")


def test_an_attempt_goes_first_where_it_is_to_and_avoids_others(three):
    with of(three) as client:
        servers = client._engine.servers
        names = servers.names

        def chosen(**plan):
            tour = servers.tour(Plan(**plan))
            name = tour.begin().name
            tour.leave()
            return name

        for name in names:
            for _ in range(2):
                assert chosen(first=name) == name
                assert chosen(avoided=tuple(each for each in names if each != name)) == name
        assert chosen(first=names[1], avoided=(names[1],)) != names[1]
        assert chosen(first=names[1], avoided=tuple(names)) == names[1]  # all are avoided: none is


@pytest.mark.parametrize("transport", ["unary", "stream"])
def test_it_has_the_bits_of_one_servers_product(three, random, transport):
    b, bias = normal(random, 96, 80), normal(random, 80)
    with of(three, transport=transport) as client, gemmd.Client(three[0].address) as one:
        for rows in (1, 17, 24, 100, 129):
            a, c = normal(random, rows, 96), normal(random, rows, 80)
            asked = [
                {},
                {"c": c, "beta": 0.7, "alpha": 0.3, "bias": bias, "activation": "gelu_tanh"},
                {"c": 1.5},
                {"verify": 2},
            ]
            for each in asked:
                d = client.matmul(a, b, split=True, **each)
                assert np.array_equal(d, one.matmul(a, b, **each))
                parts = [receipt.rows for receipt in d.receipts]
                assert len(parts) == min(3, -(-rows // 8))
                assert (parts[0][0], parts[-1][1]) == (0, rows)
                assert len({receipt.server for receipt in d.receipts}) == len(parts)
            turned = client.matmul(np.asfortranarray(a), b, split=True)
            assert np.array_equal(turned, one.matmul(a, b))
            crossed = client.matmul(a.T.copy(), b.T.copy(), transpose_a=True, transpose_b=True, split=True)
            assert np.array_equal(crossed, one.matmul(a, b))
        stack = normal(random, 5, 20, 96)
        assert np.array_equal(client.matmul(stack, b, split=True), one.matmul(stack, b))
        assert client.matmul(normal(random, 0, 96), b, split=True).shape == (0, 80)
        assert client.matmul(normal(random, 96), b, split=True).shape == (80,)


def test_the_result_is_put_together_in_out(three, random):
    a, b = normal(random, 100, 96), normal(random, 96, 80)
    with of(three) as client:
        whole = client.matmul(a, b)
        out = np.empty((100, 80), "f4")
        assert np.shares_memory(client.matmul(a, b, out=out, split=True), out)
        assert np.array_equal(out, whole)
        apart = np.empty((80, 100), "f4").T
        client.matmul(a, b, out=apart, split=True)
        assert np.array_equal(apart, whole)


def test_a_factor_that_stays_is_sent_once_to_each_server(three, random):
    a, b = normal(random, 100, 96), normal(random, 96, 80)
    with of(three) as client:
        whole = client.matmul(a, b)
        with client.put(b) as w:
            refills = []
            for _ in range(2):
                d = client.matmul(a, w, split=True)
                assert np.array_equal(d, whole)
                refills.append(sum(each.client.refills for each in d.receipts))
            assert refills == [2, 0]  # put() brought it to the first
            held = client.resident(w.digest.hex())
            assert np.array_equal(client.matmul(a, held, split=True), whole)


def test_a_server_that_is_killed_meanwhile_costs_no_product(three, random):
    a, b = normal(random, 200, 256), normal(random, 256, 256)
    with of(three) as client:
        whole = client.matmul(a, b)
        for i in range(30):
            if i == 10:
                killer = threading.Thread(target=three[1].kill)
                killer.start()
            assert np.array_equal(client.matmul(a, b, split=True), whole)
        killer.join()
        while client.servers()[1].health != "not_serving":
            time.sleep(0.001)
        # Those that are left share the rows, now that the client knows.
        left = [receipt.server for receipt in client.matmul(a, b, split=True).receipts]
        assert left == [three[0].address, three[2].address]
        assert {each.in_flight for each in client.servers()} == {0}


@pytest.mark.parametrize("transport", ["unary", "stream"])
def test_a_server_that_is_stopped_is_hedged(three, random, transport, monkeypatch):
    a, b = normal(random, 100, 96), normal(random, 96, 80)
    with of(three, transport=transport) as client:
        whole = client.matmul(a, b, split=True)
        monkeypatch.setattr(_splitting, "POLICY", replace(SMALL, most_hedged=0.5, after_at_least=0.001))
        encode = _prepare._Split.part
        memory = []

        def spy(split, rows, d, is_callers):
            memory.append(d)
            return encode(split, rows, d, is_callers)

        monkeypatch.setattr(_prepare._Split, "part", spy)
        stop(three[2])
        try:
            d = client.matmul(a, b, split=True)
        finally:
            os.kill(three[2].process.pid, signal.SIGCONT)
        assert np.array_equal(d, whole)
        # The first attempt may still write to its rows.
        assert [np.shares_memory(each, d) for each in memory] == [True, True, True, False]
        assert d.receipts[2].hedged
        assert "\nrows       64 to 100 of D, hedged\n" in str(d.receipts[2])
        assert d.receipts[2].server != three[2].address


def test_rows_of_a_server_with_other_numerics_are_computed_anew(random):
    servers = [Server("--cpu.threads=1", f"--device={device}") for device in ("cpu", "emulated", "cpu")]
    try:
        a, b = normal(random, 24, 64), normal(random, 64, 48)
        with of(servers) as client, gemmd.Client(servers[0].address) as one:
            d = client.matmul(a, b, split=True)
            assert np.array_equal(d, one.matmul(a, b))
            assert [each.repeats for each in d.receipts] == [0, 1, 0]
            assert len({each.numerics_id for each in d.receipts}) == 1
    finally:
        for each in servers:
            each.kill()


def test_what_cannot_be_split_is_refused_by_name(three, random):
    a, b = normal(random, 100, 96), normal(random, 96, 80)
    with of(three) as client:
        kept = client.matmul(a, b, keep=True)
        with client.put(a) as resident, client.put(b, name="w"):
            for message, factors, asked in (
                ("keep=", (a, b), {"keep": True}),
                ("determinism is 'fast'", (a, b), {"determinism": "fast"}),
                ("a is quantized or on a server", (resident, b), {}),
                ("a is quantized or on a server", (gemmd.Quantized.of(a, "int8-row", 0), b), {}),
                ("b is 'w', which one server has", (a, client.named("w")), {}),
                ("b is '.*', which one server has", (normal(random, 7, 100), kept), {}),
                ("c is on a server", (a, b), {"c": kept}),
                (r"b has shape \(3, 96, 80\)", (a, normal(random, 3, 96, 80)), {}),
            ):
                with pytest.raises(ValueError, match=message):
                    client.matmul(*factors, split=True, **asked)
        with pytest.raises(gemmd.FailedPrecondition, match=r"rows .* of D: kernel is"):
            client.matmul(a, b, kernel="sm90/imagined", split=True)
        kept.release()


def test_one_server_computes_all(server, random):
    a, b = normal(random, 100, 96), normal(random, 96, 80)
    with gemmd.Client(server.address) as client:
        d = client.matmul(a, b, split=True)
        assert np.array_equal(d, client.matmul(a, b))
        assert [each.rows for each in d.receipts] == [(0, 100)]


def test_without_a_server_it_says_why(random, monkeypatch):
    def resolve(name, port):
        raise gemmd.Unavailable(f"DNS resolution failed for {name}")

    monkeypatch.setattr(_servers, "resolve_by_host", resolve)
    retry = gemmd.RetryPolicy(max_attempts=1)
    a, b = normal(random, 100, 96), normal(random, 96, 80)
    with gemmd.Client("dns:///absent.test", retry=retry) as client:
        with pytest.raises(gemmd.Unavailable, match="DNS resolution failed for absent"):
            client.matmul(a, b, split=True)


def test_in_the_background_and_for_asyncio(three, random):
    a, b = normal(random, 100, 96), normal(random, 96, 80)
    with of(three) as client:
        whole = client.matmul(a, b)
        pending = [client.submit(a, b, split=True) for _ in range(8)]
        assert all(np.array_equal(each.result(60), whole) for each in pending)
        stop(three[0])
        stop(three[1])
        try:
            cancelled = client.submit(a, b, split=True)
            assert cancelled.cancel()
            with pytest.raises(gemmd.DeadlineExceeded):
                client.matmul(a, b, split=True, deadline=0.3)
        finally:
            os.kill(three[0].process.pid, signal.SIGCONT)
            os.kill(three[1].process.pid, signal.SIGCONT)

    async def together():
        async with gemmd.aio.Client([each.address for each in three]) as client:
            return await asyncio.gather(*(client.matmul(a, b, split=True) for _ in range(4)))

    assert all(np.array_equal(each, whole) for each in asyncio.run(together()))


def test_progress_counts_all_parts(three, random):
    a, b = normal(random, 100, 96), normal(random, 96, 80)
    told = []
    with of(three) as client:
        client.matmul(a, b, split=True, progress=lambda *each: told.append(each))
    assert told[-1] == (a.nbytes + 3 * b.nbytes + 100 * 80 * 4,) * 2
