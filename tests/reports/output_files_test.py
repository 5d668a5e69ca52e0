#!/usr/bin/env python3
"""A file that a command replaces keeps its mode, its links and its mount, and the product is not lost.

Idea: writers that replace a file by a rename make private files public, and fail on files that are mounted when the
work is done (untitaker/python-atomicwrites#11, stacklok/toolhive#3979).
Right here: gemm writes such a file with the mode that it had, and in place where no other can take its place.
"""

import os
import pathlib
import stat
import subprocess
import sys
import tempfile
import unittest

import numpy

sys.path.insert(0, "tests/testing")
import processes

SIDE = 16


class OutputFiles(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.work = pathlib.Path(cls.folder.name)
        cls.server = processes.Server()
        numpy.save(cls.work / "A.npy", numpy.eye(SIDE, dtype="f4"))
        cls.handle = cls.gemm("put", "A.npy").stdout.split()[0]

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()
        cls.folder.cleanup()

    @classmethod
    def gemm(cls, *arguments):
        done = processes.gemm("--server", cls.server.address, *arguments, cwd=cls.work)
        assert done.returncode == 0, f"{arguments}: {done.stderr}"
        return done

    def writers(self, path):
        yield "matmul", "A.npy", "A.npy", "-o", path
        yield "get", self.handle, "-o", path
        yield "quantize", "A.npy", "--as", "int8-row", "-o", path
        yield "trace", "-o", path
        yield "bench", "-s", "16x16x16", "--duration", "50ms", "--html", path
        yield "bench", "-s", "16x16x16", "--duration", "50ms", "--save", path

    def test_a_private_file_stays_private_behind_a_link(self):
        target = self.work / "private"
        (self.work / "link").symlink_to("private")
        for command in self.writers("link"):
            with self.subTest(command=command):
                target.write_text("old")
                target.chmod(0o600)
                self.gemm(*command)
                assert stat.S_IMODE(target.stat().st_mode) == 0o600
                assert target.read_bytes() != b"old"
                assert (self.work / "link").is_symlink()

    def test_every_name_of_a_file_has_the_product(self):
        (self.work / "one").write_text("old")
        os.link(self.work / "one", self.work / "other")
        self.gemm("matmul", "A.npy", "A.npy", "-o", "one")
        numpy.testing.assert_array_equal(numpy.load(self.work / "other"), numpy.eye(SIDE))

    def test_dashes_are_standard_input_and_output(self):
        gemm = processes.gemm_binary()
        script = (
            f"{gemm} quantize - --as int8-row -o - < A.npy "
            f"| {gemm} --server {self.server.address} matmul A.npy - -o - --output-type f32 > D.npy"
        )
        done = subprocess.run(["sh", "-c", script], cwd=self.work, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert "int8-row along axis 0" in done.stderr
        numpy.testing.assert_allclose(numpy.load(self.work / "D.npy"), numpy.eye(SIDE), atol=1e-6)

    def test_a_file_without_a_name_is_refused_before_anything_is_done(self):
        for command in self.writers(""):
            with self.subTest(command=command):
                done = processes.gemm("--server", self.server.address, *command, cwd=self.work)
                assert done.returncode == 2, done
                assert "'' names no file" in done.stderr

    def test_a_file_that_is_a_mount_takes_the_product(self):
        (self.work / "mounted").write_text("old")
        (self.work / "source").write_text("old")
        script = "mount --bind source mounted && exec " + " ".join(
            [processes.gemm_binary(), "--server", self.server.address, "matmul", "A.npy", "A.npy", "-o", "mounted"]
        )
        unshare = ["unshare", "--mount", "--map-root-user"]
        if subprocess.run([*unshare, "true"], stderr=subprocess.DEVNULL).returncode != 0:
            self.skipTest("mounts are not permitted here")
        done = subprocess.run([*unshare, "sh", "-c", script], cwd=self.work, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        numpy.testing.assert_array_equal(numpy.load(self.work / "source"), numpy.eye(SIDE))
        assert list(self.work.glob("mounted.*")) == []


if __name__ == "__main__":
    unittest.main()
