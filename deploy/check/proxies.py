#!/usr/bin/python3
"""What of gemmd works behind each proxy, by its configuration in deploy/proxies. proxies.sh runs it.

A row is a method of Behind: it returns "yes", or says what a client sees. Nothing is decided by how long it took: each
wait is for an event, and ends the run where that does not come.
"""
import pathlib
import queue
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

import grpc
import numpy
from gemmd.v1 import gemm_pb2, gemm_pb2_grpc, matrix_pb2, regions_pb2, regions_pb2_grpc, status_pb2

from processes import Server, gemm, gemm_binary

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/proxies.md"
# The server's listener lets an address open 64 connections a second.
POLL_S = 0.05
# Beyond a machine that hangs.
PATIENCE_S = 60
# An idle session is watched for so long. A proxy that ends it later counts as one that does not.
IDLE_S = 3
# Few connections of one address, so that a proxy that opens one for each call is noticed soon. Two threads, so that
# long products are long everywhere.
OPTIONS = ["--observe.listen=127.0.0.1:0", "--limits.connections-per-peer=128", "--scheduling.max-queued-requests=16",
           "--cpu.threads=2"]
LONG = "long"  # names of resident operands, whose product takes seconds
SOME = "some"  # and some tenths of one


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def wait_until(holds, what):
    give_up = time.monotonic() + PATIENCE_S
    while not holds():
        if time.monotonic() > give_up:
            raise SystemExit(f"after {PATIENCE_S} s it is not so that {what}")
        time.sleep(POLL_S)


def listens(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class Proxy:
    """A proxy by its file, before the servers at `addresses`. A context manager."""

    # Its file, how it is started, and the line of a server with what another one is called.
    KINDS = {
        "haproxy": ("haproxy.cfg", ["haproxy", "-db", "-f", "{file}"], r"( *)server one (\S+)(.*)"),
        "haproxy http": ("haproxy-http.cfg", ["haproxy", "-db", "-f", "{file}"], r"( *)server one (\S+)(.*)"),
        "nginx": ("nginx.conf", ["nginx", "-e", "{folder}/errors", "-g", "daemon off; pid {folder}/pid;", "-c", "{file}"],
                  r"( *)server (127\S+);()"),
        "caddy": ("Caddyfile", ["caddy", "run", "--adapter", "caddyfile", "--config", "{file}"], None),
    }

    # The listener's line of its file, and another one for clients with TLS; HAProxy in mode tcp leaves TLS to gemmd.
    WITH_TLS = {
        "haproxy": None,
        "haproxy http": (r"bind (\S+) proto h2", r"bind \1 ssl crt {both} alpn h2"),
        "nginx": (r"listen (\S+) http2;", r"listen \1 ssl http2; ssl_certificate {cert}; ssl_certificate_key {key};"),
        "caddy": (r"http://127.0.0.1:(\d+) \{", "https://localhost:\\1 {\n\tbind 127.0.0.1\n\ttls {cert} {key}"),
    }

    # Words for a server's line, by which gemmd is told whose connection it is. Others have none.
    CAN_TELL = {"haproxy": ["send-proxy", "send-proxy-v2"], "haproxy http": ["send-proxy", "send-proxy-v2"]}

    def __init__(self, kind, addresses, patience="1h", without=None, tls=None, tells=""):
        name, self.command, self.server_line = self.KINDS[kind]
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        text = (ROOT / "deploy/proxies" / name).read_text()
        for there, here in [("127.0.0.1:8443", self.address), ("127.0.0.1:50051", addresses[0]), ("1h", patience)]:
            if there not in text and there != "1h":
                raise SystemExit(f"deploy/proxies/{name} does not have {there}")
            text = text.replace(there, here)
        if without is not None:
            if text.count(without) != 1:
                raise SystemExit(f"deploy/proxies/{name} does not have {without}, once")
            text = text.replace(without, "")
        if tls is not None and self.WITH_TLS[kind]:
            line, with_tls = self.WITH_TLS[kind]
            for name, path in tls.items():
                with_tls = with_tls.replace("{" + name + "}", path)
            text, changed = re.subn(rf"^(\s*){line}", lambda match: match[1] + re.sub(line, with_tls, match[0].strip()),
                                    text, flags=re.M)
            assert changed == 1, text
        if tells:
            line = re.search(rf"^{self.server_line}$", text, re.M)[0]
            text = text.replace(line, f"{line} {tells}")
        for another in addresses[1:]:
            text = self.with_server(text, addresses[0], another)
        # Its ports for administration and for plain HTTP may be another one's.
        self.text = re.sub(r"^\{$", "{\n\tadmin off\n\tauto_https disable_redirects", text, count=1, flags=re.M) if kind == "caddy" else text

    def with_server(self, text, first, another):
        if self.server_line is None:
            return text.replace(f"h2c://{first}", f"h2c://{first} h2c://{another}")
        line = re.search(rf"^{self.server_line}$", text, re.M)
        return text.replace(line[0], line[0] + "\n" + line[0].replace(first, another).replace(" one ", " two "))

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory()
        file = pathlib.Path(self.folder.name, "settings")
        file.write_text(self.text)
        command = [each.format(file=file, folder=self.folder.name) for each in self.command]
        with open(pathlib.Path(self.folder.name, "log"), "w") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)

        def is_there():
            if self.process.poll() is not None:
                raise SystemExit(f"{command} ended:\n" + pathlib.Path(log.name).read_text())
            return listens(self.port)

        wait_until(is_there, f"{command[0]} listens")
        return self

    def __exit__(self, *exception):
        # SIGTERM: nginx and Caddy end at once by it.
        self.process.terminate()
        self.process.wait(PATIENCE_S)
        self.folder.cleanup()


def resident(name):
    return matrix_pb2.Operand(name=name)


def product_of(name):
    return gemm_pb2.MatmulRequest(header=gemm_pb2.MatmulHeader(a=resident(name + "-a"), b=resident(name + "-b")))


def inline(side=8):
    return matrix_pb2.Operand(data=matrix_pb2.Plane(type=matrix_pb2.INT8, rows=side, columns=side),
                              inline=matrix_pb2.Inline())


def chunk(operand, side=8, request=1):
    return gemm_pb2.Chunk(request_id=request, operand=operand, data=bytes(side * side))


class Session:
    """A MatmulStream whose messages are sent one by one."""

    def __init__(self, stub):
        self.outgoing = queue.Queue()
        self.call = stub.MatmulStream(iter(self.outgoing.get, None))
        self.incoming = queue.Queue()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        try:
            for message in self.call:
                self.incoming.put(message)
            self.incoming.put(None)
        except grpc.RpcError as error:
            self.incoming.put(error)

    def send(self, **event):
        self.outgoing.put(gemm_pb2.MatmulStreamRequest(**event))

    def begin(self, request):
        self.send(begin=gemm_pb2.MatmulStreamRequest.Begin(
            request_id=request, header=gemm_pb2.MatmulHeader(a=inline(), b=inline())))
        self.send(chunk=chunk(matrix_pb2.A, request=request))

    def finish(self, request):
        """Sends the rest of a request that has begun: "yes" when it is finished, else what came instead."""
        self.send(chunk=chunk(matrix_pb2.B, request=request))
        while True:
            message = self.incoming.get(timeout=PATIENCE_S)
            if not isinstance(message, gemm_pb2.MatmulStreamResponse):
                return seen(message)
            if message.WhichOneof("event") == "finished":
                return "yes" if message.finished.code == 0 else f"code {message.finished.code}"

    def product(self, request):
        self.begin(request)
        return self.finish(request)


def seen(end):
    return "ended" if end is None else end.code().name


def outcome(call):
    try:
        call()
        return "yes"
    except grpc.RpcError as error:
        return seen(error)


def details(error):
    """gemmd's own words in an error, or nothing where the proxy has lost them."""
    found = status_pb2.StatusDetails()
    found.ParseFromString(dict(error.trailing_metadata()).get("grpc-status-details-bin", b""))
    return [each.type_url.rpartition(".")[2] for each in found.details]


def code_of(said):
    """The status code in what gemm says of a failure, else all of it."""
    code = re.search(r": ([A-Z_]{4,}): ", said)
    return code[1] if code else said.strip()


class Files:
    """Matrices for gemm: 48 MiB each way, long lines that make little work, and those of the products that take long."""

    def __init__(self, folder):
        self.folder = folder
        lines = 48 << 20
        self.wide = self.save("wide", (64, lines // 64 // 4), "f4")
        self.high = self.save("high", (lines // 64 // 4, 64), "f4")
        self.column = self.save("column", (6144, 4), "f4")
        self.tls = self.certificate()
        self.row = self.save("row", (4, 4096), "f4")
        self.small = self.save("small", (64, 64), "f4")
        self.products = {LONG: (self.save("la", (4096, 65536), "i1"), self.save("lb", (65536, 2048), "i1")),
                         SOME: (self.save("sa", (2048, 32768), "i1"), self.save("sb", (32768, 2048), "i1"))}

    def certificate(self):
        """One for localhost, with its key, and both in one file, as HAProxy wants them."""
        names = {name: f"{self.folder}/{name}.pem" for name in ("cert", "key", "both")}
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                        "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost",
                        "-keyout", names["key"], "-out", names["cert"]], check=True, stderr=subprocess.DEVNULL)
        both = "".join(pathlib.Path(names[name]).read_text() for name in ("cert", "key"))
        pathlib.Path(names["both"]).write_text(both)
        return names

    def save(self, name, shape, kind):
        path = f"{self.folder}/{name}.npy"
        numpy.save(path, numpy.ones(shape, kind))
        return path


class Behind:
    """A server behind a proxy, and a row for each thing that clients do."""

    def __init__(self, kind, files, names=(LONG, SOME)):
        self.kind = kind
        self.files = files
        self.server = Server(*OPTIONS)
        self.keep(names)

    def keep(self, names):
        """The operands of long products, by a way around the proxy."""
        for name in names:
            for path, letter in zip(self.files.products[name], "ab"):
                self.expect(gemm("--server", self.server.address, "put", path, "--name", f"{name}-{letter}", "--replace"))

    def expect(self, result):
        if result.returncode != 0:
            raise SystemExit(f"{result.args}: {result.stderr}")

    def gemm(self, *arguments):
        """ "yes", or the code that the command line ends with."""
        result = gemm("--server", self.proxy.address, "--patience=0", *arguments)
        if result.returncode == 0:
            return "yes"
        return code_of(result.stderr)

    @property
    def channel(self):
        return grpc.insecure_channel(self.proxy.address, [("grpc.use_local_subchannel_pool", 1),
                                                          ("grpc.max_receive_message_length", -1)])

    @property
    def stub(self):
        return gemm_pb2_grpc.GemmStub(self.channel)

    def count(self, metric):
        """The sum of a metric's series whose text begins so."""
        page = urllib.request.urlopen(f"http://{self.observing}/metrics", timeout=PATIENCE_S).read().decode()
        return sum(float(line.rpartition(" ")[2]) for line in page.splitlines() if line.startswith(metric))

    @property
    def observing(self):
        return self.server.wait_for("observing")["address"]

    def in_flight(self, number):
        wait_until(lambda: self.count("gemmd_requests_in_flight") == number, f"{number} requests are in flight")

    def ends_at_the_server(self, begin, end):
        """A long product that its client gives up: "yes" where the server has not computed it to its end."""
        ok = 'gemmd_requests_finished_total{code="OK"}'
        before = self.count(ok)
        begun = begin()
        self.in_flight(1)
        end(begun)
        self.in_flight(0)
        return "yes" if self.count(ok) == before else "computed to its end"

    def health(self):
        return self.gemm("health")

    def inline_in(self):
        return self.gemm("matmul", self.files.wide, self.files.high, "--transport=stream", "--channels=1")

    def inline_out(self):
        return self.gemm("matmul", self.files.column, self.files.row, "--transport=stream", "--channels=1")

    def session_over_four(self):
        return self.gemm("matmul", self.files.wide, self.files.high, "--transport=stream", "--channels=4")

    def upload(self):
        put = self.gemm("put", self.files.wide, "--name=wide", "--replace")
        return put if put != "yes" else self.gemm("matmul", "@wide", self.files.high, "--transport=stream", "--channels=1")

    def download(self):
        return self.gemm("get", "@wide", "-o", f"{self.files.folder}/wide-again.npy")

    def many(self, call):
        result = gemm("--server", self.proxy.address, "bench", "-c", "8", "-s", "8x8x8", f"--call={call}",
                      "--duration=1s", "--warm-up=100ms", "--fail-on=failed>0%")
        if result.returncode in (0, 8, 9):
            return "yes" if result.returncode == 0 else "some fail"
        raise SystemExit(f"{result.args}: {result.stderr}")

    def many_calls(self):
        return self.many("unary")

    def many_in_sessions(self):
        return self.many("stream")

    def deadline(self):
        def counted():
            return (self.count('gemmd_requests_refused_total{cause="deadline"}') +
                    self.count('gemmd_requests_finished_total{code="DEADLINE_EXCEEDED"}'))

        before = counted()
        seen_by_client = outcome(lambda: self.stub.Matmul(product_of(LONG), timeout=0.3))
        if seen_by_client != "DEADLINE_EXCEEDED":
            return seen_by_client
        wait_until(lambda: counted() > before, "the server counts a deadline")
        return "yes"

    def cancelled_call(self):
        return self.ends_at_the_server(lambda: self.stub.Matmul.future(product_of(LONG)), lambda call: call.cancel())

    def command(self, transport, name):
        return [gemm_binary(), "--server", self.proxy.address, "--patience=0", "matmul", f"@{name}-a", f"@{name}-b",
                f"--transport={transport}"]

    def killed(self, transport):
        return self.ends_at_the_server(
            lambda: subprocess.Popen(self.command(transport, LONG), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL),
            lambda client: (client.kill(), client.wait()))

    def killed_call(self):
        return self.killed("unary")

    def killed_session(self):
        return self.killed("stream")

    def error_details(self):
        try:
            self.stub.Matmul(product_of("nobody"))
        except grpc.RpcError as error:
            return "yes" if details(error) == ["MissingOperands"] else f"{seen(error)}, {details(error)}"
        return "no error"

    def pushback(self):
        """More long products than may wait: one is refused, with a time to come back."""
        stub = self.stub
        calls = [stub.Matmul.future(product_of(LONG)) for _ in range(20)]
        ended = queue.Queue()
        for call in calls:
            call.add_done_callback(ended.put)
        refused = ended.get(timeout=PATIENCE_S)
        for call in calls:
            call.cancel()
        self.in_flight(0)
        has_time = "grpc-retry-pushback-ms" in dict(refused.trailing_metadata())
        return "yes" if refused.code().name == "RESOURCE_EXHAUSTED" and has_time else f"{refused.code().name}, {has_time}"

    def idle_session(self):
        """Behind a proxy that waits for a second."""
        session = Session(self.stub)
        if session.product(1) != "yes":
            return "no product"
        try:
            end = session.incoming.get(timeout=IDLE_S)
        except queue.Empty:
            return session.product(2)
        again = Session(self.stub).product(1)
        return "cut, begins anew" if again == "yes" else f"{seen(end)}, then {again}"

    def long_product(self):
        """Behind a proxy that waits for a second."""
        return outcome(lambda: self.stub.Matmul(product_of(LONG)))

    def drain(self):
        """All that is under way while the server drains; the rows after this one say what became of it."""
        stub, idle, session = self.stub, Session(self.stub), Session(self.stub)
        first = idle.product(1)
        session.begin(1)
        call = stub.Matmul.future(product_of(SOME))
        self.in_flight(2)
        self.server.process.terminate()
        if self.server.wait_for("draining")["in_flight"] != 2:
            raise SystemExit("the products were over before the server drained")
        self.drained = {"session": session.finish(1), "call": outcome(call.result)}
        end = idle.incoming.get(timeout=PATIENCE_S)
        self.drained["idle"] = first if first != "yes" else (
            "yes" if end is not None and details(end) == ["Draining"] else seen(end))
        self.server.process.wait(PATIENCE_S)
        return self.drained["call"]

    def drain_session(self):
        return self.drained["session"]

    def drain_idle(self):
        return self.drained["idle"]

    def server_gone(self):
        found = outcome(lambda: self.stub.Matmul(product_of(SOME)))
        return "yes" if found == "UNAVAILABLE" else found

    def server_again(self):
        self.server.start()
        return self.gemm("matmul", self.files.small, self.files.small)

    def matrices_on_two(self):
        put = self.gemm("put", self.files.small, "--name=small", "--replace")
        if put != "yes":
            return put
        right = sum(self.gemm("matmul", self.files.small, "@small") == "yes" for _ in range(10))
        return "yes" if right == 10 else "some are NOT_FOUND"

    def session_on_two(self):
        return self.session_over_four()

    def told_apart(self):
        """gemmd counts the client, and takes it for no one of its own host, though both are on it here."""
        product = self.gemm("matmul", self.files.small, self.files.small)
        if product != "yes":
            return product
        try:
            regions_pb2_grpc.RegionsStub(self.channel).Register(regions_pb2.RegisterRegionRequest(
                posix=regions_pb2.PosixMemory(name="/none", size_bytes=4096)))
        except grpc.RpcError as error:
            return "yes" if error.code().name == "PERMISSION_DENIED" and "127.0.0.1:" in error.details() else seen(error)
        return "a client of another host may share memory"

    def clients_with_tls(self):
        port = self.proxy.address.rpartition(":")[2]
        result = gemm("--server", f"localhost:{port}", "--patience=0", "--tls", "--tls-root-certs", self.files.tls["cert"],
                      "matmul", self.files.small, self.files.small)
        return "yes" if result.returncode == 0 else code_of(result.stderr)

    ROWS = [
        ("health", "health"),
        ("96 MiB of operands in a session", "inline_in"),
        ("96 MiB of result", "inline_out"),
        ("a product over four connections", "session_over_four"),
        ("an upload of 48 MiB, and its product", "upload"),
        ("a download of 48 MiB", "download"),
        ("many small calls", "many_calls"),
        ("many small products in sessions", "many_in_sessions"),
        ("a deadline reaches the server", "deadline"),
        ("a cancelled call ends at the server", "cancelled_call"),
        ("so does the call of a killed client", "killed_call"),
        ("so does the session of a killed client", "killed_session"),
        ("details of errors", "error_details"),
        ("a time to come back", "pushback"),
        ("drain: a call under way", "drain"),
        ("drain: a product in a session", "drain_session"),
        ("drain: an idle session is told", "drain_idle"),
        ("a server that is gone is UNAVAILABLE", "server_gone"),
        ("a server that came back", "server_again"),
    ]
    IMPATIENT = [
        ("a session idle beyond the proxy's timeout", "idle_session"),
        ("a product longer than the timeout", "long_product"),
    ]
    ON_TWO = [
        ("two servers: matrices that stay", "matrices_on_two"),
        ("two servers: a product over four connections", "session_on_two"),
    ]

    TOLD_APART = ("clients told apart by the PROXY protocol", "told_apart")
    WITH_TLS = [("clients with TLS", "clients_with_tls")]

    def run(self):
        def ask(rows, addresses, **more):
            with Proxy(self.kind, addresses, **more) as self.proxy:
                for title, name in rows:
                    yield title, getattr(self, name)()

        with self.server:
            yield from ask(self.IMPATIENT, [self.server.address], patience="1s")
            yield from ask(self.ROWS, [self.server.address])
            with Server(*OPTIONS) as other:
                yield from ask(self.ON_TWO, [self.server.address, other.address])
            title, name = self.TOLD_APART
            found = "no" if self.kind not in Proxy.CAN_TELL else "yes"
            for tells in Proxy.CAN_TELL.get(self.kind, []):
                with Server(*OPTIONS, "--limits.proxy-protocol=127.0.0.1") as told:
                    ((_, one),) = ask([(title, name)], [told.address], tells=tells)
                    found = found if one == "yes" else f"{tells}: {one}"
            yield title, found
            tls = self.files.tls
            secret = [f"--tls.certificate-file={tls['cert']}", f"--tls.key-file={tls['key']}"]
            with Server(*OPTIONS, *([] if Proxy.WITH_TLS[self.kind] else secret)) as last:
                yield from ask(self.WITH_TLS, [last.address], tls=tls)


# Lines without which a row is not "yes" any more: the file, the line, and the row's method. They show that rows can fail.
NEEDED = [
    ("nginx", "keepalive 32;", "many_calls"),
    ("nginx", "client_max_body_size 0;", "inline_in"),
    ("nginx", "ip_hash;", "matrices_on_two"),
    ("haproxy http", "option abortonclose", "killed_call"),
    ("caddy", "lb_policy ip_hash", "matrices_on_two"),
]


def without_lines(files):
    """What is seen without each line of NEEDED; ends the run where that is "yes"."""
    for kind, line, name in NEEDED:
        behind = Behind(kind, files, [LONG] * name.startswith("killed"))
        with behind.server, Server(*OPTIONS) as other:
            addresses = [behind.server.address] + [other.address] * name.endswith("_on_two")
            with Proxy(kind, addresses, without=line) as behind.proxy:
                found = getattr(behind, name)()
        print(f"{kind} without {line} {name}: {found}")
        if found == "yes":
            raise SystemExit(f"{kind} does not need {line}, or the row {name} cannot fail")


def table(columns):
    titles = list(next(iter(columns.values())))
    lines = [["", *columns], ["---"] * (len(columns) + 1)]
    lines += [[title, *(column[title] for column in columns.values())] for title in titles]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def main(arguments):
    if arguments not in ([], ["--write"]):
        sys.exit(f"usage: deploy/check/proxies.sh [--write], not {arguments}")
    with tempfile.TemporaryDirectory() as folder:
        files = Files(folder)
        made = table({kind: dict(Behind(kind, files).run()) for kind in Proxy.KINDS})
        without_lines(files)
    print(made, end="")
    page = PAGE.read_text()
    (shown,) = re.findall(r"^\|  \| haproxy .*\n(?:\|.*\n)+", page, re.M)
    if shown == made:
        print("it is the table of docs/proxies.md")
    elif arguments:
        PAGE.write_text(page.replace(shown, made))
        print("written into docs/proxies.md")
    else:
        sys.exit("it is not the table of docs/proxies.md: look why, then deploy/check/proxies.sh --write")


if __name__ == "__main__":
    main(sys.argv[1:])
