"""A real server for the tests of the Python client, on the CPU: GEMMD_BINARY names it."""

import numpy as np
import pytest
from testing.processes import Server

import gemmd


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
