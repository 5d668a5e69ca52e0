#!/usr/bin/env python3
"""The server's sources depend on gemm.h of the kernels, and kernels on the emulator's interface.

Bazel compiles a source again when any header changes that its libraries hand on: with those of the
kernels, a line of one of them was the whole server, in every configuration. With those of the
emulator, a line of one was every .cu file, for every architecture.
"""
import pathlib
import re
import unittest

# This file is reached through a link in the test's runfiles: its real place is the tree.
ROOT = pathlib.Path(__file__).resolve().parents[2]
LISTS = pathlib.Path("tests/tidy")


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
        handed_on = set((LISTS / "server_headers.txt").read_text().split())
        self.assertIn("server/server.h", handed_on)
        self.assertIn("kernels/gemm.h", handed_on)
        of_folders = {header for header in handed_on if re.match(r"kernels/\w+/", header)}
        self.assertEqual([], sorted(of_folders - included("kernels/gemm.h")))

    def test_a_kernel_depends_on_no_header_behind_the_emulators_interface(self):
        handed_on = set((LISTS / "ptx_headers.txt").read_text().split())
        emulator = {header for header in handed_on if header.startswith("kernels/emulator/")}
        self.assertIn("kernels/emulator/memory/tensor_copy.h", emulator)
        wrappers = [header for header in handed_on if header.startswith("kernels/ptx/")]
        needed = set().union(*map(included, [*wrappers, "kernels/emulator/launch.h"]))
        self.assertEqual([], sorted(emulator - needed))


if __name__ == "__main__":
    unittest.main()
