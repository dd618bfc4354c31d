// Token shards: documents already tokenised, in a safetensors file. docs/formats.md has the layout in full:
//   tokens           U16 (vocabularies up to 65,536) or I32 [N]   documents, each with its end-of-text token
//   document_starts  I64 [D]   where each document starts in tokens; the first is 0
//   document_bytes   I64 [D]   UTF-8 bytes of each document's text        (may be missing)
//   document_hashes  U64 [D]   hash_document of each document's text      (may be missing)
//   metadata {"format": "openwork.tokens", "version": "1", "end_of_text": id, "vocabulary": size,
//             "vocabulary_hash": hash_vocabulary}                         (the last may be missing)
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "text/documents.h"

namespace openwork {

// By its first bytes: a safetensors header.
bool is_token_shard(const std::filesystem::path& path);

// 16 hexadecimal digits that two tokenizers share where every id has the same bytes in both.
std::string hash_vocabulary(const Tokenizer& tokenizer);

// Collects documents in memory (two or four bytes a token), then writes them in one go.
class TokenShardWriter {
 public:
  TokenShardWriter(const Tokenizer& tokenizer, int32_t end_of_text);
  void add(const TokenDocument& document);  // whose last token must be end_of_text
  void write(const std::filesystem::path& path) const;
  int64_t documents() const { return static_cast<int64_t>(starts_.size()); }

 private:
  int32_t end_of_text_, vocabulary_;
  std::string vocabulary_hash_;
  std::vector<uint16_t> narrow_;  // tokens, where the vocabulary allows
  std::vector<int32_t> wide_;     // tokens, where it does not
  std::vector<int64_t> starts_, bytes_;
  std::vector<uint64_t> hashes_;
};

void write_token_shard(const std::filesystem::path& path, const std::vector<TokenDocument>& documents,
                       const Tokenizer& tokenizer, int32_t end_of_text);

// Visits the documents in order; false when visit asked to stop. Fails where the shard is of another
// tokenizer, lies about its sizes, or holds a token that the tokenizer does not have. A null tokenizer: its
// end-of-text token is the shard's own, and the tokens are the caller's to check.
bool read_token_shard(const std::filesystem::path& path, const Tokenizer* tokenizer, int32_t end_of_text,
                      const std::function<bool(TokenDocument&&)>& visit);

}  // namespace openwork
