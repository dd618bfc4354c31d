"""Gates on Hugging Face models: the attention implementation "openwork", gates and their parameters on a loaded model, the
penalty for a training loop, and models in and out of the program's forms.

    model = AutoModelForCausalLM.from_pretrained("gpt2", attn_implementation="openwork")
    openwork.add_gates(model, gate="idle")
    loss = model(ids, labels=ids).loss + openwork.penalty(model)      # in any loop
    openwork.save(model, "sparse-gpt2")                               # openwork run sparse-gpt2 "..."
"""

import json
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface, AutoConfig, AutoModelForCausalLM, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import causal_mask_function, sdpa_mask

from . import _library, written_out
from .errors import InputError
from .operator import GATES, gated_attention, layer_seed

# The attention modules that gates go on, by class: the architectures that the program reads.
_ATTENTION = ("GPT2Attention", "LlamaAttention", "OlmoAttention", "Olmo2Attention", "GPTNeoXAttention")


@dataclass
class Gates:
    """The gates of a model: what all its layers share. `gates_of(model)` returns it."""

    kind: str
    """score, logprob or idle."""
    seed: int = 0
    """Of the noise. Each training pass draws anew: `step` counts them and is mixed in, and so is the layer."""
    sharpness: float = 1.0
    """1, 2 or 4: so many times g stands for g."""
    unmasked: bool = False
    """The caller's word that batches have neither padding nor several texts in a row: masks are passed over. A compiled model
    cannot look, and without it attends by the written-out form."""
    step: int = 0
    """How many training passes there were; set it to go on where another run ended."""
    sampled: bool | None = None
    """Whether gates are drawn (training) or hard; None: as the model's training mode says."""
    penalties: dict[int, Tensor] = field(default_factory=dict)
    """Of the last pass, by layer: [B, H]."""
    active: dict[int, Tensor] = field(default_factory=dict)
    """Open gates of the last pass, by layer: [B, H]."""

    def begin_pass(self, training: bool) -> None:
        """Called before each pass of the model."""
        self.penalties.clear()
        self.active.clear()
        if training:
            self.step += 1

    def draw(self, training: bool, layer: int) -> int | None:
        """The layer's seed in this pass; None for hard gates."""
        sampled = training if self.sampled is None else self.sampled
        return layer_seed(self.seed * (1 << 24) + self.step, layer) if sampled else None


def openwork_attention(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None = None,
    scaling: float | None = None,
    dropout: float = 0.0,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """What transformers calls for attn_implementation="openwork": [B, H, T, d] in, [B, T, H, d] out.

    A module without gates attends as sdpa does. With gates it is the operator where all earlier tokens are seen, and the
    written-out form where a cache or padding makes rows differ. Dropout on edges is left out: gates are noise enough.
    """
    gates: Gates | None = getattr(module, "openwork_gates", None)
    if gates is None:
        return sdpa_attention_forward(module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **kwargs)
    layer, bias = int(module.layer_idx), module.gate_bias
    seed = gates.draw(module.training, layer)
    idle = module.gate_idle if gates.kind == "idle" else None
    settings: dict[str, Any] = {"gate": gates.kind, "scale": scaling, "sharpness": gates.sharpness}
    if (attention_mask is None or gates.unmasked) and query.shape[2] == key.shape[2]:
        out, penalty, active = gated_attention(query, key, value, bias, idle, seed=seed, **settings)
    else:
        out, penalty, active = written_out.attend(query, key, value, bias, idle, mask=attention_mask, seed=seed, **settings)
    gates.penalties[layer], gates.active[layer] = penalty, active
    return out.transpose(1, 2), None


def openwork_mask(
    *, q_length: int, kv_length: int, mask_function: Any = causal_mask_function, attention_mask: Tensor | None = None, **kwargs: Any
) -> Tensor | None:
    """The mask that transformers hands to openwork_attention: None where every row sees all tokens up to its own.

    Without padding that is known from the lengths alone.
    """
    if q_length == kv_length and attention_mask is None and mask_function is causal_mask_function:
        return None
    if q_length != kv_length:  # keys of a static cache may lie ahead: nothing is left to guess
        kwargs["allow_is_causal_skip"] = False
    return sdpa_mask(q_length=q_length, kv_length=kv_length, mask_function=mask_function, attention_mask=attention_mask, **kwargs)


AttentionInterface.register("openwork", openwork_attention)
AttentionMaskInterface.register("openwork", openwork_mask)


def _attention_modules(model: nn.Module) -> dict[str, Any]:
    modules = {name: module for name, module in model.named_modules() if type(module).__name__ in _ATTENTION}
    if not modules:
        raise InputError(f"{type(model).__name__} has no attention that gates are known for; add_gates; use a GPT-2, Llama, OLMo, OLMo-2 or GPT-NeoX model")
    return modules


def add_gates(
    model: PreTrainedModel,
    gate: str = "idle",
    *,
    bias: float = 5.0,
    idle: float = 5.0,
    learn: bool = True,
    seed: int = 0,
    sharpness: float = 1.0,
    unmasked: bool = False,
) -> PreTrainedModel:
    """Puts a gate on every attention edge of a loaded model and returns it.

    Each attention module gets the parameter gate_bias [H] and, with gate "idle", gate_idle [H], float32, both learned unless
    learn is False. In training mode gates are drawn by `seed`, else hard. The model then attends by "openwork". `unmasked`
    says that batches have no padding, which a compiled model cannot see for itself (Gates.unmasked).
    """
    if gate not in GATES:
        raise InputError(f"gate is '{gate}'; add_gates; use 'score', 'logprob' or 'idle'")
    if gates_of(model, default=None) is not None:
        raise InputError("the model has gates already; add_gates; change them through openwork.gates_of(model)")
    modules = _attention_modules(model)
    gates = Gates(gate, seed=seed, sharpness=sharpness, unmasked=unmasked)
    config = model.config
    for module in modules.values():
        device = next(module.parameters()).device
        for name, start in (("gate_bias", bias), ("gate_idle", idle))[: 2 if gate == "idle" else 1]:
            numbers = torch.full((config.num_attention_heads,), float(start), device=device)
            module.register_parameter(name, nn.Parameter(numbers, requires_grad=learn))
        module.openwork_gates = gates
    model.openwork_gates = gates  # type: ignore[assignment]
    # Of the model inside: PEFT calls the outer one's forward itself, past its hooks.
    model.base_model.register_forward_pre_hook(lambda module, _: gates.begin_pass(module.training))
    model.set_attn_implementation("openwork")
    _name_loss(model)
    config.attention_gate = {"kind": gate, "version": 1}
    return model


def _name_loss(model: Any) -> None:
    """GPT-2's class name does not say its loss: transformers warns of that in each pass, which breaks a compiled graph."""
    if getattr(model, "loss_type", None) is None and type(model).__name__.endswith("LMHeadModel"):
        model.loss_type = "ForCausalLM"


_MISSING: Any = object()


def gates_of(model: nn.Module, default: Any = _MISSING) -> Gates:
    """The gates that add_gates or load put on the model (or on the model inside a PEFT model)."""
    for module in model.modules():
        gates = getattr(module, "openwork_gates", None)
        if gates is not None:
            return gates
    if default is _MISSING:
        raise InputError(f"{type(model).__name__} has no gates; openwork; call openwork.add_gates(model) first")
    return default


def learn_gates(model: nn.Module, learn: bool = True) -> None:
    """Whether gate biases and idle scores are trained. PEFT freezes all that is not its own: call this after get_peft_model."""
    for name, parameter in model.named_parameters():
        if name.endswith((".gate_bias", ".gate_idle")):
            parameter.requires_grad_(learn)


def penalty(model: nn.Module, *, head_weight: float = 0.5, form: str = "sqrt") -> Tensor:
    """What the last pass's open gates cost: the term that a training loop adds to its loss.

    The mean over layers, samples and heads of p + head_weight * phi(p), with p a head's mean of sigmoid(g) and phi its
    square root or (form "log") its logarithm above a thousandth: steep where a head is nearly closed, so that it closes.
    """
    gates = gates_of(model)
    if not gates.penalties:
        raise InputError("no pass has run yet; openwork.penalty; call the model first")
    device = next(iter(gates.penalties.values())).device
    p = torch.stack([gates.penalties[layer].to(device) for layer in sorted(gates.penalties)])  # [layers, B, H]
    if form == "sqrt":
        phi = (p + 1e-6).sqrt()
    elif form == "log":
        phi = torch.log1p(p / 1e-3) / torch.log1p(torch.tensor(1e3))
    else:
        raise InputError(f"form is '{form}'; openwork.penalty; use 'sqrt' or 'log'")
    return p.mean() + head_weight * phi.mean()


def load(name: str, *, device: str | torch.device = "cpu", dtype: torch.dtype = torch.float32) -> PreTrainedModel:
    """A model of any form the program opens, as a transformers model with its gates; in evaluation mode.

    `name` is a built-in name, a folder, a .gguf file, a hub id in the cache, or BASE+ADAPTER (merged).
    """
    if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
        raise InputError(f"dtype is {dtype!r}; openwork.load; use torch.float32, torch.bfloat16 or torch.float16")
    source = _library.core().Model(str(name), "cpu", "fp32", "auto")
    fields = json.loads(source.config())
    gate = fields.pop("attention_gate", None)
    config = AutoConfig.for_model(fields.pop("model_type"), **fields)
    model = AutoModelForCausalLM.from_config(config, attn_implementation="openwork")
    if source.gate != "none":
        add_gates(model, source.gate)
        config.attention_gate = gate or config.attention_gate
    _take_weights(model, dict(source.parameters()))
    model.openwork_source = str(name)
    _name_loss(model)
    model.to(device)
    for parameter_name, parameter in model.named_parameters():
        if not parameter_name.endswith((".gate_bias", ".gate_idle")):  # gates stay float32
            parameter.data = parameter.data.to(dtype)
    return model.eval()


def _take_weights(model: PreTrainedModel, weights: dict[str, Tensor]) -> None:
    """Copies the core's parameters, which have the checkpoint's names, into the model's."""
    if "embed_out.weight" in weights:  # GPT-NeoX's unembedding, by its older name
        weights["lm_head.weight"] = weights.pop("embed_out.weight")
    parameters = dict(model.named_parameters(remove_duplicate=False))
    missing = sorted(set(parameters) - set(weights))
    missing = [name for name in missing if not (model.config.tie_word_embeddings and name.startswith("lm_head"))]
    extra = sorted(set(weights) - set(parameters))
    if missing or extra:
        raise InputError(f"tensors do not fit: missing {missing[:3]}, too many {extra[:3]}; {type(model).__name__}; report this with the versions of openwork and transformers")
    for name, tensor in weights.items():
        if tensor.shape != parameters[name].shape:
            raise InputError(f"{name} is {list(tensor.shape)}, {type(model).__name__} has {list(parameters[name].shape)}; openwork.load; a pruned model has heads that transformers cannot leave out: open it by openwork.Model, or load what it was pruned from")
    with torch.no_grad():
        for name, tensor in weights.items():
            parameters[name].copy_(tensor)


def _adapter_gates(model: Any) -> dict[str, Tensor]:
    """The gates' parameters of a PEFT model by the names an adapter file has: those of the base behind PEFT's prefix."""
    return {
        "base_model.model." + name: parameter.detach().cpu().float().contiguous()
        for name, parameter in model.get_base_model().named_parameters()
        if name.endswith((".gate_bias", ".gate_idle"))
    }


def save(model: Any, folder: str | Path, *, tokenizer: Any = None) -> Path:
    """Saves the model so that the program, and openwork.load, open the folder; a PEFT model as an adapter with its gates.

    The tokenizer is saved beside it: the one given, or that of the model openwork.load read.
    """
    folder = Path(folder)
    model.save_pretrained(folder)
    if hasattr(model, "peft_config"):
        _add_gates_to_adapter(model, folder)
    if tokenizer is not None:
        tokenizer.save_pretrained(folder)
    elif getattr(model, "openwork_source", None):
        _library.core().copy_tokenizer(model.openwork_source, str(folder))
    return folder


def _add_gates_to_adapter(model: Any, folder: Path) -> None:
    from safetensors.torch import load_file, save_file

    gates = gates_of(model, default=None)
    if gates is None:
        return
    weights, config = folder / "adapter_model.safetensors", folder / "adapter_config.json"
    save_file({**load_file(weights), **_adapter_gates(model)}, weights, metadata={"format": "pt"})
    fields = json.loads(config.read_text())
    fields["attention_gate"] = {"kind": gates.kind, "version": 1}
    config.write_text(json.dumps(fields, indent=2) + "\n")


def load_adapter(model: PreTrainedModel, folder: str | Path, *, trainable: bool = False) -> nn.Module:
    """A PEFT model of `model` and an adapter that the program or openwork.save wrote, with the adapter's gates."""
    from peft import PeftModel
    from safetensors.torch import load_file

    folder = Path(folder)
    if not (folder / "adapter_config.json").is_file():
        raise InputError(f"no adapter_config.json; {folder}; name a folder that openwork.save or `openwork sparsify --lora` wrote")
    kind = json.loads((folder / "adapter_config.json").read_text()).get("attention_gate", {}).get("kind")
    if kind is not None and gates_of(model, default=None) is None:
        add_gates(model, kind)
    with warnings.catch_warnings():  # of our own key in the file, which PEFT does not know
        warnings.filterwarnings("ignore", message=".*attention_gate.*")
        adapted = PeftModel.from_pretrained(model, str(folder), is_trainable=trainable)
    parameters = dict(adapted.get_base_model().named_parameters())
    with torch.no_grad():
        for name, tensor in load_file(folder / "adapter_model.safetensors").items():
            if name.endswith((".gate_bias", ".gate_idle")):
                parameters[name.removeprefix("base_model.model.")].copy_(tensor)
    if trainable:
        learn_gates(adapted)
    return adapted
