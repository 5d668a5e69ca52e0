#!/usr/bin/env python3
"""What watching costs: requests a second of a server that is watched over those of one that is not.

  tests/load/observe_cost.py [PAIRS [SECONDS]]   after bazel build --config=opt //server:gemmd //client/cli:gemm

Pairs of runs, one after the other, whose order changes; M = 1 over a resident B of 1024 x 1024. The
watched server has its HTTP listener, is scraped in either form each second, has its console asked
every two, and logs slow requests. Prints each pair's ratio, and their median.
"""
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
GEMMD, GEMM = ROOT / "bazel-bin/server/gemmd", ROOT / "bazel-bin/client/cli/gemm"


def start(*options):
    server = subprocess.Popen([GEMMD, "--listen=127.0.0.1:0", *options], stderr=subprocess.PIPE, text=True)
    addresses = {}
    for line in server.stderr:
        event = json.loads(line)
        addresses[event["event"]] = event.get("address")
        if event["event"] == "serving":
            break
    threading.Thread(target=server.stderr.read, daemon=True).start()
    return server, addresses


def watch(address, over):
    forms = ["text/plain", "application/openmetrics-text"]
    looks = 0
    while not over.wait(1):
        request = urllib.request.Request(f"http://{address}/metrics", headers={"Accept": forms[looks % 2]})
        urllib.request.urlopen(request).read()
        if looks % 2 == 0:
            urllib.request.urlopen(f"http://{address}/console.json").read()
        looks += 1


def rate(address, seconds, folder):
    report = folder / "report.json"
    subprocess.run([GEMM, "--server", address, "bench", "-c", "8", "-s", "1x1024x1024", "--operands", "resident-b",
                    "--duration", f"{seconds}s", "--save", report, "-q"], check=True, stdout=subprocess.DEVNULL)
    return json.loads(report.read_text())["points"][0]["requests_per_s"]


def main(pairs, seconds):
    plain, plain_address = start()
    watched, watched_address = start("--observe.listen=127.0.0.1:0", "--log.slow-ms=1")
    over = threading.Event()
    watcher = threading.Thread(target=watch, args=(watched_address["observing"], over))
    watcher.start()
    ratios = []
    with tempfile.TemporaryDirectory() as folder:
        for pair in range(pairs):
            rates = {}
            for address in [plain_address, watched_address][::1 if pair % 2 == 0 else -1]:
                rates[address["serving"]] = rate(address["serving"], seconds, pathlib.Path(folder))
            of_plain, of_watched = rates[plain_address["serving"]], rates[watched_address["serving"]]
            ratios.append(of_watched / of_plain)
            print(f"{of_plain:.0f} {of_watched:.0f} {ratios[-1]:.3f}", flush=True)
    over.set()
    watcher.join()
    for server in (plain, watched):
        server.terminate()
        server.wait()
    print(f"median of {pairs} pairs: {statistics.median(ratios):.3f}, "
          f"{min(ratios):.3f} to {max(ratios):.3f}")


if __name__ == "__main__":
    main(*(int(word) for word in sys.argv[1:]), *[10, 5][len(sys.argv) - 1:])
