#include "bench/tokenize_bench.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "base/error.h"
#include "base/parallel.h"
#include "text/documents.h"

namespace openwork {
namespace {

std::vector<std::string_view> split_documents(std::string_view text) {
  std::vector<std::string_view> documents;
  while (!text.empty()) {
    const size_t end = std::min(text.find(kDocumentEnd), text.size());
    if (end > 0) documents.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + kDocumentEnd.size(), text.size()));
  }
  return documents;
}

template <typename Work>
double best_seconds(int passes, const Work& work) {
  double best = 0;
  for (int pass = 0; pass < std::max(passes, 1); ++pass) {
    const auto start = std::chrono::steady_clock::now();
    work();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    best = pass == 0 ? seconds : std::min(best, seconds);
  }
  return std::max(best, 1e-9);
}

double peak_memory_mb() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) * 1024 / 1e6;  // Linux counts it in KiB
}

}  // namespace

TokenizeTiming measure_tokenize(const Tokenizer& tokenizer, std::string_view text, int passes) {
  const auto documents = split_documents(text);
  if (documents.empty()) fail_input("the text is empty", "bench tokenize", "name a text file");
  TokenizeTiming timing;
  for (const auto document : documents) timing.bytes += document.size();
  timing.documents = static_cast<int64_t>(documents.size());
  timing.threads = thread_count();
  const double megabytes = static_cast<double>(timing.bytes) / 1e6;
  timing.one_thread_mb_per_s = megabytes / best_seconds(passes, [&] {
                                 timing.tokens = 0;
                                 for (const auto document : documents)
                                   timing.tokens += static_cast<int64_t>(tokenizer.encode(document).size());
                               });
  timing.all_threads_mb_per_s =
      megabytes / best_seconds(passes, [&] {
        parallel_for(documents.size(), [&](size_t i) { tokenizer.encode(documents[i]); });
      });
  timing.peak_memory_mb = peak_memory_mb();
  return timing;
}

}  // namespace openwork
