"""On a GPU: the operator held to the CPU's float64, low precision, autocast, torch.compile, the module, a transformers model and
the core. Where there is no GPU, or the package has no GPU kernels, every test skips and says so."""

import pytest
import torch

import openwork

GATES = ("score", "logprob", "idle")
TOLERANCE = {torch.float32: 1e-4, torch.bfloat16: 2e-2, torch.float16: 2e-2}  # as tests/ops/cuda_gated_attention_test.cpp
PROMPT = "The city of Paris is the capital of"


def has_kernels():
    return torch.cuda.is_available() and torch._C._dispatch_has_kernel_for_dispatch_key("openwork::gated_attention_forward", "CUDA")


pytestmark = pytest.mark.skipif(not has_kernels(), reason="no GPU here, or the GPU kernels are not built")


def make_inputs(gate, dtype=torch.float32, tokens=133, size=64, device="cuda"):
    """q, k, v, bias and, with gate "idle", idle: the same numbers on every device; four heads share two of keys."""
    generator = torch.Generator().manual_seed(3)
    heads = [torch.randn(2, count, tokens, size, generator=generator).to(dtype) for count in (4, 2, 2)]
    gates = [torch.linspace(1, 4, 4), torch.linspace(-1, 2, 4)][: 2 if gate == "idle" else 1]
    return [tensor.to(device).requires_grad_() for tensor in heads + gates]


def attend(inputs, gate, seed, **options):
    return openwork.gated_attention(*inputs, gate=gate, seed=seed, **options)


def run_both_ways(inputs, gate, seed, call=attend, **options):
    """Results and gradients by name, as float64 on the CPU."""
    result = call(inputs, gate, seed, **options)
    generator = torch.Generator().manual_seed(4)
    weights = [torch.randn(each.shape, generator=generator).bfloat16().to(each) for each in (result.out, result.penalty)]
    gradients = torch.autograd.grad([result.out, result.penalty], inputs, weights)
    names = ("out", "penalty", "active", "dq", "dk", "dv", "dbias", "didle")
    return {name: value.detach().double().cpu() for name, value in zip(names, (*result, *gradients), strict=False)}


def expect_alike(seen, wanted, tolerance, flips=9):
    """By the error's norm. A gate within rounding of its threshold may fall to either side: a thousandth of a head's may."""
    assert (seen.pop("active") - wanted.pop("active")).abs().max() <= flips
    for name, value in wanted.items():
        assert (seen[name] - value).norm() <= tolerance * value.norm(), (name, (seen[name] - value).norm() / value.norm())


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("seed", [None, 7], ids=["hard", "sampled"])
@pytest.mark.parametrize("gate", GATES)
def test_numbers_and_gradients_are_the_cpus(gate, seed, dtype):
    inputs = make_inputs(gate, dtype)
    exact = [tensor.detach().double().cpu().requires_grad_() for tensor in inputs]
    expect_alike(run_both_ways(inputs, gate, seed), run_both_ways(exact, gate, seed), TOLERANCE[dtype])


@pytest.mark.parametrize("size", [32, 80, 128])
@pytest.mark.parametrize("sharpness", [2.0, 4.0])
def test_sharper_gates_and_other_head_sizes_are_the_cpus(size, sharpness):
    inputs = make_inputs("idle", torch.bfloat16, size=size)
    exact = [tensor.detach().double().cpu().requires_grad_() for tensor in inputs]
    options = {"first": 5, "scale": 0.1, "sharpness": sharpness}
    seen, wanted = run_both_ways(inputs, "idle", 11, **options), run_both_ways(exact, "idle", 11, **options)
    expect_alike(seen, wanted, TOLERANCE[torch.bfloat16] * sharpness)


def test_autocast_casts_q_k_v_and_leaves_the_gates():
    inputs = make_inputs("idle")
    with torch.autocast("cuda", dtype=torch.bfloat16):
        result = attend(inputs, "idle", 7)
    assert result.out.dtype == torch.bfloat16 and result.penalty.dtype == torch.float32
    halved = [x.detach().bfloat16() for x in inputs[:3]] + inputs[3:]
    torch.testing.assert_close(result.out, attend(halved, "idle", 7).out)
    (result.out.float().sum() + result.penalty.sum()).backward()
    assert all(x.grad.dtype == torch.float32 and x.grad.isfinite().all() for x in inputs)


def test_opcheck_finds_nothing():
    torch.library.opcheck(torch.ops.openwork.gated_attention.default, tuple(make_inputs("idle", tokens=16)), {"gate": "idle", "seed": 3})


def test_float64_is_refused_in_one_line():
    inputs = [tensor.detach().double() for tensor in make_inputs("score")]
    with pytest.raises(openwork.InputError, match="float64 runs on the CPU") as caught:
        attend(inputs, "score", None)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("gate", GATES)
def test_the_module_gives_and_learns_what_it_does_on_the_cpu(gate):
    here, there = (openwork.GatedAttention(4, gate=gate, bias=2.0, idle=0.0, layer=2, device=device) for device in ("cpu", "cuda"))
    q, k, v = (x.detach() for x in make_inputs(gate)[:3])
    for attention in (here, there):
        optimiser, penalties = torch.optim.SGD(attention.parameters(), lr=5.0), []
        for step in range(5):
            optimiser.zero_grad()
            out = attention(*(x.to(attention.gate_bias.device) for x in (q, k, v)), seed=step)
            (attention.penalty.mean() + 1e-3 * out.square().mean()).backward()
            optimiser.step()
            penalties.append(attention.penalty.mean().item())
        assert penalties[-1] < 0.95 * penalties[0], penalties
    assert there.penalty.is_cuda and there.active.is_cuda
    torch.testing.assert_close(there.penalty.cpu(), here.penalty, atol=1e-3, rtol=0)
    for learned, wanted in zip(there.parameters(), here.parameters(), strict=True):
        torch.testing.assert_close(learned.cpu(), wanted, atol=1e-2, rtol=0)


def test_a_transformers_model_trains_as_on_the_cpu():
    """Sampled gates: the noise is drawn by the step, and is the same on every device."""
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    config = transformers.GPT2Config(
        vocab_size=512, n_positions=64, n_embd=256, n_layer=2, n_head=4, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0
    )
    torch.manual_seed(0)
    model = openwork.add_gates(transformers.GPT2LMHeadModel(config), bias=3.0, idle=2.0).train()
    ids = torch.arange(96).view(2, 48) * 37 % 512
    seen = {}
    for device in ("cpu", "cuda"):
        model.to(device).zero_grad()
        openwork.gates_of(model).step = 0
        loss = model(ids.to(device), labels=ids.to(device)).loss
        cost = openwork.penalty(model)
        (loss + cost).backward()
        gradients = {name: parameter.grad.double().cpu() for name, parameter in model.named_parameters()}
        seen[device] = {"loss": loss.detach().double().cpu(), "penalty": cost.detach().double().cpu(), **gradients}
    for name, wanted in seen["cpu"].items():
        assert (seen["cuda"][name] - wanted).norm() <= 2e-3 * wanted.norm(), name


@pytest.fixture(scope="module")
def dense():
    return {device: openwork.Model("openwork-8m", device=device) for device in ("cpu", "cuda")}


def test_the_core_gives_the_cpus_logits(dense):
    ids = dense["cpu"].encode(PROMPT)
    seen = dense["cuda"].run(ids, read="blocks.5.attn.hook_pattern")
    wanted = dense["cpu"].run(ids, read="blocks.5.attn.hook_pattern")
    assert dense["cuda"].device.startswith("cuda") and seen.logits.is_cuda and dense["cuda"].parameters["transformer.wte.weight"].is_cuda
    torch.testing.assert_close(seen.logits.cpu(), wanted.logits, atol=2e-3, rtol=0)
    torch.testing.assert_close(seen["blocks.5.attn.hook_pattern"].cpu(), wanted["blocks.5.attn.hook_pattern"], atol=1e-3, rtol=0)
    assert [each.token for each in seen.top(3)] == [each.token for each in wanted.top(3)]


def test_edits_on_the_gpu_do_what_they_do_on_the_cpu(dense):
    edits = {"blocks.3.attn.hook_z": 0, "blocks.6.hook_resid_pre": lambda x: 0.5 * x}
    seen, wanted = (dense[device].edit(edits).run(PROMPT).logits.cpu() for device in ("cuda", "cpu"))
    torch.testing.assert_close(seen, wanted, atol=2e-3, rtol=0)
    assert (wanted - dense["cpu"].run(PROMPT).logits).abs().max() > 0.1


def test_the_gates_of_the_sparse_model_are_the_cpus():
    """In the first layer: behind it an edge that rounding opened may move others."""
    name = "blocks.0.attn.hook_gate"
    seen, wanted = (openwork.Model("openwork-8m-sparse", device=device).run(PROMPT, read=name)[name].cpu() for device in ("cuda", "cpu"))
    assert 0 < wanted.sum() < wanted.numel() / 2 and (seen != wanted).sum() <= 1


@pytest.mark.parametrize("gate", GATES)
def test_compiled_numbers_and_gradients_are_the_operators(gate, needs_compiler):
    inputs = make_inputs(gate, torch.bfloat16)
    compiled = torch.compile(attend, fullgraph=True)
    for seed in (7, 8):  # the second makes the seed symbolic
        expect_alike(run_both_ways(inputs, gate, seed, compiled), run_both_ways(inputs, gate, seed), 5e-3, flips=0)
