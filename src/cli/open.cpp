#include "cli/open.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <filesystem>

#include "base/error.h"
#include "io/json.h"
#include "io/model_store.h"
#include "model/adapter.h"
#include "model/load.h"
#include "ops/gated_attention.h"

namespace openwork {
namespace {

namespace fs = std::filesystem;

bool has_tokenizer(const fs::path& path) { return !fs::is_directory(path) || fs::exists(path / "tokenizer.json"); }

void check_ids(const std::vector<int64_t>& ids, const ModelConfig& config) {
  if (ids.empty()) fail_input("the prompt is empty", "prompt", "give at least one token");
  if (static_cast<int64_t>(ids.size()) > config.context) {
    fail_input(fmt::format("{} tokens, but the model's context is {}", ids.size(), config.context), "prompt",
               "use a shorter prompt");
  }
  for (const int64_t id : ids) {
    if (id >= 0 && id < config.vocabulary) continue;
    fail_input(fmt::format("token id {}", id), "prompt", fmt::format("ids are 0 to {}", config.vocabulary - 1));
  }
}

std::vector<std::vector<int64_t>> read_tokens_file(const std::string& path) {
  const nlohmann::json lists = read_json_file(path);
  const auto is_id = [](const nlohmann::json& id) { return id.is_number_integer(); };
  const auto is_prompt = [&](const nlohmann::json& list) { return list.is_array() && std::all_of(list.begin(), list.end(), is_id); };
  if (!lists.is_array() || lists.empty() || !std::all_of(lists.begin(), lists.end(), is_prompt)) {
    fail_input("not a list of lists of token ids", path, "write it like [[15, 27], [3, 9]]");
  }
  return lists.get<std::vector<std::vector<int64_t>>>();
}

}  // namespace

at::Device choose_device(const CommonOptions& options) {
  if (options.device == "cpu") return at::kCPU;
  const bool named = options.device.starts_with("cuda");
  if (!named && options.device != "auto") {
    fail_input(fmt::format("unknown device '{}'", printable(options.device)), "--device", "use auto, cpu, cuda or cuda:N");
  }
  load_cuda_operators();  // before torch is asked whether there is a GPU: it remembers its first answer
  const int64_t count = at::hasCUDA() ? static_cast<int64_t>(at::detail::getCUDAHooks().deviceCount()) : 0;
  if (!named) return count > 0 ? at::Device(at::kCUDA, 0) : at::Device(at::kCPU);
  const std::string index = options.device.size() > 5 ? options.device.substr(5) : "0";
  const bool digits = !index.empty() && index.size() < 4 && index.find_first_not_of("0123456789") == std::string::npos;
  if (!digits || (options.device.size() > 4 && options.device[4] != ':')) {
    fail_input(fmt::format("unknown device '{}'", printable(options.device)), "--device", "use auto, cpu, cuda or cuda:N");
  }
  if (std::stoll(index) >= count) {
    fail_input(fmt::format("device '{}' is not here ({} GPUs seen)", options.device, count), "--device",
               "use --device cpu, or a libtorch with CUDA on a machine with a GPU");
  }
  return {at::kCUDA, static_cast<c10::DeviceIndex>(std::stoi(index))};
}

at::ScalarType choose_dtype(const CommonOptions& options) { return options.dtype == "bf16" ? at::kBFloat16 : at::kFloat; }

void check_models(const std::vector<std::string>& names) {
  for (const std::string& name : names) locate_model(name);
}

Transformer open_model(const std::string& name, const CommonOptions& options, bool trainable) {
  const at::Device device = choose_device(options);
  const LocatedModel located = locate_model(name);
  const LoadOptions load{choose_dtype(options), device, trainable};
  return located.adapter ? load_adapted_model(located.path, *located.adapter, load) : load_model(located.path, load);
}

Tokenizer open_tokenizer(const std::string& name) {
  const LocatedModel located = locate_model(name);
  if (has_tokenizer(located.path)) return Tokenizer::from_file(located.path);
  const fs::path config = located.path / "config.json";
  if (fs::exists(config) && read_json_file(config).value("model_type", "") == "gpt2") {
    for (const char* id : {"gpt2", "openai-community/gpt2"}) {
      try {
        return Tokenizer::from_file(locate_model(id).path);
      } catch (const Error&) {
        continue;  // not on this machine; the next name
      }
    }
  }
  fail_input("the model has no tokenizer.json", located.path.string(),
             "put one there, run openwork fetch hf:openai-community/gpt2 for GPT-2's, or give --tokens");
}

std::vector<int64_t> beginning_tokens(const Tokenizer& tokenizer, const CommonOptions& options) {
  if (options.bos == "no") return {};
  if (options.bos == "auto") {
    const std::vector<int32_t> prefix = tokenizer.prefix();
    return {prefix.begin(), prefix.end()};
  }
  const std::optional<int32_t> id = tokenizer.beginning_id() ? tokenizer.beginning_id() : tokenizer.end_of_text_id();
  if (!id) fail_input("the tokenizer has no beginning token", "--bos yes", "use --bos no");
  return {*id};
}

int32_t end_of_text(const Tokenizer& tokenizer, const ModelConfig& config) {
  if (const auto id = tokenizer.end_of_text_id()) return *id;
  if (config.end_token) return static_cast<int32_t>(*config.end_token);
  fail_input("no token ends a text", "tokenizer", "use a model whose tokenizer has <|endoftext|> or an end token");
}

Prompts read_prompts(const std::string& model, const PromptOptions& prompt, const CommonOptions& options,
                     const ModelConfig& config) {
  const int given = static_cast<int>(prompt.has_text) + !prompt.tokens.empty() + !prompt.tokens_file.empty();
  if (given != 1) fail_input("exactly one prompt is needed", "command line", "give PROMPT, --tokens or --tokens-file");
  Prompts prompts;
  if (prompt.has_text) {
    prompts.tokenizer = open_tokenizer(model);
    std::vector<int64_t> ids = beginning_tokens(*prompts.tokenizer, options);
    const std::vector<int32_t> text = prompts.tokenizer->encode(prompt.text);
    ids.insert(ids.end(), text.begin(), text.end());
    prompts.ids.push_back(std::move(ids));
  } else {
    if (prompt.tokens.empty()) {
      prompts.ids = read_tokens_file(prompt.tokens_file);
    } else {
      prompts.ids.push_back(parse_id_list(prompt.tokens, "--tokens"));
    }
    try {
      prompts.tokenizer = open_tokenizer(model);
    } catch (const Error&) {
      prompts.tokenizer.reset();  // ids are shown without their text
    }
  }
  for (const auto& ids : prompts.ids) check_ids(ids, config);
  return prompts;
}

at::Tensor batch_of(const Prompts& prompts, const at::Device& device) {
  std::vector<at::Tensor> rows;
  for (const auto& ids : prompts.ids) {
    if (ids.size() != prompts.ids.front().size()) {
      fail_input(fmt::format("prompts of {} and {} tokens", prompts.ids.front().size(), ids.size()), "prompts",
                 "give prompts of equal length");
    }
    rows.push_back(at::tensor(ids, at::kLong));
  }
  return at::stack(rows).to(device);
}

}  // namespace openwork
