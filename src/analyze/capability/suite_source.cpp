#include "analyze/capability/suite_source.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace openwork {
namespace {

constexpr int64_t kDocumentsPerPrompt = 16;  // looked at, at most: not every one has a word to ask for

void check_suite_tokens(std::span<const int32_t> tokens, int64_t vocabulary, const std::string& name) {
  for (const int32_t token : tokens) {
    if (token >= 0 && token < vocabulary) continue;
    fail_input(fmt::format("token id {}", token), name, "the tokenizer and the model do not belong together");
  }
}

}  // namespace

void read_suite_data(SuiteSource& source, const std::vector<std::string>& files, int32_t end_of_text,
                     const std::string& name) {
  if (files.empty()) return;
  if (!source.vocabulary.tokenizer)
    fail_input("the model has no tokenizer", name, "leave --data out: only copying can be tested");
  const Tokenizer& tokenizer = *source.vocabulary.tokenizer;
  const std::vector<std::filesystem::path> paths(files.begin(), files.end());
  source.blocks = read_blocks(paths, &tokenizer, end_of_text, source.context, source.prompts);
  check_suite_tokens(source.blocks.tokens, source.vocabulary.size, name);
  for_each_token_document(paths, &tokenizer, end_of_text, [&](TokenDocument&& document) {
    document.tokens.resize(
        std::min(document.tokens.size() - 1, static_cast<size_t>(source.context)));  // without its end
    check_suite_tokens(document.tokens, source.vocabulary.size, name);
    source.documents.push_back(std::move(document.tokens));
    return static_cast<int64_t>(source.documents.size()) < kDocumentsPerPrompt * source.prompts;
  });
}

}  // namespace openwork
