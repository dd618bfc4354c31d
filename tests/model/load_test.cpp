// Opening models: names and layouts files may have, and what is refused with which message.
#include "model/load.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <limits>
#include <optional>

#include "base/error.h"
#include "golden.h"
#include "io/atomic_file.h"
#include "io/json.h"
#include "io/safetensors.h"
#include "io/test_files.h"
#include "model/adapter_config.h"
#include "model/architecture.h"

namespace openwork {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

// A copy of a fixture whose configuration and tensors a test may change before opening it.
class EditedModel {
 public:
  explicit EditedModel(const std::string& fixture, const std::string& weights = "model.safetensors")
      : folder_(fs::temp_directory_path() / fmt::format("openwork-load-{}-{}", getpid(), counter_++)) {
    fs::create_directories(folder_);
    config = read_json_file(fs::path("tests/data") / fixture / "config.json");
    for (auto& [name, tensor] : read_golden(fs::path("tests/data") / fixture / weights))
      tensors[name] = tensor.to(at::kFloat);
  }
  ~EditedModel() { fs::remove_all(folder_); }

  fs::path save() const {
    write_text_file(folder_ / "config.json", config.dump());
    std::vector<OutputTensor> outputs;
    for (const auto& [name, tensor] : tensors) {
      outputs.push_back({.name = name,
                         .dtype = DType::kF32,
                         .shape = tensor.sizes().vec(),
                         .bytes = {static_cast<const std::byte*>(tensor.data_ptr()), tensor.nbytes()}});
    }
    write_safetensors(folder_ / "model.safetensors", std::move(outputs));
    return folder_;
  }

  std::string refusal() const {
    try {
      load_model(save());
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_code(), 2);
      return error.what();
    }
    return "it was opened";
  }

  nlohmann::json config;
  std::map<std::string, at::Tensor> tensors;

 private:
  static inline int counter_ = 0;
  fs::path folder_;
};

Tensor logits_of(const fs::path& path, const Tensor& ids) {
  const at::NoGradGuard no_grad;
  return load_model(path).forward(ids).to(at::kDouble);
}

TEST(LoadModel, RefusesAMissingTensor) {
  EditedModel model("gpt2");
  model.tensors.erase("transformer.h.1.ln_2.weight");
  EXPECT_THAT(model.refusal(), HasSubstr("transformer.h.1.ln_2.weight"));
}

TEST(LoadModel, RefusesATensorTooMany) {
  EditedModel model("llama");
  model.tensors["model.layers.0.self_attn.surprise"] = at::ones({3});
  EXPECT_THAT(model.refusal(), HasSubstr("unexpected tensor 'model.layers.0.self_attn.surprise'"));
}

TEST(LoadModel, RefusesAWrongShape) {
  EditedModel model("olmo");
  model.tensors["model.layers.2.mlp.up_proj.weight"] = at::ones({80, 31});
  EXPECT_THAT(model.refusal(), HasSubstr("has shape [80, 31], wanted [80, 32]"));
}

// A GGUF file with one tensor's dimensions, innermost first, replaced.
std::string with_dimensions(std::string file, const std::string& tensor, const std::vector<uint64_t>& sizes) {
  const auto named = [](const std::string& name) { return pack<uint64_t>(name.size()) + name; };
  std::string dimensions = pack(static_cast<uint32_t>(sizes.size()));
  for (const uint64_t size : sizes) dimensions += pack(size);
  const size_t place = file.find(named(tensor)) + named(tensor).size();
  const size_t replaced = 4 + 8 * static_cast<size_t>(file[place]);
  file.replace(place, replaced, dimensions);
  // The numbers stay where they are: the name of a tensor that is read later grows by what was taken out.
  const std::string later = "blk.1.ffn_up.weight",
                    longer = later + std::string(replaced - dimensions.size(), '_');
  return file.replace(file.find(named(later)), named(later).size(), named(longer));
}

TEST(LoadModel, RefusesAWrongShapeInAGgufFileBeforeItIsRearranged) {
  struct Case {
    const char *fixture, *tensor;
    std::vector<uint64_t> sizes;
    const char* message;
  };
  const std::vector<Case> cases = {
      {"llama_llama3", "blk.0.attn_q.weight", {}, "has shape [], wanted [32, 16]"},
      {"llama_llama3", "blk.0.attn_q.weight", {170, 3}, "has shape [3, 170], wanted [32, 16]"},
      {"llama_llama3", "blk.1.attn_k.weight", {16}, "has shape [16], wanted [16, 16]"},
      {"llama_biases", "blk.0.attn_q.bias", {}, "has shape [], wanted [24]"},
      {"olmo", "blk.0.attn_k.weight", {}, "has shape [], wanted"},
      {"gpt2", "blk.0.attn_qkv.weight", {}, "has shape [], wanted [48, 16]"},
      {"gpt2", "blk.0.ffn_up.weight", {20, 16}, "has shape [16, 20], wanted [20, 16]"},
      {"gpt2", "blk.0.attn_qkv.bias", {}, "has shape [], wanted [48]"},
      {"gptneox", "blk.0.attn_qkv.weight", {}, "has shape [], wanted [48, 16]"},
      {"gptneox", "blk.0.attn_qkv.weight", {16, 47}, "has shape [47, 16], wanted [48, 16]"},
      {"gptneox", "blk.0.attn_qkv.bias", {}, "has shape [], wanted [48]"},
  };
  const TestFolder folder;
  for (const auto& [fixture, tensor, sizes, message] : cases) {
    const std::string whole = read_whole(fmt::format("tests/data/variants/gguf_{}/model.gguf", fixture));
    const fs::path file = folder.write("wrong.gguf", with_dimensions(whole, tensor, sizes));
    expect_bad_input(fmt::format("tensor '{}' {}", tensor, message), [&] { load_model(file); });
    expect_bad_input("wrong.gguf", [&] { load_model(file); });
  }
}

TEST(LoadModel, RefusesAGgufLlamaThatTurnsAPartOfItsHeads) {
  const TestFolder folder;
  std::string file = read_whole("tests/data/variants/gguf_llama_llama3/model.gguf");
  const std::string key = "llama.rope.dimension_count";
  const size_t value = file.find(key) + key.size() + 4;  // behind its type
  const auto size =
      static_cast<uint32_t>(load_config("tests/data/variants/gguf_llama_llama3/model.gguf").head_size);
  ASSERT_EQ(file.substr(value, 4), pack(size));
  const fs::path path = folder.write("part.gguf", file.replace(value, 4, pack(size / 2)));
  expect_bad_input(fmt::format("{} is {}, wanted {}", key, size / 2, size), [&] { load_model(path); });
}

TEST(LoadModel, RefusesAWrongShapeUnderTransformerLensNames) {
  const std::vector<std::tuple<const char*, std::vector<int64_t>, const char*>> cases = {
      {"blocks.0.attn.W_Q", {}, "has shape [], wanted [4, 32, 8]"},
      {"blocks.1.attn.W_K", {32, 32}, "has shape [32, 32], wanted [4, 32, 8]"},
      {"blocks.0.attn.W_V", {8, 32, 4}, "has shape [8, 32, 4], wanted [4, 32, 8]"},
      {"blocks.0.attn.b_Q", {3}, "has shape [3], wanted [4, 8]"},
      {"blocks.2.attn.W_O", {32}, "has shape [32], wanted [4, 8, 32]"},
      {"blocks.0.mlp.W_in", {2, 3, 4}, "has shape [2, 3, 4], wanted [32, 128]"},
      {"blocks.0.mlp.W_out", {32, 128}, "has shape [32, 128], wanted [128, 32]"},
      {"unembed.W_U", {}, "has shape [], wanted [32, 128]"},
      {"unembed.b_U", {5}, "has shape [5], wanted [128]"},
      {"embed.W_E", {}, "has shape [], wanted [97, 32]"},
      {"embed.W_E", {0, 32}, "has shape [0, 32], wanted [97, 32]"},
  };
  for (const auto& [tensor, shape, message] : cases) {
    EditedModel model("sparse_gpt2_published", "final.pth");
    model.tensors[tensor] = at::ones(shape);
    EXPECT_THAT(model.refusal(), HasSubstr(fmt::format("tensor '{}' {}", tensor, message)));
  }
}

TEST(LoadModel, RefusesNumbersThatAreNotFinite) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    EditedModel model("olmo2");
    model.tensors["model.norm.weight"][7] = bad;
    EXPECT_THAT(model.refusal(), HasSubstr("tensor 'model.norm.weight' holds numbers that are not finite"));
  }
}

TEST(LoadModel, RefusesAnUnknownArchitecture) {
  EditedModel model("gpt2");
  model.config["model_type"] = "mamba";
  EXPECT_THAT(model.refusal(), HasSubstr("unknown architecture 'mamba'"));
  model.config.erase("model_type");
  EXPECT_THAT(model.refusal(), HasSubstr("model_type is missing"));
}

TEST(LoadModel, RefusesSenselessConfigurations) {
  const std::vector<std::tuple<const char*, nlohmann::json, const char*>> cases = {
      {"num_hidden_layers", -1, "num_hidden_layers is -1"},
      {"num_attention_heads", "four", "num_attention_heads is \"four\""},
      {"num_key_value_heads", 3, "number of heads is 4"},
      {"vocab_size", nullptr, "vocab_size is missing"},
      {"hidden_act", "mish", "hidden_act is 'mish'"},
      {"rope_parameters", {{"rope_type", "spiral"}}, "rope_type is 'spiral'"},
      {"rms_norm_eps", "tiny", "rms_norm_eps is \"tiny\""},
      {"rms_norm_eps", -0.001, "rms_norm_eps is -0.001"},
      {"attention_gate", {{"kind", "maybe"}}, "unknown gate 'maybe'"},
      {"head_dim", 7, "rotary size is 7"},
      {"partial_rotary_factor", 0.5, "partial_rotary_factor is 0.5, wanted 1"},
      {"rope_parameters", {{"partial_rotary_factor", 0.5}}, "partial_rotary_factor is 0.5, wanted 1"},
  };
  for (const auto& [key, value, message] : cases) {
    EditedModel model("llama");
    model.config[key] = value;
    EXPECT_THAT(model.refusal(), HasSubstr(message)) << key;
  }
}

TEST(LoadModel, TakesAGpt2WithoutPrefixAndWithItsMaskBuffers) {
  const Tensor ids = at::tensor({1, 2, 3}, at::kLong).unsqueeze(0);
  EditedModel model("gpt2");
  std::map<std::string, at::Tensor> renamed;
  for (const auto& [name, tensor] : model.tensors)
    renamed[name.substr(std::string("transformer.").size())] = tensor;
  renamed["h.0.attn.bias"] = at::ones({1, 1, 64, 64});
  model.tensors = renamed;
  expect_close(logits_of(model.save(), ids), logits_of("tests/data/gpt2", ids), "logits", 1e-6, 1e-6);
}

TEST(LoadModel, PassesOverTheUnembeddingOfATiedModel) {
  const Tensor ids = at::tensor({1, 2, 3}, at::kLong).unsqueeze(0);
  EditedModel model("gpt2");
  model.tensors["lm_head.weight"] = model.tensors.at("transformer.wte.weight");
  expect_close(logits_of(model.save(), ids), logits_of("tests/data/gpt2", ids), "logits", 1e-6, 1e-6);
  EXPECT_TRUE(load_model(model.save()).config().tied);
}

// As transformers has it: the file is right, whatever its configuration says.
TEST(LoadModel, AnUnembeddingUnlikeTheEmbeddingCountsThoughTheConfigurationSaysTied) {
  for (const char* fixture : {"gpt_neox", "olmo", "olmo2"}) {
    const auto golden = read_golden(fmt::format("tests/data/{}/golden.safetensors", fixture));
    EditedModel model(fixture);
    model.config["tie_word_embeddings"] = true;
    expect_close(logits_of(model.save(), golden.at("input_ids")), golden.at("logits"), fixture);
    EXPECT_FALSE(load_config(model.save()).tied);
  }
  EditedModel gpt2("gpt2"), untied("gpt2"), longer("gpt2");
  const Tensor ids = at::tensor({1, 2, 3}, at::kLong).unsqueeze(0);
  gpt2.tensors["lm_head.weight"] = untied.tensors["lm_head.weight"] = at::randn({97, 32});
  untied.config["tie_word_embeddings"] = false;
  expect_close(logits_of(gpt2.save(), ids), logits_of(untied.save(), ids), "logits", 1e-6, 1e-6);
  longer.tensors["lm_head.weight"] = at::ones({98, 32});
  EXPECT_THAT(longer.refusal(), HasSubstr("tensor 'lm_head.weight' has shape [98, 32], wanted [97, 32]"));
}

TEST(LoadModel, ReadsGateBiasesOfASparseModel) {
  EditedModel model("llama");
  model.config["attention_gate"] = {{"kind", "logprob"}, {"version", 1}};
  EXPECT_THAT(model.refusal(), HasSubstr("model.layers.0.self_attn.gate_bias"));
  for (int n = 0; n < 3; ++n)
    model.tensors[fmt::format("model.layers.{}.self_attn.gate_bias", n)] = at::full({4}, 1.5 + n);
  const Transformer opened = load_model(model.save());
  EXPECT_EQ(opened.config().gate, GateKind::kLogprob);
  EXPECT_EQ(opened.layer(2).gate_bias[3].item<float>(), 3.5f);
}

// An idle model with one number for all gates of a kind.
void put_gates(EditedModel& model, const char* kind, std::optional<float> bias, std::optional<float> idle) {
  model.config["attention_gate"] = {{"kind", kind}, {"version", 1}};
  for (int n = 0; n < 3; ++n) {
    const std::string attention = fmt::format("model.layers.{}.self_attn", n);
    if (bias) model.tensors[attention + ".gate_bias"] = at::full({4}, *bias);
    if (idle) model.tensors[attention + ".gate_idle"] = at::full({4}, *idle);
  }
}

TEST(LoadModel, RefusesIdleScoresThatDoNotFit) {
  constexpr const char* kName = "model.layers.0.self_attn.gate_idle";
  EditedModel without("llama"), beside("llama"), wrong("llama"), bad("llama");
  put_gates(without, "idle", 2, std::nullopt);
  EXPECT_THAT(without.refusal(), HasSubstr(kName));
  for (const char* kind : {"logprob", "score"}) {
    put_gates(beside, kind, 2, 1);
    EXPECT_THAT(beside.refusal(), HasSubstr(fmt::format("unexpected tensor '{}'", kName)));
  }
  put_gates(wrong, "idle", 2, 1);
  wrong.tensors[kName] = at::ones({5});
  EXPECT_THAT(wrong.refusal(), HasSubstr("has shape [5], wanted [4]"));
  put_gates(bad, "idle", 2, 1);
  bad.tensors[kName][2] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(bad.refusal(), HasSubstr(fmt::format("tensor '{}' holds what is not a number", kName)));
  put_gates(bad, "idle", std::numeric_limits<float>::infinity(), 1);
  EXPECT_THAT(bad.refusal(), HasSubstr("gate_bias' holds numbers that are not finite"));
}

TEST(LoadModel, AnIdleScoreOfMinusInfinityIsLogprobAndOfInfinityClosed) {
  const Tensor ids = at::randint(0, 97, {2, 23}, at::kLong);
  EditedModel logprob("llama"), same("llama"), closed("llama"), large("llama"), score("llama");
  put_gates(logprob, "logprob", 1.75, std::nullopt);
  put_gates(same, "idle", 1.75, -std::numeric_limits<float>::infinity());
  expect_close(logits_of(same.save(), ids), logits_of(logprob.save(), ids), "logits", 1e-6, 1e-6);
  put_gates(closed, "idle", 40, std::numeric_limits<float>::infinity());
  const Transformer model = load_model(closed.save());
  GateTotals totals;
  ForwardOptions options;
  options.gate_totals = &totals;
  model.forward(ids, options);
  for (const Tensor& active : totals.active) EXPECT_EQ(active.sum().item<int64_t>(), 0);
  put_gates(large, "idle", 30.25, 30);
  put_gates(score, "score", 0.25, std::nullopt);
  expect_close(logits_of(large.save(), ids), logits_of(score.save(), ids), "logits", 1e-3, 1e-3);
}

// A gate that no edge fails is no gate: the fast operator then equals dense attention.
TEST(LoadModel, AWideOpenGateGivesTheDenseModel) {
  const Tensor ids = at::randint(0, 97, {2, 23}, at::kLong);
  EditedModel model("llama");
  model.config["attention_gate"] = {{"kind", "logprob"}, {"version", 1}};
  for (int n = 0; n < 3; ++n)
    model.tensors[fmt::format("model.layers.{}.self_attn.gate_bias", n)] = at::full({4}, 1e4);
  expect_close(logits_of(model.save(), ids), logits_of("tests/data/llama", ids), "logits", 1e-5, 1e-5);
}

TEST(LoadModel, OpensInBfloat16) {
  const auto golden = read_golden("tests/data/llama/golden.safetensors");
  const at::NoGradGuard no_grad;
  const Transformer model = load_model("tests/data/llama", {.dtype = at::kBFloat16});
  EXPECT_EQ(model.dtype(), at::kBFloat16);
  const Tensor logits = model.forward(golden.at("input_ids")).to(at::kDouble);
  const double error = (logits - golden.at("logits")).abs().mean().item<double>();
  EXPECT_LT(error, 0.02 * golden.at("logits").abs().mean().item<double>());
}

TEST(LoadModel, ParametersThatAreTrainedMayBeWrittenTo) {
  const Transformer model = load_model("tests/data/gpt2", {.trainable = true});
  const at::NoGradGuard no_grad;
  for (const auto& [name, tensor] : model.parameters()) at::Tensor(tensor).add_(1.0);
}

TEST(LoadModel, WhatIsWrittenToAnOpenedModelStaysOutOfItsFile) {
  const EditedModel copy("gpt2");
  const fs::path file = copy.save() / "model.safetensors";
  const std::string before = read_whole(file);
  const Transformer model = load_model(file.parent_path());
  const at::NoGradGuard no_grad;
  const Tensor ids = at::tensor({1, 2, 3}, at::kLong).unsqueeze(0), logits = model.forward(ids).clone();
  for (const auto& [name, tensor] : model.parameters()) at::Tensor(tensor).mul_(1.5);
  EXPECT_GT((model.forward(ids) - logits).abs().max().item<double>(), 0.1);
  EXPECT_EQ(read_whole(file), before);
  expect_close(load_model(file.parent_path()).forward(ids), logits.to(at::kDouble), "logits", 0, 0);
}

// Which key fits which module is what peft 0.21's get_pattern_key says of the same.
TEST(AdapterConfig, HasRanksAndScalesOfSingleModules) {
  const AdapterConfig config = read_adapter_config(
      {{"r", 4},
       {"lora_alpha", 8},
       {"rank_pattern",
        {{"q_proj", 2}, {"^model.layers.1.self_attn.k_proj", 6}, {"layers\\.(0|2)\\.mlp\\.\\w+_proj", 8}}},
       {"alpha_pattern", {{"layers.1.self_attn.q_proj", 32}}}},
      "adapter_config.json");
  const std::vector<std::tuple<std::string, int64_t, double>> cases = {
      {"model.layers.0.self_attn.q_proj", 2, 4},
      {"model.layers.1.self_attn.q_proj", 2, 16},
      {"model.layers.11.self_attn.q_proj", 2, 4},
      {"model.layers.0.self_attn.xq_proj", 4, 2},
      {"model.layers.0.self_attn.k_proj", 4, 2},
      {"model.layers.1.self_attn.k_proj", 6, 8.0 / 6},
      {"model.layers.2.mlp.up_proj", 8, 1},
      {"model.layers.1.mlp.up_proj", 4, 2},
      {"q_proj", 2, 4}};
  for (const auto& [module, rank, scale] : cases) {
    EXPECT_EQ(config.rank_of(module), rank) << module;
    EXPECT_EQ(config.scale_of(module), scale) << module;
  }
  const AdapterConfig root = read_adapter_config(
      {{"r", 4}, {"lora_alpha", 8}, {"use_rslora", true}, {"rank_pattern", {{"v_proj", 16}}}}, "file");
  EXPECT_EQ(root.scale_of("h.0.v_proj"), 2);
  EXPECT_EQ(root.scale_of("h.0.k_proj"), 4);
}

TEST(AdapterConfig, RefusesWhatIsMoreThanLowRanks) {
  const auto read = [](const nlohmann::json& more) {
    nlohmann::json json = {{"r", 4}};
    json.update(more);
    read_adapter_config(json, "adapter_config.json");
  };
  for (const nlohmann::json& start : {nlohmann::json(true), nlohmann::json(false), nlohmann::json(),
                                      nlohmann::json("gaussian"), nlohmann::json("eva")})
    EXPECT_NO_THROW(read({{"init_lora_weights", start}, {"loftq_config", nlohmann::json::object()}}));
  for (const char* start : {"pissa", "pissa_niter_4", "olora", "corda", "loftq"}) {
    expect_bad_input(fmt::format("init_lora_weights is \"{}\"", start), [&] {
      read({{"init_lora_weights", start}});
    });
    expect_bad_input("convert the adapter to a plain LoRA", [&] { read({{"init_lora_weights", start}}); });
  }
  expect_bad_input("alora_invocation_tokens is [3]", [&] { read({{"alora_invocation_tokens", {3}}}); });
  expect_bad_input("use_dora is true", [&] { read({{"use_dora", true}}); });
  for (const std::string& key : {std::string("(q"), std::string("(a?){300}"), std::string("(?=q)q"),
                                 std::string("q_proj\\Z"), std::string(300, '+')})
    expect_bad_input("wanted a regular expression", [&] { read({{"rank_pattern", {{key, 2}}}}); });
  expect_bad_input("q_proj is 0", [&] { read({{"rank_pattern", {{"q_proj", 0}}}}); });
  expect_bad_input("alpha_pattern of 'q_proj' is null", [&] {
    read({{"alpha_pattern", {{"q_proj", nullptr}}}});
  });
}

TEST(Transformer, RefusesAPromptBeyondItsContext) {
  const Transformer model = load_model("tests/data/gpt2");
  EXPECT_THROW(model.forward(at::zeros({1, 65}, at::kLong)), Error);
}

}  // namespace
}  // namespace openwork
