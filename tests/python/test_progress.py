"""What is told of big transfers, and where a bar is shown."""

import sys
import types

import numpy as np
import pytest

import gemmd
from gemmd import _progress

MIB = 1 << 20


class Told(list):
    """What progress= is called with."""

    def __call__(self, count, total):
        self.append((count, total))

    def check(self, total):
        assert self[-1] == (total, total)
        assert all(each[1] == total for each in self)
        counts = [each[0] for each in self]
        assert counts == sorted(counts)


@pytest.mark.parametrize("transport", ["unary", "stream"])
def test_a_product_tells_of_what_goes_and_comes(server, transport):
    a, b = np.ones((300, 200)), np.ones((200, 100))
    told = Told()
    with gemmd.Client(server.address, transport=transport) as client:
        client.matmul(a, b, progress=told)
        told.check((300 * 200 + 200 * 100 + 300 * 100) * 8)
        stack = Told()
        client.matmul(np.ones((3, 20, 10)), np.ones((3, 10, 5)), progress=stack)
        stack.check(3 * (200 + 50 + 100) * 8)


def test_uploads_and_downloads_tell(client, random):
    x = random.standard_normal((1500, 700))
    told = Told()
    with client.put(x, progress=told) as resident:
        told.check(x.nbytes)
        back = Told()
        assert np.array_equal(resident.numpy(progress=back), x)
        back.check(x.nbytes)


def test_what_progress_raises_ends_the_call(client):
    def stop(count, total):
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        client.matmul(np.ones((40, 40)), np.ones((40, 40)), progress=stop)
    with pytest.raises(RuntimeError, match="enough"):
        client.put(np.ones((40, 40)), progress=stop)
    assert np.array_equal(client.matmul(np.eye(2), np.eye(2)), np.eye(2))


class Bar:
    """tqdm's."""

    def __init__(self, **asked):
        self.asked = asked
        self.n = 0
        self.is_closed = False
        BARS.append(self)

    def update(self, count):
        self.n += count

    def close(self):
        self.is_closed = True


BARS = []


@pytest.mark.parametrize("where", ["terminal", "notebook", "ipython", "log"])
def test_a_bar_is_shown_where_somebody_looks(monkeypatch, where):
    BARS.clear()
    monkeypatch.setitem(sys.modules, "tqdm", types.ModuleType("tqdm"))
    auto = types.ModuleType("tqdm.auto")
    auto.tqdm = Bar
    monkeypatch.setitem(sys.modules, "tqdm.auto", auto)
    monkeypatch.setattr(sys, "stderr", types.SimpleNamespace(isatty=lambda: where == "terminal"))
    ipython = types.ModuleType("IPython")
    kernel = types.SimpleNamespace(kernel=object()) if where == "notebook" else types.SimpleNamespace()
    ipython.get_ipython = lambda: kernel
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    counter = _progress.Counter(100 * MIB)
    meter = counter.meter(None, "upload")
    meter.poll()
    counter.add(30 * MIB)
    meter.poll()
    if where in ("ipython", "log"):
        assert BARS == []
        return
    [bar] = BARS
    assert (bar.n, bar.asked["total"], bar.asked["desc"]) == (30 * MIB, 100 * MIB, "upload")
    meter.end()
    assert (bar.n, bar.is_closed) == (100 * MIB, True)
    _progress.Counter(MIB).meter(None, "upload").end()
    assert len(BARS) == 1  # little goes without
