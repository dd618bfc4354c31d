#include "text/train_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <unordered_map>

#include "base/error.h"
#include "base/parallel.h"
#include "base/progress.h"
#include "text/byte_alphabet.h"
#include "text/documents.h"
#include "text/pair_trainer.h"
#include "text/pre_tokeniser.h"

namespace openwork {
namespace {

using nlohmann::ordered_json;
using WordCounts = std::unordered_map<std::string, int64_t>;
constexpr size_t kBatchBytes = size_t{16} << 20;

nlohmann::json byte_level() {
  return {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}};
}

// Counts the words of documents on all threads; each has a table of its own until the end.
class WordCounter {
 public:
  WordCounter() : words_(byte_level(), "tokenizer training"), tables_(static_cast<size_t>(thread_count())) {}

  void add(std::string_view document) {
    batch_.emplace_back(document);
    bytes_ += document.size();
    if (bytes_ >= kBatchBytes) count();
  }

  // Sorted, so that nothing depends on the order of tables.
  std::map<std::string, int64_t> finish() {
    count();
    std::map<std::string, int64_t> all;
    for (const WordCounts& table : tables_) {
      for (const auto& [word, count] : table) all[word] += count;
    }
    return all;
  }

 private:
  void count() {
    parallel_for(tables_.size(), [&](size_t thread) {
      MatchScratch scratch;
      for (size_t n = thread; n < batch_.size(); n += tables_.size()) {
        words_.for_each_word(batch_[n], scratch,
                             [&](std::string_view word) { ++tables_[thread][std::string(word)]; });
      }
    });
    batch_.clear();
    bytes_ = 0;
  }

  PreTokeniser words_;
  std::vector<WordCounts> tables_;
  std::vector<std::string> batch_;
  size_t bytes_ = 0;
};

std::map<std::string, int64_t> count_words(const TokenizerTraining& training) {
  WordCounter counter;
  uint64_t bytes = 0;
  Progress progress("count words", 0, " MB");
  for_each_document(training.files, [&](std::string_view document) {
    if (training.leaves_out && training.leaves_out(document)) return true;
    counter.add(document);
    bytes += document.size();
    progress.set(bytes >> 20);
    return bytes < training.most_bytes;
  });
  if (bytes == 0)
    fail_input("no text to learn a tokenizer from",
               training.files.empty() ? "--data" : training.files.front().string(), "give more text");
  return counter.finish();
}

// The bytes as the alphabet's characters sort them, after <|endoftext|>, which no word has.
struct Alphabet {
  std::vector<std::string> pieces = {std::string()};
  std::array<int32_t, 256> ids{};

  Alphabet() {
    std::vector<std::pair<std::string, int>> written;
    for (int byte = 0; byte < 256; ++byte)
      written.emplace_back(written_byte(static_cast<uint8_t>(byte)), byte);
    std::sort(written.begin(), written.end());  // UTF-8 sorts as code points do
    for (const auto& [character, byte] : written) {
      ids[static_cast<size_t>(byte)] = static_cast<int32_t>(pieces.size());
      pieces.emplace_back(1, static_cast<char>(byte));
    }
  }
};

std::vector<CountedWord> spell(const std::map<std::string, int64_t>& counts, const Alphabet& alphabet) {
  std::vector<CountedWord> words;
  for (const auto& [text, count] : counts) {
    CountedWord& word = words.emplace_back();
    word.count = count;
    for (const char byte : text) word.tokens.push_back(alphabet.ids[static_cast<unsigned char>(byte)]);
  }
  return words;
}

ordered_json write_tokenizer(const LearnedPairs& learned) {
  ordered_json vocabulary = ordered_json::object(), merges = ordered_json::array();
  vocabulary[std::string(kDocumentEnd)] = 0;
  for (size_t id = 1; id < learned.pieces.size(); ++id) vocabulary[write_bytes(learned.pieces[id])] = id;
  const auto written = [&](int32_t id) { return write_bytes(learned.pieces[static_cast<size_t>(id)]); };
  for (const Merge& merge : learned.merges)
    merges.push_back(written(merge.left) + " " + written(merge.right));
  const ordered_json end = {{"id", 0},         {"content", kDocumentEnd}, {"single_word", false},
                            {"lstrip", false}, {"rstrip", false},         {"normalized", false},
                            {"special", true}};
  const ordered_json model = {{"type", "BPE"},
                              {"dropout", nullptr},
                              {"unk_token", nullptr},
                              {"continuing_subword_prefix", nullptr},
                              {"end_of_word_suffix", nullptr},
                              {"fuse_unk", false},
                              {"byte_fallback", false},
                              {"ignore_merges", false},
                              {"vocab", vocabulary},
                              {"merges", merges}};
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", ordered_json::array({end})},
          {"normalizer", nullptr},
          {"pre_tokenizer", byte_level()},
          {"post_processor", nullptr},
          {"decoder", byte_level()},
          {"model", model}};
}

}  // namespace

ordered_json train_tokenizer(const TokenizerTraining& training) {
  if (training.size < kSmallestVocabulary) {
    fail_input(fmt::format("a tokenizer of {} tokens", training.size), "--train-tokenizer",
               fmt::format("give at least {}: the 256 bytes and <|endoftext|>", kSmallestVocabulary));
  }
  const Alphabet alphabet;
  const LearnedPairs learned = learn_pairs(spell(count_words(training), alphabet), alphabet.pieces,
                                           static_cast<size_t>(training.size));
  return write_tokenizer(learned);
}

}  // namespace openwork
