#!/usr/bin/env python3
"""Tables and charts are what the script makes of the data, and every claim stands on its page."""
import importlib.util
import math
import pathlib
import re
import sys
import tempfile
import unittest

from headings import anchors

# This file is reached through a link in the test's runfiles: its real place is the tree.
ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = ROOT / "docs/benchmarks"
sys.dont_write_bytecode = True
SPEC = importlib.util.spec_from_file_location("benchmarks", ROOT / "deploy/docs/benchmarks.py")
benchmarks = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(benchmarks)

FIGURE = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?(?:\^\d+)?")
DATE = re.compile(r"2\d{3}-\d\d-\d\d$")


def figures(text):
    """The numbers of a text: 59,504 is 59504, and a full stop behind a number is no part of it."""
    return {figure.replace(",", "") for figure in FIGURE.findall(text)}


def faults_of_claim(claim, pages):
    """What is wrong with a claim; `pages`: each page's text by its name."""
    page, _, anchor = claim["page"].partition("#")
    if page not in pages:
        return [f"there is no page {page}"]
    faults = []
    if anchor and anchor not in anchors(pages[page]):
        faults.append(f"{page} has no heading for #{anchor}")
    absent = figures(claim["latest"]) | figures(claim["target"])
    absent -= figures(pages[page])
    if absent:
        faults.append(f"{page} does not have {', '.join(sorted(absent))}")
    if claim["state"] not in benchmarks.STATES:
        faults.append(f"no such state: {claim['state']}")
    if not DATE.match(claim["date"]):
        faults.append(f"no date: {claim['date']}")
    return faults


class BenchmarksTest(unittest.TestCase):
    def setUp(self):
        self.data = benchmarks.Data(ROOT)
        self.pages = {path.stem: path.read_text() for path in PAGES.glob("*.md")}
        self.claims = [claim for subject in self.data.claims for claim in subject["claims"]]

    def test_tables_and_charts_are_what_the_script_writes(self):
        stale = [str(path.relative_to(ROOT)) for path, text in benchmarks.outputs(ROOT)
                 if not path.exists() or path.read_text() != text]
        self.assertEqual([], stale, "deploy/docs/benchmarks.py writes them")

    def test_claims_stand_on_their_pages(self):
        self.assertGreater(len(self.claims), 30)
        faults = [f"{claim['claim']}: {fault}" for claim in self.claims for fault in faults_of_claim(claim, self.pages)]
        self.assertEqual([], faults)

    def test_a_claim_that_its_page_does_not_bear_out_is_a_fault(self):
        pages = {"page": "# Page\n\n## What was run\n\n1.5 of it, 12 us, 59,504 requests.\n"}
        claim = {"claim": "c", "target": "at most 12 us", "latest": "1.5, 59504", "state": "met",
                 "date": "2026-11-25", "page": "page#what-was-run"}
        self.assertEqual([], faults_of_claim(claim, pages))
        for wrong in ({"latest": "1.51"}, {"latest": "5"}, {"target": "13 us"}, {"page": "other"},
                      {"page": "page#what-was"}, {"state": "perhaps"}, {"date": "today"}):
            self.assertEqual(1, len(faults_of_claim({**claim, **wrong}, pages)), wrong)

    def test_every_page_has_a_claim_or_says_how_things_are_measured(self):
        claimed = {claim["page"].partition("#")[0] for claim in self.claims}
        self.assertEqual({"method"}, set(self.pages) - claimed)

    def test_every_table_of_the_data_is_on_a_page(self):
        shown = set(re.findall(r"<!-- table: (\S+) -->", "".join(self.pages.values())))
        stored = {f"{subject}/{table}" for subject, tables in self.data.subjects.items() for table in tables}
        self.assertEqual(stored, shown)

    def test_geometric_means_are_those_of_their_rows(self):
        """Within a unit of the third digit: they were taken from figures that were not rounded."""
        checked = 0
        for subject, tables in self.data.subjects.items():
            for name, table in tables.items():
                for column, mean in enumerate(table.get("mean", [])):
                    if benchmarks.is_number(mean):
                        logarithms = [math.log(row[column]) for row in table["rows"]]
                        found = math.exp(sum(logarithms) / len(logarithms))
                        self.assertAlmostEqual(float(mean), found, delta=0.001, msg=f"{subject}/{name}")
                        checked += 1
        self.assertGreater(checked, 10)

    def test_figures_keep_their_digits(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "table.json"
            path.write_text('{"columns": ["a", {"title": "b", "bold_below": 0.9}, '
                            '{"title": "c", "format": ["{} ({})", "{} of {}, {}"]}], '
                            '"rows": [["x", 1.000, [2.50, 3]], ["y", 0.850, [1, 2, 3]]]}')
            self.assertEqual("| a | b | c |\n| --- | --- | --- |\n| x | 1.000 | 2.50 (3) |\n"
                             "| y | **0.850** | 1 of 2, 3 |\n",
                             benchmarks.markdown_table(benchmarks.load(path)))

    def test_the_index_is_short(self):
        self.assertLessEqual(len((ROOT / "BENCHMARKS.md").read_text().splitlines()), 150)


if __name__ == "__main__":
    unittest.main()
