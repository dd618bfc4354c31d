// Retrieving a key from far back: four things and their colours, then prose of the program's own, then "The box
// is". Right where the box's colour is likelier than the three others. The colour stands exactly `distance` tokens
// before the one that is to be said.
#include <fmt/format.h>

#include "analyze/capability/suite_tests.h"
#include "analyze/circuits/task_parts.h"
#include "text/prompt_file.h"

namespace openwork {
namespace {

constexpr size_t kPairs = 4;
const std::vector<std::string> kThings = {"box",  "door",  "ball",  "book",  "cup",  "hat",  "car",
                                          "boat", "coat",  "chair", "table", "ship", "flag", "ring",
                                          "wall", "house", "bag",   "horse", "bird", "tree"};
const std::vector<std::string> kColours = {"red",    "blue", "green", "white",  "black",  "brown",
                                           "yellow", "grey", "pink",  "orange", "silver", "gold"};

using Ids = std::vector<int64_t>;

Ids encode_part(const Tokenizer& tokenizer, const std::string& text) {
  const std::vector<int32_t> ids = tokenizer.encode(text);
  return {ids.begin(), ids.end()};
}

// Prose that names no colour.
Ids make_filler(const Tokenizer& tokenizer) {
  std::string prose;
  for (const std::string& text : sample_prompts()) {
    const auto names = [&](const std::string& colour) { return text.find(colour) != std::string::npos; };
    if (std::none_of(kColours.begin(), kColours.end(), names)) prose += " " + text;
  }
  return encode_part(tokenizer, prose);
}

struct RetrievalWords {
  std::vector<std::string> things, colours;
  Ids filler;
};

SuitePrompt make_retrieval_prompt(const TaskVocabulary& vocabulary, const RetrievalWords& words,
                                  int64_t distance, size_t bin, TaskRandom& random) {
  const Tokenizer& tokenizer = *vocabulary.tokenizer;
  const std::vector<std::string> things = random.choose_different(words.things, kPairs),
                                 colours = random.choose_different(words.colours, kPairs);
  const size_t asked = random.below(kPairs);
  SuitePrompt prompt{.tokens = vocabulary.beginning};
  SuiteRead read{.bin = bin};
  int64_t said_at = 0;
  for (size_t n = 0; n < kPairs; ++n) {
    const Ids said = encode_part(tokenizer, fmt::format(" The {} is {}", things[n], colours[n])),
              stop = encode_part(tokenizer, ".");
    prompt.tokens.insert(prompt.tokens.end(), said.begin(), said.end());
    (n == asked ? read.answers : read.wrongs).push_back(said.back());
    if (n == asked) said_at = static_cast<int64_t>(prompt.tokens.size()) - 1;
    prompt.tokens.insert(prompt.tokens.end(), stop.begin(), stop.end());
  }
  const Ids question = encode_part(tokenizer, fmt::format(" The {} is", things[asked]));
  const size_t start = random.below(words.filler.size());
  const auto filled = static_cast<size_t>(said_at + distance) - question.size();
  for (size_t n = start; prompt.tokens.size() < filled; ++n)
    prompt.tokens.push_back(words.filler[n % words.filler.size()]);
  prompt.tokens.insert(prompt.tokens.end(), question.begin(), question.end());
  read.position = static_cast<int64_t>(prompt.tokens.size()) - 1;
  prompt.reads.push_back(std::move(read));
  return prompt;
}

}  // namespace

SuiteTest make_retrieval(const SuiteSource& source) {
  const TaskVocabulary& vocabulary = source.vocabulary;
  const Tokenizer& tokenizer = need_tokenizer(vocabulary, "retrieve");
  RetrievalWords words{single_token_words(tokenizer, kThings), single_token_words(tokenizer, kColours),
                       make_filler(tokenizer)};
  if (words.things.size() < kPairs || words.colours.size() < kPairs)
    refuse_tokenizer("retrieve", "too few things and colours are one token each");
  // All words are one token, so every sentence is as long as this one.
  const auto sentence = static_cast<int64_t>(
      encode_part(tokenizer, fmt::format(" The {} is {}", words.things[0], words.colours[0])).size() + 1);
  const auto pairs = static_cast<int64_t>(kPairs);
  int64_t nearest = 8;
  while (nearest < (pairs + 1) * sentence) nearest *= 2;  // the other sentences and the question fit between
  const int64_t longest =
      source.context - static_cast<int64_t>(vocabulary.beginning.size()) - pairs * sentence;
  if (longest < nearest)
    refuse_tokenizer("retrieve", fmt::format("a context of {} tokens is too short", source.context));
  SuiteTest test{.score = SuiteScore::kChoice, .chance = 1.0 / kPairs, .axis = "distance in tokens"};
  for (const int64_t distance : suite_distances(nearest, longest)) {
    TaskRandom random(mix_seed(mix_seed(source.seed, 102), static_cast<uint64_t>(distance)));
    for (int64_t n = 0; n < source.prompts; ++n)
      test.prompts.push_back(make_retrieval_prompt(vocabulary, words, distance, test.bins.size(), random));
    test.bins.push_back({fmt::format("{}", distance), static_cast<double>(distance)});
  }
  return test;
}

}  // namespace openwork
