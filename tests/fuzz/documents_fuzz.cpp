// Any bytes as a data file: text, JSONL, .xz, .zst or token shard, by content. Documents come out whole
// (tokenised or not, they are as many and as long), or the file is refused in one line.
#include "text/documents.h"

#include "fuzz/fuzz_files.h"
#include "text/token_shard.h"

namespace openwork {
namespace {

void read_input(const std::filesystem::path& file) {
  constexpr uint64_t kMostBytes = 1 << 20;          // a packed file may hold very much
  std::vector<std::pair<uint64_t, uint64_t>> seen;  // bytes and hash of each document
  uint64_t bytes = 0;
  if (!is_token_shard(file)) {
    for_each_document({file}, [&](std::string_view text) {
      if (text.empty()) std::abort();
      seen.emplace_back(text.size(), hash_document(text));
      return (bytes += text.size()) < kMostBytes;
    });
  }
  if (bytes >= kMostBytes) return;
  size_t count = 0;
  for_each_token_document({file}, &small_tokenizer(), 0, [&](TokenDocument&& document) {
    if (document.tokens.empty() || document.tokens.back() != 0) std::abort();
    if (count < seen.size() && seen[count] != std::pair(document.bytes, document.hash)) std::abort();
    ++count;
    return true;
  });
  if (!seen.empty() && count != seen.size()) std::abort();
  const TokenBlocks blocks = read_blocks({file}, &small_tokenizer(), 0, 3, 5);
  if (blocks.count < 1 || blocks.count > 5 ||
      blocks.tokens.size() != static_cast<size_t>(blocks.count * 3 + 1))
    std::abort();
}

}  // namespace
}  // namespace openwork

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace openwork;
  static const InputFile file("documents");
  file.write(data, size);
  return expect_error_at_worst([&] { read_input(file.path()); });
}
