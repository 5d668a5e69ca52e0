#!/usr/bin/env python3
"""The lines that differ between ladder A's steps are those that its README counts and explains."""
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

FOLDER = pathlib.Path("kernels/workshop/ampere_mma")
KERNEL = pathlib.Path("kernels/mma/copy_async")
sys.dont_write_bytecode = True
sys.path.insert(0, str(FOLDER))
import ladder_a_path  # noqa: E402


def added(file):
    """What docs/writing-a-kernel.md adds to a file."""
    return subprocess.run([sys.executable, "deploy/docs/page_code.py", "docs/writing-a-kernel.md", "--added", file],
                          check=True, stdout=subprocess.PIPE, text=True).stdout


def explained(text):
    """What the README says of each step: lines that go and come, places, sentences about them."""
    said = {}
    for name, section in re.findall(r"^### (a\w+)[^\n]*\n(.*?)(?=^##|\Z)", text, re.S | re.M):
        count = re.search(r"^(\d+) lines? go(?:es)?, (\d+) comes?, in (\d+) places?:\n\n((?:\d+\. .*\n(?:   .*\n)*)+)",
                          section, re.M)
        if count:
            gone, come, places = map(int, count.groups()[:3])
            said[name] = (gone, come, places, len(re.findall(r"^\d+\. ", count.group(4), re.M)))
    return said


class LadderAPathTest(unittest.TestCase):
    def test_the_readme_counts_every_step_and_has_a_sentence_for_each_place(self):
        expected = {name: (gone, come, len(groups), len(groups))
                    for name, gone, come, groups in ladder_a_path.path(FOLDER, KERNEL)}
        self.assertEqual(expected, explained((FOLDER / "README.md").read_text()))

    def test_the_step_that_the_guide_adds_is_explained_in_its_words(self):
        with tempfile.TemporaryDirectory() as folder:
            steps = (FOLDER / "ladder_a_steps.h").read_text()
            end = steps.rindex("}  // namespace")
            pathlib.Path(folder, "ladder_a_steps.h").write_text(
                steps[:end] + added("kernels/workshop/ampere_mma/ladder_a_steps.h") + steps[end:])
            *_, (name, gone, come, groups) = ladder_a_path.path(pathlib.Path(folder), KERNEL)
        self.assertEqual({name: (gone, come, len(groups), len(groups))},
                         explained(added("kernels/workshop/ampere_mma/README.md")))

    def test_a_step_shows_its_own_branches_functions_and_values_alone(self):
        first = "\n".join(ladder_a_path.kernel("a01a", FOLDER, KERNEL))
        self.assertNotIn("if constexpr", first)
        self.assertNotIn("Step::", first)
        self.assertNotIn("LoadMatrix4", first)
        self.assertIn("LoadBByElement", first)
        last = "\n".join(ladder_a_path.kernel("a05", FOLDER, KERNEL))
        self.assertIn("LoadMatrix4", last)
        for unused in ["LoadBByElement", "Pair(", "RunTwoBarriers", "RunOneBarrier"]:
            self.assertNotIn(unused, last)

    def test_a_changed_line_is_counted(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ["gemm.h", "served_step.h"]:
                text = (KERNEL / name).read_text()
                text = text.replace("IssueNextTile(k_tile);\n      ptx::CopyAsyncWait",
                                    "IssueNextTile(k_tile);\n      Extra();\n      ptx::CopyAsyncWait")
                pathlib.Path(folder, name).write_text(text)
            before = {name: counts for name, *counts, _ in ladder_a_path.path(FOLDER, KERNEL)}
            after = {name: counts for name, *counts, _ in ladder_a_path.path(FOLDER, pathlib.Path(folder))}
        self.assertEqual({name: counts for name, counts in after.items() if counts != before[name]},
                         {"a03b": [before["a03b"][0] + 1, before["a03b"][1]]})


if __name__ == "__main__":
    unittest.main()
