#!/usr/bin/env python3
"""A pipe where a file of the server's should be is an error, and nothing waits for it.

Source: beave/sagan#16 and OpenRC/openrc#982, where opening a pipe that nobody writes to hangs the
start. Right here: gemmd says which option names no regular file, and ends; a plan cache is a warning,
as any that cannot be read.
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
from testing.processes import Server, gemmd_binary

WHY = "cannot be read: it is no regular file"


class SpecialFiles(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.pipe = f"{folder.name}/pipe"
        os.mkfifo(self.pipe)

    def test_options_that_name_one_are_errors(self):
        for options, code in [
            (["--config={}"], 2),
            (["--auth.policy-file={}"], 1),
            (["--tls.certificate-file={}", "--tls.key-file={}"], 1),
        ]:
            for path in [self.pipe, "/dev/zero"]:
                for more in [], ["--check"]:
                    arguments = [each.format(path) for each in options]
                    result = subprocess.run(
                        [gemmd_binary(), "--device=cpu", "--listen=127.0.0.1:0", *arguments, *more],
                        stderr=subprocess.PIPE,
                        text=True,
                        timeout=30,
                    )
                    assert code == result.returncode, result.stderr
                    assert WHY in result.stderr

    def test_a_plan_cache_is_a_warning(self):
        with Server(f"--tuning.plan-cache-file={self.pipe}") as server:
            assert WHY in server.wait_for("plans_unreadable")["error"]


if __name__ == "__main__":
    unittest.main()
