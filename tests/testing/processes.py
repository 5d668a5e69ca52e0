"""gemmd and gemm as real processes, for tests in Python.

Bazel puts the programs into the test's runfiles; elsewhere GEMMD_BINARY and GEMM_BINARY name them.
"""

import json
import os
import pathlib
import subprocess
import tempfile
import time

# The prefix of shared memory's files: this run's own, because other runs may leave theirs.
SHARED_PREFIX = f"gemmd-test-{os.getpid()}-"


def gemmd_binary():
    return os.environ.get("GEMMD_BINARY") or str(pathlib.Path("server/gemmd").resolve())


def gemm_binary():
    return os.environ.get("GEMM_BINARY") or str(pathlib.Path("client/cli/gemm").resolve())


def gemm(*arguments, **more):
    """Runs the command line; a CompletedProcess with its output as text. 60 seconds at most."""
    options = {"capture_output": True, "text": True, "timeout": 60, **more}
    return subprocess.run([gemm_binary(), *map(str, arguments)], **options)


class Server:
    """A gemmd process of this machine, on a port that it keeps over restarts. A context manager.

    options: of its command line. command: what runs it, {"taskset", "-c", "0"} for example.
    address: where it listens. more: of subprocess.Popen.
    """

    def __init__(self, *options, command=(), address="127.0.0.1:0", **more):
        self.options = options
        self.command = command
        self.more = more
        self.folder = tempfile.mkdtemp(prefix="gemmd-test-")
        self.process = None
        self.address = address
        self.observe_address = None
        self.start()

    def start(self):
        with open(self._log_file(), "w") as out:
            self.process = subprocess.Popen(
                [
                    *self.command,
                    gemmd_binary(),
                    "--device=cpu",
                    f"--listen={self.address}",
                    f"--shared-memory.name-prefix={SHARED_PREFIX}",
                    *self.options,
                ],
                **{"stdout": out, "stderr": subprocess.STDOUT, **self.more},
            )
        serving = self.wait_for("serving")
        self.address = serving["address"]
        self.observe_address = serving.get("observe")

    def wait_for(self, event, seconds=60):
        """The first line of the log that tells this event, as a dict."""
        give_up = time.monotonic() + seconds
        while time.monotonic() < give_up:
            is_over = self.process.poll() is not None
            for line in self.events():
                if line.get("event") == event:
                    return line
            assert not is_over, self.log()
            time.sleep(0.01)
        raise AssertionError(f"the server does not log {event}:\n{self.log()}")

    def log(self):
        return self._log_file().read_text()

    def events(self):
        """The whole lines of the log, each a dict."""
        lines = self.log().split("\n")[:-1]
        return [json.loads(line) for line in lines if line.startswith("{")]

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        """Ends it by SIGTERM, if it still runs; its exit code."""
        if self.process.poll() is None:
            self.process.terminate()
        return self.process.wait(60)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        if self.process.poll() is None:
            self.kill()

    def _log_file(self):
        return pathlib.Path(self.folder) / "log"
