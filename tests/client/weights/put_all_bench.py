#!/usr/bin/env python3
"""The speed of `gemm put FILE --all` over that of `gemm put` of .npy files of as many bytes, and the client's memory.

    bazel build --config=opt --config=cpu //client/cli:gemm //server:gemmd
    tests/client/weights/put_all_bench.py [ROUNDS [FOLDER]]

A GGUF file, of Q4_K and Q8_0, and a file of GPTQ layers, one of them in act-order, of more than 1 GiB each: their
shapes are a model's of 7 billion weights, their codes random. Each tensor has a .npy file of int8 with as many bytes as
its form on the server has, which is what travels. Both sides take turns, each with a server of its own that has just
begun, and all files are read once before. Installs pinned packages; makes the files in FOLDER, unless they are there,
or in a temporary folder of 6 GiB.
"""
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import against_tools

HIDDEN, INNER = 4096, 11008
LAYER = {"attn_q": (HIDDEN, HIDDEN), "attn_k": (HIDDEN, HIDDEN), "attn_v": (HIDDEN, HIDDEN), "attn_output": (HIDDEN, HIDDEN),
         "ffn_gate": (INNER, HIDDEN), "ffn_up": (INNER, HIDDEN), "ffn_down": (HIDDEN, INNER)}
GROUP = 128
MIB = 1 << 20


def make_gguf(path, random, q4_k_layers, q8_0_layers):
    import gguf
    import numpy

    writer = gguf.GGUFWriter(path, "llama")
    for layer in range(q4_k_layers + q8_0_layers):
        kind = gguf.GGMLQuantizationType.Q4_K if layer < q4_k_layers else gguf.GGMLQuantizationType.Q8_0
        elements, size = gguf.GGML_QUANT_SIZES[kind]
        for name, (n, k) in LAYER.items():
            blocks = random.integers(0, 256, (n, k // elements, size), dtype=numpy.uint8)
            scales = random.uniform(0.001, 0.01, (n, k // elements, 2)).astype(numpy.float16).view(numpy.uint8)
            numbers = 4 if kind == gguf.GGMLQuantizationType.Q4_K else 2  # bytes: d, or d and dmin
            blocks[:, :, :numbers] = scales[:, :, :numbers]
            writer.add_tensor(f"blk.{layer}.{name}.weight", blocks.reshape(n, -1), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def make_gptq(path, random, layers):
    import numpy
    import safetensors.numpy

    tensors = {}
    for layer in range(layers):
        for name, (n, k) in LAYER.items():
            prefix = f"model.layers.{layer}.{name}"
            groups = numpy.arange(k, dtype=numpy.int32) // GROUP
            if layer == 0:  # act-order
                random.shuffle(groups)
            tensors[f"{prefix}.qweight"] = random.integers(-2**31, 2**31, (k // 8, n), dtype=numpy.int32)
            tensors[f"{prefix}.qzeros"] = numpy.full((k // GROUP, n // 8), 0x77777777, numpy.int32)
            tensors[f"{prefix}.scales"] = random.uniform(0.001, 0.01, (k // GROUP, n)).astype(numpy.float16)
            tensors[f"{prefix}.g_idx"] = groups
    safetensors.numpy.save_file(tensors, path, {"format": "pt"})
    config = {"quant_method": "gptq", "bits": 4, "group_size": GROUP, "desc_act": True, "sym": True}
    (path.parent / "config.json").write_text(json.dumps({"quantization_config": config}))


def make_npy(folder, path):
    """A .npy file for each tensor, of as many bytes as its form has."""
    import numpy

    listed = subprocess.run([against_tools.GEMM, "weights", path, "--json"], capture_output=True, check=True, text=True)
    folder.mkdir()
    for i, tensor in enumerate(json.loads(listed.stdout)["tensors"]):
        rows = tensor["shape"][0]
        numbers = numpy.random.default_rng(i).integers(-128, 128, (rows, tensor["size_bytes"] // rows), dtype=numpy.int8)
        numpy.save(folder / f"{i:03}.npy", numbers)


def make_files(folder):
    import numpy

    random = numpy.random.default_rng(5)
    make_gguf(folder / "model.gguf", random, 5, 3)
    make_gptq(folder / "model.safetensors", random, 11)
    for path in weights(folder):
        make_npy(folder / path.suffix[1:], path)


def weights(folder):
    return folder / "model.gguf", folder / "model.safetensors"


def put(*arguments):
    """Seconds, and the most memory that gemm had, in MiB."""
    server = against_tools.Server()
    try:
        begin = time.monotonic()
        pid = os.posix_spawn(against_tools.GEMM, [str(each) for each in
                                                  ("gemm", "--server", server.address, "put", *arguments)],
                             os.environ, file_actions=[(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)])
        _, status, usage = os.wait4(pid, 0)
        seconds = time.monotonic() - begin
    finally:
        server.process.terminate()
        server.process.wait()
    if status != 0:
        sys.exit(f"gemm put {arguments[0]} failed")
    return seconds, usage.ru_maxrss / 1024


def compare(path, rounds):
    arrays = sorted((path.parent / path.suffix[1:]).glob("*.npy"))
    sizes = path.stat().st_size, sum(each.stat().st_size for each in arrays)
    for each in (path, *arrays):
        with open(each, "rb") as file:
            while file.read(MIB):
                pass
    print(f"{path.name}: {sizes[0] / MIB:.0f} MiB, on the server {sizes[1] / MIB:.0f} MiB")
    ratios = []
    for turn in range(rounds):
        sides = {"all": (path, "--all"), "npy": arrays}
        order = list(sides) if turn % 2 == 0 else list(reversed(sides))
        took = {side: put(*sides[side]) for side in order}
        ratios.append(took["npy"][0] / took["all"][0])
        print("  put --all {:5.2f} s {:4.0f} MiB   put of .npy {:5.2f} s {:4.0f} MiB   speed {:.2f} of it".format(
            *took["all"], *took["npy"], ratios[-1]), flush=True)
    print(f"  median: {statistics.median(ratios):.2f}")


def main(rounds, folder):
    if not (folder / "model.gguf").exists():
        make_files(folder)
    for path in weights(folder):
        compare(path, rounds)


if __name__ == "__main__":
    if len(sys.argv) == 4:  # in the environment
        main(int(sys.argv[1]), pathlib.Path(sys.argv[2]))
        sys.exit()
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    with tempfile.TemporaryDirectory() as temporary:
        python = against_tools.install(temporary, against_tools.PACKAGES)
        rounds, folder = (*sys.argv[1:], *["5", temporary][len(sys.argv) - 1:])
        sys.exit(subprocess.run([python, __file__, rounds, folder, "in it"]).returncode)
