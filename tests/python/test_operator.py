"""openwork.gated_attention: the fixtures' numbers and gradients, through torch.compile too; opcheck; autocast; errors."""

import pytest
import torch
from conftest import DATA
from safetensors.torch import load_file

import openwork

CASES = [("gates", "score"), ("gates", "logprob"), ("gates_idle", "idle")]


def fixture_case(file, gate, kind):
    golden = load_file(DATA / f"{file}.safetensors")
    bias = golden["bias"] if gate == "idle" else golden[f"{gate}.{kind}.bias"]
    inputs = [golden["q"], golden["k"], golden["v"], bias] + ([golden["idle"]] if gate == "idle" else [])
    wanted = {name: golden[f"{gate}.{kind}.{name}"] for name in ("out", "penalty", "active")}
    gradients = [golden[f"{gate}.{kind}.d{name}"] for name in ("q", "k", "v", "bias", "idle")[: len(inputs)]]
    seed = int(golden["seed"]) if kind == "sampled" else None
    return golden, [x.clone().requires_grad_() for x in inputs], wanted, gradients, seed


def attend(inputs, gate, seed):
    return openwork.gated_attention(*inputs, gate=gate, seed=seed)


def check_case(call, file, gate, kind):
    golden, inputs, wanted, gradients, seed = fixture_case(file, gate, kind)
    result = call(inputs, gate, seed)
    for name, value in wanted.items():
        torch.testing.assert_close(getattr(result, name).detach(), value, atol=1e-10, rtol=1e-10)
    torch.autograd.backward([result.out, result.penalty], [golden["grad_out"], golden["grad_penalty"]])
    for given, gradient in zip(inputs, gradients, strict=True):
        torch.testing.assert_close(given.grad, gradient, atol=1e-10, rtol=1e-10)


@pytest.mark.parametrize("kind", ["hard", "sampled"])
@pytest.mark.parametrize(("file", "gate"), CASES)
def test_numbers_and_gradients_are_the_fixtures(file, gate, kind):
    check_case(attend, file, gate, kind)


@pytest.mark.parametrize(("file", "gate"), CASES)
def test_compiled_numbers_and_gradients_are_the_fixtures(file, gate, needs_compiler):
    check_case(torch.compile(attend, fullgraph=True), file, gate, "sampled")


def small(dtype=torch.float32, heads=4, kv_heads=2):
    generator = torch.Generator().manual_seed(0)
    shape = lambda h: torch.randn(2, h, 16, 8, generator=generator, dtype=torch.float32).to(dtype)  # noqa: E731
    tensors = [shape(heads), shape(kv_heads), shape(kv_heads), torch.full((heads,), 3.0), torch.zeros(heads)]
    return [tensor.requires_grad_() for tensor in tensors]


@pytest.mark.parametrize("gate", ["score", "logprob", "idle"])
@pytest.mark.parametrize("seed", [None, 3])
def test_opcheck_finds_nothing(gate, seed):
    inputs = small()
    if gate != "idle":
        inputs[4] = None
    torch.library.opcheck(torch.ops.openwork.gated_attention.default, tuple(inputs), {"gate": gate, "seed": seed})


def test_a_compiled_graph_serves_every_seed():
    from torch._dynamo.testing import CompileCounterWithBackend

    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(attend, fullgraph=True, backend=counter)
    inputs = small()
    for seed in range(20):
        out = compiled(inputs, "idle", seed).out
        torch.testing.assert_close(out, attend(inputs, "idle", seed).out)
    assert counter.frame_count <= 2  # the second seed shows that seeds change; none compiles after it


def test_autocast_casts_q_k_v_and_leaves_the_gates():
    inputs = small()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        result = attend(inputs, "idle", None)
    assert result.out.dtype == torch.bfloat16 and result.penalty.dtype == torch.float32
    halved = [x.detach().bfloat16() for x in inputs[:3]] + inputs[3:]
    torch.testing.assert_close(result.out, attend(halved, "idle", None).out)


def test_the_module_learns_bias_and_idle_score():
    torch.manual_seed(0)
    attention = openwork.GatedAttention(4, layer=2)
    q, k, v = (x.detach() for x in small()[:3])
    before = None
    optimiser = torch.optim.Adam(attention.parameters(), lr=0.5)
    for step in range(20):
        optimiser.zero_grad()
        attention(q, k, v, seed=step)
        attention.penalty.mean().backward()
        before = attention.penalty.mean().item() if before is None else before
        optimiser.step()
    assert attention.penalty.mean().item() < 0.2 * before
    assert {name for name, _ in attention.named_parameters()} == {"gate_bias", "gate_idle"}
    with pytest.raises(openwork.InputError, match="no seed in training mode"):
        attention(q, k, v)
    attention.eval()(q, k, v)
    assert attention.active.dtype == torch.int64


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (lambda x: x.update(k=x["k"][:, :, :3]), "k has shape"),
        (lambda x: x.update(q=x["q"].int()), "gated_attention"),
        (lambda x: x.update(gate="other"), "gate is 'other'"),
        (lambda x: x.update(idle=None), "idle"),
        (lambda x: x.update(bias=torch.zeros(3)), "bias"),
        (lambda x: x.update(sharpness=3.0), "sharpness"),
    ],
)
def test_wrong_arguments_are_one_line(change, line):
    arguments = dict(zip(("q", "k", "v", "bias", "idle"), small(), strict=True), gate="idle")
    change(arguments)
    with pytest.raises(openwork.InputError, match=line) as caught:
        openwork.gated_attention(**arguments)
    assert "\n" not in str(caught.value)
