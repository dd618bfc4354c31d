// A GGUF file's tokenizer.ggml.* keys as the tokenizer.json they were made from. The file names its
// pre-tokeniser ("tokenizer.ggml.pre") where tokenizer.json has it written out; kPreTokenisers is the
// dictionary.
#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "text/pre_tokeniser.h"
#include "text/tokenizer_parts.h"

namespace openwork {
namespace {

using nlohmann::json;

constexpr std::string_view kGpt4Words =  // GPT-4's cl100k, with its numbers of up to three digits
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwenWords =  // the same with single digits
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kGpt4oWords =  // GPT-4o's o200k: capitals start words
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

enum class Words { kGpt2, kDigitsGpt2, kGpt4, kQwen, kGpt4o, kDefault };

struct KnownPreTokeniser {
  std::string_view name;
  Words words;
  bool composes = false;        // NFC first
  bool whole_words = false;     // "ignore_merges"
  bool adds_beginning = false;  // where the file does not say
};

constexpr std::array<KnownPreTokeniser, 26> kPreTokenisers = {{
    {"gpt-2", Words::kGpt2},
    {"phi-2", Words::kGpt2},
    {"jais", Words::kGpt2},
    {"gigachat", Words::kGpt2},
    {"olmo", Words::kGpt2, true},
    {"mpt", Words::kGpt2, true},
    {"smollm", Words::kDigitsGpt2},
    {"starcoder", Words::kDigitsGpt2},
    {"refact", Words::kDigitsGpt2},
    {"command-r", Words::kDigitsGpt2, true},
    {"codeshell", Words::kDigitsGpt2},
    {"exaone", Words::kDigitsGpt2},
    {"llama-bpe", Words::kGpt4, false, true, true},
    {"llama3", Words::kGpt4, false, true, true},
    {"llama-v3", Words::kGpt4, false, true, true},
    {"falcon3", Words::kGpt4, false, true, true},
    {"dbrx", Words::kGpt4},
    {"smaug-bpe", Words::kGpt4},
    {"dolma2", Words::kGpt4},
    {"gpt-4", Words::kGpt4},
    {"cl100k", Words::kGpt4},
    {"glm4", Words::kGpt4},
    {"qwen2", Words::kQwen, true},
    {"stablelm2", Words::kQwen},
    {"gpt-4o", Words::kGpt4o},
    {"default", Words::kDefault},
}};

const KnownPreTokeniser& find_pre_tokeniser(const json& metadata, const std::string& origin) {
  const json value = metadata.value("tokenizer.ggml.pre", json("default"));
  const std::string name = value.is_string() ? value.get<std::string>() : value.dump();
  for (const auto& known : kPreTokenisers)
    if (known.name == name) return known;
  fail_input(fmt::format("pre-tokeniser {} (tokenizer.ggml.pre) is not known", printable(name)), origin,
             "use the model's folder with its tokenizer.json instead");
}

json split_at(std::string_view pattern, const char* behaviour = "Isolated") {
  return {{"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", behaviour}, {"invert", false}};
}

json pre_tokenizer_of(Words words) {
  const bool gpt2 = words == Words::kGpt2 || words == Words::kDigitsGpt2;
  const json bytes = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", gpt2}};
  json parts = json::array();
  switch (words) {
    case Words::kGpt2:
      return bytes;
    case Words::kDigitsGpt2:
      parts = {{{"type", "Digits"}, {"individual_digits", true}}, bytes};
      break;
    case Words::kGpt4:
      parts = {split_at(kGpt4Words), bytes};
      break;
    case Words::kQwen:
      parts = {split_at(kQwenWords), bytes};
      break;
    case Words::kGpt4o:
      parts = {split_at(kGpt4oWords), bytes};
      break;
    case Words::kDefault:
      parts = {split_at(R"([\p{P}\$\+<=>\^~\|]+)"), split_at(kGpt2Words), split_at(R"(\p{N}+)"),
               split_at("[0-9][0-9][0-9]"), bytes};
      break;
  }
  return {{"type", "Sequence"}, {"pretokenizers", parts}};
}

const json& list_of(const json& metadata, const char* key, const std::string& origin) {
  const auto it = metadata.find(key);
  if (it == metadata.end() || !it->is_array())
    fail_input(fmt::format("{} is missing or is not a list", key), origin,
               "use a GGUF file with its tokenizer");
  return *it;
}

json vocabulary_of(const json& tokens, const std::string& origin) {
  json vocabulary = json::object();
  for (size_t id = 0; id < tokens.size(); ++id) {
    if (!tokens[id].is_string())
      fail_input(fmt::format("token {} is not text", id), origin, "check the GGUF file");
    vocabulary[tokens[id].get<std::string>()] = id;
  }
  return vocabulary;
}

// Control tokens (type 3) are special; user-defined ones (type 4) are found in text but are ordinary words.
json added_tokens_of(const json& metadata, const json& tokens, bool composes, const std::string& origin) {
  constexpr int kControl = 3, kUserDefined = 4;
  json added = json::array();
  if (!metadata.contains("tokenizer.ggml.token_type")) return added;
  const json& types = list_of(metadata, "tokenizer.ggml.token_type", origin);
  if (types.size() != tokens.size())
    fail_input(fmt::format("{} token types for {} tokens", types.size(), tokens.size()), origin,
               "check the GGUF file");
  for (size_t id = 0; id < tokens.size(); ++id) {
    if (types[id] != kControl && types[id] != kUserDefined) continue;
    const bool special = types[id] == kControl;
    added.push_back({{"content", tokens[id]}, {"special", special}, {"normalized", composes && !special}});
  }
  return added;
}

std::optional<int32_t> id_at(const json& metadata, const char* key, size_t size) {
  const auto it = metadata.find(key);
  if (it == metadata.end() || !it->is_number_integer()) return std::nullopt;
  const auto id = it->get<int64_t>();
  if (id < 0 || id >= static_cast<int64_t>(size)) return std::nullopt;
  return static_cast<int32_t>(id);
}

bool adds_beginning(const json& metadata, const std::string& origin) {
  const json said = metadata.value("tokenizer.ggml.add_bos_token", json());
  return said.is_boolean() ? said.get<bool>() : find_pre_tokeniser(metadata, origin).adds_beginning;
}

}  // namespace

json tokenizer_json_of_gguf(const json& metadata, const std::string& origin) {
  const json kind = metadata.is_object() ? metadata.value("tokenizer.ggml.model", json()) : json();
  if (kind != "gpt2")
    fail_input(fmt::format("tokenizer.ggml.model is {}, not byte-level BPE (\"gpt2\")",
                           printable(kind.dump(-1, ' ', true))),
               origin, "use a model with a byte-level BPE tokenizer");
  const KnownPreTokeniser& known = find_pre_tokeniser(metadata, origin);
  const json& tokens = list_of(metadata, "tokenizer.ggml.tokens", origin);
  return {{"version", "1.0"},
          {"added_tokens", added_tokens_of(metadata, tokens, known.composes, origin)},
          {"normalizer", known.composes ? json{{"type", "NFC"}} : json()},
          {"pre_tokenizer", pre_tokenizer_of(known.words)},
          {"decoder", {{"type", "ByteLevel"}}},
          {"model",
           {{"type", "BPE"},
            {"ignore_merges", known.whole_words},
            {"vocab", vocabulary_of(tokens, origin)},
            {"merges", list_of(metadata, "tokenizer.ggml.merges", origin)}}}};
}

json tokenizer_config_of_gguf(const json& metadata, const std::string& origin) {
  const json& tokens = list_of(metadata, "tokenizer.ggml.tokens", origin);
  json config = {{"add_bos_token", adds_beginning(metadata, origin)}};
  const auto name_token = [&](const char* to, const char* key) {
    if (const auto id = id_at(metadata, key, tokens.size())) config[to] = tokens[static_cast<size_t>(*id)];
  };
  name_token("bos_token", "tokenizer.ggml.bos_token_id");
  name_token("eos_token", "tokenizer.ggml.eos_token_id");
  if (const auto it = metadata.find("tokenizer.chat_template"); it != metadata.end())
    config["chat_template"] = *it;
  return config;
}

TokenizerParts read_tokenizer_gguf(const json& metadata, const std::string& origin) {
  TokenizerParts parts = read_tokenizer_json(tokenizer_json_of_gguf(metadata, origin), origin);
  parts.beginning = id_at(metadata, "tokenizer.ggml.bos_token_id", parts.pieces.size());
  parts.end = id_at(metadata, "tokenizer.ggml.eos_token_id", parts.pieces.size());
  if (parts.beginning && adds_beginning(metadata, origin)) parts.prefix = {*parts.beginning};
  if (metadata.value("tokenizer.ggml.add_eos_token", json()) == true && parts.end)
    parts.suffix = {*parts.end};
  return parts;
}

}  // namespace openwork
