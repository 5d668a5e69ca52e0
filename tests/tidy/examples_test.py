#!/usr/bin/python3
"""Every command that a document or --help shows is run, with small matrices, on a server here.

What is not ours to run (containers, other machines) names files and targets that exist. Sizes,
durations, rounds, addresses and handles are exchanged; nothing else of a command is.
"""
import ast
import hashlib
import json
import os
import pathlib
import re
import shlex
import signal
import struct
import subprocess
import tempfile
import time
import unittest

import numpy

ROOT = pathlib.Path.cwd()
GEMM = ROOT / "client/cli/gemm"
GEMMD = ROOT / "server/gemmd"
# The changelog names what is gone.
DOCUMENTS = [*sorted(path for path in ROOT.glob("*.md") if path.name != "CHANGELOG.md"), ROOT / "kernels/README.md",
             *sorted((ROOT / "docs").glob("**/*.md"))]
SIDE = 32
# They need a daemon, a cluster or a GPU; what they name must be in the tree.
FOREIGN = {"podman", "docker", "kubectl", "bazel", "tar", "deploy/demo.sh", "deploy/test.sh",
           "deploy/gpu/blackwell.sh", "deploy/gpu/bundle.sh", "deploy/install_library.sh",
           "deploy/install_packages.sh", "deploy/release.sh"}
# A command of ours in the text between backticks, to its end.
INLINE = re.compile(r"`(gemmd?(?: [^`\n]+)?)`")
# Options with which gemmd does not serve.
ENDS_AT_ONCE = {"--help", "--version", "--check", "--print-config"}
HANDLE = re.compile(r"\b[0-9a-f]{8}-\d+\b|\bHANDLE\b")


def run(command, **options):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace",
                          timeout=60, **options)


def code_blocks(text):
    """Fenced blocks with their language, and indented ones, without their indentation."""
    for language, block in re.findall(r"^```(\w*)\n(.*?)^```", text, re.M | re.S):
        yield language, block
    outside = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    for block in re.findall(r"(?:^    .*\n|^\n(?=    ))+", outside, re.M):
        yield "", re.sub(r"^    ", "", block, flags=re.M)


def commands(block):
    """The commands of a block, and the complaint that it shows below each, if any."""
    lines = re.sub(r"\\\n\s*", " ", block).split("\n")
    has_prompt = any(line.startswith("$ ") for line in lines)
    for number, line in enumerate(lines):
        if has_prompt and not line.startswith("$ "):
            continue
        line = re.sub(r"^\$ ", "", line.strip())
        if not re.match(r"(bazel-bin/\S*/|deploy/\S+\.sh|)(gemmd?\b|podman|docker|kubectl|bazel |tar |\S+\.sh)", line):
            continue
        below = lines[number + 1] if number + 1 < len(lines) else ""
        yield line, below if below.startswith("gemm: ") else ""


def program(command):
    return shlex.split(command, comments=True)[0].split("/")[-1]


class Example(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.work = pathlib.Path(cls.folder.name)
        cls.server, cls.address = cls.start([])
        cls.second, cls.second_address = cls.start([])
        cls.random = numpy.random.default_rng(1)

    @classmethod
    def tearDownClass(cls):
        for server in (cls.server, cls.second):
            server.send_signal(signal.SIGTERM)
            assert server.wait(30) == 0
        cls.folder.cleanup()

    @classmethod
    def start(cls, options):
        # Into a file, because nobody reads on once it serves.
        log = cls.work / "gemmd.log"
        with log.open("w") as stderr:
            server = subprocess.Popen([GEMMD, *options, "--listen=127.0.0.1:0"], cwd=cls.work,
                                      stderr=stderr)
        while True:
            is_over = server.poll() is not None
            text = log.read_text()
            serving = re.search(r'"event":"serving".*"address":"([^"]*)"', text)
            if serving:
                return server, serving.group(1)
            assert not is_over, f"gemmd {options} did not start: {text}"
            time.sleep(0.01)

    def write_inputs(self, command):
        """The files that examples name, of the type that the command says; Q is always quantized."""
        square = self.random.standard_normal((SIDE, SIDE)).astype("f4")
        codes = self.random.integers(0, 100, (SIDE, SIDE)).astype("u1")
        halves = numpy.ascontiguousarray(square.view("u2")[:, 1::2]).view("V2")  # bf16
        matrix = codes if "--type fp8" in command else halves if "--type bf16" in command else square
        for name in "ABCDQVWX":
            numpy.save(self.work / f"{name}.npy", codes if name == "Q" else matrix)
            (self.work / f"{name}.bin").write_bytes(halves.tobytes())
        for name in "bqw":
            numpy.save(self.work / f"{name}.npy", numpy.ones(SIDE, "f4"))
        # Formats: F mxfp4, I int8, N nvfp4, Z uint4 with zero points. Two elements of 4 bits a
        # byte.
        packed = self.random.integers(0, 256, (SIDE, SIDE // 2)).astype("u1")
        formats = {"F": packed, "N": packed, "Z": packed,
                   "I": self.random.integers(-127, 128, (SIDE, SIDE)).astype("i1"),
                   "f": numpy.full((1, SIDE), 127, "u1"), "i": numpy.ones((SIDE, 1), "f4"),
                   "n": numpy.full((SIDE // 16, SIDE), 0x38, "u1"), "t": numpy.float32(1),
                   "s": numpy.ones((SIDE, 1), "f2"), "z": numpy.full((SIDE, 1), 8, "u1"),
                   "As": numpy.stack([square] * 3), "Bs": numpy.stack([square] * 3)}
        for name, array in formats.items():
            numpy.save(self.work / f"{name}.npy", array)
        self.write_weights(square)
        if "--tls.certificate-file" in command:
            subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                            "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=gemmd.test",
                            "-keyout", "server.key", "-out", "server.pem"],
                           cwd=self.work, check=True, stderr=subprocess.DEVNULL)
            (self.work / "clients.pem").write_bytes((self.work / "server.pem").read_bytes())
        (self.work / "deploy").mkdir(exist_ok=True)
        (self.work / "deploy/gemmd.textproto").write_bytes((ROOT / "deploy/gemmd.textproto").read_bytes())
        (self.work / "gemmd.textproto").write_text('listen: "127.0.0.1:0" cpu { threads: 2 }')
        if (self.work / "before.json").exists():
            (self.work / "after.json").write_bytes((self.work / "before.json").read_bytes())

    def write_weights(self, square):
        """model.safetensors with its index, also in models/, and model.gguf, of the tensors that examples name."""
        names = ["fc1.weight", "model.layers.0.mlp.up_proj.weight"]
        header = json.dumps({name: {"dtype": "F32", "shape": [SIDE, SIDE],
                                    "data_offsets": [square.nbytes * i, square.nbytes * (i + 1)]}
                             for i, name in enumerate(names)}).encode()
        (self.work / "model.safetensors").write_bytes(
            struct.pack("<Q", len(header)) + header + square.tobytes() * len(names))
        (self.work / "model.safetensors.index.json").write_text(
            json.dumps({"weight_map": {name: "model.safetensors" for name in names}}))
        (self.work / "models").mkdir(exist_ok=True)
        for name in ("model.safetensors", "model.safetensors.index.json"):
            (self.work / "models" / name).write_bytes((self.work / name).read_bytes())
        # Q8_0: a block of 32 a line. A matrix, and a stack of four behind it.
        matrix = (struct.pack("<e", 0.5) + bytes(range(32))) * SIDE
        info = b""
        for name, shape, offset in ((b"blk.0.ffn_up.weight", (SIDE, SIDE), 0),
                                    (b"blk.0.ffn_up_exps.weight", (SIDE, SIDE, 4), len(matrix))):
            info += struct.pack("<Q", len(name)) + name
            info += struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, 8, offset)
        gguf = b"GGUF" + struct.pack("<IQQ", 3, 2, 0) + info
        gguf += bytes(-len(gguf) % 32)
        (self.work / "model.gguf").write_bytes(gguf + matrix * 5)

    def put(self, *arguments):
        """A handle of this server's, in the place of an example's."""
        result = run([GEMM, "--server", self.address, "--json", "put", *arguments], cwd=self.work)
        self.assertEqual(0, result.returncode, result.stderr)
        return json.loads(result.stdout)["residents"][0]["handle"]

    def small(self, command):
        command = re.sub(r"\b\d{2,}x\d{2,}(x\d{2,})?\b",
                         lambda size: "x".join([str(SIDE)] * (size.group().count("x") + 1)), command)
        command = re.sub(r"\b1x\d{3,}x\d{3,}\b", f"1x{SIDE}x{SIDE}", command)
        if program(command) == "gemm" and " tune " in command:
            command = re.sub(r"\b\d{3,}\b", str(SIDE), command)
        command = re.sub(r"(-c|--concurrency) [\d,]+", r"\1 1,2", command)
        command = re.sub(r"--duration \S+", "--duration 100ms", command)
        if re.search(r"\bbench\b(?! diff)", command) and "--duration" not in command:
            command += " --duration 100ms"
        command = re.sub(r"--rounds \d+", "--rounds 5", command)
        command = re.sub(r"(--servers[= ])\S+", rf"\g<1>{self.address},{self.second_address}", command)
        command = re.sub(r"(--(?:server|against)[= ])\S+", rf"\g<1>{self.address}", command)
        handles = {}
        for name in HANDLE.findall(command):
            if name not in handles:
                self.write_inputs(command)  # new numbers, which are another operand
                kind = ["--type", "bf16"] if "--type bf16" in command else []
                handles[name] = self.put("W.npy", *kind)
        command = HANDLE.sub(lambda match: handles[match.group()], command)
        if "get Q " in command:
            quantized = self.put("Q.npy", "--type", "fp8-e4m3", "--scales", "q.npy")
            command = command.replace("get Q ", f"get {quantized} ")
        return command

    def jq(self, text, path):
        """What `jq path` prints of it: a value of that name must be there."""
        value = json.loads(text)
        for name, index in re.findall(r"\.(\w+)|\[(\d+)\]", path):
            value = value[name] if name else value[int(index)]
        return str(value)

    def run_gemm(self, command, complaint=""):
        inner = re.search(r"\$\((.*?)\)", command)
        if inner:
            command = command.replace(inner.group(), self.run_gemm(inner.group(1)).strip())
        command, _, filtered = command.partition(" | jq ")
        command, _, source = command.split(" > ")[0].split(" &")[0].partition(" < ")
        words = shlex.split(command, comments=True)
        # Examples of several pages give the same names on the one server.
        if {"put", "name", "--name"} & {*words} and "--replace" not in words:
            words.append("--replace")
        with open(self.work / source if source else os.devnull) as stdin:
            result = run([GEMM, *words[1:]], cwd=self.work, stdin=stdin,
                         env={**os.environ, "GEMMD_SERVER": self.address})
        if complaint:
            self.assertNotEqual(0, result.returncode, command)
            self.assertEqual(re.sub(r"127.0.0.1:\d+", self.address, complaint), result.stderr.strip())
            return ""
        # A small run on a busy machine may miss an objective.
        allowed = {0, 8} if re.search(r"--(slo|find-knee|fail-on)\b", command) else {0}
        self.assertIn(result.returncode, allowed, f"{command}\n{result.stderr}")
        if filtered:
            return self.jq(result.stdout, filtered.replace("-r ", "").split(" #")[0].strip())
        return result.stdout

    def run_gemmd(self, command):
        words = [re.sub(r"(--listen|--observe.listen)=\S+", r"\1=127.0.0.1:0", word)
                 for word in shlex.split(command.split(" &")[0], comments=True)[1:]]
        if ENDS_AT_ONCE & {*words}:
            result = run([GEMMD, *words], cwd=self.work)
            return self.assertEqual(0, result.returncode, f"{command}\n{result.stderr}")
        server, _ = self.start([word for word in words if not word.startswith("--listen")])
        server.send_signal(signal.SIGTERM)
        self.assertEqual(0, server.wait(30), command)

    def drain(self, command):
        """On a server of its own, which ends by it, for the operator whose token the example names."""
        token = self.work / "operator.token"
        token.write_text("an-operators-token")
        token.chmod(0o600)
        digest = hashlib.sha256(token.read_bytes()).hexdigest()
        policy = self.work / "policy.textproto"
        policy.write_text(f'token {{ name: "ci" tenant: "ci" sha256: "{digest}" role: OPERATOR }}')
        server, address = self.start([f"--auth.policy-file={policy}"])
        self.run_gemm(re.sub(r"(--server[= ])\S+", rf"\g<1>{address}", command))
        self.assertEqual(0, server.wait(30), command)

    def try_command(self, where, command, complaint=""):
        with self.subTest(where=where, command=command):
            self.write_inputs(command)
            if program(command) == "gemm" and "drain" in shlex.split(command, comments=True):
                self.drain(command)
            elif program(command) == "gemm":
                for each in self.small(command).split(" && "):
                    self.run_gemm(each, complaint)
            elif program(command) == "gemmd":
                self.run_gemmd(command)
            else:
                words = shlex.split(command, comments=True)
                self.assertIn(words[0], FOREIGN)
                for word in words:
                    if re.match(r"deploy/[\w./]+$", word):
                        self.assertTrue((ROOT / word).exists(), word)

    def test_documents(self):
        tried = 0
        for document in DOCUMENTS:
            for language, block in code_blocks(document.read_text()):
                if language == "python":
                    ast.parse(block)
                    for module, name in re.findall(r"\b(\w+)_pb2\.(\w+)", block):
                        proto = (ROOT / f"proto/gemmd/v1/{module}.proto").read_text()
                        self.assertRegex(proto, rf"\b{name}\b", f"{document}: {module}_pb2.{name}")
                if language not in ("", "sh", "console"):
                    continue
                for command, complaint in commands(block):
                    self.try_command(document.relative_to(ROOT), command, complaint)
                    tried += 1
        self.assertGreater(tried, 20)

    def test_pages_make_the_files_that_their_commands_take(self):
        """As a new user reads them: in an empty folder, in order, with the page's own sizes, on a server of their own."""
        start = (ROOT / "docs/getting-started.md").read_text()
        for page in ("docs/operands.md", "docs/quantization.md"):
            blocks = [*code_blocks((ROOT / page).read_text())]
            makers = [text for language, text in [*code_blocks(start), *blocks]
                      if language == "python" and "numpy.save(" in text]
            first = next(text for language, text in blocks if language == "" and "gemm " in text)
            server, address = self.start([])
            try:
                with tempfile.TemporaryDirectory() as folder:
                    for maker in makers:
                        subprocess.run(["/usr/bin/python3", "-c", maker], cwd=folder, check=True)
                    self.follow(page, first, folder, address)
            finally:
                server.send_signal(signal.SIGTERM)
                self.assertEqual(0, server.wait(30))

    def follow(self, page, block, folder, address):
        """Handles of a server that has just begun are the page's, but for their first part."""
        own = ""
        for line, _ in commands(block):
            for command in line.split(" && "):
                words = [HANDLE.sub(lambda match: own + match.group()[8:], word)
                         for word in shlex.split(command, comments=True)[1:]]
                result = run([GEMM, *words], cwd=folder, env={**os.environ, "GEMMD_SERVER": address})
                self.assertEqual(0, result.returncode, f"{page}: {command}\n{result.stderr}")
                if words[0] == "put":
                    own = result.stdout[:8]

    def test_certificates_as_the_page_on_security_makes_them(self):
        """An authority, a server that shows its certificate, and a client that must show one too."""
        texts = [text for language, text in code_blocks((ROOT / "docs/security.md").read_text())
                 if language == "text" and "openssl req" in text]
        self.assertEqual(1, len(texts))
        *makers, serve, ask = re.findall(r"^\$ (.*)", texts[0], re.M)
        made = run(["sh", "-ec", "\n".join(makers)], cwd=self.work)
        self.assertEqual(0, made.returncode, made.stderr)
        server, address = self.start(shlex.split(serve.removesuffix(" &"))[1:])
        try:
            words = shlex.split(ask)[1:]
            without = [word for word in words if "client" not in word and not word.startswith("ops")]
            for arguments, code in ((words, 0), (without, 5), (["info"], 5)):
                result = run([GEMM, *arguments], cwd=self.work, env={**os.environ, "GEMMD_SERVER": address})
                self.assertEqual(code, result.returncode, f"{arguments}: {result.stderr}")
            self.assertIn("the server ended the connection while it was made: it wants TLS, or a client certificate",
                          result.stderr)
        finally:
            server.send_signal(signal.SIGTERM)
            self.assertEqual(0, server.wait(30))

    def test_help(self):
        tried = 0
        subcommands = re.findall(r"^  ([a-z]+)  ", run([GEMM, "--help"]).stdout, re.M)
        self.assertGreater(len(subcommands), 8)
        for words in [[], *[[each] for each in subcommands], ["bench", "diff"]]:
            text = run([GEMM, *words, "--help"]).stdout
            for command in re.findall(r"^  (gemm .*)", text.partition("Examples:")[2], re.M):
                self.try_command(" ".join(["gemm", *words, "--help"]), command)
                tried += 1
        text = run([GEMMD, "--help"]).stdout
        for command in re.findall(r"^  (gemmd.*)", text.partition("Examples:")[2], re.M):
            self.try_command("gemmd --help", command)
            tried += 1
        self.assertGreater(tried, 30)

    def test_options_in_sentences_go_together(self):
        """`gemm bench --slo p99=20ms` between backticks: what is left out may be missing, but no two may exclude."""
        tried = 0
        # The lab tells of what was refused.
        for document in [each for each in DOCUMENTS if each.parent.name != "lab"]:
            text = re.sub(r"^```.*?^```", "", document.read_text(), flags=re.M | re.S)
            for command in INLINE.findall(text):
                if not re.match(r"gemm [a-z]+ .*--", command) or re.search(r"\.\.\.|[\[|()]", command):
                    continue
                with self.subTest(document=document.relative_to(ROOT), command=command):
                    self.write_inputs(command)
                    result = run([GEMM, *shlex.split(self.small(command))[1:]], cwd=self.work,
                                 env={**os.environ, "GEMMD_SERVER": self.address})
                    self.assertNotRegex(result.stderr, r"usage: .*excludes")
                    tried += 1
        self.assertGreater(tried, 12)

    def test_options_in_sentences_are_there(self):
        """`gemm tune ... --type bf16` between backticks, and `--cuda.memory-percent`."""
        helps = {"gemmd": run([GEMMD, "--help"]).stdout, "gemm": run([GEMM, "--help"]).stdout}
        for name in re.findall(r"^  ([a-z]+)  ", helps["gemm"], re.M):
            helps[name] = run([GEMM, name, "--help"]).stdout
        everything = "\n".join(helps.values())
        for document in DOCUMENTS:
            text = re.sub(r"^```.*?^```", "", document.read_text(), flags=re.M | re.S)
            for command in INLINE.findall(text):
                words = command.split()
                known = helps["gemmd" if words[0] == "gemmd" else "gemm"]
                known += "".join(helps.get(word, "") for word in words[1:])
                for option in re.findall(r"(?<= )--[\w.-]+", command):
                    self.assertRegex(known, rf"{option}\b", f"{document}: {command}")
            for option in re.findall(r"`(--[a-z-]+\.[a-z.-]+)", text):
                self.assertRegex(everything, rf"{option}\b", f"{document}: {option}")


if __name__ == "__main__":
    unittest.main()
