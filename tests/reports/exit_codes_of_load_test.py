#!/usr/bin/env python3
"""A load that fails, or misses its objective, fails the job that ran it.

Idea: locustio/locust#152 (exit code 0 though requests failed), locustio/locust#560 (the code of failed requests was
that of a wrong command line, and one of thousands was enough), grafana/k6#1526 (thresholds not met, exit code 0)
and grafana/k6#4283 (a threshold on what was never measured passes).
Right: 0 where all is well, a code of its own for too many failures and another for objectives, a share that one can
choose, and no limit that nothing passes.
"""

import json
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, "tests/testing")
import processes

OBJECTIVE, FAILED = 8, 9
# A seed chooses which of 60 requests that are due at once fail.
HALF_FAIL = """request { m: 8 n: 8 k: 8 weight: %d } request { m: 8 n: 8 k: 8 weight: %d kernel: "no/such" }"""


class ExitCodesOfLoadTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = processes.Server()
        cls.folder = tempfile.TemporaryDirectory()
        cls.schedule = pathlib.Path(cls.folder.name) / "schedule"
        cls.schedule.write_text("0\n" * 60)

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()
        cls.folder.cleanup()

    def bench(self, *more, good=1, bad=0):
        text = HALF_FAIL % (good, bad) if bad else HALF_FAIL.split("} ")[0] % good + "}"
        workload = pathlib.Path(self.folder.name) / "workload"
        workload.write_text(text)
        return processes.gemm(
            "--server", self.server.address, "bench", "--replay", self.schedule, "--workload", workload, "-q", *more
        )

    def test_failures_beyond_a_share_have_a_code_of_their_own(self):
        self.assertEqual(0, self.bench().returncode)
        half = self.bench(good=1, bad=1)
        self.assertEqual(FAILED, half.returncode, half.stderr)
        self.assertRegex(half.stderr, r"[\d.]+% of the requests failed, at most 10% may")
        few = self.bench("--json", good=30, bad=1)
        failed = 60 - json.loads(few.stdout)["points"][0]["ok"]
        self.assertEqual(0, few.returncode, few.stderr)
        self.assertGreater(failed, 0)
        self.assertEqual(FAILED, self.bench("--fail-on", "failed>0", good=30, bad=1).returncode)
        self.assertEqual(FAILED, self.bench("--fail-on", "failed>99%", good=1, bad=3).returncode)

    def test_an_objective_that_is_missed_has_another(self):
        missed = self.bench("--fail-on", "p50>1ns")
        self.assertEqual(OBJECTIVE, missed.returncode, missed.stderr)
        self.assertIn("and p50>1ns fails", missed.stderr)
        self.assertEqual(0, self.bench("--fail-on", "p99.9>1h,throughput<0.001").returncode)

    def test_nothing_passes_no_limit(self):
        nothing = self.bench("--fail-on", "p99>1h", good=1, bad=1000000)
        self.assertNotEqual(0, nothing.returncode)

    def test_a_wrong_condition_says_which_part_and_what_is_allowed(self):
        for condition, part in (
            ("p99<5ms", "would fail what is good"),
            ("p97>1s", "p95, p99"),
            ("p99>5", "as p99>5ms"),
        ):
            wrong = self.bench("--fail-on", f"failed>1%,{condition}")
            self.assertEqual(2, wrong.returncode)
            self.assertIn(f'"{condition}"', wrong.stderr)
            self.assertIn(part, wrong.stderr)

    def test_a_worse_tail_fails_the_comparison(self):
        before, after = (pathlib.Path(self.folder.name) / name for name in ("before.json", "after.json"))
        self.assertEqual(0, self.bench("--save", before).returncode)
        report = json.loads(before.read_text())
        report["points"][0]["latency_us"]["p99"] *= 12.04
        report["points"][0].pop("resamples", None)
        after.write_text(json.dumps(report))
        worse = processes.gemm("bench", "diff", before, after)
        self.assertEqual(OBJECTIVE, worse.returncode, worse.stderr)
        self.assertIn("p99 ms is worse: +1104.0%", worse.stderr)
        self.assertEqual(0, processes.gemm("bench", "diff", after, before).returncode)
        allowed = processes.gemm("bench", "diff", before, after, "--fail-on", "p99>+2000%")
        self.assertEqual(0, allowed.returncode, allowed.stderr)


if __name__ == "__main__":
    unittest.main()
