// What the tests of src/text share: the small tokenizer (600 tokens, learned from data/held_out.txt), the
// shipped one, and the files that some checkouts have beside the project.
#pragma once
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "io/json.h"
#include "io/test_files.h"
#include "text/tokenizer.h"

namespace openwork {

inline nlohmann::json small_tokenizer_json() {
  return read_json_file("tests/data/text/small_tokenizer.json");
}

inline const Tokenizer& small_tokenizer() {
  static const Tokenizer instance = Tokenizer::from_json(small_tokenizer_json(), "small");
  return instance;
}

// The small tokenizer with some of its parts replaced; those of "model" one by one.
inline nlohmann::json changed_tokenizer(const nlohmann::json& changes) {
  nlohmann::json tokenizer = small_tokenizer_json();
  for (const auto& [part, value] : changes.items()) {
    if (part == "model") {
      tokenizer["model"].update(value);
    } else {
      tokenizer[part] = value;
    }
  }
  return tokenizer;
}

inline std::filesystem::path shared_file(const std::string& name) {
  return std::filesystem::path("../shared") / name;
}

#define SKIP_WITHOUT_SHARED(path)     \
  if (!std::filesystem::exists(path)) \
  GTEST_SKIP() << path << " is not there; this test needs the shared files"

using Ids = std::vector<int32_t>;

}  // namespace openwork
