#!/usr/bin/env python3
"""The rules of the tree that no compiler checks; each failure names file, line and rule."""
import collections
import pathlib
import re
import unittest

# This file is reached through a link in the test's runfiles: its real place is the tree.
ROOT = pathlib.Path(__file__).resolve().parents[2]

# A request's way through the server. A folder includes itself and what comes after it.
LAYERS = ["preload", "observe_http", "rpc", "auth", "transfer", "admission", "scheduling", "cost", "verification", "regions", "store", "device", "holdings", "tenants"]
# Plain values, options and connections stand beside the layers: what they may include, and who may
# include connections.
LEAVES = {"observe": set(), "options": set(), "trace": {"observe"}, "net": {"observe", "tenants", "holdings"}}
LISTEN = {"observe_http", "rpc"}
# Rooms of a package, of which each may include those after it; the package's own folder may stand
# on either side.
ROOMS = {
    "client/cli": ["commands", "bench", "views", "files"],
    "client/load": ["report", "transport", "results"],
    "client/weights": ["onnx", "layers", "gguf"],
    "kernels/emulator": ["instructions", "memory", "arithmetic", "machine"],
    "server/device/cuda": ["launches", "memory", "planes", "backend"],
    "server/rpc": ["services", "reactors", "oip", "calls", "codec"],
}
# Folders with more than MOST_FILES files, which have no rooms yet.
WIDE = {"client/python/gemmd", "server/device"}
MOST_FILES = 40
WIRE = re.compile(r'"(grpcpp|grpc|gemmd/v1|inference|proto)/')
ASM = re.compile(r"\b(__asm__|__asm|asm)\b\s*(volatile|__volatile__|goto)?\s*\(")
# tests/kernels/emulator/deletions.cc has this list too, and checks that it knows every one.
SYNCHRONISES = re.compile(r"\bptx::(CopyAsync(Wait|Commit)|Sync(Threads|Warp)|NamedBarrier|"
                          r"Mbarrier(Wait|Arrive)|Fence|Cluster(Sync|Arrive|Wait)|Bulk(Commit|Wait)|"
                          r"Wgmma(Fence|Commit|Wait)|Tcgen05(Fence|Commit|Wait)|"
                          r"WaitForPrecedingGrid)\w*[<(]")


def sources(*folders):
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in {".h", ".hpp", ".cc", ".cu", ".cuh"}:
                yield path


def includes(path):
    for number, line in enumerate(path.read_text().splitlines(), 1):
        match = re.match(r'\s*#\s*include\s+["<]([^">]+)[">]', line)
        if match:
            yield number, match.group(1)


def classes(path):
    """Those that the file defines outside functions and classes, with their namespaces; none of
    unnamed namespaces, which are the file's own."""
    namespaces = []
    for line in path.read_text().splitlines():
        if opened := re.match(r"(?:inline )?namespace ([\w:]*) ?\{", line):
            namespaces.append(opened[1])
        elif re.match(r"\}  // (?:inline )?namespace", line):
            namespaces.pop()
        elif defined := re.match(r"(?:class|struct) (\w+)(?: final)?(?: :|\s*\{)", line):
            if "" not in namespaces:
                yield "::".join([*namespaces, defined[1]])


class LayersTest(unittest.TestCase):
    def complain(self, faults):
        self.assertEqual([], [str(fault) for fault in faults], "\n" + "\n".join(map(str, faults)))

    def test_the_tree_is_here(self):
        self.assertGreater(len(list(sources("server", "kernels", "client"))), 50)

    def test_no_layer_includes_a_header_from_a_layer_before_it(self):
        faults = []
        for path in sources("server"):
            own = path.relative_to(ROOT).parts[1]
            for number, header in includes(path):
                match = re.match(r"server/(\w+)/", header)
                if not match or own not in LAYERS + list(LEAVES):
                    continue
                other = match.group(1)
                if own in LEAVES:
                    allowed = {own} | LEAVES[own]
                else:
                    allowed = set(LAYERS[LAYERS.index(own):]) | {"observe", "trace"}
                    allowed |= {"net"} if own in LISTEN else set()
                if other not in allowed:
                    faults.append(f"{path}:{number}: server/{own} includes {header}")
        for path in sources("kernels"):
            for number, header in includes(path):
                if header.startswith(("server/", "client/", "proto/")):
                    faults.append(f"{path}:{number}: kernels includes {header}")
        for path in sources("base"):
            for number, header in includes(path):
                if header.startswith(("server/", "client/", "kernels/", "proto/")):
                    faults.append(f"{path}:{number}: base includes {header}")
        for path in sources("client"):
            for number, header in includes(path):
                if header.startswith(("server/", "kernels/")):
                    faults.append(f"{path}:{number}: client includes {header}")
        self.complain(faults)

    def test_no_room_includes_one_before_it(self):
        faults = []
        for package, rooms in ROOMS.items():
            seen = set()
            for path in sources(package):
                own = path.relative_to(ROOT / package).parts[0]
                seen |= {own} & set(rooms)
                for number, header in includes(path):
                    other = header[len(package) + 1:].split("/")[0]
                    if own in rooms and header.startswith(package + "/") and other in rooms[:rooms.index(own)]:
                        faults.append(f"{path}:{number}: {package}/{own} includes {header}")
            self.assertEqual(set(rooms), seen)
        self.complain(faults)

    def test_a_folder_has_no_more_files_than_one_can_look_through(self):
        files = collections.Counter(path.parent.relative_to(ROOT).as_posix()
                                    for folder in ["base", "client", "kernels", "proto", "server"]
                                    for path in (ROOT / folder).rglob("*")
                                    if path.suffix in {".h", ".hpp", ".cc", ".cu", ".cuh", ".py", ".proto"})
        self.assertEqual(WIDE, {folder for folder, count in files.items() if count > MOST_FILES})

    def test_the_server_reads_the_clients_files_in_one_place(self):
        self.complain([f"{path}:{number}: {header}" for path in sources("server")
                       if not path.is_relative_to(ROOT / "server/preload")
                       for number, header in includes(path) if header.startswith("client/")])

    def test_the_workshop_is_used_by_the_list_of_kernels_alone(self):
        faults = []
        for path in sources("base", "client", "kernels", "server"):
            name = path.relative_to(ROOT).as_posix()
            if name.startswith("kernels/workshop/"):
                continue
            for number, header in includes(path):
                is_entry = name == "kernels/builtin_registry.cc" and header.endswith("_registry.h")
                if header.startswith("kernels/workshop/") and not is_entry:
                    faults.append(f"{path}:{number}: includes {header}")
        self.complain(faults)

    def test_the_server_sees_one_header_of_the_kernels(self):
        self.complain([f"{path}:{number}: {header}" for path in sources("server")
                       for number, header in includes(path)
                       if header.startswith("kernels/") and header != "kernels/gemm.h"])

    def test_grpc_and_the_wire_stay_in_server_rpc_and_client(self):
        faults = []
        for path in sources("server", "kernels"):
            if path.is_relative_to(ROOT / "server/rpc"):
                continue
            for number, line in enumerate(path.read_text().splitlines(), 1):
                if "#include" in line and WIRE.search(line):
                    faults.append(f"{path}:{number}: {line}")
        self.complain(faults)

    def test_asm_stands_in_kernels_ptx_alone(self):
        faults = []
        for path in sources("server", "client", "kernels"):
            if path.is_relative_to(ROOT / "kernels/ptx"):
                continue
            for number, line in enumerate(path.read_text().splitlines(), 1):
                if ASM.search(line.split("//")[0]):
                    faults.append(f"{path}:{number}: {line.strip()}")
        self.complain(faults)

    def test_every_kernel_that_synchronises_has_its_deletions_tried(self):
        tests = "\n".join(path.read_text() for path in (ROOT / "tests/kernels").rglob("deletion_test.cc"))
        faults = []
        for path in sources("kernels"):
            name = path.relative_to(ROOT).as_posix()
            # They say what the instructions are, or measure the hardware's peaks.
            if name.startswith(("kernels/ptx/", "kernels/emulator/", "kernels/workshop/bench/")):
                continue
            if SYNCHRONISES.search(path.read_text()) and f'"{name}"' not in tests:
                faults.append(f"{name}: synchronises, and no deletion_test.cc names it")
        self.complain(faults)

    def test_no_two_classes_of_a_namespace_have_one_name(self):
        # Their functions are the same to the linker, and one of them is taken for both.
        defined = {}
        faults = []
        for path in sources("server", "client", "kernels", "base"):
            for name in classes(path):
                if defined.setdefault(name, path) != path:
                    faults.append(f"{name}: {defined[name]} and {path}")
        self.assertGreater(len(defined), 500)
        self.complain(faults)

    def test_a_class_is_in_files_that_begin_with_its_headers_name(self):
        faults = []
        for path in sources("server", "client", "base"):
            methods = re.search(r"^(?! )[\w:<>*& ]*\b([A-Z]\w+)::~?[A-Z]\w*\(", path.read_text(), re.M)
            if path.suffix != ".cc" or not methods:
                continue
            headers = [each for each in path.parent.glob("*.h") if path.stem.startswith(each.stem)]
            if not any(re.search(rf"\b{methods[1]}\b", each.read_text()) for each in headers):
                faults.append(f"{path}: {methods[1]}")
        self.complain(faults)

    def test_every_folder_says_what_it_receives_and_hands_on(self):
        faults = []
        for folder in ["server", "kernels", "client", "proto", "base"]:
            for build in sorted((ROOT / folder).rglob("BUILD.bazel")):
                if "eceives" not in build.read_text():
                    readme = build.parent / "README.md"
                    if not (readme.exists() and "eceives" in readme.read_text()):
                        faults.append(build)
        self.complain(faults)

    def test_lines_are_short_clean_and_finished(self):
        faults = []
        for path in sources("server", "client", "kernels", "base", "tests"):
            for number, line in enumerate(path.read_text().splitlines(), 1):
                if len(line) > 100 or line != line.rstrip() or re.search(r"\b(TODO|FIXME|XXX)\b", line):
                    faults.append(f"{path}:{number}: {line}")
        self.complain(faults)


if __name__ == "__main__":
    unittest.main()
