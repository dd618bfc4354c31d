// openwork bench tokenize: our tokenizer on one thread and on all, beside Hugging Face's package on one thread
// where a Python that has it is named.
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>

#include "base/error.h"
#include "bench/benches.h"
#include "bench/tokenize_bench.h"
#include "io/atomic_file.h"
#include "io/command.h"
#include "io/json.h"
#include "io/model_store.h"
#include "io/sha256.h"
#include "text/documents.h"
#include "text/prompt_file.h"

namespace openwork {
namespace {

namespace fs = std::filesystem;

constexpr size_t kTextBytes = 10'000'000;  // enough to be steady, little enough for the slower side
constexpr size_t kSampleBytes = 1'000'000;

// The program's sample prompts, over and over.
std::string repeat_samples() {
  std::string text;
  while (text.size() < kSampleBytes)
    for (const std::string& prompt : sample_prompts()) text += prompt + std::string(kDocumentEnd);
  return text;
}

// The documents of the data files, joined again, up to kTextBytes.
std::string read_text(const std::string& data) {
  if (data.empty()) return repeat_samples();
  std::string text;
  for_each_document({data}, [&](std::string_view document) {
    if (!text.empty()) text += "<|endoftext|>";
    text += document;
    return text.size() < kTextBytes;
  });
  return text;
}

fs::path tokenizer_file(const std::string& model) {
  const fs::path path = locate_model(model).path;
  return fs::is_directory(path) ? path / "tokenizer.json" : path;
}

// The reference script's answer, or null where Python or the package is not there.
nlohmann::json measure_reference(const BenchSettings& options, const std::string& text) {
  const fs::path folder = fs::temp_directory_path() / fmt::format("openwork-bench-{}", getpid());
  fs::create_directories(folder);
  write_text_file(folder / "text", text);
  const CommandResult result =
      run_command({options.python, "scripts/bench_tokenize_reference.py",
                   tokenizer_file(options.model).string(), (folder / "text").string()},
                  folder / "log");
  fs::remove_all(folder);
  if (!result.found || result.exit_code != 0) {
    fail_input("the reference could not be measured: " + printable(result.output),
               "--python " + options.python,
               "name a Python that has the package tokenizers, and run from the source folder");
  }
  return parse_json(result.output, "bench_tokenize_reference.py");
}

}  // namespace

nlohmann::json bench_tokenize(const BenchSettings& options) {
  const std::string text = read_text(options.data);
  const TokenizeTiming timing = measure_tokenize(options.open_tokenizer(), text, options.repeats);
  nlohmann::json rows = nlohmann::json::array();
  const auto report = [&](const std::string& way, double speed, double reference) {
    const std::string ratio = reference > 0 ? fmt::format("{:>8.2f} x the reference", speed / reference) : "";
    options.say(fmt::format("{:<36} {:>8.2f} MB/s {}", way, speed, ratio));
    rows.push_back({{"way", way}, {"mb_per_s", speed}});
    if (reference > 0) rows.back()["ratio"] = speed / reference;
  };
  double reference = 0;
  if (!options.python.empty()) {
    const nlohmann::json measured = measure_reference(options, text);
    reference = measured.at("mb_per_s").get<double>();
    if (measured.at("tokens") != timing.tokens)
      fail("the reference counts other tokens", options.model, "please report this");
    report(fmt::format("tokenizers {} (1 thread)", measured.at("version").get<std::string>()), reference,
           reference);
  }
  report("openwork (1 thread)", timing.one_thread_mb_per_s, reference);
  report(fmt::format("openwork ({} threads)", timing.threads), timing.all_threads_mb_per_s, reference);
  return {{"rows", rows},
          {"bytes", timing.bytes},
          {"documents", timing.documents},
          {"tokens", timing.tokens},
          {"peak_memory_mb", timing.peak_memory_mb},
          {"protocol",
           {{"model", options.model},
            {"data", options.data.empty() ? "sample prompts" : fs::path(options.data).filename().string()},
            {"data_sha256", options.data.empty() ? sha256_of_bytes(text) : sha256_of_file(options.data)}}}};
}

}  // namespace openwork
