"""A process that shares memory is killed: its object in /dev/shm stayed for ever.

Source: triton-inference-server/server#7481. Right: the server removes it, also one that starts later; memory in use
stays, also that of a process that is stopped.
"""

import os
import signal
import subprocess
import sys
import time

import numpy as np
from testing import processes

import gemmd

HOLDER = """
import sys
import gemmd
client = gemmd.Client(sys.argv[1])
array = client.shared((100, 100))
print("shared", flush=True)
sys.stdin.read()
"""


def holder(server):
    child = subprocess.Popen(
        [sys.executable, "-c", HOLDER, server.address], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout.readline() == "shared\n"
    return child


def names():
    return {each for each in os.listdir("/dev/shm") if each.startswith(processes.SHARED_PREFIX)}


def eventually(what):
    give_up = time.monotonic() + 60
    while not what():
        assert time.monotonic() < give_up
        time.sleep(0.01)


def test_what_it_shared_goes(own_server):
    with gemmd.Client(own_server.address) as client:
        kept = client.shared((10, 10))
        before = names()
        child = holder(own_server)
        assert len(names()) == len(before) + 1
        child.send_signal(signal.SIGSTOP)  # it holds the lock: what a server does at its start leaves it alone
        own_server.kill()
        own_server.start()
        kept[:] = 1
        assert client.matmul(kept, kept)[0, 0] == 10
        assert len(names()) == len(before) + 1
        child.kill()
        child.wait()
        eventually(lambda: names() == before)
        assert np.array_equal(client.matmul(kept, kept), np.full((10, 10), 10))


def test_what_it_shared_goes_at_the_next_start(own_server):
    before = names()
    child = holder(own_server)
    own_server.kill()
    child.kill()
    child.wait()
    assert len(names()) == len(before) + 1
    own_server.start()
    eventually(lambda: names() == before)
