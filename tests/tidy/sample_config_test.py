#!/usr/bin/env python3
"""deploy/gemmd.textproto has every option of the server, with its default and its help."""

import pathlib
import subprocess
import sys
import unittest

# This file is reached through a link in the test's runfiles: its real place is the tree.
ROOT = pathlib.Path(__file__).resolve().parents[2]


class SampleConfig(unittest.TestCase):
    def test_it_is_as_the_options_are(self):
        command = [sys.executable, ROOT / "deploy/docs/sample_config.py", "--check"]
        result = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual(0, result.returncode, result.stderr)


if __name__ == "__main__":
    unittest.main()
