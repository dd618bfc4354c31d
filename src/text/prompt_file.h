// Prompts people keep in files, and the ones that come with the program.
//   for (const std::string& prompt : read_prompt_file("prompts.txt")) ...
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace openwork {

// One prompt per line of a text file, or per line of JSONL ("text", "prompt" or "clean"); packed as .xz or
// .zst too (text/packed_text.h has the limit). Empty lines are passed over. Fails on invalid UTF-8 and where
// there is no prompt, naming file and line.
std::vector<std::string> read_prompt_file(const std::filesystem::path& path);

// The same file's lines as they stand, for those who read more than the prompt out of JSONL.
struct PromptFileLine {
  std::string text, where;  // "FILE line 3"
};
struct PromptFileLines {
  bool json = false;
  std::vector<PromptFileLine> lines;
};
PromptFileLines read_prompt_file_lines(const std::filesystem::path& path);

// Short English texts of different kinds (prose, dialogue, lists, repetition, numbers), written for this
// program.
const std::vector<std::string>& sample_prompts();

// The same as tokens behind `beginning`, each cut to `context` tokens. Fails on an id that a model of that
// vocabulary has not.
std::vector<std::vector<int32_t>> encode_sample_prompts(const Tokenizer& tokenizer,
                                                        const std::vector<int64_t>& beginning,
                                                        int64_t context, int64_t vocabulary);

}  // namespace openwork
