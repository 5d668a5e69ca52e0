#!/usr/bin/env python3
"""Has Prometheus scrape gemmd under load, and asks it every query of the dashboard.

  deploy/check/observe.py GEMMD GEMM SECONDS

Fails where promtool finds fault with the page, a scrape failed, a query is none or shows nothing
though the machine has what it asks for, or a counter is not what the client counted.
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Metrics that are empty without GPUs, and on a server that refused nobody and was not asked to keep
# anything.
MAY_BE_EMPTY = re.compile(r"gemmd_(gpu|pinned)_|gemmd_requests_refused_total|gemmd_kernel_launches|"
                          r"gemmd_device_peak_flops")


def get(url):
    with urllib.request.urlopen(url, timeout=10) as answer:
        return answer.read().decode()


class Prometheus:
    def __init__(self, folder, target):
        config = (ROOT / "deploy/observe/prometheus.yaml").read_text()
        config = config.replace("127.0.0.1:9464", target).replace("15s", "1s")
        config = config.replace("alerts.yaml", str(ROOT / "deploy/observe/alerts.yaml"))
        (folder / "prometheus.yaml").write_text(config)
        self.url = "http://127.0.0.1:19095"
        self.process = subprocess.Popen(
            ["prometheus", f"--config.file={folder}/prometheus.yaml", f"--storage.tsdb.path={folder}/data",
             f"--web.listen-address={self.url[7:]}", "--log.level=warn"])

    def query(self, expression):
        """The samples of an instant query."""
        url = f"{self.url}/api/v1/query?" + urllib.parse.urlencode({"query": expression})
        answer = json.loads(get(url))
        assert answer["status"] == "success", (expression, answer)
        return answer["data"]["result"]

    def value(self, expression):
        samples = self.query(expression)
        assert len(samples) == 1, (expression, samples)
        return float(samples[0]["value"][1])


def start(gemmd):
    # No other client: every request that the server counts is the load generator's.
    server = subprocess.Popen([gemmd, "--listen=127.0.0.1:0", "--observe.listen=127.0.0.1:0",
                               "--verification.sampled-per-million=100000"],
                              stderr=subprocess.PIPE, text=True)
    addresses = {}
    for line in server.stderr:
        event = json.loads(line)
        if event["event"] in ("observing", "serving"):
            addresses[event["event"]] = event["address"]
        if event["event"] == "serving":
            return server, addresses["serving"], addresses["observing"]
    raise SystemExit("gemmd did not start")


def queries_of(dashboard):
    for panel in dashboard["panels"]:
        for target in panel.get("targets", []):
            query = target["expr"]
            for name, value in [("$job", "gemmd"), ("$instance", ".*"), ("$type", "f32"),
                                ("$__rate_interval", "10s")]:
                query = query.replace(name, value)
            assert "$" not in query, query
            yield panel["title"], query


def main(gemmd, gemm, seconds):
    server, address, observed = start(gemmd)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        prometheus = Prometheus(folder, observed)
        try:
            load = subprocess.run([gemm, "--server", address, "bench", "-c", "4", "-s", "64x64x64", "--duration",
                                   f"{seconds}s", "--save", folder / "load.json", "-q"],
                                  stdout=subprocess.DEVNULL)
            assert load.returncode == 0, "gemm bench failed"
            page = get(f"http://{observed}/metrics")
            lint = subprocess.run(["promtool", "check", "metrics"], input=page, text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            assert lint.returncode == 0 and not lint.stdout, lint.stdout
            shown = [(title, query, prometheus.query(query))
                     for title, query in queries_of(json.loads((ROOT / "deploy/observe/dashboard.json").read_text()))]
            for title, query, samples in shown:
                assert samples or MAY_BE_EMPTY.search(query), f"{title} shows nothing: {query}"
            time.sleep(2.5)  # two scrapes after the last request
            assert prometheus.value('min_over_time(up{job="gemmd"}[5m])') == 1, "a scrape failed"
            scrapes = prometheus.value('count_over_time(up{job="gemmd"}[10m])')
            received = prometheus.value("gemmd_requests_received_total")
            finished = prometheus.value("sum(gemmd_requests_finished_total)")
            ok = prometheus.value('gemmd_requests_finished_total{code="OK"}')
            told = json.loads(subprocess.run([gemm, "--server", address, "--json", "stats"], check=True,
                                             stdout=subprocess.PIPE, text=True).stdout)
            assert received == finished == float(told["received_requests"]), (received, finished, told)
            assert ok == float(told["finished_requests"]["OK"]), (ok, told)
            # The load generator's report has no requests of its first moments and its last.
            counted = sum(point["ok"] for point in json.loads((folder / "load.json").read_text())["points"])
            assert 0 < counted <= ok, (counted, ok)
            alerts = json.loads(get(f"{prometheus.url}/api/v1/alerts"))["data"]["alerts"]
            print(f"{scrapes:.0f} scrapes, {received:.0f} requests, {len(shown)} queries, "
                  f"{len(page.splitlines())} lines a page, "
                  f"alerts: {sorted(alert['labels']['alertname'] for alert in alerts) or 'none'}")
        finally:
            prometheus.process.terminate()
            prometheus.process.wait()
            server.terminate()
            server.stderr.read()
            assert server.wait() == 0


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
