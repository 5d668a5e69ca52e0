"""Ray's actors, datasets and deployments in front of real servers. They need ray[data,serve]."""

import io
import pickle
import time
import urllib.error
import urllib.request

import numpy as np
import pytest
from testing.processes import Server

import gemmd

ray = pytest.importorskip("ray")

import gemmd.ray  # noqa: E402
from gemmd import _held  # noqa: E402


@pytest.fixture(scope="module")
def two():
    with Server() as one, Server() as other:
        yield [one, other]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_AUTH_MODE", "disabled")  # else a token is left in the home folder
        # The path of a socket in it is at most 107 bytes long.
        folder = tmp_path_factory.mktemp("r")
        ray.init(
            num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=200 << 20,
            _temp_dir=str(folder) if len(str(folder)) < 40 else None,
        )  # fmt: skip
        yield
        ray.shutdown()


def addresses_of(servers):
    return [each.address for each in servers]


def totals_of(servers):
    """(residents, uploaded bytes) of each."""
    found = []
    for each in servers:
        with gemmd.Client(each.address) as client:
            operands = client.stats().operands
        found.append((operands.residents, operands.uploaded_bytes))
    return np.array(found)


def wait_until_empty(servers):
    """The servers' residents, 0 unless something is left there."""
    give_up = time.monotonic() + 60
    while (left := totals_of(servers)[:, 0]).any() and time.monotonic() < give_up:
        time.sleep(0.05)
    return left.tolist()


@pytest.fixture
def w(random):
    return random.standard_normal((300, 200))


def test_a_multiplier_needs_no_cluster(two, random, w, monkeypatch):
    monkeypatch.setattr(_held, "_LEAST_BYTES", 1)
    monkeypatch.setattr(_held, "_LINGER_SECONDS", 0.1)
    x = random.standard_normal((4, 50, 300))
    before = totals_of(two)
    one = gemmd.ray.Multiplier(w, address=addresses_of(two), column="x", output="y", activation="relu")
    for _ in range(4):
        np.testing.assert_allclose(one.matmul(x), np.maximum(x @ w, 0), atol=1e-10)
    assert (totals_of(two) - before).tolist() == [[1, w.nbytes]] * 2  # servers take turns
    batch = one({"x": x[0], "more": np.arange(50)})
    assert sorted(batch) == ["more", "x", "y"]
    again = pickle.loads(pickle.dumps(one))
    assert np.array_equal(again.matmul(x[0]), batch["y"])
    again.close()
    one.close()
    assert totals_of(two)[:, 0].tolist() == [0, 0]
    np.testing.assert_array_equal(one.matmul(x[0]), batch["y"])
    del one, again
    assert wait_until_empty(two) == [0, 0]
    with pytest.raises(ValueError, match="w has 1 dimensions"):
        gemmd.ray.Multiplier(w[0])


def test_a_pool_of_actors(two, random, w, cluster):
    xs = [random.standard_normal((40, 300)) for _ in range(8)]
    before = totals_of(two)
    pool = gemmd.ray.pool(w, 2, address=addresses_of(two))
    for x, y in zip(xs, pool.map(gemmd.ray.multiply, xs), strict=True):
        np.testing.assert_allclose(y, x @ w, atol=1e-10)
    after = totals_of(two) - before
    assert after[:, 0].tolist() == [1, 1]  # equal matrices are one
    assert (after[:, 1] <= 2 * w.nbytes).all()  # both actors may begin at once
    del pool
    assert wait_until_empty(two) == [0, 0]
    with pytest.raises(ValueError, match="count is 0"):
        gemmd.ray.pool(w, 0)


def test_a_stage_of_ray_data(two, random, w, cluster):
    data = pytest.importorskip("ray.data")
    x = random.standard_normal((400, 300))
    stage = data.from_numpy(x).map_batches(
        gemmd.ray.Multiplier,
        fn_constructor_kwargs={"w": ray.put(w), "address": addresses_of(two)},
        compute=data.ActorPoolStrategy(size=2),
        batch_size=64,
        num_cpus=0.5,
    )
    made = np.concatenate([each["data"] for each in stage.iter_batches(batch_format="numpy")])
    np.testing.assert_allclose(made, x @ w, atol=1e-10)
    del stage
    assert wait_until_empty(two) == [0, 0]


def posted(url, body):
    """The status and the body of the answer."""
    try:
        with urllib.request.urlopen(url, body, timeout=60) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def npy(array):
    body = io.BytesIO()
    np.save(body, array)
    return body.getvalue()


def test_a_deployment(two, random, w, cluster):
    serve = pytest.importorskip("ray.serve")
    x = random.standard_normal((40, 300))
    app = gemmd.ray.deployment(
        {"layer": w}, address=addresses_of(two), options={"ray_actor_options": {"num_cpus": 0.5}}
    )
    serve.start(http_options={"host": "127.0.0.1", "port": 18734})
    try:
        handle = serve.run(app, route_prefix="/by")
        np.testing.assert_allclose(handle.matmul.remote("layer", x).result(), x @ w, atol=1e-10)
        url = "http://127.0.0.1:18734/by/"
        status, body = posted(url + "layer", npy(x))
        assert status == 200
        np.testing.assert_allclose(np.load(io.BytesIO(body)), x @ w, atol=1e-10)
        assert posted(url + "absent", npy(x)) == (404, b"no matrix is named 'absent'")
        assert posted(url + "layer", b"no array")[0] == 400
        assert posted(url + "layer", npy(x[:, 1:]))[0] == 400
        assert posted(url + "layer", npy(np.array([{}], object)))[0] == 400  # a pickle
        serve.delete("default")
        assert wait_until_empty(two) == [0, 0]
    finally:
        serve.shutdown()
