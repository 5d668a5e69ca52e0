#!/usr/bin/env python3
"""Compares gemm's reading of weights with the tools that write them, to the bit.

    bazel build --config=opt --config=cpu //client/cli:gemm //server:gemmd
    tests/client/weights/against_tools.py

Installs pinned packages in a temporary folder, so CI does not run it. Files are made and decoded by
the tools themselves; gemm lists them, and a server multiplies each tensor by a unit matrix, which
gives its values without rounding. The sign of a zero is not compared.
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import venv

ROOT = pathlib.Path(__file__).resolve().parents[3]
GEMM = ROOT / "bazel-bin/client/cli/gemm"
GEMMD = ROOT / "bazel-bin/server/gemmd"
PACKAGES = ["gguf==0.19.0", "safetensors==0.8.0", "ml_dtypes==0.6.0", "numpy==2.4.6"]


def install(folder, packages):
    """The Python of a new environment with these packages."""
    python = pathlib.Path(folder) / "venv/bin/python"
    venv.create(pathlib.Path(folder) / "venv", with_pip=True)
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages], check=True)
    return python


class Server:
    def __init__(self):
        self.process = subprocess.Popen([GEMMD, "--listen=127.0.0.1:0", "--cpu.threads=1"], stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, text=True)
        for line in self.process.stdout:
            if found := re.search(r"127\.0\.0\.1:(\d+)", line):
                self.address = found[0]
                return
        sys.exit("gemmd did not start")

    def gemm(self, *arguments):
        result = subprocess.run([GEMM, "--server", self.address, *map(str, arguments)], capture_output=True, text=True)
        return result.returncode, result.stdout, result.stderr


def serve(compare, folder):
    server = Server()
    try:
        compare(server, folder)
    finally:
        server.process.terminate()
        server.process.wait()


def compare_all(server, folder):
    import gguf
    import ml_dtypes
    import numpy
    import safetensors.numpy

    folder = pathlib.Path(folder)
    random = numpy.random.default_rng(3)
    compared = refused = 0

    def compare_values(path, name, expected):
        """D of the unit matrix times the tensor transposed has its values, transposed."""
        nonlocal compared
        unit, out = folder / "unit.npy", folder / "d.npy"
        numpy.save(unit, numpy.eye(expected.shape[1], dtype=numpy.float32))
        code, _, error = server.gemm("matmul", unit, f"{path}:{name}", "--transpose-b", "-o", out)
        assert code == 0, f"{name}: {error}"
        differ = numpy.argwhere(numpy.load(out).T != expected)
        assert len(differ) == 0, f"{name}: {len(differ)} differ, first at {differ[0]}"
        compared += 1

    def compare_bytes(path, name, expected):
        """Through the store, which gives back what it got."""
        nonlocal compared
        code, output, error = server.gemm("--json", "put", f"{path}:{name}")
        assert code == 0, f"{name}: {error}"
        handle = json.loads(output)["residents"][0]["handle"]
        code, _, error = server.gemm("get", handle, "-o", folder / "back.npy")
        assert code == 0, f"{name}: {error}"
        back = numpy.load(folder / "back.npy")
        assert back.shape[0] == expected.shape[0] and back.tobytes() == expected.tobytes(), name
        server.gemm("rm", handle)
        compared += 1

    def matrices(k):
        """Real ones: plain, with outliers, zeros, tiny and large elements, of one sign, a single one."""
        shape = (6, k)
        normal = random.standard_normal(shape).astype(numpy.float32)
        outlier, zeros, single = normal.copy(), normal.copy(), numpy.zeros(shape, numpy.float32)
        outlier[:, 5] *= 1000
        zeros[::2] = 0
        zeros[1, 32:64] = -0.0
        single[:, 0], single[1, 7] = 1, -3
        return {"normal": normal, "outlier": outlier, "zeros": zeros, "single": single, "tiny": normal * 1e-7,
                "subnormal": normal * 2**-130, "large": normal * 1000, "negative": -abs(normal),
                "positive": abs(normal), "steps": numpy.round(normal * 4) / 4}

    # GGUF, by its own quantizers and decoders; all types get blocks of random bytes too.
    types = gguf.GGMLQuantizationType
    quantized = (types.Q4_0, types.Q4_1, types.Q5_0, types.Q5_1, types.Q8_0, types.Q2_K, types.Q3_K, types.Q4_K,
                 types.Q5_K, types.Q6_K, types.IQ4_NL, types.IQ4_XS, types.TQ1_0, types.TQ2_0, types.MXFP4, types.NVFP4)
    halves = {"Q4_1": (0, 2), "Q5_1": (0, 2), "Q2_K": (80, 82), "Q3_K": (108,), "Q4_K": (0, 2), "Q5_K": (0, 2),
              "Q6_K": (208,), "TQ1_0": (52,), "TQ2_0": (64,)}  # where a block's numbers of f16 begin
    for alignment in (32, 64):
        path = folder / f"blocks_{alignment}.gguf"
        writer = gguf.GGUFWriter(path, "llama")
        if alignment != 32:
            writer.add_custom_alignment(alignment)
        writer.add_array("tokenizer.ggml.tokens", [f"t{i}" for i in range(1000)])
        writer.add_array("tokenizer.ggml.scores", [0.5] * 1000)
        expected, written = {}, {}
        for kind in (types.F32, types.F16, types.BF16, *quantized):
            for name, real in matrices(256).items():
                name = f"{kind.name}.{name}"
                try:
                    with numpy.errstate(all="ignore"):
                        blocks = gguf.quants.quantize(real, kind)
                except NotImplementedError:
                    break
                if kind in (types.TQ1_0, types.TQ2_0) and not numpy.isfinite(gguf.quants.dequantize(blocks, kind)).all():
                    continue
                expected[name] = gguf.quants.dequantize(blocks, kind)
                written[name] = blocks
                writer.add_tensor(name, blocks, raw_dtype=kind)
        for kind in quantized:
            block, size = gguf.GGML_QUANT_SIZES[kind]
            for i in range(8):
                bytes_ = random.integers(0, 256, (6, 256 // block * size), numpy.uint8)
                blocks = bytes_.reshape(-1, size)
                if kind == types.MXFP4:
                    blocks[:, 0] = 100 + blocks[:, 0] % 50
                elif kind == types.NVFP4:
                    blocks[:, :4] %= 0x7f
                else:
                    for half in halves.get(kind.name, (0,)):
                        blocks[:, half + 1] &= 0xbf  # below 2: finite
                name = f"{kind.name}.bytes{i}"
                expected[name] = gguf.quants.dequantize(bytes_, kind)
                writer.add_tensor(name, bytes_, raw_dtype=kind)
        for kind in (types.IQ2_XXS, types.IQ2_XS, types.IQ2_S, types.IQ3_XXS, types.IQ3_S, types.IQ1_S, types.IQ1_M,
                     types.Q1_0):
            block, size = gguf.GGML_QUANT_SIZES[kind]
            writer.add_tensor(f"{kind.name}.none", numpy.zeros((2, 256 // block * size), numpy.uint8), raw_dtype=kind)
        writer.add_tensor("I32.none", numpy.zeros((2, 2), numpy.int32))
        writer.add_tensor("vector", numpy.zeros(7, numpy.float32))
        for stage in (writer.write_header_to_file, writer.write_kv_data_to_file, writer.write_tensors_to_file):
            stage()
        writer.close()
        code, output, error = server.gemm("weights", path, "--json", "--check")
        assert code == 0, error
        listed = json.loads(output)["tensors"]
        theirs = gguf.GGUFReader(path).tensors
        assert len(listed) == len(theirs)
        for ours, other in zip(listed, theirs):
            assert ours["name"] == other.name and ours["type"] == other.tensor_type.name, (ours, other.name)
            assert ours["shape"] == [int(n) for n in reversed(other.shape)], ours
            assert ours["file_bytes"] == other.n_bytes, ours
            if "refused" in ours:
                refused += 1
                if alignment == 32:
                    print(f"{ours['name']}: {ours['refused']}")
                assert other.name.endswith(".none") or other.name == "vector", ours
            elif ours["type"] in ("F32", "F16", "BF16"):
                compare_bytes(path, other.name, written[other.name])
            else:
                compare_values(path, other.name, expected[other.name])

    # safetensors, one file and shards.
    plain = {"F64": numpy.float64, "F32": numpy.float32, "F16": numpy.float16, "BF16": ml_dtypes.bfloat16,
             "I8": numpy.int8, "U8": numpy.uint8, "F8_E4M3": ml_dtypes.float8_e4m3fn, "F8_E5M2": ml_dtypes.float8_e5m2}
    tensors, weight_map = {}, {}
    for dtype, numpy_type in plain.items():
        for i, real in enumerate(matrices(64).values()):
            with numpy.errstate(all="ignore"):
                array = numpy.clip(real, 0 if dtype == "U8" else -100, 100).astype(numpy_type)
            tensors[f"{dtype}.{i}"] = array
    single = folder / "model.safetensors"
    safetensors.numpy.save_file(tensors, single, {"format": "pt"})
    for shard in range(3):
        file = f"model-{shard + 1:05}-of-00003.safetensors"
        part = {name: each for i, (name, each) in enumerate(tensors.items()) if i % 3 == shard}
        safetensors.numpy.save_file(part, folder / file, {"format": "pt"})
        weight_map.update({name: file for name in part})
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {"total_size": 0}, "weight_map": weight_map}))
    for path in (single, index):
        code, output, error = server.gemm("weights", path, "--json")
        assert code == 0, error
        listed = {each["name"]: each for each in json.loads(output)["tensors"]}
        assert set(listed) == set(tensors)
        with safetensors.safe_open(single, "np") as theirs:
            for name in theirs.keys():
                assert listed[name]["type"] == theirs.get_slice(name).get_dtype(), name
                assert listed[name]["shape"] == theirs.get_slice(name).get_shape(), name
        for name, array in tensors.items():
            if array.dtype == numpy.uint8:
                compare_values(path, name, array)
            else:
                compare_bytes(path, name, array)
    print(f"{compared} tensors have the values that the tools read; {refused} are refused by name")


if __name__ == "__main__":
    if len(sys.argv) == 2:
        serve(compare_all, sys.argv[1])
        sys.exit()
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    with tempfile.TemporaryDirectory() as temporary:
        sys.exit(subprocess.run([install(temporary, PACKAGES), __file__, temporary]).returncode)
