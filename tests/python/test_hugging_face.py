"""transformers models with openwork's attention and gates: the program's logits, training, saving, adapters."""

import json
import shutil
import subprocess
import sys

import pytest
import torch
from conftest import ARCHITECTURES, DATA, ROOT, run_program
from safetensors.torch import load_file

transformers = pytest.importorskip("transformers", reason="transformers is not installed")

import openwork  # noqa: E402


def golden(name):
    return load_file(DATA / name / "golden.safetensors")


def open_fixture(name):
    return transformers.AutoModelForCausalLM.from_pretrained(DATA / name, attn_implementation="openwork").eval()


def set_gates(model, low=0.5, high=4.0):
    """Gates that differ from head to head, some open and some shut."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith(("gate_bias", "gate_idle")):
                parameter.copy_(low + (high - low) * torch.rand(parameter.shape, generator=generator))
    return model


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_attention_without_gates_gives_the_golden_logits(name):
    with torch.no_grad():
        logits = open_fixture(name)(golden(name)["input_ids"]).logits
    torch.testing.assert_close(logits, golden(name)["logits"], atol=1e-4, rtol=0)


@pytest.mark.parametrize("gate", ["score", "logprob", "idle"])
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_a_saved_gated_model_has_the_same_logits_in_the_program(name, gate, tmp_path, program_logits):
    model = set_gates(openwork.add_gates(open_fixture(name), gate))
    openwork.save(model, tmp_path / "saved")
    ids = golden(name)["input_ids"]
    with torch.no_grad():
        logits = model(ids).logits
    assert 0 < sum(active.sum() for active in openwork.gates_of(model).active.values()) < 3 * 2 * 4 * 23 * 24 / 2
    torch.testing.assert_close(logits, program_logits(tmp_path / "saved", ids), atol=1e-4, rtol=0)


def test_load_gives_the_idle_fixtures_logits(program_logits):
    ids = golden("llama")["input_ids"]
    model = openwork.load(DATA / "llama_idle")
    with torch.no_grad():
        logits = model(ids).logits
    assert openwork.gates_of(model).kind == "idle"
    torch.testing.assert_close(logits, program_logits(DATA / "llama_idle", ids), atol=1e-4, rtol=0)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_load_reads_every_architecture(name):
    with torch.no_grad():
        logits = openwork.load(DATA / name)(golden(name)["input_ids"]).logits
    torch.testing.assert_close(logits, golden(name)["logits"], atol=1e-4, rtol=0)


def test_load_in_half_precision_leaves_the_gates_as_they_are():
    exact = dict(openwork.load(DATA / "llama_idle").named_parameters())
    for name, parameter in openwork.load(DATA / "llama_idle", dtype=torch.bfloat16).named_parameters():
        if name.endswith((".gate_bias", ".gate_idle")):
            assert parameter.equal(exact[name])
        else:
            assert parameter.dtype == torch.bfloat16


def test_any_seed_trains_and_a_caller_past_the_hooks_draws_anew():
    """PEFT's models call the forward of the one inside themselves."""
    model = openwork.add_gates(open_fixture("gpt2"), seed=20240601).train()
    ids = golden("gpt2")["input_ids"]
    passes = []
    for _ in range(2):
        model.forward(ids)
        passes.append([active.clone() for active in openwork.gates_of(model).active.values()])
    assert openwork.gates_of(model).step == 2
    assert any(not one.equal(other) for one, other in zip(*passes, strict=True))
    seeds = {openwork.operator.layer_seed((seed << 24) + 1, 0) for seed in (0, 1, 1 << 23, 1 << 24, 1 << 40, -1, -(1 << 40))}
    assert len(seeds) == 7 and all(-(1 << 63) <= seed < 1 << 63 for seed in seeds)


def test_gates_can_be_frozen_and_learned_again():
    model = openwork.add_gates(open_fixture("gpt2"), learn=False)
    gates = [parameter for name, parameter in model.named_parameters() if name.endswith((".gate_bias", ".gate_idle"))]
    assert not any(gate.requires_grad for gate in gates)
    openwork.learn_gates(model)
    assert gates and all(gate.requires_grad for gate in gates)


@pytest.mark.parametrize("name", ["openwork-8m-sparse", "smollm2-135m"])
def test_a_saved_models_tokenizer_is_that_of_any_form(name, tmp_path):
    from openwork._library import core

    if name not in [model.name for model in openwork.models()]:
        pytest.skip(f"{name} is not here: run `openwork fetch {name}`")
    core().copy_tokenizer(name, str(tmp_path))
    assert (tmp_path / "tokenizer.json").is_file()


def test_a_saved_model_keeps_its_tokenizer_and_chat_template(tmp_path):
    shutil.copytree(DATA / "gpt2", tmp_path / "source")
    files = {"tokenizer.json": "{}", "tokenizer_config.json": '{"add_bos_token": true}', "chat_template.jinja": "{{ messages }}"}
    for name, text in files.items():
        (tmp_path / "source" / name).write_text(text)
    openwork.save(openwork.load(tmp_path / "source"), tmp_path / "saved")
    assert {name: (tmp_path / "saved" / name).read_text() for name in files} == files


@pytest.mark.parametrize("name", ["openwork-8m", "openwork-8m-sparse"])
def test_load_gives_the_embedded_models_logits(name, program_logits):
    """A hard gate within rounding of its threshold may fall to either side, so a few samples of the gated model may differ."""
    text = (DATA / "held_out.txt").read_text()[:1700]
    ids = torch.tensor(openwork.call("tokenize", name, text)["ids"][:400]).view(16, 25)
    with torch.no_grad():
        logits = openwork.load(name)(ids).logits
    off = (logits - program_logits(name, ids)).abs().amax((1, 2))
    assert (off < 5e-4).sum() >= (13 if "sparse" in name else 16), off


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_a_cache_and_padding_change_nothing(name):
    model = set_gates(openwork.add_gates(open_fixture(name)))
    ids = golden(name)["input_ids"]
    with torch.no_grad():
        whole = model(ids).logits
        first = model(ids[:, :10], use_cache=True)
        rest = model(ids[:, 10:], past_key_values=first.past_key_values)
        mask = torch.ones_like(ids)
        mask[0, -3:] = 0
        padded = model(ids, attention_mask=mask).logits
    torch.testing.assert_close(torch.cat([first.logits, rest.logits], 1), whole, atol=1e-5, rtol=0)
    torch.testing.assert_close(padded[0, :-3], whole[0, :-3], atol=1e-5, rtol=0)
    torch.testing.assert_close(padded[1], whole[1], atol=1e-5, rtol=0)


@pytest.mark.parametrize("gate", ["score", "logprob", "idle"])
@pytest.mark.parametrize("seed", [None, 5])
def test_the_written_out_form_is_the_operator(gate, seed):
    from openwork import written_out

    generator = torch.Generator().manual_seed(0)
    q = torch.randn(2, 4, 19, 8, generator=generator, requires_grad=True)
    k, v = (torch.randn(2, 2, 19, 8, generator=generator, requires_grad=True) for _ in range(2))
    bias = torch.linspace(0, 4, 4, requires_grad=True)
    idle = torch.linspace(-1, 2, 4, requires_grad=True) if gate == "idle" else None
    inputs = [x for x in (q, k, v, bias, idle) if x is not None]
    weights = torch.randn(2, 4, 19, 8, generator=generator)

    def gradients(result):
        out, penalty, active = result
        return out, penalty, active, torch.autograd.grad((out * weights).sum() + penalty.sum(), inputs)

    plain = gradients(written_out.attend(q, k, v, bias, idle, gate=gate, seed=seed))
    fused = gradients(openwork.gated_attention(q, k, v, bias, idle, gate=gate, seed=seed))
    assert torch.equal(plain[2], fused[2])
    for one, other in zip((plain[0], plain[1], *plain[3]), (fused[0], fused[1], *fused[3]), strict=True):
        torch.testing.assert_close(one, other, atol=2e-5, rtol=1e-4)


def test_training_closes_gates_and_each_pass_draws_anew():
    torch.manual_seed(0)
    model = openwork.add_gates(open_fixture("llama"), bias=3.0, idle=0.0).train()
    ids = golden("llama")["input_ids"]
    optimiser = torch.optim.Adam(model.parameters(), lr=0.05)
    first, drawn = None, set()
    for _ in range(25):
        loss = model(ids, labels=ids).loss
        cost = openwork.penalty(model)
        first = cost.item() if first is None else first
        drawn.add(tuple(int(active.sum()) for active in openwork.gates_of(model).active.values()))
        optimiser.zero_grad()
        (0.1 * loss + cost).backward()
        optimiser.step()
    assert openwork.penalty(model).item() < 0.5 * first
    assert len(drawn) > 5


def test_a_compiled_model_is_one_graph_for_every_step(monkeypatch):
    """Without a graph break, training, and with the operator; the second and third step may compile, none after them."""
    from torch._dynamo.testing import CompileCounterWithBackend

    monkeypatch.setattr(torch._dynamo.config, "allow_unspec_int_on_nn_module", True)
    model = openwork.add_gates(open_fixture("gpt2"), bias=3.0, idle=0.0, unmasked=True).train()
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0  # so that both passes below are the same
    counter, ids = CompileCounterWithBackend("aot_eager"), golden("gpt2")["input_ids"]
    compiled = torch.compile(model, backend=counter, fullgraph=True)
    graphs = []
    for step in range(6):
        results = []
        for call in (compiled, model):
            openwork.gates_of(model).step = step
            loss, cost = call(ids, labels=ids).loss, openwork.penalty(model)
            results.append([loss.item(), cost.item(), *torch.autograd.grad(loss + cost, list(model.parameters()))])
        for one, other in zip(*results, strict=True):
            torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)
        graphs.append(counter.frame_count)
    assert graphs[-1] == graphs[2] <= 3
    operators = {node.target for graph in counter.graphs for node in graph.graph.nodes}
    assert torch.ops.openwork.gated_attention.default in operators or torch.ops.openwork.gated_attention in operators


def test_the_penalty_is_the_programs(tmp_path):
    """p + 0.5 phi(p) as train/loss.cpp has it, from the operator's own penalties."""
    model = set_gates(openwork.add_gates(open_fixture("gpt2")))
    model(golden("gpt2")["input_ids"])
    p = torch.stack(list(openwork.gates_of(model).penalties.values()))
    torch.testing.assert_close(openwork.penalty(model), p.mean() + 0.5 * (p + 1e-6).sqrt().mean())
    log = torch.log1p(p * 1000) / torch.log1p(torch.tensor(1000.0))
    torch.testing.assert_close(openwork.penalty(model, head_weight=2, form="log"), p.mean() + 2 * log.mean())


def test_wrong_uses_are_one_line():
    model = open_fixture("gpt2")
    with pytest.raises(openwork.InputError, match="has no gates"):
        openwork.penalty(model)
    with pytest.raises(openwork.InputError, match="gate is 'other'"):
        openwork.add_gates(model, "other")
    openwork.add_gates(model)
    with pytest.raises(openwork.InputError, match="has gates already"):
        openwork.add_gates(model)
    with pytest.raises(openwork.InputError, match="no attention that gates are known for"):
        openwork.add_gates(torch.nn.Linear(2, 2))
    with pytest.raises(openwork.InputError, match="openwork-9m"):
        openwork.load("openwork-9m")
    with pytest.raises(openwork.InputError, match="dtype is 'fp32'"):
        openwork.load("openwork-8m", dtype="fp32")


def test_an_adapter_that_is_not_there_is_one_line(tmp_path):
    pytest.importorskip("peft", reason="peft is not installed")
    with pytest.raises(openwork.InputError, match="no adapter_config.json"):
        openwork.load_adapter(open_fixture("gpt2"), tmp_path)


def test_weights_of_another_shape_are_refused_before_any_is_taken():
    """As those of a pruned model, which has fewer heads in some layers."""
    from openwork.hugging_face import _take_weights

    model = open_fixture("llama")
    weights = {name: torch.zeros_like(tensor) for name, tensor in model.named_parameters()}
    name = "model.layers.1.self_attn.q_proj.weight"
    weights[name] = weights[name][:24]
    with pytest.raises(openwork.InputError, match=r"q_proj.weight is \[24, 32\].*pruned"):
        _take_weights(model, weights)
    assert all(tensor.abs().sum() > 0 for tensor in model.parameters())


def test_an_adapter_of_peft_opens_in_the_program(tmp_path, program_logits):
    peft = pytest.importorskip("peft", reason="peft is not installed")
    torch.manual_seed(0)
    model = set_gates(openwork.add_gates(open_fixture("llama")))
    settings = peft.LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj", "down_proj"], init_lora_weights=False)
    adapted = peft.get_peft_model(model, settings).eval()
    openwork.save(adapted, tmp_path / "adapter")
    ids = golden("llama")["input_ids"]
    with torch.no_grad():
        logits = adapted(ids).logits
    pair = f"{DATA / 'llama'}+{tmp_path / 'adapter'}"
    torch.testing.assert_close(logits, program_logits(pair, ids), atol=1e-4, rtol=0)
    again = openwork.load_adapter(open_fixture("llama"), tmp_path / "adapter")
    with torch.no_grad():
        torch.testing.assert_close(again(ids).logits, logits, atol=1e-5, rtol=0)
        torch.testing.assert_close(openwork.load(pair)(ids).logits, logits, atol=1e-4, rtol=0)


@pytest.mark.parametrize(
    "own",
    [
        {"rank_pattern": {"q_proj": 2}},
        {"alpha_pattern": {"layers.1.self_attn.q_proj": 32, "v_proj": 3}},
        {"rank_pattern": {r"layers\.[02]\.mlp\.\w+": 6, "^model.layers.0.self_attn.q_proj": 2}, "alpha_pattern": {"q_proj": 5}, "use_rslora": True},
    ],
)
def test_an_adapter_of_peft_with_ranks_of_single_modules_opens_in_the_program(own, tmp_path, program_logits):
    peft = pytest.importorskip("peft", reason="peft is not installed")
    torch.manual_seed(0)
    settings = peft.LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj", "down_proj"], init_lora_weights=False, **own)
    adapted = peft.get_peft_model(open_fixture("llama"), settings).eval()
    adapted.save_pretrained(tmp_path / "adapter")
    ids = golden("llama")["input_ids"]
    with torch.no_grad():
        logits = adapted(ids).logits
    torch.testing.assert_close(logits, program_logits(f"{DATA / 'llama'}+{tmp_path / 'adapter'}", ids), atol=1e-4, rtol=0)


def test_an_adapter_that_goes_with_a_changed_base_is_one_line(tmp_path):
    peft = pytest.importorskip("peft", reason="peft is not installed")
    settings = peft.LoraConfig(r=4, target_modules=["q_proj"], init_lora_weights="pissa")
    peft.get_peft_model(open_fixture("llama"), settings).save_pretrained(tmp_path / "adapter")
    with pytest.raises(openwork.InputError, match="init_lora_weights is .pissa.*convert the adapter to a plain LoRA"):
        openwork.Model(f"{DATA / 'llama'}+{tmp_path / 'adapter'}", device="cpu")


@pytest.mark.parametrize(("name", "whole", "low"), [("llama", ["q_proj", "k_proj", "o_proj"], ["v_proj", "down_proj"]), ("gpt2", ["c_attn", "attn.c_proj"], ["c_fc"])])
def test_an_adapter_of_peft_with_whole_modules_opens_in_the_program(name, whole, low, tmp_path, program_logits):
    peft = pytest.importorskip("peft", reason="peft is not installed")
    torch.manual_seed(0)
    model = set_gates(openwork.add_gates(open_fixture(name)))
    conv = name == "gpt2"
    settings = peft.LoraConfig(r=4, target_modules=low, modules_to_save=whole, fan_in_fan_out=conv, init_lora_weights=False)
    adapted = peft.get_peft_model(model, settings).eval()
    with torch.no_grad():
        for key, parameter in adapted.named_parameters():
            if "modules_to_save" in key:
                parameter.add_(0.05 * torch.randn(parameter.shape))
    openwork.save(adapted, tmp_path / "adapter")
    ids = golden(name)["input_ids"]
    with torch.no_grad():
        logits = adapted(ids).logits
    assert (logits - open_fixture(name)(ids).logits).abs().max() > 0.01
    torch.testing.assert_close(logits, program_logits(f"{DATA / name}+{tmp_path / 'adapter'}", ids), atol=1e-4, rtol=0)
    again = openwork.load_adapter(open_fixture(name), tmp_path / "adapter")
    with torch.no_grad():
        torch.testing.assert_close(again(ids).logits, logits, atol=1e-5, rtol=0)


@pytest.mark.parametrize("modules", ["attention", "h.1.attn.c_attn,mlp.c_proj"])
def test_whole_modules_of_the_program_are_those_that_peft_writes(modules, tmp_path, program_logits):
    """`--lora-full`: PEFT opens the folder, computes the program's logits, and saves the same tensors under the same names."""
    peft = pytest.importorskip("peft", reason="peft is not installed")
    run, base = tmp_path / "run", openwork.load("openwork-8m")
    before = {key: tensor.clone() for key, tensor in base.named_parameters()}
    data = ["--data", DATA / "held_out.txt", "--held-out", "0.2", "--context", 32, "--batch-tokens", 64]
    run_program("sparsify", "openwork-8m", *data, "--steps", 3, "--lora", 4, "--lora-full", modules, "--device", "cpu", "--quiet", "--out", run)
    adapted = openwork.load_adapter(base, run)
    ids = torch.arange(40)[None] * 17
    with torch.no_grad():
        logits = adapted(ids).logits
    torch.testing.assert_close(logits, program_logits(f"openwork-8m+{run}", ids), atol=2e-3, rtol=0)

    written = load_file(run / "adapter_model.safetensors")
    ours = {key: tensor for key, tensor in written.items() if not key.endswith((".gate_bias", ".gate_idle"))}
    peft_own = peft.get_peft_model_state_dict(adapted, save_embedding_layers=False)
    assert peft_own.keys() == ours.keys()
    for key, tensor in ours.items():
        assert torch.equal(peft_own[key], tensor), key
    whole = [key for key in ours if "lora_" not in key]
    assert any(key.endswith("attn.c_attn.weight") for key in whole) and any(key.endswith(".bias") for key in whole)
    for key in whole:
        assert not torch.equal(ours[key], before[key.removeprefix("base_model.model.")]), key
    merged = adapted.merge_and_unload()
    with torch.no_grad():
        torch.testing.assert_close(merged(ids).logits, logits, atol=1e-4, rtol=0)


def test_an_adapter_of_the_program_opens_in_peft(tmp_path, program_logits):
    pytest.importorskip("peft", reason="peft is not installed")
    data = ["--data", DATA / "held_out.txt", "--held-out", "0.2", "--context", 32, "--batch-tokens", 64]
    run_program("sparsify", "openwork-8m", *data, "--steps", 2, "--lora", 4, "--device", "cpu", "--quiet", "--out", tmp_path / "run")
    ids = torch.arange(40)[None] * 17
    adapted = openwork.load_adapter(openwork.load("openwork-8m"), tmp_path / "run")
    with torch.no_grad():
        logits = adapted(ids).logits
    torch.testing.assert_close(logits, program_logits(f"openwork-8m+{tmp_path / 'run'}", ids), atol=2e-3, rtol=0)


def test_the_trainer_example_makes_a_folder_that_the_program_opens(tmp_path):
    pytest.importorskip("accelerate", reason="accelerate is not installed")
    script = ROOT / "examples" / "sparsify_with_trainer.py"
    assert len(script.read_text().splitlines()) <= 60
    done = subprocess.run([sys.executable, script, "--steps", "3", "--out", tmp_path / "sparse"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(run_program("inspect", tmp_path / "sparse", "--json", "-"))["config"]["gate"] == "idle"
