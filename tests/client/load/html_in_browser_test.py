#!/usr/bin/env python3
"""Opens the HTML report in headless Chromium: its charts have a size on the screen, nothing is
said on the console, and no request leaves the page.

Skipped where Chromium is not installed (apt-get install chromium; deploy/check/browser.sh
installs it and runs this test)."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-headless-shell")
WRITER = pathlib.Path(sys.argv.pop(1) if len(sys.argv) > 1 else "write_sample_report").resolve()

# The report has no script and forbids any: another page looks into it.
HARNESS = """<!doctype html><title>harness</title>
<iframe id="page" src="PAGE" width="WIDTH" height="2000" style="border: 0"></iframe><pre id="found"></pre>
<script>
document.getElementById("page").onload = event => {
  const inside = event.target.contentDocument;
  const box = element => element.getBoundingClientRect();
  document.getElementById("found").textContent = JSON.stringify(
      [...inside.querySelectorAll("svg")].map(svg => ({
        title: svg.getAttribute("aria-label"),
        width: box(svg).width, height: box(svg).height,
        black: [...svg.querySelectorAll(".fill")].filter(
            mark => inside.defaultView.getComputedStyle(mark).fill == "rgb(0, 0, 0)").length,
        page: inside.documentElement.scrollWidth,
        marks: [...svg.querySelectorAll("circle, rect")].filter(
            mark => box(mark).width > 0 && box(mark).height > 0).length,
        outside: [...svg.querySelectorAll("circle, rect, text, line")].filter(
            mark => box(mark).left < box(svg).left - 1 || box(mark).right > box(svg).right + 1 ||
                    box(mark).top < box(svg).top - 1 || box(mark).bottom > box(svg).bottom + 1
            ).length})));
};
</script>"""


def look_at(html, width=1300):
    """What is found of a page's charts, what its console said, what it requested."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "report.html").write_text(html)
        (folder / "harness.html").write_text(HARNESS.replace("PAGE", "report.html").replace("WIDTH", str(width)))
        run = subprocess.run(
            [CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run",
             "--disable-dev-shm-usage", "--disable-background-networking",
             "--disable-component-update", "--disable-sync", "--allow-file-access-from-files",
             f"--user-data-dir={folder}/profile", f"--log-net-log={folder}/net.json",
             "--enable-logging=stderr", "--virtual-time-budget=5000", "--dump-dom",
             (folder / "harness.html").as_uri()],
            env={**os.environ, "HOME": str(folder)}, capture_output=True, text=True, timeout=120)
        net = json.loads((folder / "net.json").read_text())
    found = re.search(r'<pre id="found">(.*?)</pre>', run.stdout, re.S)
    assert found and found.group(1), f"the page did not load:\n{run.stdout[-500:]}{run.stderr}"
    console = [line for line in run.stderr.splitlines() if "CONSOLE" in line]
    parameters = [event.get("params", {}) for event in net["events"]]
    # The browser's own requests have no origin.
    requests = sorted({p["url"] for p in parameters if p.get("initiator", "not an origin")
                       != "not an origin" and not p["url"].startswith(("file:", "data:"))})
    return json.loads(found.group(1)), console, requests


@unittest.skipUnless(CHROMIUM, "SKIPPED: chromium is not installed")
class HtmlInBrowserTest(unittest.TestCase):
    def test_the_report_shows_its_charts_and_loads_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            page = pathlib.Path(folder) / "report.html"
            subprocess.run([WRITER, page], check=True)
            charts, console, requests = look_at(page.read_text())
        self.assertEqual([], console)
        self.assertEqual([], requests)
        titles = [chart["title"] for chart in charts]
        for title in ["Throughput", "Latency", "Tail against throughput", "Where the time goes, ms",
                      "Latency distribution", "Percentiles", "Throughput over time",
                      "Latency over time", "Batch sizes"]:
            self.assertIn(title, titles)
        for chart in charts:
            self.assertGreater(chart["width"], 300, chart)
            self.assertGreater(chart["height"], 80, chart)
            self.assertGreater(chart["marks"], 0, chart)
            self.assertEqual(chart["outside"], 0, chart)
            self.assertEqual(chart["black"], 0, chart)

    def test_a_phone_shows_all_of_it(self):
        with tempfile.TemporaryDirectory() as folder:
            page = pathlib.Path(folder) / "report.html"
            subprocess.run([WRITER, page], check=True)
            charts, _, _ = look_at(page.read_text(), width=390)
        for chart in charts:
            self.assertLessEqual(chart["page"], 390, chart)
            self.assertLessEqual(chart["width"], 390, chart)
            self.assertEqual(chart["outside"], 0, chart)

    def test_a_page_that_does_otherwise_is_noticed(self):
        _, console, requests = look_at(
            '<!doctype html><img src="http://127.0.0.1:9/x.png"><script>console.error("boom")'
            '</script>')
        self.assertIn("boom", "".join(console))
        self.assertEqual(["http://127.0.0.1:9/x.png"], requests)


if __name__ == "__main__":
    unittest.main(verbosity=2)
