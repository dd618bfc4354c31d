// The first byte chooses. 'j': the rest is JSON whose members replace the small tokenizer's, which is then
// built and used, or refused in one line. Anything else: the rest is text for the shipped kind of tokenizer,
// which must give it back after encoding and decoding, or refuse it where it is not UTF-8.
#include <nlohmann/json.hpp>

#include "base/utf8.h"
#include "fuzz/fuzz_input.h"
#include "io/json.h"
#include "text/tokenizer.h"

namespace openwork {
namespace {

const nlohmann::json& small_json() {
  static const nlohmann::json instance = read_json_file("tests/data/text/small_tokenizer.json");
  return instance;
}

void try_text(std::string_view text) {
  static const Tokenizer tokenizer = Tokenizer::from_json(small_json(), "small");
  const auto ids = tokenizer.encode(text);
  if (find_invalid_utf8(text) != std::string_view::npos) std::abort();  // it should have been refused
  if (tokenizer.decode(ids) != text) std::abort();
  for (const int32_t id : ids)
    if (id < 0 || id >= tokenizer.size() || tokenizer.piece(id).empty()) std::abort();
}

void try_tokenizer(std::string_view text) {
  const nlohmann::json changes = parse_json(text, "input");
  nlohmann::json json = small_json();
  if (changes.is_object()) {
    for (const auto& [part, value] : changes.items()) {
      if (part == "model" && value.is_object()) {
        json["model"].update(value);
      } else {
        json[part] = value;
      }
    }
  }
  const Tokenizer tokenizer =
      changes.is_object() ? Tokenizer::from_json(json, "input") : Tokenizer::from_json(changes, "input");
  for (const char* sample : {"Hello  world's 123<|endoftext|> \n", "caf\xc3\xa9 e\xcc\x81\t\xe2\x80\x83x"})
    tokenizer.decode(tokenizer.encode(sample), true);
  Tokenizer::from_gguf_metadata(changes, "input");
}

}  // namespace
}  // namespace openwork

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace openwork;
  const std::string_view text = as_text(data, size);
  return expect_error_at_worst([&] {
    if (text.starts_with('j')) {
      try_tokenizer(text.substr(1));
    } else if (!text.empty()) {
      try_text(text.substr(1));
    }
  });
}
