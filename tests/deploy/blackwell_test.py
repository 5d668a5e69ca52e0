#!/usr/bin/env python3
"""deploy/gpu/blackwell.sh with a card that answers as the test says: what it builds, runs, goes on behind and tells."""
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CARDS = "tests/kernels/workshop/cards"
CONFORMANCE = "tests/kernels/conformance"
BENCH = "kernels/workshop/bench/kernel_bench"


class BlackwellTest(unittest.TestCase):
    def setUp(self):
        work = tempfile.TemporaryDirectory()
        self.addCleanup(work.cleanup)
        self.tree = pathlib.Path(work.name)
        (self.tree / "deploy/gpu").mkdir(parents=True)
        shutil.copy(ROOT / "deploy/gpu/blackwell.sh", self.tree / "deploy/gpu")
        self.program("deploy/bazel_cache.sh", "echo --disk_cache=/cache")
        self.program("deploy/install_packages.sh", "touch installed")
        self.program("cuda/bin/nvcc", "")
        self.program("bin/bazel", 'echo "$@" >> built')
        self.program("bin/nvidia-smi", "echo 10.0")
        for name in (f"{CARDS}/blackwell_on_gpu", f"{CARDS}/blackwell_emulated"):
            self.built(name, '[[ $1 != list ]] || { echo sm100/c1; echo sm100/d0; }')
        for name in ("conformance_on_sm100", "conformance_on_sm120", "conformance_emulated"):
            self.built(f"{CONFORMANCE}/{name}", '[[ $1 != replay ]] || : > "$2.differ"')
        self.built(BENCH, "")
        self.built("tests/kernels/workshop/sm120_tma/ladder_b_on_gpu", "")

    def program(self, path, text):
        file = self.tree / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"#!/usr/bin/env bash\n{text}\n")
        file.chmod(0o755)

    def built(self, path, text):
        self.program(f"bazel-bin/{path}", f'echo "{pathlib.PurePath(path).name} $*" >> "{self.tree}/ran"\n{text}')

    def run_script(self, *arguments):
        environment = dict(os.environ, PATH=f"{self.tree}/bin:{os.environ['PATH']}", BAZEL_FLAGS="--jobs=1",
                           CUDA_HOME=f"{self.tree}/cuda")
        return subprocess.run([self.tree / "deploy/gpu/blackwell.sh", *arguments], env=environment, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)

    def ran(self):
        return (self.tree / "ran").read_text().splitlines()

    def test_a_b200_runs_ladders_c_and_d_and_records(self):
        done = self.run_script("results")
        self.assertEqual(0, done.returncode, done.stdout)
        self.assertIn("7 steps passed, 0 failed; all is in results", done.stdout)
        self.assertTrue((self.tree / "installed").exists())
        built = (self.tree / "built").read_text()
        self.assertIn("--@local_config_cuda//cuda:archs=sm_100a --disk_cache=/cache --jobs=1 ", built)
        self.assertIn(f"//{CONFORMANCE}:conformance_on_sm100", built)
        self.assertEqual(["blackwell_on_gpu list", "blackwell_on_gpu sm100/c1", "blackwell_on_gpu sm100/d0",
                          "conformance_on_sm100 record results/recorded_sm100.txt",
                          "conformance_emulated replay results/recorded_sm100.txt first",
                          "kernel_bench --ladder=C", "kernel_bench --ladder=D"], self.ran()[:7])
        self.assertIn("sm100/d7_evict_first", self.ran()[7])
        self.assertIn("== bits of sm100/d0", (self.tree / "results/log.txt").read_text())

    def test_an_rtx_5090_runs_ladder_b(self):
        self.program("bin/nvidia-smi", "echo 12.0")
        self.assertEqual(0, self.run_script().returncode)
        self.assertIn("conformance_on_sm120 record blackwell-results/recorded_sm120.txt", self.ran())
        self.assertEqual(["ladder_b_on_gpu check", "kernel_bench --ladder=B"], self.ran()[-2:])

    def test_what_fails_is_told_and_the_rest_runs(self):
        self.built(f"{CARDS}/blackwell_on_gpu",
                   '[[ $1 != list ]] || { echo sm100/c1; echo sm100/d0; exit; }; [[ $1 != sm100/c1 ]]')
        self.built(f"{CONFORMANCE}/conformance_emulated",
                   '[[ $1 != replay ]] || { printf "a\\nb\\nc\\nd\\ne\\n" > "$2.differ"; exit 1; }')
        done = self.run_script("results")
        self.assertEqual(1, done.returncode)
        self.assertIn("6 steps passed, 2 failed", done.stdout)
        self.assertIn("failed: bits of sm100/c1\nfailed: vectors of sm_100 in the emulator\n", done.stdout)
        self.assertIn("conformance_on_sm100 dumps results a b c d", self.ran())
        self.assertIn("kernel_bench --ladder=D", self.ran())

    def test_a_rehearsal_needs_no_card_and_no_toolkit(self):
        self.program("bin/nvidia-smi", "exit 9")
        (self.tree / "cuda/bin/nvcc").unlink()
        done = self.run_script("rehearse")
        self.assertEqual(0, done.returncode, done.stdout)
        self.assertIn("rehearsed: a card would also be timed\n6 steps passed, 0 failed", done.stdout)
        self.assertIn("--config=cpu", (self.tree / "built").read_text())
        self.assertIn("conformance_emulated rehearse sm_120 blackwell-results/recorded_sm120.txt", self.ran())
        self.assertNotIn("kernel_bench --ladder=C", self.ran())

    def test_other_cards_and_arguments_are_refused(self):
        self.program("bin/nvidia-smi", "echo 9.0")
        done = self.run_script()
        self.assertEqual(1, done.returncode)
        self.assertIn("the first GPU is of compute capability 9.0; the kernels are for 10.0 and 12.0", done.stdout)
        for arguments in (["a", "b"], ["rehearse", "--x"]):
            done = self.run_script(*arguments)
            self.assertEqual(1, done.returncode)
            self.assertIn("usage: deploy/gpu/blackwell.sh [rehearse] [FOLDER]", done.stdout)
        self.program("bin/nvidia-smi", "echo 10.0")
        (self.tree / "cuda/bin/nvcc").unlink()
        self.assertIn("cuda/bin/nvcc: no toolkit is here; CUDA_HOME says where it is", self.run_script().stdout)
        self.assertFalse((self.tree / "built").exists())


if __name__ == "__main__":
    unittest.main()
