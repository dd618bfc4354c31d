#include "text/tokenizer_files.h"

#include <nlohmann/json.hpp>
#include <string>

#include "io/atomic_file.h"
#include "io/mapped_file.h"
#include "io/safe_files.h"
#include "io/tensor_file.h"
#include "text/chat.h"
#include "text/tokenizer_parts.h"

namespace openwork {
namespace {

namespace fs = std::filesystem;

void copy_if_there(const fs::path& from, const fs::path& to) {
  std::error_code ignored;
  if (!fs::is_regular_file(from, ignored) || fs::equivalent(from, to, ignored)) return;
  write_text_file(to, MappedFile(from).text());
}

void write_json(const fs::path& path, const nlohmann::json& value) {
  write_text_file(path, value.dump() + "\n");
}

void write_gguf_tokenizer(const fs::path& file, const fs::path& folder) {
  const auto weights = open_weights(file);
  const nlohmann::json& metadata = weights->metadata();
  if (!metadata.is_object() || !metadata.contains("tokenizer.ggml.tokens")) return;
  const std::string origin = file.string();
  write_json(folder / "tokenizer.json", tokenizer_json_of_gguf(metadata, origin));
  write_json(folder / "tokenizer_config.json", tokenizer_config_of_gguf(metadata, origin));
  const auto ends = read_end_tokens(file, Tokenizer::from_gguf_metadata(metadata, origin));
  if (!ends.empty()) write_json(folder / "generation_config.json", {{"eos_token_id", ends}});
}

}  // namespace

fs::path tokenizer_place(const fs::path& model) {
  std::error_code ignored;
  const bool listing = model.string().ends_with(".index.json");  // of weights in several files
  if (fs::is_directory(model, ignored) || (model.extension() == ".json" && !listing) ||
      !find_tokenizer_gguf(model).empty())
    return model;
  return model.has_parent_path() ? model.parent_path() : ".";
}

void copy_tokenizer(const fs::path& model, const fs::path& folder) {
  const fs::path from = tokenizer_place(model);
  std::error_code ignored;
  make_folder(folder);
  if (const fs::path gguf = find_tokenizer_gguf(from); !gguf.empty()) {
    write_gguf_tokenizer(gguf, folder);
  } else if (fs::is_directory(from, ignored)) {
    for (const char* name : {"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json",
                             "vocab.json", "merges.txt", "chat_template.jinja", "generation_config.json"}) {
      copy_if_there(from / name, folder / name);
    }
  } else if (from.extension() == ".json") {
    copy_if_there(from, folder / "tokenizer.json");
  }
}

}  // namespace openwork
