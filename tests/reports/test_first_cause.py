"""A connection cannot be made, and the error says something else: that streams end, or that a deadline passed.

Source: triton-inference-server/server#5543. Right: every call names the cause, and what to do about it.
"""

import socket
import subprocess

import numpy as np
import pytest
from testing.processes import Server

import gemmd

A = np.ones((64, 64), "f4")
TWICE = gemmd.RetryPolicy(max_attempts=2)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    """Two, "a" and "b", of a.example and b.example: each signed by itself."""
    folder = tmp_path_factory.mktemp("tls")
    for name in "ab":
        command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
        command += ["-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name}.example"]
        command += ["-keyout", folder / f"{name}.key", "-out", folder / f"{name}.pem"]
        subprocess.run(command, check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def tls_server(certificates):
    options = (f"--tls.certificate-file={certificates}/a.pem", f"--tls.key-file={certificates}/a.key")
    with Server(*options) as server:
        yield server


def calls(address, tls):
    """Every way to a server."""

    def by(call, **options):
        def run():
            with gemmd.Client(address, tls=tls, retry=TWICE, **options) as client:
                call(client)

        return run

    for options in (
        {"transport": "unary"},
        {"transport": "stream", "channels": 1},
        {"transport": "stream", "channels": 4},
    ):
        yield by(lambda client: client.matmul(A, A), **options)
        yield by(lambda client: client.submit(A, A).result(), **options)
        yield by(lambda client: client.matmul(A, A, deadline=20), **options)
    yield by(lambda client: client.put(A))
    yield by(lambda client: client.info())
    yield by(lambda client: client.shared((4, 4)))


def check(address, tls, *words):
    for call in calls(address, tls):
        with pytest.raises(gemmd.Unavailable) as failed:
            call()
        for each in words:
            assert each in str(failed.value)


def test_nobody_listens():
    with socket.create_server(("127.0.0.1", 0)) as one:
        address = f"127.0.0.1:{one.getsockname()[1]}"
    check(address, None, "Connection refused")


def test_a_certificate_of_another_name(tls_server, certificates):
    check(tls_server.address, gemmd.Tls(certificates / "a.pem"), "another name than the one it was called by")


def test_a_certificate_that_nobody_vouches_for(tls_server, certificates):
    check(tls_server.address, gemmd.Tls(certificates / "b.pem", server_name="a.example"), "of no authority")


def test_plain_text_to_tls(tls_server):
    check(tls_server.address, None, "it wants TLS")


def test_tls_to_plain_text(server, certificates):
    check(server.address, gemmd.Tls(certificates / "a.pem", server_name="a.example"), "answers in plaintext")


def test_what_no_attempt_can_change_is_told_at_once(tls_server, certificates):
    hour = gemmd.RetryPolicy(initial_backoff=3600, max_backoff=3600, patience=1e9)
    with gemmd.Client(tls_server.address, tls=gemmd.Tls(certificates / "b.pem"), retry=hour) as client:
        with pytest.raises(gemmd.Unavailable):
            client.submit(A, A).result(60)
        with pytest.raises(gemmd.Unavailable):
            client.info()


def test_a_deadline_names_what_failed_before(server):
    patient = gemmd.RetryPolicy(max_attempts=1000, initial_backoff=0.001, max_backoff=0.001)
    for call in (lambda client: client.matmul(A, A, deadline=0.3), lambda client: client.info(deadline=0.3)):
        with gemmd.Client("127.0.0.1:1", retry=patient) as client:
            with pytest.raises((gemmd.DeadlineExceeded, gemmd.Unavailable), match="Connection refused"):
                call(client)
