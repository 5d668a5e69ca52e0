#!/usr/bin/env python3
"""deploy/systemd/gemmd.service is no more exposed than docs/operations.md says, and hides no GPU."""
import pathlib
import re
import shutil
import subprocess
import unittest

# This file is reached through a link in the test's runfiles: its real place is the tree.
ROOT = pathlib.Path(__file__).resolve().parents[2]
UNIT = ROOT / "deploy/systemd/gemmd.service"
PAGE = ROOT / "docs/operations.md"


class UnitTest(unittest.TestCase):
    def stated(self):
        (score,) = re.findall(r"unit's exposure is (\d+\.\d) by `systemd-analyze security", PAGE.read_text())
        return score

    @unittest.skipUnless(shutil.which("systemd-analyze"), "there is no systemd-analyze here")
    def test_it_is_as_exposed_as_the_page_says(self):
        said = subprocess.run(["systemd-analyze", "security", "--offline=true", "--no-pager", UNIT],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        found = re.search(r"Overall exposure level for gemmd.service: (\d+\.\d)", said.stdout)
        self.assertIsNotNone(found, said.stdout)
        self.assertLessEqual(float(found[1]), float(self.stated()))

    def test_it_hides_no_gpu_and_no_machine(self):
        """ProtectClock brings a DeviceAllow, after which no other device is allowed."""
        given = dict(re.findall(r"^(\w+)=(.*)$", UNIT.read_text(), re.M))
        for name in ("PrivateDevices", "DeviceAllow", "DevicePolicy", "ProtectClock", "ProcSubset", "PrivateUsers"):
            self.assertNotIn(name, given)

    def test_it_stops_later_than_the_drain(self):
        options = (ROOT / "deploy/gemmd.textproto").read_text()
        drain, send = (int(re.search(rf"#{name}: (\d+)", options)[1]) for name in ("drain_timeout_ms", "send_timeout_ms"))
        stop = int(re.search(r"^TimeoutStopSec=(\d+)$", UNIT.read_text(), re.M)[1])
        self.assertGreater(stop * 1000, drain + send)


if __name__ == "__main__":
    unittest.main()
