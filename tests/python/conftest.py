"""A real server for the tests, on the CPU: GEMMD_BINARY names it."""

import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time

import numpy as np
import pytest

import gemmd

# The prefix of shared memory's files: this run's own, because other runs may leave theirs.
SHARED_PREFIX = f"gemmd-test-{os.getpid()}-"


class Server:
    """A gemmd process of this machine, on a port that it keeps over restarts."""

    def __init__(self, *options):
        self.options = options
        self.folder = tempfile.mkdtemp(prefix="gemmd-test-")
        self.process = None
        self.address = "127.0.0.1:0"
        self.start()

    def start(self):
        log = pathlib.Path(self.folder) / "log"
        with open(log, "w") as out:
            self.process = subprocess.Popen(
                [
                    os.environ["GEMMD_BINARY"],
                    "--device=cpu",
                    f"--listen={self.address}",
                    f"--shared-memory.name-prefix={SHARED_PREFIX}",
                    *self.options,
                ],
                stdout=out,
                stderr=subprocess.STDOUT,
            )
        give_up = time.monotonic() + 60
        while time.monotonic() < give_up:
            for line in log.read_text().splitlines():
                if '"serving"' in line:
                    self.address = json.loads(line)["address"]
                    return
            assert self.process.poll() is None, log.read_text()
            time.sleep(0.01)
        raise AssertionError("the server does not begin")

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(60)


@pytest.fixture(scope="session")
def server():
    one = Server()
    yield one
    one.stop()


@pytest.fixture
def own_server():
    one = Server()
    yield one
    one.stop()


@pytest.fixture
def client(server):
    with gemmd.Client(server.address) as one:
        yield one


@pytest.fixture
def random():
    return np.random.default_rng(1)
