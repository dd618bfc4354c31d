#include "shell/open_tokenizer.h"

#include <filesystem>

#include "base/error.h"
#include "io/json.h"
#include "io/model_store.h"
#include "text/tokenizer_files.h"
#include "text/tokenizer_parts.h"

namespace openwork {
namespace {

namespace fs = std::filesystem;

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
