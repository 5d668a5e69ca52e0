#!/usr/bin/env python3
"""deploy/bazel/nvcc.sh: what nvcc and ptxas warn of ends the compilation. nvcc is a stand-in."""
import pathlib
import subprocess
import unittest

# This file is reached through a link in the test's runfiles: its real place is the tree.
SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "deploy/bazel/nvcc.sh"
WARNINGS = [
    'a.cu(3): warning #2810-D: ignoring return value type with "nodiscard" attribute',
    "ptxas warning : Value of threads per SM for entry f is out of range. .minnctapersm will be ignored",
    "ptxas info    : (C7511) Potential Performance Loss: wgmma.mma_async instructions are serialized",
]


class NvccTest(unittest.TestCase):
    def compile(self, says, status=0):
        command = f"printf '%s\\n' \"$1\" >&2; exit {status}"
        return subprocess.run([SCRIPT, "bash", "-c", command, "nvcc", says], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, check=False)

    def test_what_is_compiled_in_silence_or_with_a_report_is_taken(self):
        for says in ("", "ptxas info    : Used 168 registers, used 1 barriers"):
            self.assertEqual(self.compile(says).returncode, 0)

    def test_each_warning_is_shown_and_fails(self):
        for says in WARNINGS:
            ended = self.compile(says)
            self.assertEqual(ended.returncode, 1, says)
            self.assertIn(says, ended.stderr)
            self.assertIn("nvcc warned, and a warning is an error here", ended.stderr)

    def test_a_failure_keeps_its_status(self):
        ended = self.compile("a.cu(3): error: expected a \";\"", 2)
        self.assertEqual((ended.returncode, ended.stderr.count("\n")), (2, 1))


if __name__ == "__main__":
    unittest.main()
