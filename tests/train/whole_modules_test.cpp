// Modules that are trained whole beside low ranks (--lora-full): what moves and by which gradients, how it is
// saved and opened, what it takes.
#include <ATen/Parallel.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <fstream>

#include "base/progress.h"
#include "io/json.h"
#include "model/adapter.h"
#include "model/adapter_config.h"
#include "model/golden.h"
#include "train/memory.h"
#include "train/run_fixture.h"

namespace openwork {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const LoraOptions kMixed{2, 4, {"all"}, {"attention"}};

at::Tensor few_ids() {
  return (at::arange(3 * 17, at::kLong) * 31 % 97).view({3, 17});
}

std::string refusal_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was refused";
}

class WholeModules : public testing::TestWithParam<const char*> {
 protected:
  std::string base() const { return std::string("tests/data/") + GetParam(); }
  TrainedWeights make(const std::optional<LoraOptions>& lora) const {
    const StartingPoint start = put_gates(load_model(base()), GateKind::kIdle, 3.0, 0.5);
    WeightOptions options;
    options.lora = lora;
    return TrainedWeights(start.config, start.parameters, options);
  }
};

TEST_P(WholeModules, HaveTheGradientsOfAllWeights) {
  const auto gradients = [&](const std::optional<LoraOptions>& lora) {
    TrainedWeights weights = make(lora);
    GateDraw draw;
    draw.seed = 11;
    const PassInputs inputs{few_ids(), draw, at::scalar_tensor(0.5, at::kDouble)};
    compute_pass_loss(weights.pass_model(), nullptr, inputs, {}).loss.backward();
    std::map<std::string, at::Tensor> found;
    for (const TrainedTensor& tensor : weights.tensors()) {
      if (tensor.leaf.grad().defined()) found[tensor.name] = tensor.leaf.grad().clone();
    }
    return found;
  };
  const auto all = gradients({}), mixed = gradients(kMixed);
  int whole = 0;
  for (const auto& [name, gradient] : mixed) {
    if (name.ends_with(".lora_A.weight")) {
      EXPECT_EQ(gradient.abs().max().item<double>(), 0) << name;  // B is zero at the start
      continue;
    }
    EXPECT_GT(gradient.abs().max().item<double>(), 0) << name;
    if (name.ends_with(".lora_B.weight")) continue;
    ++whole;
    EXPECT_THAT(name, HasSubstr("att")) << "only attention is trained whole";
    EXPECT_LE((gradient - all.at(name)).norm().item<double>(), 1e-5 * all.at(name).norm().item<double>())
        << name;
  }
  EXPECT_EQ(whole, static_cast<int>(find_full_parameters(make({}).config(), kMixed).size()));
}

TEST_P(WholeModules, OpenAsTheModelThatWasTrained) {
  const TestFolder folder;
  TrainedWeights weights = make(kMixed);
  const at::NoGradGuard no_grad;
  EXPECT_TRUE(at::equal(weights.pass_model().forward(few_ids()), make({}).pass_model().forward(few_ids())));
  at::manual_seed(1);
  for (const TrainedTensor& tensor : weights.tensors())
    weights.master(tensor).add_(0.05 * at::randn(tensor.shape));
  const at::Tensor wanted = weights.pass_model().forward(few_ids()).to(at::kDouble);
  save_adapter(folder / "adapter", weights.config(), kMixed, weights.export_adapter(), base());
  const Transformer again = load_adapted_model(base(), folder / "adapter");
  expect_close(again.forward(few_ids()), wanted, "logits", 1e-5, 1e-5);
  const Transformer merged(weights.config(), weights.export_parameters());
  expect_close(merged.forward(few_ids()), wanted, "merged logits", 1e-5, 1e-5);
  EXPECT_GT((make({}).pass_model().forward(few_ids()) - wanted).abs().max().item<double>(), 1e-3);

  // Whole tensors under the base's names, in the base's layout; biases too, which PEFT asks for.
  const auto file = open_weights(folder / "adapter/adapter_model.safetensors"), source = open_weights(base());
  for (const std::string& name : find_full_parameters(weights.config(), kMixed)) {
    const TensorEntry* found = file->find("base_model.model." + name);
    ASSERT_NE(found, nullptr) << name;
    EXPECT_EQ(found->shape, source->at(name).shape) << name;
  }
  save_adapter(folder / "half", weights.config(), kMixed, weights.export_adapter(), base(), at::kBFloat16);
  const auto half = open_weights(folder / "half/adapter_model.safetensors");
  for (const TensorEntry& entry : half->entries()) {
    const bool narrow = !entry.name.ends_with(".lora_A.weight") && !entry.name.ends_with(".lora_B.weight") &&
                        entry.name.find("gate_") == std::string::npos;
    EXPECT_EQ(entry.dtype, narrow ? DType::kBF16 : DType::kF32) << entry.name;
  }
  // Bit for bit, not by logits: an edge at its gate's threshold may fall to either side of what was rounded.
  const Transformer rounded = load_adapted_model(base(), folder / "half");
  const std::vector<std::string> full = find_full_parameters(weights.config(), kMixed);
  const NamedTensors trained = weights.export_parameters();
  for (size_t n = 0; n < trained.size(); ++n) {
    const auto& [name, tensor] = trained[n];
    const bool whole = std::find(full.begin(), full.end(), name) != full.end();
    const at::Tensor wanted_numbers = whole ? tensor.to(at::kBFloat16).to(at::kFloat) : tensor;
    EXPECT_TRUE(at::allclose(rounded.parameters()[n].second, wanted_numbers, 0, whole ? 0 : 1e-6)) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Architectures, WholeModules,
                         testing::Values("gpt2", "gpt_neox", "llama", "olmo", "olmo2"));

TEST(WholeModules, MoveFreelyWhileTheOthersMoveByLowRanksAndTheRestStays) {
  set_quiet(true);
  const TestFolder folder;
  TinyRun run(folder, kMixed);
  NamedTensors before = run.weights.export_parameters();  // views of what is trained
  for (auto& [name, tensor] : before) tensor = tensor.clone();
  run.run(tiny_options(folder / "out", 6));
  const NamedTensors after = run.weights.export_parameters();
  for (size_t n = 0; n < before.size(); ++n) {
    const std::string& name = before[n].first;
    const at::Tensor change = after[n].second - before[n].second;
    if (name.find("gate_") != std::string::npos) continue;
    const bool whole = name.find(".attn.c_") != std::string::npos, matrix = change.dim() == 2;
    const bool low = name.find(".mlp.") != std::string::npos && matrix;
    EXPECT_EQ(change.abs().max().item<double>() > 0, whole || low) << name;
    if (!matrix || !(whole || low)) continue;
    const at::Tensor sizes = std::get<1>(at::linalg_svd(change, false));
    const double third = sizes[2].item<double>() / sizes[0].item<double>();
    EXPECT_TRUE(whole ? third > 0.02 : third < 1e-3) << name << ": " << third;
  }
}

TEST(WholeModules, AreNamedAsPeftLooksForThem) {
  const auto names = [](const char* model, const LoraOptions& options) {
    const ModelConfig config = load_config(std::string("tests/data/") + model);
    return std::pair(name_for_peft(config, find_lora_targets(config, options)),
                     name_for_peft(config, find_full_parameters(config, options)));
  };
  const auto [low, whole] = names("gpt2", kMixed);
  EXPECT_THAT(low, ElementsAre("c_fc", "mlp.c_proj"));
  EXPECT_THAT(whole, ElementsAre("attn.c_proj", "c_attn"));
  EXPECT_THAT(names("llama", kMixed).second, ElementsAre("k_proj", "o_proj", "q_proj", "v_proj"));
  EXPECT_THAT(names("gpt_neox", kMixed).second, ElementsAre("dense", "query_key_value"));
  EXPECT_THAT(names("gpt2", {2, 2, {"all"}, {"mlp"}}).second, ElementsAre("c_fc", "mlp.c_proj"));
  // One layer alone: the ending is of no other, "1.attn.c_attn" would be layer 11's too.
  const auto [others, one] = names("gpt2", {2, 2, {"c_attn"}, {"transformer.h.1.attn.c_attn"}});
  EXPECT_THAT(one, ElementsAre("1.attn.c_attn"));
  ModelConfig deep = load_config("tests/data/gpt2");
  deep.layers = 12;
  EXPECT_THAT(name_for_peft(deep, find_full_parameters(deep, {2, 2, {"mlp"}, {"h.1.attn.c_attn"}})),
              ElementsAre("h.1.attn.c_attn"));
}

TEST(WholeModules, ThatMakeNoAdapterAreRefused) {
  const ModelConfig config = load_config("tests/data/gpt2");
  const auto refuse = [&](const LoraOptions& options) {
    return refusal_of([&] { find_lora_targets(config, options); });
  };
  EXPECT_THAT(refuse({2, 2, {"all"}, {"q_proj"}}), HasSubstr("no module is called 'q_proj'; --lora-full"));
  EXPECT_THAT(refuse({2, 2, {"all"}, {"all"}}), HasSubstr("no module is left for low ranks"));
  EXPECT_THAT(refuse({2, 2, {"c_attn"}, {"attention"}}), HasSubstr("no module is left for low ranks"));
  EXPECT_THAT(refuse({2, 2, {"all"}, {"ln_1"}}), HasSubstr("no module is called 'ln_1'"));
}

TEST(WholeModules, OfAnotherModelOrMissingAreRefused) {
  const TestFolder folder;
  TrainedWeights weights = TinyRun::make(kMixed, GateKind::kIdle);
  const auto save = [&](const std::string& name, const std::string& without) {
    NamedTensors tensors;
    for (const auto& [tensor_name, tensor] : weights.export_adapter()) {
      if (tensor_name != without) tensors.emplace_back(tensor_name, tensor);
    }
    save_adapter(folder / name, weights.config(), kMixed, tensors, "gpt2");
  };
  const auto open = [&](const std::string& base, const std::string& name) {
    return refusal_of([&] { load_adapted_model("tests/data/" + base, folder / name); });
  };
  save("whole", "");
  EXPECT_THAT(open("gpt2", "whole"), HasSubstr("nothing was refused"));
  EXPECT_THAT(open("llama", "whole"), HasSubstr("must belong together"));
  save("short", "transformer.h.1.attn.c_attn.bias");
  EXPECT_THAT(open("gpt2", "short"),
              HasSubstr("tensor 'base_model.model.transformer.h.1.attn.c_attn.bias' is missing"));
  const auto change_names = [&](const nlohmann::json& names) {
    nlohmann::json config = read_json_file(folder / "whole/adapter_config.json");
    config["modules_to_save"] = names;
    std::ofstream(folder / "whole/adapter_config.json") << config.dump();
  };
  change_names({"attn"});  // PEFT's users may name what is around them
  EXPECT_THAT(open("gpt2", "whole"), HasSubstr("nothing was refused"));
  change_names({"mlp"});
  EXPECT_THAT(open("gpt2", "whole"), HasSubstr("mlp.c_fc.weight' is missing"));
  change_names("c_attn");
  EXPECT_THAT(open("gpt2", "whole"), HasSubstr("modules_to_save is \"c_attn\", wanted a list"));
}

TEST(Memory, OfWholeModulesAndLowRanksIsSaidToTheByte) {
  for (const LoraOptions& lora : {LoraOptions{2, 4, {"all"}}, LoraOptions{2, 4, {"mlp"}}, kMixed}) {
    for (const auto dtype : {at::kFloat, at::kBFloat16}) {
      WeightOptions options;
      options.dtype = dtype, options.lora = lora;
      TrainedWeights weights = TinyRun::make(lora, GateKind::kScore, options);
      const auto bytes = [](const Tensor& x) { return x.defined() ? static_cast<int64_t>(x.nbytes()) : 0; };
      int64_t wanted = bytes(weights.masters()) + bytes(weights.copies());
      for (const auto& [name, tensor] : weights.pass_model().parameters()) {
        if (name.find("gate_") != std::string::npos || (tensor.requires_grad() && tensor.is_leaf())) continue;
        wanted += bytes(tensor) * (tensor.requires_grad() ? 2 : 1);  // frozen, and the sum with B A
      }
      const MemoryNeed need = predict_memory(weights.config(), options, {}, 16);
      EXPECT_EQ(need.weights, wanted);
      EXPECT_EQ(need.gradients, bytes(weights.gradients()) + bytes(weights.copies()));
    }
  }
}

}  // namespace
}  // namespace openwork
