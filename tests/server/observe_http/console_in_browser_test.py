#!/usr/bin/env python3
"""Opens the console in headless Chromium beside a server under load, over the browser's own pipe
(https://chromedevtools.github.io/devtools-protocol/).

Skipped where Chromium is not installed (apt-get install chromium; deploy/check/browser.sh
installs it and runs this test). With a path after the binaries it leaves a picture there."""
import base64
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

CHROMIUM = shutil.which("chromium")
GEMMD, GEMM = (pathlib.Path(path).resolve() for path in sys.argv[1:3])
PICTURE = sys.argv[3] if len(sys.argv) > 3 else None
del sys.argv[1:]

# WCAG 2.1, 1.4.3: of each text on the page with what is behind it.
CONTRASTS = """(() => {
  const parts = colour => colour.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map(v => v / 255)
      .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
      .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = element => {
    for (; element; element = element.parentElement) {
      const colour = parts(getComputedStyle(element).backgroundColor);
      if (colour.length < 4 || colour[3] > 0) return colour;
    }
    return [255, 255, 255];
  };
  const found = [];
  for (const element of document.body.querySelectorAll("*")) {
    const own = [...element.childNodes].some(node => node.nodeType === 3 && node.data.trim());
    if (!own || !element.checkVisibility() || element.tagName === "SCRIPT") continue;
    const pair = [parts(getComputedStyle(element).color), behind(element)].map(light).sort((x, y) => y - x);
    found.push([(pair[0] + 0.05) / (pair[1] + 0.05), element.textContent.trim().slice(0, 40)]);
  }
  return found;
})()"""


# WCAG 2.1, 1.4.11: of each curve with the panel behind it.
CONTRASTS_OF_CURVES = CONTRASTS.partition("  const found")[0] + """
  return [...document.querySelectorAll("svg path")].map(path => {
    const pair = [parts(getComputedStyle(path).stroke), behind(path)].map(light).sort((x, y) => y - x);
    return [(pair[0] + 0.05) / (pair[1] + 0.05), path.parentElement.id + " " + path.getAttribute("class")];
  });
})()"""
# The number of points that the first curve has.
PIECES = '((document.querySelector("#rates path") || document.body).getAttribute("d") || "").split("H").length - 1'


class Browser:
    """One page, driven by messages that end with a zero byte, on descriptors 3 and 4."""

    def __init__(self, folder):
        to_read, to_write = os.pipe()
        from_read, from_write = os.pipe()

        def give():
            os.dup2(to_read, 3)
            os.dup2(from_write, 4)

        # Above what they are moved to.
        to_read, from_write = (os.dup(fd) if fd in (3, 4) else fd for fd in (to_read, from_write))
        self.process = subprocess.Popen(
            [CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run",
             "--disable-dev-shm-usage", "--disable-background-networking", "--disable-sync",
             "--disable-component-update", f"--user-data-dir={folder}/profile",
             "--remote-debugging-pipe", "about:blank"],
            env={**os.environ, "HOME": str(folder)}, preexec_fn=give, close_fds=False,
            stderr=subprocess.DEVNULL)
        os.close(to_read)
        os.close(from_write)
        self.out, self.into = os.fdopen(to_write, "wb"), os.fdopen(from_read, "rb")
        self.unread, self.number, self.session, self.events = b"", 0, None, []
        target = [each for each in self.call("Target.getTargets")["targetInfos"] if each["type"] == "page"][0]
        self.session = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        self.out.write(json.dumps(message).encode() + b"\0")
        self.out.flush()
        while True:
            answer = self.read()
            if answer.get("id") == self.number:
                assert "error" not in answer, (method, answer)
                return answer["result"]
            self.events.append(answer)

    def read(self):
        while b"\0" not in self.unread:
            piece = os.read(self.into.fileno(), 1 << 16)
            assert piece, "the browser has ended"
            self.unread += piece
        message, self.unread = self.unread.split(b"\0", 1)
        return json.loads(message)

    def value(self, script):
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def wait(self, script):
        """Until it is true; the test's own time limit ends what never is."""
        while not self.value(script):
            time.sleep(0.05)

    def open(self, url):
        self.call("Page.navigate", url=url)
        self.wait(f'location.href === {json.dumps(url)} && document.readyState === "complete"')

    def size(self, width, height):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def scheme(self, name):
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def said(self):
        """What stands on the browser's console, and errors that nobody caught."""
        self.value("0")  # events before it have come
        return [event["params"] for event in self.events
                if event.get("method") in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")]

    def asked(self):
        self.value("0")
        return {event["params"]["request"]["url"] for event in self.events
                if event.get("method") == "Network.requestWillBeSent"}

    def close(self):
        self.call("Browser.close")
        self.process.wait()
        self.out.close()
        self.into.close()


class Server:
    def __init__(self, *options):
        self.process = subprocess.Popen(
            [GEMMD, "--listen=127.0.0.1:0", "--observe.listen=127.0.0.1:0", "--cpu.threads=1",
             "--log.slow-ms=1", *options], stderr=subprocess.PIPE, text=True)
        for line in self.process.stderr:
            event = json.loads(line)
            if event["event"] == "observing":
                self.page = f"http://{event['address']}/"
            if event["event"] == "serving":
                self.address = event["address"]
                break
        # Nobody reads on: what the log cannot hold is lost, which is the server's rule.

    def load(self, seconds):
        return subprocess.Popen([GEMM, "--server", self.address, "--tenant", "alice", "bench", "-c", "2", "-s",
                                 "128x128x128", "--duration", f"{seconds}s", "-q"], stdout=subprocess.DEVNULL)

    def close(self):
        self.process.terminate()
        self.process.communicate()


@unittest.skipUnless(CHROMIUM, "SKIPPED: chromium is not installed")
class ConsoleTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.browser = Browser(self.folder.name)
        self.servers = []

    def tearDown(self):
        self.browser.close()
        for server in self.servers:
            server.close()
        self.folder.cleanup()

    def serve(self, *options):
        self.servers.append(Server(*options))
        return self.servers[-1]

    def test_it_shows_a_server_under_load_and_asks_nobody_else(self):
        server, browser = self.serve(), self.browser
        load = server.load(8)
        browser.size(1280, 1400)
        browser.open(server.page)
        browser.wait("""document.querySelectorAll("#kernels tr").length && document.querySelectorAll("#slow tr").length
                        && parseFloat(document.getElementById("rate").textContent) > 0""")
        text = browser.value("document.body.innerText")
        for part in ["serving", server.address, "up ", "cpu/panel_f32", "alice", "compute", "cpu", "free",
                     "128 x 128 x 128", "f32"]:
            self.assertIn(part, text)
        browser.wait(f"{PIECES} >= 2")
        if PICTURE:
            time.sleep(4)
            shot = browser.call("Page.captureScreenshot", format="png")["data"]
            pathlib.Path(PICTURE).write_bytes(base64.b64decode(shot))
        load.kill()
        load.wait()
        self.assertEqual([], browser.said())
        foreign = {url for url in browser.asked() if not url.startswith((server.page, "data:"))}
        self.assertEqual(set(), foreign)

    def test_a_fresh_page_has_the_curves_of_the_time_before_it(self):
        server, browser = self.serve(), self.browser

        def points():
            with urllib.request.urlopen(server.page + "console.json") as answer:
                return len(json.load(answer)["history"]["recent"]["points"]["end"])

        while points() < 3:
            time.sleep(0.1)
        browser.open(server.page)
        browser.wait(f"{PIECES} > 0")
        self.assertGreaterEqual(browser.value(PIECES), 3)
        for chart in ("rates", "times", "work", "flights"):
            texts = browser.value(f'[...document.querySelectorAll("#{chart} text")].map(each => each.textContent)')
            self.assertTrue([text for text in texts if re.match(r"\d\d:\d\d", text)], f"{chart} has no time: {texts}")
            levels = [text for text in texts if re.match(r"[\d.]+ (s|ms|µs)$" if chart == "times" else r"[\d,.]+$", text)]
            self.assertGreaterEqual(len(levels), 2, f"{chart} has no axis: {texts}")
            self.assertGreaterEqual(browser.value(f'document.querySelectorAll("#{chart} .grid-line").length'), 2)

    def test_bounds_of_buckets_are_not_shown_as_times(self):
        server, browser = self.serve(), self.browser
        browser.open(server.page)
        browser.wait('document.querySelectorAll("#devices tr").length')
        self.assertEqual(["", "at most 10 µs", "in 1–2 ms", "in 500 µs–1 ms", "at least 10 s"],
                         browser.value("[null, 5e-6, 1.38e-3, 9e-4, 10].map(x => bucket(latest, x))"))
        # Scales: what is shown lies between the bottom and the top; counts have whole levels.
        for of in ([], [0], [0.03, 1.8], [7], [2233, 12], [1e-5, 12.7]):
            places = browser.value(f"""[linear, logarithmic, all => linear(all, 1)].map(scale => scale({of}))
                .flatMap(made => {of}.concat(made.levels).map(made.place))""")
            self.assertTrue(all(-1e-9 <= place <= 1 + 1e-9 for place in places), (of, places))
        self.assertEqual([0, 1, 2], browser.value("linear([2], 1).levels"))
        self.assertEqual([1e-4, 1e-3, 1e-2, 0.1, 1, 10], browser.value("logarithmic([0.00015, 0, 1.82, null]).levels"))
        self.assertEqual(["0", "1,868", "12.5", "0.123"], browser.value("[0, 1868.4, 12.5, 0.1234].map(number)"))

    def test_on_a_phone_no_column_is_hidden(self):
        server, browser = self.serve(), self.browser
        load = server.load(6)
        browser.size(390, 900)
        browser.open(server.page)
        browser.wait('document.querySelectorAll("#slow td").length && document.querySelectorAll("#stages td").length')
        self.assertEqual([], browser.value("""[...document.querySelectorAll(".scroll")]
            .filter(each => each.scrollWidth > each.clientWidth).map(each => each.innerText)"""))
        self.assertIn("took", browser.value("""getComputedStyle(document.querySelector("#slow td"), "::before").content"""))
        load.kill()
        load.wait()

    def test_it_can_be_read_in_both_schemes_and_on_a_phone(self):
        server, browser = self.serve(), self.browser
        load = server.load(6)
        for scheme in ("light", "dark"):
            browser.scheme(scheme)
            for width in (320, 768, 2560):
                browser.size(width, 900)
                browser.open(server.page)
                browser.wait('document.querySelectorAll("#devices tr").length')
                self.assertLessEqual(browser.value("document.documentElement.scrollWidth"), width, scheme)
            contrasts = browser.value(CONTRASTS)
            self.assertGreater(len(contrasts), 20)
            for ratio, text in contrasts:
                self.assertGreaterEqual(ratio, 4.5, f"{scheme}: {text}")
            for ratio, name in browser.value(CONTRASTS_OF_CURVES):
                self.assertGreaterEqual(ratio, 3, f"{scheme}: the curve {name}")
        load.kill()
        load.wait()

    def test_it_can_be_used_by_keyboard_and_screen_reader(self):
        server, browser = self.serve(), self.browser
        browser.open(server.page)
        browser.wait('document.querySelectorAll("#devices tr").length')
        self.assertEqual("en", browser.value("document.documentElement.lang"))
        self.assertEqual(1, browser.value('document.querySelectorAll("h1").length'))
        self.assertEqual([], browser.value("""[...document.querySelectorAll("svg, .bar, .scroll")]
            .filter(each => !each.getAttribute("aria-label") && !each.getAttribute("aria-labelledby"))
            .map(each => each.outerHTML)"""))
        # Everything that scrolls can be reached, and so be scrolled, without a mouse.
        self.assertEqual(0, browser.value("""[...document.querySelectorAll(".scroll")]
            .filter(each => each.tabIndex !== 0).length"""))

    def test_names_of_clients_are_text(self):
        server, browser = self.serve(), self.browser
        browser.open(server.page)
        browser.wait('document.querySelectorAll("#devices tr").length')
        self.assertEqual("<img src=x onerror=alert(1)>",
                         browser.value('row("<img src=x onerror=alert(1)>").textContent'))
        self.assertEqual(0, browser.value('row("<img src=x onerror=alert(1)>").querySelectorAll("img").length'))
        browser.value("""showSlow({seconds: 1, received: 0, slow: [{request_id: 1, finish: 1, total_us: 1, exposed_us: {"<b>": 1}, m: 1, n: 1,
            k: 1, types: "<b>x</b>", tenant: "<b>x</b>", peer: "<b>x</b>", kernel: "<b>x</b>", traceparent: "-<b>x</b>-"}]})""")
        self.assertEqual(0, browser.value('document.querySelectorAll("#slow b").length'))
        self.assertEqual(5, browser.value("""[...document.querySelectorAll("#slow td")]
            .filter(each => each.textContent === "<b>x</b>").length"""))

    def test_with_a_policy_it_asks_for_a_token(self):
        policy = pathlib.Path(self.folder.name) / "policy.textproto"
        digest = subprocess.run(["sha256sum"], input=b"secret", stdout=subprocess.PIPE).stdout.split()[0].decode()
        policy.write_text(f'token {{ name: "o" tenant: "t" role: OBSERVER sha256: "{digest}" }}')
        server, browser = self.serve(f"--auth.policy-file={policy}"), self.browser
        browser.open(server.page)
        browser.wait('!document.getElementById("login").hidden')
        self.assertEqual(0, browser.value('document.querySelectorAll("#devices tr").length'))
        browser.value("""document.getElementById("token").value = "secret";
                         document.querySelector("#login button").click()""")
        browser.wait('document.getElementById("login").hidden && document.querySelectorAll("#devices tr").length')

    def test_a_page_that_does_otherwise_is_noticed(self):
        page = pathlib.Path(self.folder.name) / "bad.html"
        page.write_text('<!doctype html><p style="color:#aaa;background:#fff">pale</p><div style="width:900px">x</div>'
                        '<img src="http://127.0.0.1:9/x.png"><script>console.error("boom")</script>')
        browser = self.browser
        browser.size(320, 900)
        browser.open(page.as_uri())
        browser.wait('document.readyState === "complete"')
        self.assertTrue(browser.said())
        self.assertIn("http://127.0.0.1:9/x.png", browser.asked())
        self.assertGreater(browser.value("document.documentElement.scrollWidth"), 320)
        self.assertLess(min(ratio for ratio, _ in browser.value(CONTRASTS)), 4.5)


if __name__ == "__main__":
    unittest.main(verbosity=2)
