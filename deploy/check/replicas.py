#!/usr/bin/python3
"""What callers see of three servers that fail under load, by counts. replicas.sh runs it, in namespaces of its own.

This process and its clients are at the switch; each server, and HAProxy, is in a namespace with a port of the switch.
Faults come after so many products that ended, in an order that the seed gives. Nothing is decided by how long it took:
each wait is for an event, and ends the run where that does not come.
"""
import argparse
import collections
import hashlib
import logging
import os
import pathlib
import random
import re
import secrets
import signal
import ssl
import subprocess
import sys
import tempfile
import threading
import time

import gemmd
import numpy

from processes import Server, gemm

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Beyond a machine that hangs.
PATIENCE_S = 120
POLL_S = 0.02
# Callers' deadline: a connection that fell silent is given up after 40 s, and then there is time for another attempt.
DEADLINE_S = 90
# A silence that clients give up by themselves: they ask for signs of life after 20 s, and wait 20 s for one.
SILENCE_S = 45
SERVERS = {"one": "10.77.0.11", "two": "10.77.0.12", "three": "10.77.0.13"}
SWITCH = "10.77.0.1"
PROXY = "10.77.0.2"
# HAProxy chooses by the client's address: so each client has one of its own, for which HAProxy has another one.
CLIENTS = 6
MATRICES = 24
THREADS = 12


def run(*command):
    subprocess.run(command, check=True)


def wait_until(holds, what):
    give_up = time.monotonic() + PATIENCE_S
    while not holds():
        if time.monotonic() > give_up:
            raise SystemExit(f"after {PATIENCE_S} s it is not so that {what}")
        time.sleep(POLL_S)


class Network:
    """A switch here, and namespaces with a port each."""

    def __init__(self):
        pathlib.Path("/run/netns").mkdir(exist_ok=True)
        run("mount", "-t", "tmpfs", "tmpfs", "/run/netns")
        run("ip", "link", "set", "lo", "up")
        run("ip", "link", "add", "name", "switch", "type", "bridge")
        run("ip", "address", "add", f"{SWITCH}/24", "dev", "switch")
        run("ip", "link", "set", "switch", "up")
        for name, address in {**SERVERS, "proxy": PROXY}.items():
            self.add(name, address)
        for number in range(CLIENTS):
            there, here = self.addresses_of(number)
            run("ip", "address", "add", f"{here}/24", "dev", "switch")
            run(*self.inside("proxy"), "ip", "address", "add", f"{there}/32", "dev", "eth0")
            run("ip", "route", "add", there, "via", PROXY, "src", here)
        # The kernel may lack netem, which loses packets; tbf lets few through.
        lose = ["netem", "delay", "20ms", "5ms", "loss", "1%"]
        throttle = ["tbf", "rate", "8mbit", "burst", "16kb", "latency", "400ms"]
        self.slowness = next((each for each in (lose, throttle) if self.shape("one", each)), None)
        self.unshape("one")

    @staticmethod
    def addresses_of(number):
        """HAProxy's address for that client, and the client's own."""
        return f"10.77.1.{number + 1}", f"10.77.0.{101 + number}"

    @staticmethod
    def inside(name):
        return ["ip", "netns", "exec", name]

    def add(self, name, address):
        run("ip", "netns", "add", name)
        run("ip", "link", "add", "name", f"to-{name}", "type", "veth", "peer", "name", "eth0", "netns", name)
        run("ip", "link", "set", f"to-{name}", "master", "switch", "up")
        for command in (["address", "add", f"{address}/24", "dev", "eth0"], ["link", "set", "eth0", "up"],
                        ["link", "set", "lo", "up"]):
            run(*self.inside(name), "ip", *command)

    def cut(self, name):
        run("ip", "link", "set", f"to-{name}", "down")

    def mend(self, name):
        run("ip", "link", "set", f"to-{name}", "up")

    def shape(self, name, how):
        """Whether the kernel can."""
        command = ["tc", "qdisc", "replace", "dev", f"to-{name}", "root", *how]
        return subprocess.run(command, stderr=subprocess.DEVNULL).returncode == 0

    def unshape(self, name):
        subprocess.run(["tc", "qdisc", "delete", "dev", f"to-{name}", "root"], stderr=subprocess.DEVNULL)


class Certificates:
    """An authority, and a certificate of every address, which is made anew and put in place as operators do it."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.authority = str(self.folder / "authority.pem")
        self.made = 0
        self.openssl("req", "-x509", *self.key("authority"), "-subj", "/CN=authority", "-out", self.authority)
        self.options = [f"--tls.certificate-file={self.folder}/server.pem", f"--tls.key-file={self.folder}/server.key"]
        self.renew()

    def openssl(self, *command):
        subprocess.run(["openssl", *command, "-days", "2"], check=True, stderr=subprocess.DEVNULL)

    def key(self, name):
        return ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", f"{self.folder}/{name}.key"]

    def renew(self):
        self.made += 1
        addresses = [*SERVERS.values(), *(Network.addresses_of(number)[0] for number in range(CLIENTS))]
        names = ",".join(f"IP:{address}" for address in addresses)
        self.openssl("req", "-x509", *self.key("next"), "-subj", f"/CN=server-{self.made}", "-addext",
                     f"subjectAltName={names}", "-addext", "basicConstraints=critical,CA:FALSE", "-CA", self.authority,
                     "-CAkey", f"{self.folder}/authority.key", "-out", f"{self.folder}/next.pem")
        for end in ("key", "pem"):
            os.replace(self.folder / f"next.{end}", self.folder / f"server.{end}")
        return (self.folder / "server.pem").read_text()


class Policy:
    """Tokens of the callers and of an operator: where there is no policy nobody may drain a server."""

    def __init__(self, folder):
        self.callers, self.operators = secrets.token_hex(16), secrets.token_hex(16)
        self.file = pathlib.Path(folder, "policy.textproto")
        self.file.write_text(self.entry(self.callers, "USER") + self.entry(self.operators, "OPERATOR"))
        self.operators_file = pathlib.Path(folder, "operators.token")
        self.operators_file.write_text(self.operators)

    @staticmethod
    def entry(token, role):
        digest = hashlib.sha256(token.encode()).hexdigest()
        return f'token {{ name: "{role}" tenant: "{role}" sha256: "{digest}" role: {role} }}\n'


class Replica(Server):
    """A server in its namespace."""

    def __init__(self, name, certificates, policy):
        self.name = name
        self.as_operator = ["--tls", "--tls-root-certs", certificates.authority, "--token-file", policy.operators_file]
        super().__init__(*certificates.options, f"--auth.policy-file={policy.file}", "--cpu.threads=1",
                         f"--limits.proxy-protocol={PROXY}",
                         f"--observe.listen={SERVERS[name]}:9464", command=Network.inside(name),
                         address=f"{SERVERS[name]}:50051")

    def shown_certificate(self):
        """The words of its PEM text."""
        host, _, port = self.address.rpartition(":")
        return ssl.get_server_certificate((host, int(port))).split()

    def holders(self):
        """The addresses of those that hold connections."""
        asked = gemm("--server", self.address, *self.as_operator, "stats", "--holdings=20")
        if asked.returncode != 0:
            raise SystemExit(f"{self.name} does not say who holds what: {asked.stderr}")
        return set(re.findall(r"\d+\.\d+\.\d+\.\d+", asked.stdout))

    def drain(self):
        asked = gemm("--server", self.address, *self.as_operator, "drain", "--wait=60s")
        if asked.returncode != 0 or self.process.wait(PATIENCE_S) != 0:
            raise SystemExit(f"{self.name} did not drain: {asked.stderr}\n{self.log()}")


class Works:
    """Products of small integers, which f32 holds exactly, each with its right result."""

    def __init__(self, seed):
        numbers = numpy.random.default_rng(seed)
        self.rows = [numbers.integers(-8, 8, (8, 64)).astype("f4") for _ in range(4)]
        self.matrices = [numbers.integers(-8, 8, (64, 48)).astype("f4") for _ in range(MATRICES)]
        self.right = [[row @ matrix for matrix in self.matrices] for row in self.rows]


class Load:
    """Products of some threads, each product after the one before it, until the `during` of run() has returned."""

    def __init__(self, clients, works, share_inline=0.5):
        self.clients = clients
        self.works = works
        self.share_inline = share_inline
        self.residents = [[client.put(matrix) for matrix in works.matrices] for client in clients]
        self.changed = threading.Condition()
        self.is_over = False
        self.products = 0
        self.retries = 0
        self.refills = 0
        self.of_residents = 0
        self.wrong = 0
        self.errors = []
        self.by_server = collections.Counter()

    def work(self, number):
        draw = random.Random(number)
        while not self.is_over:
            client = number % len(self.clients)
            row, matrix = draw.randrange(len(self.works.rows)), draw.randrange(MATRICES)
            is_inline = draw.random() < self.share_inline
            b = self.works.matrices[matrix] if is_inline else self.residents[client][matrix]
            try:
                result = self.clients[client].matmul(self.works.rows[row], b, deadline=DEADLINE_S)
                error = None
            except Exception as failed:  # whatever a caller may see
                error = failed
            with self.changed:
                self.products += 1
                self.of_residents += not is_inline
                if error is not None:
                    self.errors.append(repr(error))
                else:
                    receipt = result.receipt
                    self.retries += receipt.client.attempts - 1 - receipt.client.refills
                    self.refills += receipt.client.refills
                    self.by_server[receipt.server] += 1
                    self.wrong += not numpy.array_equal(result, self.works.right[row][matrix])
                self.changed.notify_all()

    def more(self, products):
        """Waits until so many more have ended."""
        with self.changed:
            end = self.products + products
            if not self.changed.wait_for(lambda: self.products >= end, PATIENCE_S):
                raise SystemExit(f"after {PATIENCE_S} s {products} products have not ended")

    def meets(self, address):
        """Waits until that server has computed another one."""
        with self.changed:
            before = self.by_server[address]
            if not self.changed.wait_for(lambda: self.by_server[address] > before, PATIENCE_S):
                raise SystemExit(f"after {PATIENCE_S} s {address} has computed nothing")

    def run(self, during):
        threads = [threading.Thread(target=self.work, args=[number], daemon=True) for number in range(THREADS)]
        for each in threads:
            each.start()
        during(self)
        self.is_over = True
        for each in threads:
            each.join(PATIENCE_S)
            if each.is_alive():
                raise SystemExit(f"after {PATIENCE_S} s products have not ended")
        return self


class Faults:
    """Faults, by their names; each returns when what it broke is whole again."""

    def __init__(self, network, replicas, certificates, is_long):
        self.network = network
        self.replicas = replicas
        self.certificates = certificates
        self.is_long = is_long

    def kill(self, victim, load):
        victim.kill()
        load.more(100)
        victim.start()

    def stop(self, victim, load):
        victim.process.send_signal(signal.SIGSTOP)
        self.wait_silent(load)
        victim.process.send_signal(signal.SIGCONT)

    def cut(self, victim, load):
        self.network.cut(victim.name)
        self.wait_silent(load)
        self.network.mend(victim.name)

    def wait_silent(self, load):
        # The one sleep: of a fault that is a time.
        time.sleep(SILENCE_S if self.is_long else 0)
        load.more(100)

    def slow(self, victim, load):
        self.network.shape(victim.name, self.network.slowness)
        load.more(200)
        self.network.unshape(victim.name)

    def rotate(self, _, load):
        text = self.certificates.renew()
        for each in self.replicas:
            wait_until(lambda: each.shown_certificate() == text.split(), f"{each.name} shows its new certificate")
        load.more(100)

    def drain(self, victim, load):
        victim.drain()
        load.more(100)
        victim.start()

    def order(self, seed):
        """Names and victims."""
        draw = random.Random(seed)
        names = (["kill"] * 20 + ["stop", "cut"] + ["slow", "rotate", "drain"] * 2 if self.is_long else
                 ["kill"] * 3 + ["stop", "cut", "slow", "rotate", "drain"])
        if self.network.slowness is None:
            names = [name for name in names if name != "slow"]
        draw.shuffle(names)
        return [(name, draw.choice(self.replicas)) for name in names]

    def apply(self, order, load, seconds, settle):
        """One after another; `settle` waits until callers meet the victim again."""
        begun = time.monotonic()
        for name, victim in order:
            load.more(50)
            getattr(self, name)(victim, load)
            settle(victim, load)
        while time.monotonic() < begun + seconds:
            load.more(50)

    def roll(self, load, settle):
        """Drains each server and starts it anew, as an upgrade does."""
        for each in self.replicas:
            self.drain(each, load)
            settle(each, load)


class Proxy:
    """HAProxy in its namespace, by deploy/proxies/haproxy-replicas.cfg. A context manager."""

    def __init__(self, folder):
        text = (ROOT / "deploy/proxies/haproxy-replicas.cfg").read_text()
        changes = [("127.0.0.1:8443", ":8443"), *((f"10.0.0.{number}:", f"{address}:")
                                                  for number, address in enumerate(SERVERS.values(), 1))]
        for there, here in changes:
            if text.count(there) != 1:
                raise SystemExit(f"haproxy-replicas.cfg does not have {there} once")
            text = text.replace(there, here)
        self.file = pathlib.Path(folder, "haproxy.cfg")
        self.file.write_text(text)
        self.log = pathlib.Path(folder, "haproxy.log")

    def __enter__(self):
        with open(self.log, "w") as out:
            command = [*Network.inside("proxy"), "haproxy", "-db", "-f", self.file]
            self.process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
        return self

    def __exit__(self, *exception):
        if exception[0] is not None:
            print(self.log.read_text())
        self.process.kill()
        self.process.wait()


class Verdict:
    """Lines of what was counted, and those that are wrong."""

    COLUMNS = ["", "products", "errors", "wrong", "retries", "refills", "hit rate", "most load"]

    def __init__(self):
        self.rows = [self.COLUMNS]
        self.failures = []

    def demand(self, holds, what):
        if not holds:
            self.failures.append(what)

    def add(self, title, load, wants_retries=True, is_balanced=False):
        hits = 1 - load.refills / max(1, load.of_residents)
        most = max(load.by_server.values()) * len(SERVERS) / load.products
        self.rows.append([title, load.products, len(load.errors), load.wrong, load.retries, load.refills, f"{hits:.3f}",
                          f"{most:.2f}" if len(load.by_server) > 1 else ""])
        self.demand(not load.errors, f"{title}: callers saw errors: {load.errors[:3]}")
        self.demand(load.wrong == 0, f"{title}: {load.wrong} products are wrong")
        # Else nothing was tried.
        self.demand(load.retries > 0 or not wants_retries, f"{title}: no attempt failed, so that the faults did nothing")
        if is_balanced:
            self.demand(load.retries == 0, f"{title}: {load.retries} attempts failed, though no server did")
            self.demand(hits >= 0.95, f"{title}: {hits:.3f} of the products met their matrix, and 0.95 should")
            self.demand(most <= 1.3, f"{title}: one server had {most:.2f} times the mean load, and may have 1.3")

    def print(self):
        for line in (self.rows[0], ["---"] * len(self.COLUMNS), *self.rows[1:]):
            print(f"| {' | '.join(map(str, line))} |")


def await_serving(client):
    wait_until(lambda: all(each.health == "serving" and not each.is_left_out for each in client.servers()),
               "the client knows that all servers serve")


def moved(client, works, replicas, verdict):
    """Kills each server, and counts the matrices whose products another one computes then. Each must move its own."""
    def homes():
        return [client.matmul(works.rows[0], each, deadline=DEADLINE_S).receipt.server for each in residents]

    residents = [client.put(matrix) for matrix in works.matrices]
    before = homes()
    counts = []
    for victim in replicas:
        victim.kill()
        after = homes()
        mine = [home == victim.address for home in before]
        verdict.demand([one != other for one, other in zip(before, after)] == mine,
                       f"{victim.name} was killed: {before} became {after}")
        counts.append(sum(mine))
        victim.start()
        await_serving(client)
        verdict.demand(homes() == before, f"{victim.name} is back, and its matrices are elsewhere")
    print(f"of {MATRICES} matrices the loss of a server moved {', '.join(map(str, counts))}: its own, and no other")
    verdict.demand(sum(counts) == MATRICES, f"servers had {counts} of {MATRICES} matrices")


def with_own_balancing(clients_of, faults, seed, seconds, works, verdict):
    def meets(victim, load):
        load.meets(victim.address)

    with clients_of([each.address for each in faults.replicas]) as client:
        await_serving(client)
        # Each matrix is brought to its server, and then the counts begin.
        for inline, title in ((1, "in turn"), (0, "by affinity")):
            load = Load([client], works, share_inline=inline)
            verdict.add(title, load.run(lambda load: load.more(2000)), wants_retries=False, is_balanced=True)
        moved(client, works, faults.replicas, verdict)
        order = faults.order(seed)
        print("faults:", ", ".join(f"{name} {victim.name}" for name, victim in order))
        load = Load([client], works).run(lambda load: faults.apply(order, load, seconds, meets))
        verdict.add("faults", load)
        verdict.add("rolling restart", Load([client], works).run(lambda load: faults.roll(load, meets)))


def behind_haproxy(clients_of, faults, seed, seconds, works, verdict, folder):
    def settle(victim, load):
        load.more(100)

    with Proxy(folder):
        clients = [clients_of(f"{Network.addresses_of(number)[0]}:8443") for number in range(CLIENTS)]
        order = faults.order(seed + 1)
        print("faults behind HAProxy:", ", ".join(f"{name} {victim.name}" for name, victim in order))
        # Each server counts HAProxy's clients, and not HAProxy.
        seen = set()
        Load(clients, works).run(lambda load: seen.update(*(each.holders() for each in faults.replicas)))
        own = {Network.addresses_of(number)[1] for number in range(CLIENTS)}
        verdict.demand(own <= seen and PROXY not in seen, f"behind HAProxy the servers count {sorted(seen)}")
        load = Load(clients, works).run(lambda load: faults.apply(order, load, seconds, settle))
        verdict.add("faults, HAProxy", load)
        verdict.add("rolling restart, HAProxy", Load(clients, works).run(lambda load: faults.roll(load, settle)))
        for each in clients:
            each.close()


def main(arguments):
    parser = argparse.ArgumentParser(prog="deploy/check/replicas.sh")
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args(arguments)
    seconds = 60 if asked.long else 0
    with tempfile.TemporaryDirectory() as folder:
        network = Network()
        print("a slow network is", " ".join(network.slowness or ["not tried: this kernel has neither netem nor tbf"]))
        certificates = Certificates(folder)
        policy = Policy(folder)
        replicas = [Replica(name, certificates, policy) for name in SERVERS]
        faults = Faults(network, replicas, certificates, asked.long)
        works = Works(asked.seed)
        verdict = Verdict()

        def clients_of(servers):
            # As patient as the callers' deadline: a busy machine makes waits long, and they decide nothing here.
            retry = gemmd.RetryPolicy(max_attempts=1000, patience=DEADLINE_S)
            return gemmd.Client(servers, tls=gemmd.Tls(root_certificates=certificates.authority), token=policy.callers,
                                retry=retry)

        logging.getLogger("gemmd").setLevel(logging.ERROR)  # which warns of servers that cannot be reached
        with_own_balancing(clients_of, faults, asked.seed, seconds, works, verdict)
        behind_haproxy(clients_of, faults, asked.seed, seconds, works, verdict, folder)
        for each in replicas:
            each.stop()
    verdict.print()
    if verdict.failures:
        sys.exit("\n".join(verdict.failures))
    print("callers saw no error")


if __name__ == "__main__":
    main(sys.argv[1:])
