// Finds and reads a tokenizer on disk: which file of a folder holds it, and the small configuration files
// beside it that name the beginning and end tokens.
#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "io/json.h"
#include "io/mapped_file.h"
#include "io/tensor_file.h"
#include "text/tokenizer_parts.h"

namespace openwork {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

bool is_gguf(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  char magic[4] = {};
  return file.read(magic, 4) && std::string_view(magic, 4) == "GGUF";
}

// A file beside the tokenizer, where it is there and is an object.
json read_beside(const fs::path& folder, const char* name) {
  if (!is_there(folder / name)) return json::object();
  json value = read_json_file(folder / name);
  return value.is_object() ? value : json::object();
}

// "bos_token": a token's text, or an object with its content.
std::optional<int32_t> named_token(const json& config, const char* name, const TokenizerParts& parts) {
  const auto it = config.find(name);
  if (it == config.end()) return std::nullopt;
  const json content = it->is_object() ? it->value("content", json()) : *it;
  if (!content.is_string()) return std::nullopt;
  const auto found = parts.ids.find(content.get<std::string>());
  if (found == parts.ids.end()) return std::nullopt;
  return found->second;
}

// "bos_token_id": a number or a list of them, of which the first counts.
std::optional<int32_t> numbered_token(const json& config, const char* name, const TokenizerParts& parts) {
  const auto it = config.find(name);
  if (it == config.end()) return std::nullopt;
  const json id = it->is_array() && !it->empty() ? it->front() : *it;
  if (!id.is_number_integer()) return std::nullopt;
  const auto value = id.get<int64_t>();
  if (value < 0 || value >= static_cast<int64_t>(parts.pieces.size())) return std::nullopt;
  return static_cast<int32_t>(value);
}

void read_configuration(const fs::path& folder, TokenizerParts& parts) {
  const json tokenizer = read_beside(folder, "tokenizer_config.json");
  const json model = read_beside(folder, "config.json");
  parts.beginning = named_token(tokenizer, "bos_token", parts);
  if (!parts.beginning) parts.beginning = numbered_token(model, "bos_token_id", parts);
  parts.end = named_token(tokenizer, "eos_token", parts);
  if (!parts.end) parts.end = numbered_token(model, "eos_token_id", parts);
  const bool adds_beginning = tokenizer.value("add_bos_token", json()) == true;
  if (adds_beginning && parts.prefix.empty() && parts.beginning) parts.prefix = {*parts.beginning};
}

// GPT-2's old layout as a tokenizer.json: vocab.json holds ids by token, merges.txt a merge per line.
TokenizerParts read_vocabulary_and_merges(const fs::path& folder) {
  const std::string origin = (folder / "vocab.json").string();
  json merges = json::array();
  const MappedFile file(folder / "merges.txt");
  std::string_view rest = file.text();
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!line.empty() && !line.starts_with("#version")) merges.push_back(std::string(line));
  }
  const json vocabulary = read_json_file(folder / "vocab.json");
  json added = json::array();
  if (vocabulary.is_object() && vocabulary.contains("<|endoftext|>"))
    added.push_back({{"content", "<|endoftext|>"}, {"special", true}});
  return read_tokenizer_json({{"added_tokens", added},
                              {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}},
                              {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", merges}}}},
                             origin);
}

TokenizerParts read_gguf(const fs::path& path) {
  return read_tokenizer_gguf(open_weights(path)->metadata(), path.string());
}

TokenizerParts read_folder(const fs::path& folder) {
  if (is_there(folder / "tokenizer.json"))
    return read_tokenizer_json(read_json_file(folder / "tokenizer.json"),
                               (folder / "tokenizer.json").string());
  if (has_vocabulary_and_merges(folder)) return read_vocabulary_and_merges(folder);
  if (const fs::path gguf = find_tokenizer_gguf(folder); !gguf.empty()) return read_gguf(gguf);
  fail_input("no tokenizer.json", folder.string(),
             "put the model's tokenizer.json there, or name another model");
}

}  // namespace

bool has_vocabulary_and_merges(const fs::path& folder) {
  return is_there(folder / "vocab.json") && is_there(folder / "merges.txt");
}

fs::path find_tokenizer_gguf(const fs::path& model) {
  std::error_code ignored;
  if (!fs::is_directory(model, ignored)) return is_gguf(model) ? model : fs::path();
  if (is_there(model / "tokenizer.json") || has_vocabulary_and_merges(model)) return {};
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(model, ignored))
    if (entry.path().extension() == ".gguf") found.push_back(entry.path());
  return found.size() == 1 ? found.front() : fs::path();
}

TokenizerParts read_tokenizer_file(const fs::path& path) {
  std::error_code ignored;
  if (!is_there(path))
    fail_input("no such file or folder", path.string(), "name a model folder or tokenizer.json");
  if (fs::is_directory(path, ignored)) {
    TokenizerParts parts = read_folder(path);
    if (!parts.beginning && !parts.end) read_configuration(path, parts);
    return parts;
  }
  if (is_gguf(path)) return read_gguf(path);
  return read_tokenizer_json(read_json_file(path), path.string());
}

}  // namespace openwork
