"""Linear layers by either library of products: values and gradients are those of torch's own, which does what the other can't."""

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from firth.nn import linear
from firth.nn.linear import FEW, LEAST, Linear, product, step_product

CPU_NAMES = {
    "AMD EPYC": True,
    "AMD Ryzen 7 7840U": True,
    "Intel(R) Xeon(R) Platinum": False,
    "QEMU Virtual CPU": False,
    "": False,
}


@pytest.fixture(params=[False, True], ids=["mkl", "onednn"])
def library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Either library, whatever processor this is."""
    if request.param and not hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        pytest.skip("this torch has no oneDNN")
    monkeypatch.setattr(linear, "by_onednn", lambda: request.param)
    return bool(request.param)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[torch.Size]]:
    """The rows of every product that torch's own library makes in `nn/linear.py`."""
    seen: list[torch.Size] = []

    def spied(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        seen.append(x.shape)
        return torch.nn.functional.linear(x, weight, bias)

    with monkeypatch.context() as patch:
        patch.setattr(linear, "F", type("Spy", (), {"linear": staticmethod(spied)}))
        yield seen


def close(found: Tensor, expected: Tensor) -> None:
    assert found.shape == expected.shape
    assert found.is_contiguous()
    bound = 1e-5 * max(1.0, expected.abs().amax().item()) if expected.numel() else 0.0
    assert ((found - expected).abs() <= bound).all()


@pytest.mark.parametrize("rows", [0, 1, 7, 8, 9, 33, 416])
@pytest.mark.parametrize(
    ("inputs", "outputs"), [(1, 1), (3, 50), (384, 2), (384, 1152), (1536, 384)]
)
def test_products_and_gradients_are_torchs(
    library: bool, rows: int, inputs: int, outputs: int, seed: int
) -> None:
    maker = torch.Generator().manual_seed(seed)
    layer = Linear(inputs, outputs)
    x = torch.randn(rows, inputs, generator=maker).requires_grad_(True)
    slope = torch.randn(rows, outputs, generator=maker)
    ours, theirs = layer(x), F.linear(x, layer.weight, layer.bias)
    close(ours, theirs)
    wanted = (x, layer.weight, layer.bias)
    for found, expected in zip(
        torch.autograd.grad(ours, wanted, slope),
        torch.autograd.grad(theirs, wanted, slope),
        strict=True,
    ):
        close(found, expected)
    with torch.no_grad():
        close(layer(x), theirs)
        close(product(slope.t(), x.t()), slope.t() @ x)
        close(product(slope, layer.weight.t()), slope @ layer.weight)


def test_what_is_frozen_gets_no_gradient(library: bool) -> None:
    x = torch.randn(20, 16)
    layer = Linear(16, 24).requires_grad_(False)
    assert not layer(x).requires_grad
    layer.weight.requires_grad_(True)
    layer(x).sum().backward()
    assert layer.weight.grad is not None
    assert layer.bias.grad is None
    assert x.grad is None


def test_no_bias(library: bool) -> None:
    layer, x = Linear(16, 24, bias=False), torch.randn(20, 16)
    layer(x).sum().backward()
    close(layer(x), x @ layer.weight.t())


def test_what_only_torchs_own_can_do(
    monkeypatch: pytest.MonkeyPatch, calls: list[torch.Size]
) -> None:
    """Doubles, short floats, streams of streams and few rows go where they are at home."""
    monkeypatch.setattr(linear, "by_onednn", lambda: True)
    layer = Linear(16, 24)
    for x in (torch.randn(2, 20, 16), torch.randn(FEW - 1, 16), torch.randn(16)):
        assert layer(x).shape == (*x.shape[:-1], 24)
    assert len(calls) == 3
    with torch.autocast("cpu", torch.bfloat16):
        assert layer(torch.randn(20, 16)).dtype == torch.bfloat16
    assert layer.double()(torch.randn(20, 16, dtype=torch.float64)).dtype == torch.float64
    assert len(calls) == 5


def test_small_steps_are_torchs_own(
    monkeypatch: pytest.MonkeyPatch, calls: list[torch.Size]
) -> None:
    """A step of generation goes to oneDNN only where the product is large, whatever the rows."""
    monkeypatch.setattr(linear, "by_onednn", lambda: True)
    weight, bias = torch.randn(512, 1024), torch.randn(512)
    enough = LEAST // weight.numel()
    for rows in (1, FEW, enough - 1, enough):
        x = torch.randn(rows, 1024)
        close(step_product(x, weight, bias), F.linear(x, weight, bias))
    assert [shape[0] for shape in calls] == [1, FEW, enough - 1]


def test_gradients_to_the_last_digit(library: bool) -> None:
    layer = Linear(5, 9).double()
    x = torch.randn(12, 5, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(
        lambda *given: torch.func.functional_call(layer, {"weight": given[1]}, given[0]),
        (x, layer.weight),
    )


@pytest.mark.parametrize(("name", "expected"), CPU_NAMES.items())
def test_the_processor_decides(name: str, expected: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    for limit in linear.CACHES:
        monkeypatch.setenv(limit, "1024")  # which is left as it is, here and after this test
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"cpu_name": name}, raising=False)
    assert linear.by_onednn.__wrapped__() == (
        expected and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    )
    assert all(os.environ[limit] == "1024" for limit in linear.CACHES)
    monkeypatch.delattr(torch.cpu, "get_capabilities")
    assert not linear.by_onednn.__wrapped__()  # an older torch


def test_memory_does_not_grow_with_the_shapes_seen() -> None:
    """In a process of its own: what oneDNN may keep is settled before its first product."""
    program = """
import torch
from firth.nn import linear
def resident(): return int(open("/proc/self/statm").read().split()[1]) * 4096
if not linear.by_onednn():
    raise SystemExit(77)
torch.set_num_threads(1)
layer = linear.Linear(384, 1536)
def learn(rows): layer(torch.ones(rows, 384, requires_grad=True)).sum().backward()
for rows in (*range(100, 130), 500): learn(rows)
before = resident()
for rows in range(130, 430): learn(rows)
print(resident() - before)
"""
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    if run.returncode == 77:
        pytest.skip("products are torch's own on this processor")
    assert run.returncode == 0, run.stderr
    assert int(run.stdout) < 100e6  # without a bound some 900 MB


def test_the_same_bits_again(library: bool, seed: int) -> None:
    torch.manual_seed(seed)
    layer, x = Linear(384, 1536), torch.randn(433, 384)
    first = [tensor.clone() for tensor in once(layer, x)]
    for _ in range(5):
        _ = once(layer, torch.randn(300, 384))  # other shapes come between
        assert all(map(torch.equal, first, once(layer, x)))


def once(layer: Linear, x: Tensor) -> list[Tensor]:
    """A value and its gradients."""
    found = layer(x)
    return [found, *torch.autograd.grad(found, (layer.weight, layer.bias), torch.ones_like(found))]
