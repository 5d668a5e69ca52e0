#!/usr/bin/env python3
"""libgemmd_blas.so exports BLAS's third level in four families of names, and needs the C library alone."""
import subprocess
import unittest

LIBRARY = "client/blas/libgemmd_blas.so"
REAL = ["gemm", "syrk", "syr2k", "symm", "trmm", "trsm"]
COMPLEX = REAL + ["herk", "her2k", "hemm"]


def run(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


class SymbolsTest(unittest.TestCase):
    def test_exports(self):
        exported = [line.split()[-1] for line in run("nm", "-D", "--defined-only", LIBRARY).splitlines()]
        routines = [kind + name for kind in "sdcz" for name in (REAL if kind in "sd" else COMPLEX)]
        routines += ["sgemm_batch_strided", "dgemm_batch_strided"]
        wanted = [prefix + form.format(name) + suffix for name in routines for prefix in ("", "scipy_")
                  for form in ("{}_", "cblas_{}") for suffix in ("", "64_")]
        self.assertEqual(256, len(wanted))
        self.assertEqual(sorted(wanted), sorted(exported))

    def test_it_needs_the_c_library_alone(self):
        dynamic = run("readelf", "-d", LIBRARY)
        needed = [line.split("[")[1].rstrip("]") for line in dynamic.splitlines() if "(NEEDED)" in line]
        self.assertLessEqual(set(needed), {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2"})
        self.assertIn("NODELETE", dynamic)
        self.assertNotIn("RUNPATH", dynamic)


if __name__ == "__main__":
    unittest.main()
