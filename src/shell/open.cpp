#include "shell/open.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <map>

#include "base/error.h"
#include "io/model_store.h"
#include "model/adapter.h"
#include "model/load.h"
#include "model/overflow.h"
#include "ops/gated_attention.h"

namespace openwork {
namespace {

std::map<std::string, const Transformer*> lent_models;  // by MODEL's name

const Transformer* find_lent(const std::string& name, const LoadOptions& wanted) {
  const auto lent = lent_models.find(name);
  if (lent == lent_models.end() || wanted.trainable) return nullptr;
  const Transformer& model = *lent->second;
  return model.device() == wanted.device && model.dtype() == wanted.dtype ? &model : nullptr;
}

}  // namespace

LentModel::LentModel(std::string name, const Transformer& model) : name_(std::move(name)) {
  lent_models[name_] = &model;
}

LentModel::~LentModel() {
  lent_models.erase(name_);
}

at::Device choose_device(const CommonOptions& options) {
  if (options.device == "cpu") return at::kCPU;
  const bool named = options.device.starts_with("cuda");
  if (!named && options.device != "auto") {
    fail_input(fmt::format("unknown device '{}'", printable(options.device)), "--device",
               "use auto, cpu, cuda or cuda:N");
  }
  load_cuda_operators();  // before torch is asked whether there is a GPU: it remembers its first answer
  const int64_t count = at::hasCUDA() ? static_cast<int64_t>(at::detail::getCUDAHooks().deviceCount()) : 0;
  if (!named) return count > 0 ? at::Device(at::kCUDA, 0) : at::Device(at::kCPU);
  const std::string index = options.device.size() > 5 ? options.device.substr(5) : "0";
  const bool digits =
      !index.empty() && index.size() < 4 && index.find_first_not_of("0123456789") == std::string::npos;
  if (!digits || (options.device.size() > 4 && options.device[4] != ':')) {
    fail_input(fmt::format("unknown device '{}'", printable(options.device)), "--device",
               "use auto, cpu, cuda or cuda:N");
  }
  if (std::stoll(index) >= count) {
    fail_input(fmt::format("device '{}' is not here ({} GPUs seen)", options.device, count), "--device",
               "use --device cpu, or a libtorch with CUDA on a machine with a GPU");
  }
  return {at::kCUDA, static_cast<c10::DeviceIndex>(std::stoi(index))};
}

at::ScalarType choose_dtype(const CommonOptions& options) {
  return options.dtype == "bf16" ? at::kBFloat16 : at::kFloat;
}

void check_models(const std::vector<std::string>& names, const std::string& prompts_by) {
  for (size_t n = 0; n < names.size(); ++n) {
    try {
      locate_model(names[n]);
    } catch (const Error&) {
      if (prompts_by.empty() || n == 0 || n + 1 < names.size()) throw;
      fail_input(fmt::format("'{}' is no model, and {} gives the prompts already", printable(names[n], 60),
                             prompts_by),
                 "command line", fmt::format("leave the prompt or {} out", prompts_by));
    }
  }
}

ModelConfig read_config_of(const std::string& name) {
  return load_config(locate_model(name).path);
}

Transformer open_model(const std::string& name, const CommonOptions& options, bool trainable) {
  refuse_overflow(true);
  const at::Device device = choose_device(options);
  const LoadOptions load{choose_dtype(options), device, trainable};
  if (const Transformer* lent = find_lent(name, load)) return *lent;
  const LocatedModel located = locate_model(name);
  return located.adapter ? load_adapted_model(located.path, *located.adapter, load)
                         : load_model(located.path, load);
}

std::vector<int64_t> beginning_tokens(const Tokenizer& tokenizer, const CommonOptions& options) {
  if (options.bos == "no") return {};
  if (options.bos == "auto") {
    const std::vector<int32_t> prefix = tokenizer.prefix();
    return {prefix.begin(), prefix.end()};
  }
  const std::optional<int32_t> id =
      tokenizer.beginning_id() ? tokenizer.beginning_id() : tokenizer.end_of_text_id();
  if (!id) fail_input("the tokenizer has no beginning token", "--bos yes", "use --bos no");
  return {*id};
}

int32_t end_of_text(const Tokenizer& tokenizer, const ModelConfig& config) {
  if (const auto id = tokenizer.end_of_text_id()) return *id;
  if (config.end_token) return static_cast<int32_t>(*config.end_token);
  fail_input("no token ends a text", "tokenizer",
             "use a model whose tokenizer has <|endoftext|> or an end token");
}

}  // namespace openwork
