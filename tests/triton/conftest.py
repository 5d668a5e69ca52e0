"""Triton's own client, beside gemmd's, on one server."""

import pytest
import tritonclient.grpc as grpcclient
from testing import processes
from triton import infer_input


@pytest.fixture(scope="session")
def triton(server):
    with grpcclient.InferenceServerClient(server.address) as one:
        yield one


@pytest.fixture
def infer(triton):
    """infer(model, parameters..., A=array, ...): D, of an InferResult."""

    def call(model, *, parameters=None, outputs=None, **inputs):
        named = [infer_input(name, array) for name, array in inputs.items()]
        return triton.infer(model, named, parameters=parameters, outputs=outputs)

    return call


@pytest.fixture
def shared_key():
    """Names of shared memory that the server takes, each another one."""
    made = 0

    def name():
        nonlocal made
        made += 1
        return f"/{processes.SHARED_PREFIX}triton-{made}"

    return name
