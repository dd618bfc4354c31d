// Tasks for tests: made-up ids for the tiny models, and the fixtures' copy prompts for openwork-8m.
#pragma once
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "analyze/circuits/task.h"

namespace openwork {

// Prompts of made-up ids, clean and corrupt unlike everywhere but at the first token, read at two places.
inline Task made_up_task(int64_t vocabulary, int64_t prompts = 3, int64_t tokens = 9) {
  Task task{.name = "made up"};
  for (int64_t p = 0; p < prompts; ++p) {
    TaskPrompt prompt;
    for (int64_t t = 0; t < tokens; ++t) {
      prompt.clean.push_back((7 * p + 31 * t + t * t) % vocabulary);
      prompt.corrupt.push_back(t == 0 ? prompt.clean[0] : (11 * p + 17 * t + 5) % vocabulary);
    }
    prompt.reads = {{tokens - 3, {p + 1}, {p + 9}}, {tokens - 2, {p + 20}, {p + 4}}};
    task.prompts.push_back(prompt);
  }
  return task;
}

inline nlohmann::json read_fixture(const std::string& name) {
  std::ifstream file("tests/data/" + name);
  return nlohmann::json::parse(file);
}

// The prompts of copy_heads.json, read at positions 25 to 49 as its note says.
inline Task fixture_copy_task(size_t prompts) {
  const nlohmann::json fixture = read_fixture("copy_heads.json");
  Task task{.name = "copy fixture", .half = 25};
  for (size_t p = 0; p < prompts; ++p) {
    TaskPrompt prompt{.clean = fixture["clean"][p], .corrupt = fixture["corrupt"][p]};
    for (int64_t i = 25; i < 50; ++i) {
      prompt.reads.push_back(
          {i, {prompt.clean[static_cast<size_t>(i + 1)]}, {prompt.corrupt[static_cast<size_t>(i - 24)]}});
    }
    task.prompts.push_back(prompt);
  }
  return task;
}

}  // namespace openwork
