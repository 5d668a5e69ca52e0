#!/usr/bin/env python3
"""docs/library.md's programs are compiled as the page says, against what install.sh lays out, and say what is shown.

By CMake it is deploy/check/library.sh that compiles.
"""
import os
import pathlib
import re
import subprocess
import tempfile
import time
import unittest


def blocks(language):
    page = pathlib.Path("docs/library.md").read_text()
    return re.findall(rf"^```{language}\n(.*?)^```", page, re.M | re.S)


class PageTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.work = pathlib.Path(folder.name)
        subprocess.run(["client/c/install.sh", "client/c/libgemmd.so.0", "client/include/gemmd", "1.2.3",
                        self.work / "laid"], check=True)
        # As a user may.
        (self.work / "laid").rename(self.work / "gemmd")
        (self.work / "first.c").write_text(blocks("c")[0])
        self.compile, self.run_it = re.findall(r"^(cc .*|GEMMD_SERVER.*)$", blocks("sh")[0], re.M)
        self.environment = {**os.environ, "HOME": str(self.work),
                            "PKG_CONFIG_PATH": str(self.work / "gemmd/lib/pkgconfig")}
        strict = self.compile + " -std=c11 -Wall -Wextra -Werror -pedantic"
        subprocess.run(["bash", "-ec", strict], cwd=self.work, env=self.environment, check=True)

    def start(self):
        """The address of a server of one test."""
        log = self.work / "gemmd.log"
        with log.open("w") as stderr:
            server = subprocess.Popen([pathlib.Path("server/gemmd").resolve(), "--device=cpu",
                                       "--listen=127.0.0.1:0"], cwd=self.work, stderr=stderr)
        self.addCleanup(server.wait)
        self.addCleanup(server.terminate)
        while True:
            serving = re.search(r'"event":"serving".*"address":"([^"]*)"', log.read_text())
            if serving:
                return serving.group(1)
            self.assertIsNone(server.poll(), log.read_text())
            time.sleep(0.01)

    def first(self, address):
        command = self.run_it.replace("127.0.0.1:50051", address)
        return subprocess.run(["bash", "-ec", command], cwd=self.work, env=self.environment, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=60)

    def test_it_prints_what_the_page_shows(self):
        ran = self.first(self.start())
        self.assertEqual((blocks("text")[0], "", 0), (ran.stdout, ran.stderr, ran.returncode))

    def test_without_a_server_it_says_so(self):
        ran = self.first(f"unix:{self.work}/nobody")
        self.assertEqual(("", 1), (ran.stdout, ran.returncode))
        self.assertIn("UNAVAILABLE: ", ran.stderr)
        self.assertIn(f"{self.work}/nobody", ran.stderr)

    def test_the_program_in_cpp_does_too(self):
        (self.work / "first.cc").write_text(blocks("cpp")[0])
        for compiler in ("c++ -std=c++17", "c++ -std=c++20 -Wconversion -Wshadow"):
            compile_it = re.sub("^cc first.c", f"{compiler} first.cc", self.compile)
            strict = compile_it + " -Wall -Wextra -Werror -pedantic"
            subprocess.run(["bash", "-ec", strict], cwd=self.work, env=self.environment, check=True)
        ran = subprocess.run([self.work / "first", self.start()], stdout=subprocess.PIPE, text=True, timeout=60)
        self.assertEqual((blocks("text")[1], 0), (ran.stdout, ran.returncode))
        ran = subprocess.run([self.work / "first", f"unix:{self.work}/nobody"], stderr=subprocess.PIPE, text=True,
                             timeout=60)
        self.assertEqual(1, ran.returncode)
        self.assertIn("UNAVAILABLE: ", ran.stderr)

    def test_pkg_config_knows_the_version(self):
        said = subprocess.run(["pkg-config", "--modversion", "gemmd"], env=self.environment, check=True,
                              stdout=subprocess.PIPE, text=True).stdout
        self.assertEqual("1.2.3\n", said)


if __name__ == "__main__":
    unittest.main()
