// How fast a tokenizer is on a text, for `openwork bench tokenize`. scripts/bench_tokenize_reference.py
// measures Hugging Face's tokenizers package on the same text in the same way.
#pragma once
#include <cstdint>
#include <string_view>

#include "text/tokenizer.h"

namespace openwork {

struct TokenizeTiming {
  uint64_t bytes = 0;  // of text, document ends left out
  int64_t documents = 0, tokens = 0;
  double one_thread_mb_per_s = 0;   // documents one after the other; MB is 10^6 bytes
  double all_threads_mb_per_s = 0;  // documents shared over thread_count() threads
  int threads = 0;                  // that many
  double peak_memory_mb = 0;        // of the whole process, the text included
};

// Splits `text` at <|endoftext|>, encodes each document on its own, and takes the best of `passes` passes.
TokenizeTiming measure_tokenize(const Tokenizer& tokenizer, std::string_view text, int passes = 3);

}  // namespace openwork
