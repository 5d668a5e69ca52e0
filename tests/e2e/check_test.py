#!/usr/bin/env python3
"""Configurations that are checked, printed, read anew, and told to a service manager and to callers."""

import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
from testing.processes import Server, gemm, gemmd_binary  # noqa: E402

SAMPLE = pathlib.Path("deploy/gemmd.textproto").resolve()
EXPIRED = 'token { name: "old" sha256: "%s" tenant: "t" role: USER expires: "2020-01-01T00:00:00Z" }' % ("ab" * 32)


def gemmd(*arguments):
    return subprocess.run([gemmd_binary(), *arguments], capture_output=True, text=True, timeout=60)


class Check(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def file(self, name, text):
        path = self.folder / name
        path.write_text(text)
        return path

    def test_what_is_good_is_said_to_be(self):
        for options in [], [f"--config={SAMPLE}"]:
            result = gemmd("--check", *options)
            self.assertEqual((0, "gemmd: the configuration is good\n"), (result.returncode, result.stderr))

    def test_what_is_wrong_is_told(self):
        policy = self.file("policy", "anonymous { role: ADMIN }")
        plans = self.file("plans", "{")
        for options, code, why in [
            (["--limits.calls=-1"], 2, "--limits.calls is -1"),
            ([f"--config={self.file('bad', 'lisen: 1')}"], 2, "lisen"),
            ([f"--auth.policy-file={policy}"], 1, 'Unknown enumeration value of "ADMIN" for field "role"'),
            (["--tls.certificate-file=/none", "--tls.key-file=/none"], 1, "/none"),
            (["--scheduling.tenant-weights=a"], 1, "scheduling.tenant_weights"),
            (["--observe.otlp-endpoint=https://h"], 1, "observe.otlp_endpoint"),
            ([f"--tuning.plan-cache-file={plans}"], 0, "gemmd: warning: tuning.plan_cache_file"),
            ([f"--auth.policy-file={self.file('expired', EXPIRED)}"], 0, 'token "old" has expired'),
        ]:
            result = gemmd("--check", *options)
            self.assertEqual(code, result.returncode, result.stderr)
            self.assertIn(why, result.stderr)

    def test_what_is_in_force_can_be_read_again(self):
        options = ["--limits.calls=7", "--auth.plaintext-tokens", '--scheduling.tenant-weights=a"b=2']
        text = gemmd("--print-config", *options).stdout
        self.assertIn("  calls: 7\n", text)
        self.assertIn('listen: "127.0.0.1:50051"  # default\n', text)
        again = gemmd("--print-config", f"--config={self.file('all', text)}").stdout
        self.assertEqual(text.replace("  # default", ""), again.replace("  # default", ""))

    def test_a_token_that_has_expired_is_logged_at_the_start(self):
        with Server(f"--auth.policy-file={self.file('policy', EXPIRED)}") as server:
            self.assertEqual("old", server.wait_for("token_expired")["token"])

    def test_callers_see_their_own_quota(self):
        policy = 'anonymous { role: USER quota { requests: 3 } } quota { tenant: "t" requests: 9 }'
        with Server(f"--auth.policy-file={self.file('policy', policy)}") as server:
            told = gemm("--server", server.address, "info").stdout
            self.assertRegex(told, r"quota +requests: 0 of 3\n")
            self.assertEqual(7, gemm("--server", server.address, "stats", "--quota-of", "t").returncode)
        with Server() as server:
            self.assertNotIn("quota", gemm("--server", server.address, "info").stdout)

    def test_a_service_manager_is_told(self):
        path = str(self.folder / "notify")
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.bind(path)
            manager.settimeout(60)
            with Server(command=["env", f"NOTIFY_SOCKET={path}"]) as server:
                self.assertEqual(b"READY=1", manager.recv(100))
                server.process.send_signal(signal.SIGHUP)
                self.assertTrue(manager.recv(100).startswith(b"RELOADING=1\nMONOTONIC_USEC="))
                self.assertEqual(b"READY=1", manager.recv(100))
                server.process.terminate()
                self.assertEqual(b"STOPPING=1", manager.recv(100))


if __name__ == "__main__":
    unittest.main()
