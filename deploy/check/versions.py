#!/usr/bin/python3
"""Clients of the last release and of this tree, at one server at once. versions.sh runs it.

  versions.py REVISION OLD_WHEEL NEW_WHEEL     starts the servers, and the clients as processes of their own
  versions.py --client ADDRESS SEED            is such a client, of the wheel in PYTHONPATH
"""
import json
import os
import subprocess
import sys
import threading
import zipfile

ROUNDS = 40
THREADS = 4


class Client:
    """What the release's users call: every method returns nothing, or raises what is wrong."""

    def __init__(self, address, seed):
        import gemmd
        import numpy

        self.gemmd, self.numpy = gemmd, numpy
        self.client = gemmd.Client(address)
        self.streams = gemmd.Client(address, transport="stream")
        self.seed = seed

    def integers(self, draw, *shape):
        """Small ones, of whose products every type's sum is exact."""
        return draw.integers(-4, 5, shape)

    def same(self, result, right):
        if not self.numpy.array_equal(self.numpy.asarray(result).astype("f8"), right):
            raise AssertionError("the product is wrong")

    def types(self, draw):
        a, b = self.integers(draw, 24, 40), self.integers(draw, 40, 16)
        for kind in ("f4", "f8", "f2", "i1"):
            self.same(self.client.matmul(a.astype(kind), b.astype(kind)), a @ b)

    def epilogue(self, draw):
        a, b, c = self.integers(draw, 8, 12), self.integers(draw, 12, 9), self.integers(draw, 8, 9)
        bias = self.integers(draw, 9)
        found = self.client.matmul(a.astype("f4"), b.astype("f4"), alpha=2.0, beta=-1.0, c=c.astype("f4"),
                                   bias=bias.astype("f4"), activation="relu")
        self.same(found, self.numpy.maximum(2 * (a @ b) - c + bias, 0))

    def layouts(self, draw):
        a, b = self.integers(draw, 33, 20).astype("f4"), self.integers(draw, 7, 33).astype("f4")
        self.same(self.client.matmul(a.T, b.T), a.T @ b.T)
        self.same(self.client.matmul(a[::2].T, self.numpy.asfortranarray(b.T[::2])), a[::2].T @ b.T[::2])

    def stacks(self, draw):
        a, b = self.integers(draw, 5, 6, 7).astype("f4"), self.integers(draw, 5, 7, 4).astype("f4")
        self.same(self.client.matmul(a, b), a @ b)

    def stream(self, draw):
        a, b = self.integers(draw, 300, 400).astype("f4"), self.integers(draw, 400, 200).astype("f4")
        self.same(self.streams.matmul(a, b), a @ b)

    def futures(self, draw):
        a, b = self.integers(draw, 16, 16).astype("f4"), self.integers(draw, 16, 16).astype("f4")
        for each in [self.client.submit(a, b) for _ in range(8)]:
            self.same(each.result(), a @ b)

    def residents(self, draw):
        a, b = self.integers(draw, 10, 30).astype("f4"), self.integers(draw, 30, 20).astype("f4")
        resident = self.client.put(b)
        resident.renew()
        self.same(self.client.matmul(a, resident), a @ b)
        self.same(resident.numpy(), b)
        kept = self.client.matmul(a, b, keep=True)
        self.same(self.client.matmul(kept, b.T.copy()), a @ b @ b.T)
        kept.release()
        resident.release()

    def quantized(self, draw):
        x = self.integers(draw, 12, 64).astype("f4")
        # Each row's largest is 127 times a power of two, so that int8 holds the row exactly.
        x[:, 0] = 127
        a = self.gemmd.Quantized.of(x, "int8-row", 0)
        b = self.integers(draw, 64, 8).astype("f4")
        self.same(self.client.matmul(a, b, verify=1), x @ b)

    def refusals(self, draw):
        a = self.integers(draw, 4, 4).astype("f4")
        for error, call in [
            (self.gemmd.NotFound, lambda: self.client.resident("nobody")),
            (self.gemmd.InvalidArgument, lambda: self.client.matmul(a, a, kernel="nobody")),
        ]:
            try:
                call()
            except error:
                continue
            except self.gemmd.Error as other:
                if error is self.gemmd.InvalidArgument and other.code in ("NOT_FOUND", "FAILED_PRECONDITION"):
                    continue
                raise
            raise AssertionError(f"there is no {error.__name__}")

    def questions(self, _):
        if not self.client.info().devices or self.client.stats() is None:
            raise AssertionError("the server says nothing of itself")

    FEATURES = ["types", "epilogue", "layouts", "stacks", "stream", "futures", "residents", "quantized", "refusals",
                "questions"]

    def work(self, number, counts, lock):
        draw = self.numpy.random.default_rng([self.seed, number])
        for name in self.FEATURES * ROUNDS:
            try:
                getattr(self, name)(draw)
                said = None
            except Exception as failed:  # whatever a caller may see
                said = f"{type(failed).__name__}: {failed}"
            with lock:
                count = counts.setdefault(name, {"ok": 0, "failed": 0, "why": ""})
                count["failed" if said else "ok"] += 1
                count["why"] = count["why"] or said or ""

    def run(self):
        counts, lock = {}, threading.Lock()
        threads = [threading.Thread(target=self.work, args=(number, counts, lock)) for number in range(THREADS)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        print(json.dumps(counts))


def side_by_side(address, wheels):
    """What each wheel's client counts, both at once, by the wheel's title."""
    running = {title: subprocess.Popen([sys.executable, __file__, "--client", address, str(seed)],
                                       env={**os.environ, "PYTHONPATH": wheel}, stdout=subprocess.PIPE, text=True)
               for seed, (title, wheel) in enumerate(wheels.items())}
    counts = {}
    for title, process in running.items():
        said, _ = process.communicate(timeout=1800)
        if process.returncode != 0:
            raise SystemExit(f"{title} ended with code {process.returncode}")
        counts[title] = json.loads(said)
    return counts


def contract_of(wheel):
    """What is on the wire, by name: of fields number, type, label and whether presence shows; of values and methods
    likewise."""
    from google.protobuf import descriptor_pb2

    files = descriptor_pb2.FileDescriptorSet()
    with zipfile.ZipFile(wheel) as archive:
        files.ParseFromString(archive.read("gemmd/descriptors.binpb"))
    found, reserved = {}, {}

    def add_enum(prefix, enum):
        for value in enum.value:
            found[f"{prefix}.{enum.name}.{value.name}"] = value.number

    def add_message(prefix, message):
        name = f"{prefix}.{message.name}"
        reserved[name] = {number for each in message.reserved_range for number in range(each.start, each.end)}
        for field in message.field:
            found[f"{name}.{field.name}"] = (field.number, field.type, field.label, field.type_name,
                                             field.HasField("oneof_index"))
        for each in message.nested_type:
            add_message(name, each)
        for each in message.enum_type:
            add_enum(name, each)

    for file in files.file:
        if not file.package.startswith("gemmd"):
            continue
        for message in file.message_type:
            add_message(file.package, message)
        for enum in file.enum_type:
            add_enum(file.package, enum)
        for service in file.service:
            for method in service.method:
                found[f"{file.package}.{service.name}.{method.name}()"] = (
                    method.input_type, method.output_type, method.client_streaming, method.server_streaming)
    return found, reserved


def compare_contracts(old_wheel, new_wheel):
    """What the release has that is another thing today, or is gone without its number being kept free."""
    old, _ = contract_of(old_wheel)
    new, reserved = contract_of(new_wheel)
    wrong = []
    for name, thing in old.items():
        if name in new:
            if new[name] != thing:
                wrong.append(f"{name} was {thing} and is {new[name]}")
        elif name.endswith("()") or isinstance(thing, int) or thing[0] not in reserved.get(name.rpartition(".")[0], ()):
            wrong.append(f"{name} is gone, and its number may be used again")
    print(f"of the wire contract {len(old)} fields, values and methods are as they were, and {len(new.keys() - old.keys())}"
          " are new" if not wrong else "\n".join(wrong))
    return wrong


def main(arguments):
    if arguments[0] == "--client":
        Client(arguments[1], int(arguments[2])).run()
        return
    from processes import Server

    revision, old_wheel, new_wheel = arguments
    old, new = f"the client of {revision}", "today's client"
    wrong = compare_contracts(old_wheel, new_wheel)
    servers = {"today's server": os.environ["GEMMD_BINARY"]}
    if os.environ.get("OLD_GEMMD"):
        servers[f"the server of {revision}"] = os.environ["OLD_GEMMD"]
    for title, binary in servers.items():
        os.environ["GEMMD_BINARY"] = binary
        with Server() as server:
            counts = side_by_side(server.address, {old: old_wheel, new: new_wheel})
            if server.stop() != 0:
                wrong.append(f"{title} did not end well: {server.log()}")
        for client, features in counts.items():
            ok = sum(each["ok"] for each in features.values())
            print(f"{title}, {client}: {ok} rounds of {len(features)} features")
            wrong += [f"{title}, {client}: {name}: {each['failed']} failed: {each['why']}"
                      for name, each in features.items() if each["failed"] > 0]
    if wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main(sys.argv[1:])
