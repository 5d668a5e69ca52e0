#!/usr/bin/env python3
"""libgemmd.so.0 exports the functions of gemmd.h and nothing else, under one version."""
import pathlib
import re
import subprocess
import unittest

LIBRARY = "client/c/libgemmd.so.0"


def run(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


class SymbolsTest(unittest.TestCase):
    def test_exports_are_those_of_the_list(self):
        exported = [line.split()[-1] for line in run("nm", "-D", "--defined-only", LIBRARY).splitlines()]
        listed = pathlib.Path("tests/client/c/exports.txt").read_text().split()
        self.assertEqual(sorted(listed), sorted(exported))

    def test_the_list_is_that_of_the_header(self):
        header = pathlib.Path("client/include/gemmd/gemmd.h").read_text()
        functions = set(re.findall(r"\b(gemmd_\w+)\(", re.sub(r"/\*.*?\*/", "", header, flags=re.S)))
        listed = pathlib.Path("tests/client/c/exports.txt").read_text().split()
        self.assertEqual(sorted({name + "@@GEMMD_0" for name in functions} | {"GEMMD_0"}), sorted(listed))

    def test_fortran_declares_functions_that_are_there(self):
        module = pathlib.Path("client/include/gemmd/gemmd.f90").read_text()
        declared = re.findall(r"(?:function|subroutine) (gemmd_\w+)\(.*\) bind\(c\)", module)
        self.assertGreater(len(declared), 15)
        listed = pathlib.Path("tests/client/c/exports.txt").read_text().split()
        self.assertEqual([], [name for name in declared if name + "@@GEMMD_0" not in listed])

    def test_it_says_its_name_and_stays_loaded(self):
        dynamic = run("readelf", "-d", LIBRARY)
        self.assertIn("Library soname: [libgemmd.so.0]", dynamic)
        self.assertIn("NODELETE", dynamic)
        self.assertNotIn("RUNPATH", dynamic)


if __name__ == "__main__":
    unittest.main()
