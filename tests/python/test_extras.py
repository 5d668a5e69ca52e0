"""The demo, dask, and the example of a notebook."""

import pathlib
import subprocess
import sys

import numpy as np
import pytest

import gemmd


def run_python(server, *arguments):
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={"GEMMD_SERVER": server.address, "PATH": "/usr/bin:/bin"},
    )


def test_the_demo(server):
    done = run_python(server, "-m", "gemmd.demo", "--side", "64")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("as NumPy has it") == 3
    done = run_python(server, "-m", "gemmd.demo", "127.0.0.1:1")
    assert done.returncode == 1
    assert done.stderr.startswith("127.0.0.1:1 does not answer (")
    assert "\ngemmd.demo: UNAVAILABLE" in done.stderr


def test_the_example_of_the_readme(server, tmp_path, monkeypatch):
    """Every Python block of client/python/README.md, one after another, as cells of a notebook."""
    readme = pathlib.Path(__file__).parents[2] / "client/python/README.md"
    cells, inside = [], False
    for line in readme.read_text().splitlines():
        if line.startswith("```"):
            inside = line == "```python"
            cells += ["# a cell"] if inside else []
        elif inside:
            cells.append(line)
    assert cells.count("# a cell") >= 4
    monkeypatch.chdir(tmp_path)  # it writes a file
    done = run_python(server, "-c", "\n".join(cells).replace("127.0.0.1:50051", server.address))
    assert done.returncode == 0, done.stderr


def test_the_reference_is_that_of_the_code(server):
    tool = pathlib.Path(__file__).parents[2] / "client/python/tools/reference.py"
    done = run_python(server, str(tool), "--check")
    assert done.returncode == 0, done.stderr


def test_dask(server, random, monkeypatch):
    da = pytest.importorskip("dask.array")
    import gemmd.dask

    monkeypatch.setenv("GEMMD_SERVER", server.address)
    a, b = random.standard_normal((50, 70)), random.standard_normal((70, 30))
    d = gemmd.dask.matmul(da.from_array(a, (20, 30)), da.from_array(b, (25, 15)))
    assert (d.shape, d.dtype) == ((50, 30), np.float64)
    np.testing.assert_allclose(d.compute(), a @ b, atol=1e-11)
    np.testing.assert_allclose((d + 1).sum().compute(), (a @ b + 1).sum(), atol=1e-9)
    codes = random.integers(-128, 128, (40, 40), dtype=np.int8)
    exact = gemmd.dask.matmul(da.from_array(codes, 16), da.from_array(codes, 16), address=server.address)
    assert np.array_equal(exact.compute(), codes.astype(np.int32) @ codes.astype(np.int32))
    with pytest.raises(ValueError, match="do not go together"):
        gemmd.dask.matmul(da.ones((3, 4)), da.ones((3, 4)))


def test_module_functions_use_the_server_of_the_environment(server, monkeypatch):
    monkeypatch.setenv("GEMMD_SERVER", server.address)
    a = np.arange(4.0).reshape(2, 2)
    assert np.array_equal(gemmd.matmul(a, a), a @ a)
    assert gemmd.default_client().address == server.address
