// Choosing files: repositories often hold the same weights in several forms, and one is enough.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "io/hub.h"
#include "io/tensor_file.h"

namespace openwork {
namespace {

constexpr std::array kSmallFiles = {"config.json",
                                    "generation_config.json",
                                    "tokenizer.json",
                                    "tokenizer_config.json",
                                    "special_tokens_map.json",
                                    "chat_template.jinja",
                                    "vocab.json",
                                    "merges.txt",
                                    "adapter_config.json"};
constexpr std::array kAdapterFiles = {"adapter_model.safetensors", "adapter_model.bin",
                                      "openwork_delta.safetensors"};
// An index, and the file that stands alone without one; safetensors before pickles.
constexpr std::array kWeightForms = {std::pair{"model.safetensors.index.json", "model.safetensors"},
                                     std::pair{"pytorch_model.bin.index.json", "pytorch_model.bin"}};

bool contains(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

template <size_t N>
std::vector<std::string> those_listed(const std::array<const char*, N>& wanted,
                                      const std::vector<std::string>& names) {
  std::vector<std::string> found;
  for (const char* name : wanted) {
    if (contains(names, name)) found.push_back(name);
  }
  return found;
}

std::vector<std::string> ending_in(std::string_view ending, const std::vector<std::string>& names) {
  std::vector<std::string> found;
  for (const std::string& name : names) {
    const bool excluded = is_trainer_state(name) ||
                          std::find(kAdapterFiles.begin(), kAdapterFiles.end(), name) != kAdapterFiles.end();
    if (name.find('/') == name.npos && name.ends_with(ending) && !excluded) found.push_back(name);
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::vector<std::string> choose_gguf(const std::vector<std::string>& names, const std::string& wanted,
                                     const std::string& origin) {
  const std::vector<std::string> found = ending_in(".gguf", names);
  if (!wanted.empty()) {
    if (contains(found, wanted)) return {wanted};
    fail_input(fmt::format("no GGUF file '{}'", printable(wanted)), origin,
               fmt::format("choose one of: {}", fmt::join(found, ", ")));
  }
  if (found.size() > 1) {
    fail_input(fmt::format("{} GGUF files and no other weights", found.size()), origin,
               fmt::format("choose one by --file: {}", fmt::join(found, ", ")));
  }
  return found;
}

// Safetensors or PyTorch weights into the plan; false where there are none.
bool plan_tensors(FilePlan& plan, const std::vector<std::string>& names) {
  for (size_t form = 0; form < kWeightForms.size(); ++form) {
    const auto [index, whole] = kWeightForms[form];
    if (contains(names, whole)) {
      plan.weights = {whole};
    } else if (contains(names, index)) {
      plan.index = index;
      plan.small.push_back(index);
    } else {
      plan.weights = form == 0 ? ending_in(".safetensors", names) : ending_in(".bin", names);
    }
    if (!plan.weights.empty() || !plan.index.empty()) return true;
  }
  plan.weights = ending_in(".pth", names);
  return !plan.weights.empty();
}

}  // namespace

FilePlan plan_files(const std::vector<std::string>& names, const std::string& wanted,
                    const std::string& origin) {
  FilePlan plan;
  plan.small = those_listed(kSmallFiles, names);
  plan.adapter = those_listed(kAdapterFiles, names);
  if (contains(plan.adapter, "adapter_model.safetensors")) std::erase(plan.adapter, "adapter_model.bin");
  const bool has_others = wanted.empty() && (plan_tensors(plan, names) || !plan.adapter.empty());
  if (!has_others) plan.weights = choose_gguf(names, wanted, origin);
  if (plan.weights.empty() && plan.index.empty() && plan.adapter.empty()) {
    fail_input("no weights that openwork reads (safetensors, .bin, .pth or .gguf)", origin,
               "check the name on the hub's page of the model");
  }
  return plan;
}

std::vector<std::string> read_shard_names(const std::string& index_text,
                                          const std::vector<std::string>& names, const std::string& origin) {
  const auto index = nlohmann::json::parse(index_text, nullptr, false);
  std::set<std::string> shards;
  if (index.is_object() && index.contains("weight_map") && index["weight_map"].is_object()) {
    for (const auto& [tensor, shard] : index["weight_map"].items()) {
      if (!shard.is_string())
        fail("a shard's name is not text", origin, "the repository is broken: tell its owner");
      shards.insert(shard.get<std::string>());
    }
  }
  if (shards.empty()) fail("the index lists no shards", origin, "the repository is broken: tell its owner");
  for (const std::string& shard : shards) {
    if (!contains(names, shard)) {
      fail(fmt::format("the index lists '{}', which the repository does not have", printable(shard)), origin,
           "the repository is broken: tell its owner");
    }
  }
  return {shards.begin(), shards.end()};
}

}  // namespace openwork
