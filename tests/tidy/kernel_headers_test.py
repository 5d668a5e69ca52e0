#!/usr/bin/env python3
"""Of the kernels' folders the server's sources depend on what gemm.h includes, and on nothing else.

Bazel compiles a source again when any header changes that its libraries hand on: with those of the
kernels, a line of one of them was the whole server, in every configuration.
"""
import pathlib
import re
import unittest

# This file is reached through a link in the test's runfiles: its real place is the tree.
ROOT = pathlib.Path(__file__).resolve().parents[2]
LIST = pathlib.Path("tests/tidy/server_headers.txt")


def included(header):
    """The header, and all of the tree that it includes."""
    found = set()
    left = [header]
    while left:
        header = left.pop()
        if header not in found and (ROOT / header).exists():
            found.add(header)
            left += re.findall(r'^#include "([^"]+)"', (ROOT / header).read_text(), re.M)
    return found


class KernelHeadersTest(unittest.TestCase):
    def test_the_server_depends_on_no_header_of_a_kernel(self):
        handed_on = set(LIST.read_text().split())
        self.assertIn("server/server.h", handed_on)
        self.assertIn("kernels/gemm.h", handed_on)
        of_folders = {header for header in handed_on if re.match(r"kernels/\w+/", header)}
        self.assertEqual([], sorted(of_folders - included("kernels/gemm.h")))


if __name__ == "__main__":
    unittest.main()
