#include "shell/open_tokenizer.h"

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "io/json.h"
#include "io/model_store.h"
#include "text/tokenizer_parts.h"

namespace openwork {
namespace {

namespace fs = std::filesystem;

bool is_gguf(const fs::path& path) {
  char magic[4] = {};
  return std::ifstream(path, std::ios::binary).read(magic, 4) && std::string_view(magic, 4) == "GGUF";
}

// Where a model's tokenizer is looked for: in itself, or, of a file that holds weights alone, in its folder.
fs::path tokenizer_place(const fs::path& path) {
  if (fs::is_directory(path) || path.extension() == ".json" || is_gguf(path)) return path;
  return path.has_parent_path() ? path.parent_path() : ".";
}

bool has_tokenizer(const fs::path& place) {
  return !fs::is_directory(place) || fs::exists(place / "tokenizer.json") ||
         has_vocabulary_and_merges(place) || !find_tokenizer_gguf(place).empty();
}

}  // namespace

Tokenizer open_tokenizer(const std::string& name) {
  const LocatedModel located = locate_model(name);
  const fs::path place = tokenizer_place(located.path);
  if (has_tokenizer(place)) return Tokenizer::from_file(place);
  const fs::path config = place / "config.json";
  if (fs::exists(config) && read_json_file(config).value("model_type", "") == "gpt2") {
    for (const char* id : {"gpt2", "openai-community/gpt2"}) {
      try {
        return Tokenizer::from_file(locate_model(id).path);
      } catch (const Error&) {
        continue;  // not on this machine; the next name
      }
    }
  }
  fail_input("the model has no tokenizer.json", place.string(),
             "put one there, run openwork fetch hf:openai-community/gpt2 for GPT-2's, or, where a verb takes "
             "them, give --tokens");
}

std::optional<Tokenizer> find_tokenizer(const std::string& name) {
  try {
    return open_tokenizer(name);
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace openwork
