"""Names that a tenant gives to its matrices: who has them, who follows them, and when they come back."""

import asyncio
import itertools
import pickle
from concurrent.futures import ThreadPoolExecutor

import fake_operands
import numpy as np
import pytest
from testing.processes import Server

import gemmd
import gemmd.aio
from gemmd import _names

TRANSPORTS = pytest.mark.parametrize("transport", ["unary", "stream"])


TENANTS = itertools.count()


@pytest.fixture
def client(server):
    """A client with a tenant of its own, so that no test sees names of another."""
    with gemmd.Client(server.address, tenant=f"names-{next(TENANTS)}") as one:
        yield one


def integers(random, *shape):
    """Whose products are exact."""
    return random.integers(-4, 5, shape).astype("f4")


def test_a_matrix_is_put_found_and_used_by_its_name(client, random):
    w, x = integers(random, 30, 20), integers(random, 5, 30)
    made = client.put(w, name="encoder.w")
    assert made.names == ("encoder.w",)
    assert repr(made) == f"Resident(30 x 20 f32, @{made.handle}, 'encoder.w')"
    found, named = client.resident("encoder.w"), client.named("encoder.w")
    assert found.digest == named.digest == made.digest
    assert isinstance(named, gemmd.Resident)
    assert (named.name, named.names, named.shape, named.dtype) == (
        "encoder.w",
        ("encoder.w",),
        (30, 20),
        np.float32,
    )
    assert repr(named) == f"Named('encoder.w', 30 x 20 f32, @{made.handle})"
    for each in (found, named):
        assert np.array_equal(client.matmul(x, each), x @ w)
        assert np.array_equal(x[:, :20] @ each.T, x[:, :20] @ w.T)
        assert np.array_equal(each.numpy(), w)
        assert np.array_equal(each.quantized().data, w)
        assert 20 < each.renew(lease=30) <= 30
    layer = client.linear(named, np.ones(20, "f4"), "relu")
    assert np.array_equal(layer(x), np.maximum(x @ w + 1, 0))
    assert client.estimate(x, named).flops == client.estimate(x, w).flops


def test_a_matrix_gets_more_names_and_a_kept_result_one(client):
    w = client.put(np.eye(3), name="b")
    w.set_name("a")
    w.set_name("a")  # which it has
    assert w.names == ("a", "b")
    assert repr(w).endswith("'a' and 1 more)")
    client.named("a").set_name("c")
    assert client.resident(w.handle).names == ("a", "b", "c")
    kept = client.matmul(w, w, keep=True)
    kept.set_name("hidden")
    assert np.array_equal(client.resident("hidden").numpy(), np.eye(3))
    assert client.put(np.eye(3), name="b").handle == w.handle  # again, and nothing else
    packed = [client.put(np.eye(32, dtype="f4"), name="q", store_as="mxfp4") for _ in range(2)]
    assert packed[0].handle == packed[1].handle
    with client.linear(np.ones((3, 2)), name="layer.w") as layer:
        assert client.resident("layer.w").digest == layer.w.digest


def test_a_taken_name_moves_only_where_that_is_asked_for(client):
    first = client.put(np.zeros((4, 4), "f4"), name="w")
    before = client.stats().operands.uploaded_bytes
    for put in (client.put, client.linear):
        with pytest.raises(gemmd.AlreadyExists, match=r"^new_name is \"w\".*replace=True") as taken:
            put(np.ones((4, 4), "f4"), name="w")
        assert first.handle in str(taken.value)
    assert client.stats().operands.uploaded_bytes == before  # it was asked before
    for ask in (lambda: client.put(np.ones((4, 4), "f4"), name="w", store_as="mxfp8-e4m3"),
                lambda: client.put(np.ones((4, 4), "f4")).set_name("w")):  # fmt: skip
        with pytest.raises(gemmd.AlreadyExists, match=r"^new_name is \"w\".*replace=True"):
            ask()
    assert client.resident("w").digest == first.digest
    second = client.put(np.ones((4, 4), "f4"), name="w", replace=True)
    assert second.names == ("w",)
    assert client.resident(first.handle).names == ()  # it stays
    first.set_name("w", replace=True)
    assert client.resident("w").digest == first.digest


NO_NAMES = [
    ("", "has 0 bytes; a name has 1 to 255"),
    ("n" * 256, "has 256 bytes"),
    ("\N{SNOWMAN}" * 86, "has 258 bytes"),
    ("a\nb", "no control characters"),
    ("a\x7f", "no control characters"),
    ("a1b2c3d4-7", "not the form of a handle"),
    ("A1B2C3D4-007", "not the form of a handle"),
    ("0f" * 32, "not the form of a digest"),
    ("\udc80", "which UTF-8 does not hold"),
]


@pytest.mark.parametrize(("name", "why"), NO_NAMES)
def test_what_is_no_name_is_refused_before_anything_is_sent(client, name, why):
    w = client.put(np.eye(2))
    before = client.stats().received_requests
    for call in (
        lambda: client.put(np.ones((2, 2)), name=name),
        lambda: client.linear(np.ones((2, 2)), name=name),
        lambda: w.set_name(name),
        lambda: client.named(name),
    ):
        with pytest.raises(ValueError, match=f"^name (is|has) .*{why}|^name .*{why}"):
            call()
    assert client.stats().received_requests == before


@pytest.mark.parametrize(
    "name", ["n" * 255, "a1b2c3d4-", "a1b2c3d4-7x", "0f" * 31, "x" * 64, "@w", "ä \x80", "[*?]"]
)
def test_all_else_is_a_name(client, name):
    w = client.put(np.eye(2), name=name)
    assert client.resident(name).digest == w.digest
    assert client.release(name) == [name]


def test_wrong_use_is_explained(client):
    w = client.put(np.eye(2))
    with pytest.raises(TypeError, match="a name is a str"):
        w.set_name(b"x")
    with pytest.raises(TypeError, match="a name is a str"):
        client.resident(5)
    with pytest.raises(ValueError, match="replace is set, and name is missing"):
        client.put(np.eye(2), replace=True)
    with pytest.raises(ValueError, match="name is 'x', and w is on the server already"):
        client.linear(w, name="x")
    for wrong in ({}, {"resident": w, "pattern": "*"}):
        with pytest.raises(TypeError, match="one of both"):
            client.release(**wrong)
    w.release()
    with pytest.raises(ValueError, match="was released"):
        w.set_name("x")


def test_an_unknown_name_is_not_found(client):
    for ask in (client.resident, client.named, client.release):
        with pytest.raises(gemmd.NotFound, match=r"nobody\.w") as missing:
            ask("nobody.w")
        assert missing.value.missing_names == ("nobody.w",)
        assert pickle.loads(pickle.dumps(missing.value)).missing_names == ("nobody.w",)
    with pytest.raises(gemmd.NotFound):
        client.resident("x" * 64)


@TRANSPORTS
def test_a_product_by_a_name_that_is_gone_is_not_found(server, transport):
    x = np.ones((2, 2))
    with gemmd.Client(server.address, transport=transport, tenant=f"gone-{transport}") as client:
        with client.put(np.eye(2), name="w"):
            named = client.named("w")
            assert np.array_equal(x @ named, x)
        with pytest.raises(gemmd.NotFound) as missing:
            client.matmul(x, named)
        assert missing.value.missing_names == ("w",)
        # Shared memory is not what lacks, and is not registered again.
        before = client.stats().finished_requests["NOT_FOUND"]
        with pytest.raises(gemmd.NotFound):
            client.matmul(x, named, out=client.shared((2, 2), "f8"))
        assert client.stats().finished_requests["NOT_FOUND"] == before + 1


def test_lists_and_releases_by_pattern(client):
    every = {"llama/0.w": 0, "llama/1.w": 1, "llama/experts[3]": 2, "llama/experts3": 3, "other": 4}
    for name, value in every.items():
        client.put(np.full((2, 2), value, "f4"), name=name)
    client.resident("llama/0.w").set_name("first")
    nameless = client.put(np.full((2, 2), 9, "f4"))

    def listed(pattern):
        return [each.names for each in client.residents(pattern=pattern)]

    assert len(client.residents()) == 6
    assert listed("llama/?.w") == [("first", "llama/0.w"), ("llama/1.w",)]
    assert listed("llama/experts[3]") == [("llama/experts[3]",)]
    assert listed("*") == [each.names for each in client.residents() if each.names]
    assert listed("") == []
    assert client.release(pattern="nobody*") == []
    assert sorted(client.release(pattern="llama/*")) == sorted(each for each in every if "llama" in each)
    assert [each.names for each in client.residents()] == [("first",), ("other",), ()]
    assert client.release("other") == ["other"]
    assert client.release(nameless.handle) == [nameless.handle]
    assert client.release(client.resident("first").T) == []
    assert client.residents() == []


def test_one_of_several_names_goes_alone(client):
    w = client.put(np.eye(2), name="a")
    w.set_name("b")
    named = client.named("a")
    named.release()
    assert repr(named).endswith(", released)")
    assert client.resident(w.handle).names == ("b",)
    client.release("b")
    with pytest.raises(gemmd.NotFound):
        client.resident(w.handle)


@pytest.mark.parametrize(
    ("pattern", "like", "unlike"),
    [
        ("*", ["", "a", "a\nb"], []),
        ("a*b*c", ["abc", "axbxbxc", "abbcc"], ["ab", "abcx", "acb"]),
        ("?", ["a", "ä"], ["", "ab"]),
        ("*.w", [".w", "x.w", ".w.w"], ["w", ".wx"]),
        ("[a]", ["[a]"], ["a"]),
        ("a.b", ["a.b"], ["axb"]),
        ("", [""], ["a"]),
        ("a**", ["a", "ab"], ["b"]),
    ],
)
def test_patterns(pattern, like, unlike):
    assert _names.matching(pattern, like + unlike) == like


def test_a_pattern_of_many_stars_ends():
    assert not _names.matches("a*" * 100 + "b", "a" * 255)


@TRANSPORTS
def test_a_replacement_in_the_midst_of_products_is_seen_whole(server, random, transport):
    x, matrices = integers(random, 6, 64), [integers(random, 64, 48) for _ in range(2)]
    right = [x @ each for each in matrices]
    with gemmd.Client(server.address, transport=transport, tenant=f"whole-{transport}") as client:
        w = [client.put(each) for each in matrices]
        w[0].set_name("w")
        named, pinned = client.named("w"), client.resident("w")

        def replace():
            for i in range(100):
                w[(i + 1) % 2].set_name("w", replace=True)

        with ThreadPoolExecutor(1) as other:
            replaced = other.submit(replace)
            while not replaced.done():
                d = client.matmul(x, named)
                assert any(np.array_equal(d, each) for each in right)
                assert np.array_equal(client.matmul(x, pinned), right[0])
            replaced.result()
        assert np.array_equal(client.matmul(x, named), right[0])
        w[1].set_name("w", replace=True)
        assert np.array_equal(client.matmul(x, named), right[1])
        assert np.array_equal(client.matmul(x, pinned), right[0])


@TRANSPORTS
def test_a_replacement_may_be_of_another_type_and_not_of_another_shape(server, random, transport):
    w, x = integers(random, 64, 32), integers(random, 4, 64)
    with gemmd.Client(server.address, transport=transport, tenant=f"form-{transport}") as client:
        client.put(w, name="w")
        named = client.named("w")
        turned = client.put(np.asfortranarray(-w), name="w", replace=True)
        assert np.array_equal(client.matmul(x, named), -(x @ w))
        assert named.digest == turned.digest
        client.put(w, name="w", replace=True, store_as="mxfp8-e4m3")
        assert np.array_equal(client.submit(x, named).result(), x @ w)
        assert named.element.name == "fp8_e4m3"
        assert np.array_equal(named.quantized().dequantize(), w)
        client.put(np.ones((32, 64), "f4"), name="w", replace=True)
        for _ in range(2):
            with pytest.raises(gemmd.InvalidArgument, match="'w' is 32 x 64 now, and was 64 x 32"):
                client.matmul(x, named)
        assert np.array_equal(client.matmul(x[:, :32], client.named("w")), x[:, :32] @ np.ones((32, 64)))
        with pytest.raises(gemmd.InvalidArgument, match="alpha"):
            client.matmul(x[:, :32], client.named("w"), alpha=float("nan"))


def test_a_name_that_went_and_came_back_while_it_was_asked_for(client, monkeypatch):
    first, second = client.put(np.eye(2), name="w"), client.put(np.asfortranarray(np.ones((2, 2))))
    named = client.named("w")
    second.set_name("w", replace=True)
    follow = gemmd.Named._follow

    def after_it_is_back(self, server, deadline):
        first.set_name("w", replace=True)
        return follow(self, server, deadline)

    monkeypatch.setattr(gemmd.Named, "_follow", after_it_is_back)
    assert np.array_equal(np.ones((2, 2)) @ named, np.ones((2, 2)))


def test_a_download_is_of_the_matrix_that_has_the_name(client):
    w = np.eye(32, dtype="f4")
    client.put(w, name="w")
    named = client.named("w")
    client.put(w, name="w", replace=True, store_as="mxfp4")
    assert np.array_equal(named.quantized().dequantize(), w)
    client.put(np.ones((2, 3)), name="w", replace=True)
    assert np.array_equal(named.numpy(), np.ones((2, 3)))


def test_a_wider_replacement_writes_beside_no_result_in_shared_memory(server):
    with gemmd.Client(server.address, tenant="wide") as client:
        memory = client.shared((2, 4, 4), "f4")
        client.put(np.ones((4, 4), "f4"), name="w")
        named = client.named("w")
        client.matmul(np.ones((4, 4), "f4"), named, out=memory[0])
        client.put(np.ones((4, 8), "f4"), name="w", replace=True)
        with pytest.raises(gemmd.InvalidArgument, match="'w' is 4 x 8 now"):
            client.matmul(np.ones((4, 4), "f4"), named, out=memory[0])
        assert not memory[1].any()


@TRANSPORTS
@pytest.mark.parametrize("store_as", [None, "mxfp8-e4m3"])
def test_names_come_back_with_their_matrix_after_a_restart(own_server, random, transport, store_as):
    w, x = integers(random, 32, 32), integers(random, 4, 32)
    with gemmd.Client(own_server.address, transport=transport) as client, gemmd.Client(own_server.address) as other:
        made = client.put(w, name="encoder.w", store_as=store_as)
        made.set_name("tied.w")
        named = other.named("encoder.w")
        own_server.kill()
        own_server.start()
        with pytest.raises(gemmd.NotFound):
            other.matmul(x, named)
        assert np.array_equal(client.matmul(x, made), x @ w)
        assert made.names == ("encoder.w", "tied.w")
        assert np.array_equal(other.matmul(x, named), x @ w)
        assert other.resident("tied.w").handle == made.handle
        other.release(made.handle)  # as an eviction
        assert np.array_equal(client.matmul(x, made), x @ w)
        assert other.resident("encoder.w").names == ("encoder.w", "tied.w")
        other.release(made.handle)
        made.set_name("third.w")
        assert made.names == other.resident(made.handle).names == ("encoder.w", "third.w", "tied.w")


def test_a_matrix_that_comes_back_takes_no_name_from_another(own_server, random, caplog):
    old, new, x = integers(random, 8, 8), integers(random, 8, 8), integers(random, 2, 8)
    with gemmd.Client(own_server.address) as client, gemmd.Client(own_server.address) as other:
        made = client.put(old, name="w")
        own_server.kill()
        own_server.start()
        other.put(new, name="w")
        for _ in range(2):
            assert np.array_equal(client.matmul(x, made), x @ old)
            assert other.resident("w").digest != made.digest
            other.release(made.digest.hex())
        (line,) = [each.getMessage() for each in caplog.records if each.name == "gemmd"]
        assert "'w'" in line  # and the second time nobody tries


def test_a_name_that_moved_or_was_released_does_not_come_back_with_the_old_matrix(own_server, random):
    old, new, x = integers(random, 8, 8), integers(random, 8, 8), integers(random, 2, 8)
    with gemmd.Client(own_server.address) as client:
        before, after = client.put(old, name="w"), client.put(new, name="w", replace=True)
        before.set_name("given up")
        client.release("given up")
        own_server.kill()
        own_server.start()
        assert np.array_equal(client.matmul(x, before), x @ old)
        assert client.resident(before.handle).names == ()
        assert np.array_equal(client.matmul(x, after), x @ new)
        assert client.resident("w").digest == after.digest
        kept = client.matmul(x, after, keep=True)
        kept.set_name("w", replace=True)
        client.release(after.digest.hex())
        assert np.array_equal(client.matmul(x, after), x @ new)
        assert client.resident("w").handle == kept.handle
        again = client.put(old, name="v")
        before.release()
        assert np.array_equal(client.matmul(x, again), x @ old)
        assert client.resident(again.handle).names == ()


def test_two_tenants_have_the_same_name_and_an_operator_sees_both(own_server):
    with gemmd.Client(own_server.address, tenant="one") as one, gemmd.Client(own_server.address) as nobody:
        w = one.put(np.ones((2, 3), "f4"), name="w", lease=60)
        other = nobody.put(np.zeros((4, 2)), name="w")
        nobody.put(np.zeros((2, 2)))
        assert one.resident("w").shape == (2, 3)
        assert nobody.resident("w").shape == (4, 2)
        assert len(nobody.all_residents()) == 3
        mine, theirs = one.all_residents(pattern="w")
        assert (mine.tenant, mine.handle, mine.digest, mine.names) == ("one", w.handle, w.digest, ("w",))
        assert (mine.shape, mine.type, mine.size_bytes, mine.lease) == ((2, 3), "f32", 24, 60)
        assert 0 < mine.lease_remaining <= 60
        assert (theirs.tenant, theirs.handle, theirs.type) == ("", other.handle, "f64")
        assert pickle.loads(pickle.dumps(mine)) == mine
        one.release("w")
        assert nobody.resident("w").handle == other.handle
        with pytest.raises(gemmd.NotFound):
            one.named("w")


def test_lists_of_many_pages(own_server):
    with gemmd.Client(own_server.address) as client:
        for i in range(101):
            client.put(np.full((1, 1), i, "f4"), name=f"w/{i}")
        assert len(client.residents()) == len(client.all_residents()) == 101
        assert len(client.release(pattern="w/*")) == 101


def test_a_server_has_weights_from_its_start_on(tmp_path):
    np.save(tmp_path / "encoder.w.npy", np.full((2, 2), 7, "f4"))
    with Server(f"--operands.preload={tmp_path}") as own:
        with gemmd.Client(own.address) as client:
            named = client.named("encoder.w")
            assert np.array_equal(np.eye(2, dtype="f4") @ named, np.full((2, 2), 7))
            own.kill()
            own.start()
            assert np.array_equal(np.eye(2, dtype="f4") @ named, np.full((2, 2), 7))


def test_they_pickle_by_their_names(client):
    old, new = np.eye(2), np.ones((2, 2))
    w = client.put(old, name="w")
    w.set_name("v")
    resident, named, turned = (
        pickle.loads(pickle.dumps(each)) for each in (w, client.named("w"), client.named("w").T)
    )
    assert resident.names == ("v", "w")
    assert (type(named), named.name, named.digest) == (gemmd.Named, "w", w.digest)
    client.put(new, name="w", replace=True)
    assert np.array_equal(old @ resident, old)
    assert np.array_equal(old @ named, new)
    assert np.array_equal(turned @ old, new)
    named.release()
    assert pickle.loads(pickle.dumps(named))._released


def test_asyncios_client_has_names(server):
    async def use():
        async with gemmd.aio.Client(server.address, tenant="names-aio") as client:
            w = await client.put(np.eye(2), name="w")
            await client.put(np.ones((2, 2)), name="v")
            await client.set_name(w, "v", replace=True)
            assert (await client.resident("v")).digest == w.digest
            named = await client.named("v")
            await client.put(np.ones((2, 2)), name="v", replace=True)
            assert np.array_equal(await client.matmul(np.eye(2), named), np.ones((2, 2)))
            assert [each.names for each in await client.residents(pattern="?")] == [("w",), ("v",)]
            assert len(await client.all_residents(pattern="?")) >= 2
            assert await client.release("w") == ["w"]
            assert await client.release(pattern="*") == ["v"]
            layer = await client.linear(np.eye(2), name="layer")
            assert await client.release(layer.layer.w) == []

    asyncio.run(use())


def test_a_server_that_knows_no_names_says_so():
    fake = fake_operands.FakeOperands(lambda begin: begin.operand)
    with gemmd.Client(fake.address) as client:
        for ask in (
            lambda: client.put(np.eye(2), name="w"),
            lambda: client.named("w"),
            lambda: client.resident("w"),
        ):
            with pytest.raises(gemmd.Unimplemented, match="the server knows no names of matrices"):
                ask()
    fake.close()
