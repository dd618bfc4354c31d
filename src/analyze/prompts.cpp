#include "analyze/prompts.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "io/json.h"
#include "io/sha256.h"
#include "text/packed_text.h"
#include "text/prompt_file.h"

namespace openwork {
namespace {

std::vector<std::vector<int64_t>> read_tokens_file(const std::string& path) {
  const nlohmann::json lists = parse_json(unpack_text(path), path);
  const auto is_id = [](const nlohmann::json& id) { return id.is_number_integer(); };
  const auto is_prompt = [&](const nlohmann::json& list) {
    return list.is_array() && std::all_of(list.begin(), list.end(), is_id);
  };
  if (!lists.is_array() || lists.empty() || !std::all_of(lists.begin(), lists.end(), is_prompt)) {
    fail_input("not a list of lists of token ids", path, "write it like [[15, 27], [3, 9]]");
  }
  return lists.get<std::vector<std::vector<int64_t>>>();
}

std::vector<int64_t> append_text(std::vector<int64_t> ids, const std::string& text,
                                 const Tokenizer& tokenizer) {
  const std::vector<int32_t> own = tokenizer.encode(text);
  ids.insert(ids.end(), own.begin(), own.end());
  return ids;
}

void check_ids(const std::vector<int64_t>& ids, const std::string& where, bool from_text,
               const ModelConfig& config) {
  if (ids.empty()) fail_input("the prompt is empty", where, "give at least one token");
  if (static_cast<int64_t>(ids.size()) > config.context) {
    fail_input(fmt::format("{} tokens, but the model's context is {}", ids.size(), config.context), where,
               "use a shorter prompt");
  }
  for (const int64_t id : ids) {
    if (id >= 0 && id < config.vocabulary) continue;
    fail_input(fmt::format("token id {}", id), where,
               from_text ? "the tokenizer and the model do not belong together"
                         : fmt::format("ids are 0 to {}", config.vocabulary - 1));
  }
}

}  // namespace

GivenPrompts give_text(const std::string& text) {
  return {.texts = {text}, .description = {{"prompt", text}}};
}

GivenPrompts give_file(const std::string& file) {
  GivenPrompts prompts;
  if (file == "sample") {
    prompts.texts = sample_prompts();
    prompts.description = {{"prompts", "sample"}, {"count", prompts.texts.size()}};
    return prompts;
  }
  prompts.texts = read_prompt_file(file);
  prompts.description = {{"prompts", std::filesystem::path(file).filename().string()},
                         {"sha256", sha256_of_file(file)},
                         {"count", prompts.texts.size()}};
  return prompts;
}

GivenPrompts give_tokens_file(const std::string& file) {
  return {.ids = read_tokens_file(file),
          .description = {{"tokens_file", std::filesystem::path(file).filename().string()}}};
}

std::vector<int64_t> encode_prompt(const std::string& text, const Tokenizer& tokenizer,
                                   const std::vector<int64_t>& beginning, const ModelConfig& config) {
  std::vector<int64_t> ids = append_text(beginning, text, tokenizer);
  check_ids(ids, "prompt", true, config);
  return ids;
}

TokenPrompts encode_prompts(const GivenPrompts& given, std::optional<Tokenizer> tokenizer,
                            std::vector<int64_t> beginning, const ModelConfig& config) {
  TokenPrompts made{given.ids, std::move(tokenizer), std::move(beginning)};
  for (const std::string& text : given.texts)
    made.ids.push_back(append_text(made.beginning, text, *made.tokenizer));
  for (size_t n = 0; n < made.ids.size(); ++n) {
    check_ids(made.ids[n], made.ids.size() == 1 ? "prompt" : fmt::format("prompt {}", n + 1),
              !given.texts.empty(), config);
  }
  return made;
}

std::string TokenPrompts::piece(int64_t id) const {
  if (!tokenizer || id >= tokenizer->size()) return "";
  return tokenizer->piece(static_cast<int32_t>(id));
}

std::vector<std::string> TokenPrompts::pieces() const {
  std::vector<std::string> texts;
  if (ids.size() != 1) return texts;  // of several prompts, no position has one token
  for (const int64_t id : ids.front()) {
    const bool known = tokenizer && id < tokenizer->size();
    texts.push_back(known ? piece(id) : std::to_string(id));
  }
  return texts;
}

at::Tensor batch_of(const TokenPrompts& prompts, const at::Device& device) {
  std::vector<at::Tensor> rows;
  for (const auto& ids : prompts.ids) {
    if (ids.size() != prompts.ids.front().size()) {
      fail_input(fmt::format("prompts of {} and {} tokens", prompts.ids.front().size(), ids.size()),
                 "prompts", "give prompts of equal length");
    }
    rows.push_back(at::tensor(ids, at::kLong));
  }
  return at::stack(rows).to(device);
}

}  // namespace openwork
