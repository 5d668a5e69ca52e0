"""gemmd.torch: layers of torch models whose products a server computes. Needs torch, and is skipped without it."""

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import gemmd

torch = pytest.importorskip("torch")

import gemmd.torch  # noqa: E402

Linear = gemmd.torch.Linear


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(1)


def pair(client, k=40, n=30, dtype=torch.float32, bias=True, **asked):
    """A torch.nn.Linear and one of the same values on the server."""
    here = torch.nn.Linear(k, n, bias=bias, dtype=dtype)
    return here, Linear.of(copy.deepcopy(here), client, **asked)


def uploads_nothing(client, layer, x):
    """Whether a product sends nothing but x."""
    before = client.stats().operands.uploaded_bytes
    layer(x)
    return client.stats().operands.uploaded_bytes == before


class TestContract:
    def test_results_are_torchs(self, client):
        for dtype, within in ((torch.float64, 1e-12), (torch.float32, 1e-5), (torch.bfloat16, 2e-2)):
            here, there = pair(client, dtype=dtype)
            x = torch.randn(3, 5, 40, dtype=dtype)
            torch.testing.assert_close(there(x), here(x), rtol=within, atol=within)
            assert there(x[:0]).shape == (0, 5, 30)
            torch.testing.assert_close(there(x[0, 0]), here(x[0, 0]), rtol=within, atol=within)

    def test_weight_and_bias_are_the_parameters_that_they_were(self, client):
        here = torch.nn.Linear(40, 30)
        there = Linear.of(here, client)
        assert isinstance(there, torch.nn.Linear)
        assert there.weight is here.weight
        assert there.bias is here.bias
        assert list(there.state_dict()) == ["weight", "bias"]
        assert [name for name, _ in there.named_parameters()] == ["weight", "bias"]
        assert Linear(torch.ones(3, 4), client=client).bias is None
        assert "in_features=40, out_features=30, bias=True, activation=none, Resident(40 x 30 f32" in repr(there)

    def test_a_weight_is_not_copied(self, client):
        _, there = pair(client)
        [(_, _, sent)] = there._served._factors[None].linear.w.source.planes
        assert np.shares_memory(np.frombuffer(sent, np.uint8), there.weight.detach().numpy())

    def test_a_server_that_lost_it_gets_it_again(self, own_server):
        with gemmd.Client(own_server.address) as client:
            here, there = pair(client)
            own_server.kill()
            own_server.start()
            x = torch.randn(2, 40)
            torch.testing.assert_close(there(x), here(x))

    def test_many_threads(self, client):
        here, there = pair(client)
        xs = [torch.randn(3, 40) for _ in range(16)]
        with torch.no_grad():
            there.weight.mul_(2)
            here.weight.mul_(2)
        with ThreadPoolExecutor(8) as threads:
            for x, y in zip(xs, threads.map(there, xs), strict=True):
                torch.testing.assert_close(y, here(x))

    def test_what_x_must_be(self, client):
        _, there = pair(client)
        with pytest.raises(TypeError, match=r"x is torch.float64, and the weight torch.float32"):
            there(torch.ones(2, 40, dtype=torch.float64))
        with pytest.raises(ValueError, match=r"x has shape \(2, 41\); its last dimension must be in_features, 40"):
            there(torch.ones(2, 41))

    def test_activations(self, client):
        for name, function in (
            ("relu", torch.nn.functional.relu),
            ("silu", torch.nn.functional.silu),
            ("gelu_tanh", lambda x: torch.nn.functional.gelu(x, approximate="tanh")),
        ):
            here, there = pair(client, activation=name)
            x = torch.randn(6, 40)
            torch.testing.assert_close(there(x), function(here(x)))  # with a gradient
            with torch.no_grad():
                torch.testing.assert_close(there(x), function(here(x)))  # on the server
        with pytest.raises(ValueError, match="activation is 'tanh'; it must be one of none, relu, gelu_tanh, silu"):
            Linear(torch.ones(3, 4), activation="tanh", client=client)

    def test_autocast(self, client):
        here, there = pair(client)
        x = torch.randn(4, 40)
        with torch.autocast("cpu", torch.bfloat16):
            assert there(x).dtype == here(x).dtype == torch.bfloat16
            torch.testing.assert_close(there(x.bfloat16()), here(x.bfloat16()), rtol=2e-2, atol=2e-2)

    def test_what_is_refused(self, client):
        class Own(torch.nn.Linear):
            def forward(self, x):
                return 2 * super().forward(x)

        hooked = torch.nn.Linear(4, 4)
        hooked.forward = lambda x: x
        for layer, error, why in (
            (torch.nn.ReLU(), TypeError, "layer is a ReLU"),
            (Own(4, 4), TypeError, r"layer is a Own, whose forward\(\) is not torch.nn.Linear's"),
            (hooked, ValueError, "forward of this Linear was replaced"),
            (torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(4, 4)), ValueError, "computed for each"),
            (torch.nn.LazyLinear(4), ValueError, "weight is not initialized"),
            (torch.nn.Linear(4, 4, device="meta"), ValueError, "weight is on device meta"),
            (
                torch.nn.Linear(4, 4, dtype=torch.complex64),
                TypeError,
                "weight is torch.complex64; it must be float64",
            ),
        ):
            with pytest.raises(error, match=why):
                Linear.of(layer, client)

    def test_hooks_stay(self, client):
        here = torch.nn.Linear(40, 30)
        seen = []
        here.register_forward_hook(lambda layer, args, y: seen.append(y.shape))
        Linear.of(here, client)(torch.ones(2, 40))
        assert seen == [(2, 30)]


class TestChanges:
    def test_a_changed_weight_is_sent_again(self, client):
        here, there = pair(client)
        x = torch.randn(4, 40)
        with torch.no_grad():
            for change in (
                lambda layer: layer.weight.mul_(2),
                lambda layer: layer.weight[0, 1].add_(1),
                lambda layer: layer.bias.add_(1),
                lambda layer: layer.load_state_dict(
                    {"weight": torch.full((30, 40), 0.5), "bias": torch.arange(30.0)}
                ),
                lambda layer: setattr(layer, "weight", torch.nn.Parameter(torch.ones(30, 40))),
                lambda layer: layer.double().float(),
                lambda layer: torch.nn.init.constant_(layer.weight, 0.25),
                lambda layer: layer.weight.data.mul_(2),
                lambda layer: np.copyto(layer.weight.detach().numpy(), 0.5),
            ):
                change(here)
                change(there)
                torch.testing.assert_close(there(x), here(x))

    def test_an_unchanged_one_is_not(self, client):
        _, there = pair(client)
        x = torch.randn(4, 40)
        assert uploads_nothing(client, there, x)
        there.bias.data.add_(1)
        assert uploads_nothing(client, there, x)

    def test_a_name_goes_with_the_weight(self, client):
        _, there = pair(client, 42, name="torch.fc1")
        other = copy.deepcopy(there)
        x = torch.randn(4, 42)
        with torch.no_grad():
            there.weight.mul_(2)
            other.weight.mul_(3)
            other(x), there(x)
        np.testing.assert_allclose(client.named("torch.fc1").numpy(), there.weight.detach().T)
        with pytest.raises(ValueError, match="name is 'fc1', which each layer would have"):
            gemmd.torch.replace(torch.nn.Sequential(there), client, name="fc1")

    def test_another_type(self, client):
        here, there = pair(client)
        x = torch.randn(4, 40)
        torch.testing.assert_close(there.double()(x.double()), here.double()(x.double()))

    def test_released(self, client):
        here, there = pair(client)
        x = torch.randn(4, 40)
        for layer in (here, there):
            layer.weight.data[0, 1] += 1  # which torch does not count, and the sample does not have
        there.release()
        assert "nothing on the server yet" in repr(there)
        torch.testing.assert_close(there(x), here(x))

    def test_under_inference_mode(self, client):
        with torch.inference_mode():
            here, there = pair(client)
            x = torch.randn(4, 40)
            torch.testing.assert_close(there(x), here(x))


class TestGradients:
    def test_gradcheck(self, client):
        for bias in (True, False):
            for activation in ("none", "relu", "gelu_tanh", "silu"):
                _, there = pair(client, 5, 4, torch.float64, bias, activation=activation)

                def product(x, *parameters, layer=there):
                    named = dict(zip(("weight", "bias"), parameters, strict=False))
                    return torch.func.functional_call(layer, named, (x,))

                x = torch.randn(2, 3, 5, dtype=torch.float64, requires_grad=True)
                assert torch.autograd.gradcheck(product, (x, *there.parameters()))

    def test_they_are_torchs(self, client):
        for dtype, within in ((torch.float32, 1e-5), (torch.bfloat16, 3e-2)):
            here, there = pair(client, dtype=dtype)
            for trains_weight in (True, False):
                found = []
                x = torch.randn(7, 40, dtype=dtype)
                for layer in (here, there):
                    layer.zero_grad()
                    layer.weight.requires_grad_(trains_weight)
                    given = x.clone().requires_grad_()
                    layer(given).square().sum().backward()
                    found.append((given.grad, layer.weight.grad, layer.bias.grad))
                for wanted, got in zip(*found, strict=True):
                    assert (wanted is None) == (got is None)
                    if wanted is not None:
                        torch.testing.assert_close(
                            got, wanted, rtol=within, atol=within * float(wanted.abs().max())
                        )

    def test_of_no_rows(self, client):
        _, there = pair(client)
        x = torch.ones(0, 40, requires_grad=True)
        there(x).sum().backward()
        assert x.grad.shape == (0, 40)
        assert not there.weight.grad.any()

    def test_training(self, client):
        """Steps of an optimizer: the server has each step's weights."""
        model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2)).double()
        served = copy.deepcopy(model)
        gemmd.torch.replace(served, client)
        x, y = torch.randn(16, 6).double(), torch.randn(16, 2).double()
        losses = []
        for each in (model, served):
            optimizer = torch.optim.AdamW(each.parameters(), lr=0.05)
            for _ in range(5):
                optimizer.zero_grad()
                loss = torch.nn.functional.mse_loss(each(x), y)
                loss.backward()
                optimizer.step()
            losses.append(loss.item())
        assert abs(losses[0] - losses[1]) < 1e-12

    def test_steps_leave_the_first_and_the_last_on_the_server(self, client):
        before = len(client.residents())
        _, there = pair(client, 41)  # no other test has such a weight
        for _ in range(4):
            with torch.no_grad():
                there.weight.add_(1)
            there(torch.ones(1, 41))
        assert len(client.residents()) == before + 2
        there.release()
        assert len(client.residents()) == before + 1

    def test_a_weight_changed_before_the_backward_pass(self, client):
        _, there = pair(client)
        y = there(torch.randn(3, 40, requires_grad=True)).sum()
        with torch.no_grad():
            there.weight.mul_(2)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.backward()

    def test_no_second_derivative(self, client):
        _, there = pair(client)
        x = torch.randn(3, 40, requires_grad=True)
        [first] = torch.autograd.grad(there(x).square().sum(), x, create_graph=True)
        with pytest.raises(RuntimeError, match="once_differentiable"):
            first.sum().backward()

    def test_of_a_weight_that_the_server_quantizes(self, client):
        here, there = pair(client, 64, 30, store_as="int8-g32")
        x = torch.randn(5, 64, requires_grad=True)
        with pytest.raises(RuntimeError, match="keeps it as int8 with scales, which has no gradient"):
            there(x).sum().backward()
        there.weight.requires_grad_(False)
        values = torch.from_numpy(gemmd.Quantized.of(here.weight.detach(), "int8-g32", 0).dequantize("float32"))
        there(x).square().sum().backward()
        given = x.detach().clone().requires_grad_()
        torch.nn.functional.linear(given, values, here.bias.detach()).square().sum().backward()
        torch.testing.assert_close(x.grad, given.grad)


class TestCopies:
    def test_state_dict(self, client, tmp_path):
        here, there = pair(client)
        torch.save(there.state_dict(), tmp_path / "weights")
        _, other = pair(client)
        x = torch.randn(4, 40)
        other.load_state_dict(torch.load(tmp_path / "weights"))
        torch.testing.assert_close(other(x), here(x))
        fresh = torch.nn.Linear(40, 30)
        fresh.load_state_dict(there.state_dict())
        torch.testing.assert_close(fresh(x), here(x))

    def test_deepcopy_is_apart(self, client):
        here, there = pair(client)
        x = torch.randn(4, 40)
        other = copy.deepcopy(there)
        assert other.weight is not there.weight
        assert uploads_nothing(client, other, x)  # the server has such bytes
        with torch.no_grad():
            other.weight.zero_()
        torch.testing.assert_close(other(x), here.bias.expand(4, 30))
        torch.testing.assert_close(there(x), here(x))

    def test_pickle(self, client, tmp_path):
        here, there = pair(client)
        x = torch.randn(4, 40)
        torch.testing.assert_close(pickle.loads(pickle.dumps(there))(x), here(x))
        torch.save(there, tmp_path / "layer")
        torch.testing.assert_close(torch.load(tmp_path / "layer", weights_only=False)(x), here(x))

    def test_a_clients_secret_is_in_no_pickle(self, client, server):
        there = Linear(torch.ones(3, 4), client=client)
        there._served.client = gemmd.Client(server.address, token="secret")
        with pytest.raises(TypeError, match="has a secret, its token"):
            pickle.dumps(there)
        assert copy.deepcopy(there)._served.client is there._served.client


class TestGraphs:
    def test_compile_goes_around(self, client):
        model = torch.nn.Sequential(torch.nn.Linear(40, 30), torch.nn.ReLU(), torch.nn.Linear(30, 7))
        served = copy.deepcopy(model)
        gemmd.torch.replace(served, client)
        x = torch.randn(3, 40)
        compiled = torch.compile(served, backend="eager")
        torch.testing.assert_close(compiled(x), model(x))
        with torch.no_grad():
            served[0].weight.mul_(2)
            model[0].weight.mul_(2)
        torch.testing.assert_close(compiled(x), model(x))
        compiled(x).sum().backward()
        assert served[0].weight.grad is not None

    def test_one_graph_is_refused(self, client):
        _, there = pair(client)
        torch._dynamo.reset()  # it remembers the code that it went around, and then refuses nothing
        with pytest.raises(torch._dynamo.exc.Unsupported, match="disable"):
            torch.compile(there, backend="eager", fullgraph=True)(torch.ones(3, 40))

    def test_tracers_are_refused(self, client):
        _, there = pair(client)
        with pytest.raises(RuntimeError, match="products on a server are no operators"):
            torch.jit.trace(there, torch.ones(3, 40))
        for strict in (True, False):
            with pytest.raises(Exception, match=r"no operators of torch's graphs|disable"):
                torch.export.export(there, (torch.ones(3, 40),), strict=strict)
        x = torch.ones(2, 3, 40)
        for transformed in (
            lambda: torch.func.vmap(there)(x),
            lambda: torch.func.grad(lambda x: there(x).sum())(x),
            lambda: torch.func.jvp(there, (x,), (x,)),
            lambda: there(x.to("meta")),
        ):
            with pytest.raises(RuntimeError, match=r"no operators of torch's graphs"):
                transformed()
        with pytest.raises(
            TypeError, match=r"x is a tensor of layout torch\.sparse_coo; gemmd multiplies dense ones"
        ):
            there(torch.eye(40).to_sparse())


class TestReplace:
    def test_what_it_returns(self, client):
        model = torch.nn.Sequential(torch.nn.Linear(40, 30), torch.nn.ReLU(), torch.nn.Linear(30, 7, bias=False))
        x = torch.randn(3, 5, 40)
        wanted = model(x)
        assert gemmd.torch.replace(model, client) == ["0", "2"]
        torch.testing.assert_close(model(x), wanted)
        assert gemmd.torch.replace(model, client) == []

    def test_weights_that_the_server_quantizes(self, client):
        layer = torch.nn.Sequential(torch.nn.Linear(96, 40))
        x = torch.randn(7, 96)
        wanted = layer(x)
        assert gemmd.torch.replace(layer, client, store_as="mxfp8-e4m3") == ["0"]
        got = layer(x)
        assert got.dtype == torch.float32
        assert 0 < (got - wanted).norm() / wanted.norm() < 0.05
        with pytest.raises(ValueError, match="type is 'fp5'"):
            gemmd.torch.replace(torch.nn.Sequential(torch.nn.Linear(8, 8)), client, store_as="fp5")

    def test_all_or_nothing(self, client):
        model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4, device="meta"))
        with pytest.raises(
            ValueError, match=r"1 layers cannot be replaced, and skip= would leave them: 1: weight is on"
        ):
            gemmd.torch.replace(model, client)
        assert type(model[0]) is torch.nn.Linear
        assert gemmd.torch.replace(model, client, skip=["1"]) == ["0"]

    def test_skip(self, client):
        model = torch.nn.ModuleDict({"a": torch.nn.Sequential(torch.nn.Linear(4, 4)), "ab": torch.nn.Linear(4, 4)})
        with pytest.raises(ValueError, match="skip has 'b', and the model has no module of that name"):
            gemmd.torch.replace(model, client, skip=["b"])
        assert gemmd.torch.replace(model, client, skip=["a"]) == ["ab"]
        with pytest.raises(ValueError, match="the model is itself a linear layer"):
            gemmd.torch.replace(torch.nn.Linear(4, 4), client)

    def test_ties_and_modules_with_two_names(self, client):
        class Tied(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.embed = torch.nn.Embedding(20, 8)
                self.first = torch.nn.Linear(8, 8)
                self.again = self.first
                self.head = torch.nn.Linear(8, 20, bias=False)
                self.head.weight = self.embed.weight

            def forward(self, x):
                return self.head(self.again(self.first(self.embed(x))))

        model = Tied()
        x = torch.arange(20)
        wanted = model(x)
        assert gemmd.torch.replace(model, client) == ["first", "again", "head"]
        assert model.head.weight is model.embed.weight
        assert model.again is model.first
        torch.testing.assert_close(model(x), wanted)
        with torch.no_grad():
            model.embed.weight.mul_(2)
            model.first.bias.zero_()
        turned, embedded = model.first.weight.T, model.embed.weight
        torch.testing.assert_close(model(x), embedded[x] @ turned @ turned @ embedded.T, atol=1e-5, rtol=1e-4)

    @pytest.mark.parametrize("is_training", [True, False])
    @pytest.mark.parametrize("norm_first", [True, False])
    def test_transformer_encoder(self, client, is_training, norm_first):
        layer = torch.nn.TransformerEncoderLayer(16, 2, 32, 0.0, batch_first=True, norm_first=norm_first)
        model = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=not norm_first).train(is_training)
        served = copy.deepcopy(model)
        names = gemmd.torch.replace(served, client)
        assert not served.use_nested_tensor
        assert names == [f"layers.{at}.linear{which}" for at in (0, 1) for which in (1, 2)]
        x = torch.randn(3, 5, 16)
        padding = torch.tensor([[False] * 5, [False] * 3 + [True] * 2, [False] * 4 + [True]])
        with torch.no_grad():
            for mask in (None, padding):
                launched = requests(client)
                got, wanted = served(x, src_key_padding_mask=mask), model(x, src_key_padding_mask=mask)
                kept = slice(None) if mask is None else ~padding
                torch.testing.assert_close(got[kept], wanted[kept])
                assert requests(client) == launched + 4  # none is multiplied here
        served(x).sum().backward()
        assert served.layers[1].linear1.weight.grad is not None

    def test_one_layer_of_an_encoder(self, client):
        """Not by replace(): the layer's fast path multiplies by `weight` itself, and is right."""
        layer = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True).eval()
        x = torch.randn(3, 5, 16)
        with torch.no_grad():
            wanted = layer(x)
            layer.linear1 = Linear.of(layer.linear1, client)
            torch.testing.assert_close(layer(x), wanted)

    def test_multihead_attention(self, client):
        """It multiplies by out_proj.weight itself."""
        attention = torch.nn.MultiheadAttention(16, 2, batch_first=True)
        x = torch.randn(3, 5, 16)
        wanted = attention(x, x, x)[0]
        assert gemmd.torch.replace(torch.nn.Sequential(attention), client) == []
        attention.out_proj = Linear.of(attention.out_proj, client)
        torch.testing.assert_close(attention(x, x, x)[0], wanted)

    def test_nested_tensors(self, client):
        here, there = pair(client)
        rows = [torch.randn(3, 40), torch.randn(1, 40)]
        got = there(torch.nested.nested_tensor(rows)).unbind()
        for x, y in zip(rows, got, strict=True):
            torch.testing.assert_close(y, here(x))


def requests(client):
    """Products that the server has computed."""
    return client.stats().received_requests


class Gptq(torch.nn.Module):
    """As auto-gptq's layer of 4 bits: codes along K in int32 words, zero points less 1, and its own product."""

    QUANT_TYPE = "cuda-old"

    def __init__(self, k=64, n=16, group=32, act_order=False, dtype=torch.float16):
        super().__init__()
        self.bits, self.group_size, self.infeatures, self.outfeatures = 4, group, k, n
        words = torch.randint(-(2**31), 2**31 - 1, (k // 8, n), dtype=torch.int32)
        g_idx = torch.arange(k, dtype=torch.int32) // group
        self.register_buffer("qweight", words)
        self.register_buffer("qzeros", torch.full((k // group, n // 8), 0x77777777, dtype=torch.int32))
        self.register_buffer("scales", torch.randn(k // group, n).to(dtype))
        self.register_buffer("g_idx", g_idx[torch.randperm(k)] if act_order else g_idx)
        self.register_buffer("bias", torch.randn(n).to(dtype))

    def values(self):
        """K x N, in f32."""
        codes = (self.qweight[:, None] >> torch.arange(0, 32, 4)[:, None] & 15).reshape(self.infeatures, -1)
        return (codes - 8) * self.scales.float()[self.g_idx]

    def forward(self, x):
        return x @ self.values().to(x.dtype) + self.bias.to(x.dtype)


class TestToolLayers:
    """Layers of Gptq and of a stand-in of torchao's tensors; against_torch_layers.py has the tools themselves."""

    @pytest.mark.parametrize("act_order", [False, True])
    def test_results_are_the_layers(self, client, act_order):
        here = Gptq(act_order=act_order)
        model = torch.nn.Sequential(torch.nn.Linear(64, 64), here)
        x = torch.randn(3, 5, 64)
        wanted = model(x)
        assert gemmd.torch.replace(model, client) == ["0", "1"]
        assert type(model[1]) is gemmd.torch.QuantizedLinear
        torch.testing.assert_close(model(x), wanted, rtol=1e-5, atol=1e-4)
        for dtype in (torch.bfloat16, torch.float16):
            rows = x.to(dtype)
            torch.testing.assert_close(model[1](rows), here(rows), rtol=2e-2, atol=0.5)
        with pytest.raises(TypeError, match=r"x is torch\.float64, and the weight torch\.float32"):
            model[1](x.double())

    def test_attributes_are_the_layers(self, client):
        here = Gptq(act_order=True)
        there = gemmd.torch.QuantizedLinear.of(here, client)
        assert there.qweight is here.qweight
        assert (there.group_size, there.in_features, there.out_features) == (32, 64, 16)
        assert there.weight.dtype == torch.float16
        torch.testing.assert_close(there.weight, here.values().T.half())
        with pytest.raises(AttributeError, match="'Gptq' object has no attribute 'nothing'"):
            there.nothing  # noqa: B018
        assert "QuantizedLinear(Gptq(), activation=none, Resident(64 x 16 uint4" in repr(there)

    def test_gradient_of_x(self, client):
        here = Gptq(act_order=True)
        there = gemmd.torch.QuantizedLinear.of(here, client)
        x = torch.randn(3, 64)
        found = []
        for layer in (here, there):
            given = x.clone().requires_grad_()
            layer(given).square().sum().backward()
            found.append(given.grad)
        torch.testing.assert_close(found[1], found[0], rtol=1e-4, atol=1e-2)

    def test_copies(self, client):
        here = Gptq()
        model = torch.nn.Sequential(copy.deepcopy(here))
        gemmd.torch.replace(model, client)
        x = torch.randn(3, 64)
        assert list(model.state_dict()) == [f"0.{name}" for name in here.state_dict()]
        other = torch.nn.Sequential(Gptq())
        gemmd.torch.replace(other, client)
        other.load_state_dict(model.state_dict())
        for layer in (model, other, copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
            torch.testing.assert_close(layer(x), here(x), rtol=1e-5, atol=1e-4)
        torch.testing.assert_close(torch.compile(model, backend="eager")(x), here(x), rtol=1e-5, atol=1e-4)
        copied = copy.deepcopy(model)
        copied[0].scales.mul_(2)
        copied.bfloat16()
        assert copied[0].scales.dtype == torch.bfloat16
        assert copied[0].scales is copied[0]._tool.scales
        assert model[0].scales.dtype == torch.float16
        rows = x.bfloat16()
        wanted = here.eval()(rows).float() * 2 - here.bias.float()
        torch.testing.assert_close(copied(rows).float(), wanted, rtol=5e-2, atol=1)
        assert not copied.eval()[0]._tool.training

    def test_refused_by_replace(self, client):
        packed = Gptq()
        packed.QUANT_TYPE = "exllamav2"
        model = torch.nn.Sequential(torch.nn.Linear(64, 64), packed)
        with pytest.raises(
            ValueError, match=r"1: Gptq \(exllamav2\) may hold its weights as its kernel wants them"
        ):
            gemmd.torch.replace(model, client)
        assert type(model[0]) is torch.nn.Linear
        packed.QUANT_TYPE = "cuda-old"
        packed.forward = lambda x: x
        with pytest.raises(ValueError, match="forward of this Gptq was replaced"):
            gemmd.torch.replace(model, client)
        with pytest.raises(TypeError, match="layer is a Gptq; Linear"):
            Linear.of(packed, client)

    def test_a_weight_of_torchaos_kind(self, client):
        class Int8Tensor(torch.Tensor):
            """A tensor of other tensors, as torchao's are, of which detach and requires_grad_ are asked."""

            @staticmethod
            def __new__(cls, qdata, scale):
                return torch.Tensor._make_wrapper_subclass(cls, qdata.shape, dtype=torch.float32)

            def __init__(self, qdata, scale):
                self.qdata, self.scale, self.zero_point = qdata, scale, None
                self.block_size = [1, qdata.shape[1]]

            @classmethod
            def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
                assert func is torch.ops.aten.detach.default, func
                return cls(args[0].qdata, args[0].scale)

        codes, scales = torch.randint(-128, 128, (30, 40), dtype=torch.int8), torch.rand(30, 1)
        layer = torch.nn.Linear(40, 30)
        layer.weight = torch.nn.Parameter(Int8Tensor(codes, scales), requires_grad=False)
        there = Linear.of(layer, client)
        x = torch.randn(4, 40, requires_grad=True)
        wanted = x @ (codes * scales).T + layer.bias
        got = there(x)
        torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-3)
        [of_x, of_bias] = torch.autograd.grad(got.square().sum(), (x, there.bias))
        torch.testing.assert_close(of_x, 2 * wanted @ (codes * scales), rtol=1e-4, atol=1)
        torch.testing.assert_close(of_bias, 2 * wanted.sum(0), rtol=1e-4, atol=1e-1)
        there.weight.qdata.zero_()
        torch.testing.assert_close(there(x), there.bias.expand(4, 30))
        there.weight.requires_grad_()
        with pytest.raises(RuntimeError, match="weight is a Int8Tensor and requires_grad is True"):
            there(x)


class TestTensors:
    def test_operands(self, client):
        tensor = torch.randn(6, 6)
        np.testing.assert_allclose(
            client.matmul(tensor, tensor.T), (tensor @ tensor.T).numpy(), rtol=1e-5, atol=1e-6
        )

    def test_float4_e2m1fn_x2(self, client):
        if not hasattr(torch, "float4_e2m1fn_x2"):
            pytest.skip("this torch has no float4_e2m1fn_x2")
        codes = torch.randint(0, 256, (6, 32), dtype=torch.uint8)
        scales = torch.randint(120, 130, (6, 2), dtype=torch.uint8)
        pairs = codes.view(torch.float4_e2m1fn_x2)
        wanted = gemmd.Quantized(codes.numpy(), scales.numpy(), "mxfp4", shape=(6, 64))
        for made in (gemmd.Quantized(pairs, scales, "mxfp4"), gemmd.Quantized(pairs, scales, block_k=32)):
            assert (made.shape, made.type) == ((6, 64), "mxfp4")
            assert np.array_equal(made.dequantize(), wanted.dequantize())
        turned = gemmd.Quantized(pairs.T, scales.T, "mxfp4", axis=1)
        assert np.array_equal(turned.dequantize(), wanted.dequantize().T)
        x = torch.randn(3, 64)
        np.testing.assert_allclose(client.matmul(x, turned), x.numpy() @ turned.dequantize(), rtol=1e-5, atol=1e-4)
        with pytest.raises(TypeError, match=r"whose elements have scales: give gemmd\.Quantized"):
            client.matmul(x, pairs)
        with pytest.raises(ValueError, match="a tensor of float4_e2m1fn_x2 has its own"):
            gemmd.Quantized(pairs, scales, "mxfp4", shape=(6, 64))
        with pytest.raises(ValueError, match=r"data has strides \(64, 2\)"):
            gemmd.Quantized(
                torch.zeros(6, 64, dtype=torch.uint8)[:, ::2].view(torch.float4_e2m1fn_x2), scales, "mxfp4"
            )
        with pytest.raises(ValueError, match=r"data has shape \(6,\)"):
            gemmd.Quantized(pairs[:, 0], scales, "mxfp4")
