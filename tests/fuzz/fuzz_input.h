// What the fuzzers share: the input as bytes or text, and the rule that bad input is one line of Error and
// nothing else; any other exception, sanitizer report or long wait is a finding.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "io/tensor_listing.h"

namespace openwork {

// Runs `action`, which may fail with an Error of bad input.
template <typename Action>
int expect_error_at_worst(const Action& action) {
  try {
    action();
  } catch (const Error& error) {
    const bool good = error.kind() == Error::Kind::kInput && !std::strchr(error.what(), '\n') &&
                      std::strlen(error.what()) < 7000;
    if (!good) std::abort();
  }
  return 0;
}

inline std::span<const std::byte> as_bytes(const uint8_t* data, size_t size) {
  return std::as_bytes(std::span(data, size));
}

inline std::string_view as_text(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// Reads every tensor that was listed, and checks what a listing promises: names sorted, each once.
inline void read_listing(const TensorListing& listing) {
  constexpr size_t kMostValues = size_t{1}
                                 << 20;  // tensors may share bytes, so their sum is not bounded by the file
  size_t total = 0;
  for (size_t i = 0; i < listing.entries.size(); ++i) {
    const TensorEntry& entry = listing.entries[i];
    if (i > 0 && !(listing.entries[i - 1].name < entry.name)) std::abort();
    total += static_cast<size_t>(entry.element_count());
    if (total > kMostValues) return;
    std::vector<float> values(static_cast<size_t>(entry.element_count()));
    read_f32(entry, values);
    if (is_quantised(entry.dtype)) continue;
    std::vector<std::byte> bytes(values.size() * dtype_bytes(entry.dtype, 1));
    read_bytes(entry, bytes);
  }
}

// A fuzzer that finds neither its seeds nor the files it starts from tries almost nothing: that is a failure.
inline void check_fuzzer_start(int argc, char** argv) {
  namespace fs = std::filesystem;
  bool has_input = false;
  for (int n = 1; n < argc; ++n) {
    if (argv[n][0] == '-') continue;
    has_input =
        has_input || fs::is_regular_file(argv[n]) || (fs::is_directory(argv[n]) && !fs::is_empty(argv[n]));
  }
  if (has_input && fs::exists("tests/data/text/small_tokenizer.json")) return;
  std::fprintf(
      stderr,
      "fuzzer: no seeds or no tests/data; run it from the repository's root with its corpus folder\n");
  std::exit(1);
}

}  // namespace openwork

extern "C" __attribute__((used)) inline int LLVMFuzzerInitialize(int* argc, char*** argv) {
  openwork::check_fuzzer_start(*argc, *argv);
  return 0;
}
