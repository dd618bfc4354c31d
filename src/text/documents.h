// Documents out of data files: plain text, .xz or .zst text (split at <|endoftext|>), JSONL ({"text": ...}),
// or token shards (token_shard.h); decided by content. Documents stream, so that a file of any size takes
// little memory.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace openwork {

// What separates documents in text files.
inline constexpr std::string_view kDocumentEnd = "<|endoftext|>";

// .jsonl or .ndjson, also packed.
bool is_named_json_lines(std::filesystem::path path);
bool begins_with_object(std::string_view text);  // whether its first line is a JSON object

// Calls visit(text) for every non-empty document of the files in order; visit returns false to stop.
// A file is JSONL where its name says so (.jsonl, also packed) or its first line is a JSON object.
// Fails on files that cannot be read, a damaged archive, invalid UTF-8, or a shard (which holds no text).
void for_each_document(const std::vector<std::filesystem::path>& files,
                       const std::function<bool(std::string_view)>& visit);

struct TokenDocument {
  std::vector<int32_t> tokens;  // the document's tokens and, last, the end-of-text token
  uint64_t bytes = 0;           // UTF-8 bytes of its text (0 where a shard does not say)
  uint64_t hash = 0;            // of its text: decides held-out membership, stable across machines
};

// The same, tokenised on all cores, in order; token shards are read as they are. A null tokenizer: shards alone can be
// read, each with its own end-of-text token, and nothing says whether their tokens are the model's.
void for_each_token_document(const std::vector<std::filesystem::path>& files, const Tokenizer* tokenizer,
                             int32_t end_of_text, const std::function<bool(TokenDocument&&)>& visit);

// The hash of a document's text: FNV-1a over its bytes, then mixed so that every bit depends on every byte.
uint64_t hash_document(std::string_view text);

// Whether a document is held out of training: `so_many` of `of` of them, by hash.
inline bool is_held_out(uint64_t hash, uint64_t of = 250, uint64_t so_many = 1) {
  return of != 0 && hash % of < so_many;
}

// Blocks of a held-out evaluation: documents, each followed by the end-of-text token, joined and cut into
// blocks of `context` tokens, each predicting its next token too: block n is tokens [n*context, n*context +
// context] of the stream, context + 1 of them. The unfinished last block is left out.
struct TokenBlocks {
  int64_t context = 0;
  int64_t count = 0;              // blocks
  std::vector<int32_t> tokens;    // [count * context + 1]
  std::vector<int32_t> document;  // document of each token, same length: a prediction belongs to its target's
  std::vector<uint32_t> bytes;    // UTF-8 bytes of text behind each token, same length; over a document they
                                  // sum to its text's, and its end-of-text token has 0; shared evenly, or 0
                                  // where a shard does not say, without a tokenizer
};

// At most max_blocks blocks (0: all of them). Fails where the files hold no whole block.
TokenBlocks read_blocks(const std::vector<std::filesystem::path>& files, const Tokenizer* tokenizer,
                        int32_t end_of_text, int64_t context, int64_t max_blocks);

}  // namespace openwork
