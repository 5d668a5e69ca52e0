#!/usr/bin/env python3
"""deploy/check/within.sh: a check that is cut passes, unless a test of it had failed.

`timeout` is a stand-in that runs the command alone, as if the shell around it had been ended, so that nothing waits.
"""
import os
import pathlib
import subprocess
import tempfile
import unittest

# This file is reached through a link in the test's runfiles: its real place is the tree.
SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "deploy/check/within.sh"
CUT = """#!/bin/bash
[[ $1 == --kill-after=60 && $2 == 30 && $3 == bash && $6 == check ]] || exit 99
"${@:8}"
exit %d
"""


class WithinTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.tools = pathlib.Path(folder.name)

    def run_check(self, seconds, command, cut_with=None):
        if cut_with is not None:
            tool = self.tools / "timeout"
            tool.write_text(CUT % cut_with)
            tool.chmod(0o755)
        path = f"{self.tools}:{os.environ['PATH']}"
        return subprocess.run([SCRIPT, seconds, "bash", "-c", command], env={**os.environ, "PATH": path},
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)

    def test_a_check_that_ends_in_time_has_its_own_status(self):
        for status in (0, 1, 3, 124, 137):  # the last: killed for want of memory, say
            ended = self.run_check("30", f"echo said; exit {status}")
            self.assertEqual((ended.returncode, ended.stdout), (status, "said\n"))

    def test_a_check_is_cut_and_says_so(self):
        for status in (124, 137):  # SIGTERM was enough, or SIGKILL was needed
            ended = self.run_check("30", "echo '//a:b_test   NO STATUS'", status)
            self.assertEqual(ended.returncode, 0)
            self.assertIn("\ncut after 30 s: bash -c echo", ended.stdout)

    def test_a_test_that_failed_before_the_cut_fails_the_check(self):
        for word in ("FAILED in 3.2s", "TIMEOUT in 60.0s", "FAILED in 1 out of 2 in 0.5s"):
            ended = self.run_check("30", f"echo '//a:b_test   {word}'", 124)
            self.assertEqual(ended.returncode, 1, ended.stdout)
            self.assertIn("when tests had failed: bash", ended.stdout)

    def test_a_check_is_left_out_where_no_second_is_left(self):
        for seconds in ("0", "-7"):
            ended = self.run_check(seconds, "echo ran")
            self.assertEqual((ended.returncode, ended.stdout), (0, "left out: bash -c echo ran\n"))

    def test_what_is_no_number_of_seconds_is_named(self):
        ended = self.run_check("soon", "echo ran")
        self.assertEqual(ended.returncode, 2)
        self.assertIn('not "soon bash -c echo ran"', ended.stdout)


if __name__ == "__main__":
    unittest.main()
