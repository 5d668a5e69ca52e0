#!/usr/bin/env python3
"""A server on one CPU of a larger machine has threads for one.

Source: mhx/dwarfs#130 and triton-inference-server/server#2018, where every core of the host got a
thread in a container that had one. Right here: threads are as many as the CPUs of the affinity, and
the log says so. (Quotas of control groups are tried in tests/base/process/shares_test.cc.)
"""

import os
import pathlib
import sys
import unittest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
from testing.processes import Server


class CpuAffinity(unittest.TestCase):
    def test_threads_are_as_many_as_the_process_may_run_at_a_time(self):
        allowed = sorted(os.sched_getaffinity(0))
        if len(allowed) < 2:
            self.skipTest("this machine has one CPU")
        with Server(preexec_fn=lambda: os.sched_setaffinity(0, allowed[:1])) as server:
            limits = server.wait_for("host_limits")
            assert limits["cpus"] == 1
            assert limits["cpus_because"] == "the process's affinity"
            assert server.wait_for("device")["compute_units"] == 1


if __name__ == "__main__":
    unittest.main()
