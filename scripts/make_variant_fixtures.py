#!/usr/bin/env python3
"""Makes tests/data/variants: tiny random models of the settings that configurations may have, with golden numbers.

    python scripts/make_variant_fixtures.py [--out tests/data/variants]

Each folder holds a model as people have it (config.json with safetensors, shards or pytorch_model.bin; or a
model.gguf alone) and golden.safetensors: input_ids, logits, loss, attention.N, hidden.N, grad.<parameter>, from
Hugging Face transformers in fp32 with eager attention. GGUF files follow llama.cpp's public converter in names,
transposition, row order and metadata; their golden files hold logits and loss alone. Every folder is read back by
transformers where it can be, and must give its golden logits.

The committed files were made with torch 2.11.0, transformers 5.22.2, safetensors 0.8.0 and gguf 0.19.0.
All numbers are drawn from a seed, so that a second run makes the same files.
"""
import argparse
import json
import math
import shutil
import zlib
from pathlib import Path

import gguf
import numpy as np
import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, CONFIG_MAPPING
from transformers.utils import logging

SEED = 20250

VOCABULARY, PROMPTS, TOKENS = 61, 2, 13

GPT2 = dict(vocab_size=VOCABULARY, n_layer=2, n_head=2, n_embd=16, n_inner=20, n_positions=16, attn_pdrop=0.0,
            embd_pdrop=0.0, resid_pdrop=0.0, bos_token_id=0, eos_token_id=0)
ROTARY = dict(vocab_size=VOCABULARY, num_hidden_layers=2, num_attention_heads=2, hidden_size=16, intermediate_size=20,
              max_position_embeddings=128, bos_token_id=0, eos_token_id=0, pad_token_id=None)
GROUPED = dict(ROTARY, num_attention_heads=4, num_key_value_heads=2)


def rope(kind, theta=10000.0, **rest):
    return dict(rope_parameters=dict(rope_type=kind, rope_theta=theta, **rest))


LLAMA3_ROPE = rope("llama3", 500.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                   original_max_position_embeddings=64)
YARN_ROPE = rope("yarn", 300.0, factor=4.0, original_max_position_embeddings=32, beta_fast=1.5, beta_slow=0.5)


def fill(model, name):
    """Draws every parameter, norms and biases too, so that none is at its default."""
    generator = torch.Generator().manual_seed(SEED + zlib.crc32(name.encode()))
    with torch.no_grad():
        for parameter_name, parameter in sorted(model.named_parameters()):
            noise = torch.randn(parameter.shape, generator=generator)
            is_norm = "norm" in parameter_name or "ln_" in parameter_name
            if parameter.dim() > 1:
                parameter.copy_(0.25 * noise)
            elif is_norm and parameter_name.endswith("weight"):
                parameter.copy_(1 + 0.25 * noise)
            else:
                parameter.copy_(0.2 * noise)


def make_model(model_type, settings, name):
    config = CONFIG_MAPPING[model_type](**settings)
    config._attn_implementation = "eager"
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager").float().eval()
    fill(model, name)
    return model


def draw_ids(name):
    generator = torch.Generator().manual_seed(SEED + zlib.crc32(name.encode()) + 1)
    return torch.randint(VOCABULARY, (PROMPTS, TOKENS), generator=generator)


def compute_golden(model, ids, want_gradient):
    model.zero_grad()
    result = model(ids, labels=ids, output_attentions=True, output_hidden_states=True, use_cache=False)
    result.loss.backward()
    golden = {"input_ids": ids, "logits": result.logits.detach(), "loss": result.loss.detach().reshape(1)}
    golden |= {f"attention.{n}": tensor.detach() for n, tensor in enumerate(result.attentions)}
    golden |= {f"hidden.{n}": tensor.detach() for n, tensor in enumerate(result.hidden_states)}
    golden |= {f"grad.{name}": parameter.grad for name, parameter in model.named_parameters() if want_gradient(name)}
    return {name: tensor.clone().contiguous() for name, tensor in golden.items()}


def edit_json(path, edit):
    content = json.loads(path.read_text())
    edit(content)
    path.write_text(json.dumps(content, indent=1) + "\n")


# How a folder may differ from what save_pretrained writes.
def as_saved(folder, model):
    model.save_pretrained(folder)


def with_old_rope_keys(kind_key):
    """rope_theta at the top and rope_scaling beside it, as transformers wrote them before version 5."""
    def save(folder, model):
        model.save_pretrained(folder)

        def edit(config):
            parameters = config.pop("rope_parameters")
            config["rope_theta"] = parameters.pop("rope_theta")
            kind = parameters.pop("rope_type")
            config["rope_scaling"] = None if kind == "default" else {kind_key: kind, **parameters}
        edit_json(folder / "config.json", edit)
    return save


def neox_as_pythia(folder, model):
    """rotary_pct and rotary_emb_base, and the mask and frequency buffers that Pythia's files carry."""
    model.save_pretrained(folder)

    def edit(config):
        parameters = config.pop("rope_parameters")
        config.update(rotary_pct=parameters["partial_rotary_factor"], rotary_emb_base=int(parameters["rope_theta"]))
        del config["attention_bias"]
    edit_json(folder / "config.json", edit)
    state = {name.replace("lm_head", "embed_out"): tensor for name, tensor in model.state_dict().items()}
    if model.config.tie_word_embeddings:
        del state["embed_out.weight"]
    for n in range(model.config.num_hidden_layers):
        attention = f"gpt_neox.layers.{n}.attention."
        state[attention + "bias"] = torch.ones(1, 1, 16, 16, dtype=torch.bool).tril()
        state[attention + "masked_bias"] = torch.tensor(-1e9)
        state[attention + "rotary_emb.inv_freq"] = torch.ones(2)
    save_file(state, folder / "model.safetensors", {"format": "pt"})


def gpt2_as_first_published(folder, model):
    """No `transformer.` before the names, and each layer's causal mask among the weights."""
    model.save_pretrained(folder)
    state = {name.removeprefix("transformer."): tensor.contiguous() for name, tensor in model.state_dict().items()
             if name != "lm_head.weight"}
    for n in range(model.config.n_layer):
        state[f"h.{n}.attn.bias"] = torch.ones(1, 1, 16, 16).tril()
    save_file(state, folder / "model.safetensors", {"format": "pt"})


def as_pickle(folder, model):
    """pytorch_model.bin: the state dict with its _metadata, the tied lm_head and old buffers."""
    model.save_pretrained(folder)
    (folder / "model.safetensors").unlink()
    state = model.state_dict()
    for n in range(model.config.n_layer):
        state[f"transformer.h.{n}.attn.bias"] = torch.ones(1, 1, 16, 16, dtype=torch.uint8).tril()
        state[f"transformer.h.{n}.attn.masked_bias"] = torch.tensor(-10000.0)
    torch.save(state, folder / "pytorch_model.bin")


def in_shards(folder, model):
    model.save_pretrained(folder, max_shard_size="8KB")
    assert len(list(folder.glob("model-*.safetensors"))) > 2


def first_layer(name):
    return ".0." in name


def every(name):
    return True


def gpt2(**settings):
    return "gpt2", dict(GPT2, **settings)


def llama(**settings):
    return "llama", dict(ROTARY, **settings)


# name: (model type and settings, how it is saved, which gradients are kept)
VARIANTS = {
    "gpt2_options": (gpt2(scale_attn_by_inverse_layer_idx=True, scale_attn_weights=False, tie_word_embeddings=False,
                          activation_function="relu", layer_norm_epsilon=1e-3), as_saved, every),
    "gpt2_gelu": (gpt2(activation_function="gelu", n_inner=None), as_saved, first_layer),
    "gpt2_quick_gelu": (gpt2(activation_function="quick_gelu"), as_saved, first_layer),
    "gpt2_silu": (gpt2(activation_function="silu"), as_saved, first_layer),
    "gpt2_first_published": (gpt2(), gpt2_as_first_published, first_layer),
    "gpt2_pickle": (gpt2(), as_pickle, first_layer),
    "gpt2_shards_gelu_fast": (gpt2(activation_function="gelu_fast"), in_shards, first_layer),
    "gpt_neox_sequential": (("gpt_neox", dict(ROTARY, use_parallel_residual=False, attention_bias=False,
                                              hidden_act="gelu_new", layer_norm_eps=1e-3,
                                              **rope("default", 700.0, partial_rotary_factor=1.0))), as_saved, every),
    "gpt_neox_pythia": (("gpt_neox", dict(ROTARY, tie_word_embeddings=True,
                                          **rope("default", 5000.0, partial_rotary_factor=0.5))),
                        neox_as_pythia, every),
    "gpt_neox_untied": (("gpt_neox", dict(ROTARY, **rope("linear", 900.0, factor=3.0, partial_rotary_factor=0.5))),
                        as_saved, first_layer),
    "llama_biases": (llama(attention_bias=True, mlp_bias=True, head_dim=12, num_key_value_heads=1, hidden_act="gelu",
                           rms_norm_eps=1e-3, **rope("default", 250.0)), as_saved, every),
    "llama_linear": (llama(**rope("linear", 800.0, factor=2.5)), with_old_rope_keys("type"), first_layer),
    "llama_dynamic": (llama(**rope("dynamic", 100.0, factor=2.0) | dict(max_position_embeddings=8)), as_saved,
                      first_layer),
    "llama_llama3": (llama(head_dim=16, num_key_value_heads=1, tie_word_embeddings=True, **LLAMA3_ROPE),
                     with_old_rope_keys("rope_type"), every),
    "llama_yarn": (llama(head_dim=16, num_key_value_heads=1, tie_word_embeddings=True, **YARN_ROPE), as_saved,
                   first_layer),
    "llama_yarn_scaled": (llama(**rope("yarn", 40.0, factor=6.0, original_max_position_embeddings=16, mscale=0.7,
                                       mscale_all_dim=1.3, truncate=False)), with_old_rope_keys("rope_type"),
                          first_layer),
    "llama_yarn_attention_factor": (llama(**rope("yarn", 100.0, factor=2.0, attention_factor=0.8,
                                                 original_max_position_embeddings=12)), as_saved, first_layer),
    "olmo_clipped": (("olmo", dict(GROUPED, clip_qkv=0.4, tie_word_embeddings=True, attention_bias=True,
                                   **rope("default", 300.0))), as_saved, every),
    "olmo2_grouped": (("olmo2", dict(GROUPED, attention_bias=True, rms_norm_eps=1e-3, **rope("default", 400.0))),
                      with_old_rope_keys("rope_type"), every),
}


def permute_for_interleaved_rope(tensor, heads):
    """Rows (n, n + half) of each head become neighbours: LlamaModel.permute of the converter."""
    size = tensor.shape[0] // heads
    return tensor.reshape(heads, 2, size // 2, *tensor.shape[1:]).swapaxes(1, 2).reshape(tensor.shape)


def convert_tensor(architecture, config, name, tensor):
    if architecture in ("llama", "olmo") and ".q_proj." in name:
        return permute_for_interleaved_rope(tensor, config.num_attention_heads)
    if architecture in ("llama", "olmo") and ".k_proj." in name:
        return permute_for_interleaved_rope(tensor, config.num_key_value_heads)
    if architecture == "gpt2" and name.endswith(("c_attn.weight", "c_proj.weight", "c_fc.weight")):
        return tensor.T
    if architecture == "gptneox" and "query_key_value" in name:
        heads, size = config.num_attention_heads, config.hidden_size // config.num_attention_heads
        return tensor.reshape(heads, 3, size, *tensor.shape[1:]).swapaxes(0, 1).reshape(tensor.shape)
    return tensor


def llama3_divisors(config):
    parameters = config.rope_parameters
    size, context = config.head_dim, parameters["original_max_position_embeddings"]
    low, high, factor = (parameters[key] for key in ("low_freq_factor", "high_freq_factor", "factor"))
    divisors = []
    for n in range(0, size, 2):
        wavelength = 2 * math.pi * parameters["rope_theta"] ** (n / size)
        smooth = min(1.0, max(0.0, (context / wavelength - low) / (high - low)))
        divisors.append(1 / ((1 - smooth) / factor + smooth))
    return np.array(divisors, dtype=np.float32)


def write_gguf_metadata(writer, architecture, config):
    """What the converter writes: one set of numbers for all, then each architecture's own."""
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list([f"token{n}".encode() for n in range(config.vocab_size)])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(0)
    if architecture == "gpt2":
        writer.add_feed_forward_length(config.n_inner or 4 * config.n_embd)
        writer.add_layer_norm_eps(config.layer_norm_epsilon)
        return
    writer.add_feed_forward_length(config.intermediate_size)
    if architecture == "gptneox":
        size = config.hidden_size // config.num_attention_heads
        writer.add_rope_dimension_count(int(size * config.rope_parameters["partial_rotary_factor"]))
        writer.add_parallel_residual(config.use_parallel_residual)
        writer.add_layer_norm_eps(config.layer_norm_eps)
        return
    writer.add_head_count_kv(config.num_key_value_heads)
    write_gguf_rope(writer, config.rope_parameters)
    if architecture == "olmo":
        writer.add_layer_norm_eps(1e-5)
        if config.clip_qkv is not None:
            writer.add_clamp_kqv(config.clip_qkv)
        return
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    if architecture == "llama":
        writer.add_key_length(config.head_dim)
        writer.add_value_length(config.head_dim)
        writer.add_vocab_size(config.vocab_size)
        writer.add_rope_dimension_count(config.head_dim)


def write_gguf_rope(writer, parameters):
    writer.add_rope_freq_base(parameters["rope_theta"])
    if parameters["rope_type"] not in ("linear", "yarn"):
        return
    writer.add_rope_scaling_type(gguf.RopeScalingType(parameters["rope_type"]))
    writer.add_rope_scaling_factor(parameters["factor"])
    if parameters["rope_type"] == "yarn":
        writer.add_rope_scaling_orig_ctx_len(parameters["original_max_position_embeddings"])
        writer.add_rope_scaling_yarn_beta_fast(parameters["beta_fast"])
        writer.add_rope_scaling_yarn_beta_slow(parameters["beta_slow"])
        if "attention_factor" in parameters:
            writer.add_rope_scaling_yarn_attn_factor(parameters["attention_factor"])


def quantise_matrices(model):
    """Every matrix to the nearest Q8_0 numbers, so that the file and the model hold the same ones."""
    kind = gguf.GGMLQuantizationType.Q8_0
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                blocks = gguf.quants.quantize(parameter.numpy(), kind)
                parameter.copy_(torch.from_numpy(gguf.quants.dequantize(blocks, kind)))


def write_gguf(path, architecture, model, quantised):
    writer = gguf.GGUFWriter(path, architecture)
    write_gguf_metadata(writer, architecture, model.config)
    names = gguf.get_tensor_name_map(next(arch for arch, name in gguf.MODEL_ARCH_NAMES.items() if name == architecture),
                                     model.config.num_hidden_layers)
    for name, parameter in model.named_parameters():
        data = np.ascontiguousarray(convert_tensor(architecture, model.config, name, parameter.detach().numpy()))
        gguf_name = names.get_name(name, try_suffixes=(".weight", ".bias"))
        if quantised and data.ndim > 1:
            kind = gguf.GGMLQuantizationType.Q8_0
            writer.add_tensor(gguf_name, gguf.quants.quantize(data, kind), raw_dtype=kind)
        else:
            writer.add_tensor(gguf_name, data)
    if architecture == "llama" and model.config.rope_parameters["rope_type"] == "llama3":
        writer.add_tensor("rope_freqs.weight", llama3_divisors(model.config))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


# name: (general.architecture, model type and settings, whether matrices are Q8_0)
GGUF_VARIANTS = {
    "gguf_gpt2": ("gpt2", gpt2(), False),
    "gguf_gpt2_untied": ("gpt2", gpt2(tie_word_embeddings=False, layer_norm_epsilon=1e-3), False),
    "gguf_gptneox": ("gptneox", ("gpt_neox", dict(ROTARY, **rope("default", partial_rotary_factor=0.5))), False),
    "gguf_gptneox_sequential": ("gptneox", ("gpt_neox", dict(ROTARY, use_parallel_residual=False, layer_norm_eps=1e-3,
                                                            **rope("default", partial_rotary_factor=1.0))), False),
    "gguf_llama_biases": ("llama", llama(attention_bias=True, mlp_bias=True, head_dim=12, num_key_value_heads=1,
                                         rms_norm_eps=1e-3, **rope("default", 250.0)), False),
    "gguf_llama_llama3": ("llama", llama(head_dim=16, num_key_value_heads=1, tie_word_embeddings=True, **LLAMA3_ROPE),
                          False),
    "gguf_llama_yarn": ("llama", llama(head_dim=16, num_key_value_heads=1, tie_word_embeddings=True, **YARN_ROPE),
                        False),
    "gguf_llama_q8_0": ("llama", llama(hidden_size=32, intermediate_size=32, num_key_value_heads=1,
                                       tie_word_embeddings=True, **rope("linear", 700.0, factor=2.0)), True),
    "gguf_olmo": ("olmo", ("olmo", dict(GROUPED, clip_qkv=0.4, **rope("default", 300.0))), False),
    "gguf_olmo2": ("olmo2", ("olmo2", dict(GROUPED, rms_norm_eps=1e-3, tie_word_embeddings=True,
                                           **rope("default", 400.0))), False),
}


def check_reading_back(folder, golden):
    model = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32).eval()
    with torch.no_grad():
        difference = (model(golden["input_ids"]).logits - golden["logits"]).abs().max().item()
    assert difference < 1e-5, f"{folder.name}: read back, the logits differ by {difference}"


def make_folder(out, name):
    folder = out / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def make_variant(out, name):
    (model_type, settings), save, want_gradient = VARIANTS[name]
    folder = make_folder(out, name)
    model = make_model(model_type, settings, name)
    golden = compute_golden(model, draw_ids(name), want_gradient)
    save(folder, model)
    (folder / "generation_config.json").unlink(missing_ok=True)
    check_reading_back(folder, golden)
    save_file(golden, folder / "golden.safetensors")


def make_gguf_variant(out, name):
    architecture, (model_type, settings), quantised = GGUF_VARIANTS[name]
    folder = make_folder(out, name)
    model = make_model(model_type, settings, name)
    if quantised:
        quantise_matrices(model)
    golden = compute_golden(model, draw_ids(name), lambda _: False)
    write_gguf(folder / "model.gguf", architecture, model, quantised)
    save_file({key: golden[key] for key in ("input_ids", "logits", "loss")}, folder / "golden.safetensors")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("tests/data/variants"))
    out = parser.parse_args().out
    torch.set_num_threads(1)
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    for name in VARIANTS:
        make_variant(out, name)
    for name in GGUF_VARIANTS:
        make_gguf_variant(out, name)
    size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    print(f"{len(VARIANTS) + len(GGUF_VARIANTS)} folders, {size:,} bytes")


if __name__ == "__main__":
    main()
