// Documents to tokens on all cores. One thread reads and unpacks batches of documents into a short queue; the
// caller's thread takes them in order, has each batch tokenised by parallel_for, and visits its documents.
#include <fmt/format.h>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/parallel.h"
#include "text/documents.h"
#include "text/token_shard.h"

namespace openwork {
namespace {

namespace fs = std::filesystem;
using Batch = std::vector<std::string>;
constexpr size_t kBatchBytes = size_t{4} << 20;
constexpr size_t kBatchesAhead = 2;

// Reads one file's documents ahead of whoever takes them.
class BatchReader {
 public:
  explicit BatchReader(const fs::path& file) : thread_([this, file] { read(file); }) {}
  ~BatchReader() {
    {
      const std::scoped_lock lock(mutex_);
      stopped_ = true;
    }
    changed_.notify_all();
  }

  // The next batch; false after the last. Rethrows what the reading failed with, once its turn comes.
  bool take(Batch& batch) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !ready_.empty() || ended_; });
    if (ready_.empty()) {
      if (error_) std::rethrow_exception(error_);
      return false;
    }
    batch = std::move(ready_.front());
    ready_.pop_front();
    changed_.notify_all();
    return true;
  }

 private:
  void read(const fs::path& file) {
    try {
      Batch batch;
      size_t bytes = 0;
      for_each_document({file}, [&](std::string_view text) {
        batch.emplace_back(text);
        bytes += text.size();
        if (bytes < kBatchBytes) return true;
        bytes = 0;
        return put(std::exchange(batch, {}));
      });
      if (!batch.empty()) put(std::move(batch));
    } catch (...) {
      const std::scoped_lock lock(mutex_);
      error_ = std::current_exception();
    }
    const std::scoped_lock lock(mutex_);
    ended_ = true;
    changed_.notify_all();
  }

  bool put(Batch batch) {  // false where nobody wants more
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ready_.size() < kBatchesAhead || stopped_; });
    if (stopped_) return false;
    ready_.push_back(std::move(batch));
    changed_.notify_all();
    return true;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Batch> ready_;
  bool stopped_ = false, ended_ = false;
  std::exception_ptr error_;
  std::jthread thread_;  // last, so that it starts after and is joined before the rest
};

TokenDocument tokenize_document(std::string_view text, const Tokenizer& tokenizer, int32_t end_of_text) {
  TokenDocument document{tokenizer.encode(text), text.size(), hash_document(text)};
  document.tokens.push_back(end_of_text);
  return document;
}

bool read_text_file(const fs::path& file, const Tokenizer* tokenizer, int32_t end_of_text,
                    const std::function<bool(TokenDocument&&)>& visit) {
  if (!tokenizer) fail_input("a text, and the model has no tokenizer", file.string(), "give token shards");
  BatchReader reader(file);
  Batch batch;
  while (reader.take(batch)) {
    std::vector<TokenDocument> documents(batch.size());
    parallel_for(batch.size(),
                 [&](size_t i) { documents[i] = tokenize_document(batch[i], *tokenizer, end_of_text); });
    for (TokenDocument& document : documents)
      if (!visit(std::move(document))) return false;
  }
  return true;
}

// Adds a document's tokens to the stream. Where a tokenizer changes its text (a normaliser) or drops bytes,
// the pieces do not add up to it: the difference is put right from the last token on, so that the sum is.
void append_document(const TokenDocument& document, int32_t number, const Tokenizer* tokenizer,
                     TokenBlocks& blocks) {
  const size_t first = blocks.tokens.size(), text = document.tokens.size() - 1;
  const auto bytes_of = [&](size_t n) -> size_t {
    if (n == text) return 0;  // the end-of-text token
    if (tokenizer) return tokenizer->piece(document.tokens[n]).size();
    return document.bytes * (n + 1) / text - document.bytes * n / text;  // an even share
  };
  int64_t missing = static_cast<int64_t>(document.bytes);
  for (size_t n = 0; n < document.tokens.size(); ++n) {
    const size_t bytes = bytes_of(n);
    blocks.tokens.push_back(document.tokens[n]);
    blocks.document.push_back(number);
    blocks.bytes.push_back(static_cast<uint32_t>(bytes));
    missing -= static_cast<int64_t>(bytes);
  }
  if (document.bytes == 0) return;  // a shard that does not say
  for (size_t at = blocks.bytes.size() - 1; at-- > first && missing != 0;) {
    const int64_t corrected = std::max<int64_t>(0, blocks.bytes[at] + missing);
    missing -= corrected - blocks.bytes[at];
    blocks.bytes[at] = static_cast<uint32_t>(corrected);
  }
}

}  // namespace

void for_each_token_document(const std::vector<fs::path>& files, const Tokenizer* tokenizer,
                             int32_t end_of_text, const std::function<bool(TokenDocument&&)>& visit) {
  for (const fs::path& file : files) {
    const auto read = is_token_shard(file) ? read_token_shard : read_text_file;
    if (!read(file, tokenizer, end_of_text, visit)) return;
  }
}

TokenBlocks read_blocks(const std::vector<fs::path>& files, const Tokenizer* tokenizer, int32_t end_of_text,
                        int64_t context, int64_t max_blocks) {
  if (context < 1) fail_input(fmt::format("a context of {} tokens", context), "--context", "give at least 1");
  TokenBlocks blocks;
  blocks.context = context;
  int32_t number = 0;
  const auto whole = [&] { return (static_cast<int64_t>(blocks.tokens.size()) - 1) / context; };
  for_each_token_document(files, tokenizer, end_of_text, [&](TokenDocument&& document) {
    append_document(document, number++, tokenizer, blocks);
    return max_blocks == 0 || whole() < max_blocks;
  });
  blocks.count = blocks.tokens.empty() ? 0 : max_blocks == 0 ? whole() : std::min(whole(), max_blocks);
  if (blocks.count < 1)
    fail_input(fmt::format("{} tokens are fewer than one block of {} and its next token",
                           blocks.tokens.size(), context),
               files.empty() ? "no data files" : files.front().string(),
               "give more text or a smaller --context");
  const auto length = static_cast<size_t>(blocks.count * context + 1);
  blocks.tokens.resize(length);
  blocks.document.resize(length);
  blocks.bytes.resize(length);
  return blocks;
}

}  // namespace openwork
