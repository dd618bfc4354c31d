// What every verb shares: the common options, choosing a device, writing results, the protocol that results
// carry. A verb makes a CommonOptions, adds its options with add_common_options, and calls
// apply_common_options first thing when it runs.
#pragma once
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace openwork {

struct CommonOptions {
  std::string device = "auto";  // auto, cpu, cuda, cuda:N
  std::string dtype = "fp32";   // fp32, bf16
  std::string bos = "auto";     // auto, yes, no
  int threads = 0;              // 0: all cores
  uint64_t seed = 0;
  std::string json;  // a file, "-" for standard output, empty for none
  bool quiet = false;
  bool speaks = true;  // results are printed and written: off on all ranks of a job but the first
};

inline constexpr const char* kCommonGroup = "Common options";  // their heading in the help

void add_common_options(CLI::App& verb, CommonOptions& options);
void apply_common_options(const CommonOptions& options);  // threads and quiet

// A number between two others, without the clutter CLI11 would put into the help.
template <typename Number>
CLI::Validator between(Number low, Number high) {
  return CLI::Validator(
      [low, high](std::string& text) -> std::string {
        Number value{};
        if (CLI::detail::lexical_cast(text, value) && value >= low && value <= high) return {};  // no NaN is
        return fmt::format("{} is not a number from {} to {}", text, low, high);
      },
      "");
}

// On the command line, and not by its default.
bool is_given(const CLI::App& verb, const std::string& option);

// Refuses those of `options` that are given, as they would do nothing: "--what without --save; command line; ADVICE".
void refuse_options(const CLI::App& verb, const std::vector<std::string>& options, const std::string& why,
                    const std::string& advice);

// A list that names nothing would mean everything.
CLI::Validator names_something();

// Prints a line of results on standard output, unless JSON goes there.
void print_result(const CommonOptions& options, std::string_view line);

void print_results(const CommonOptions& options, const std::vector<std::string>& lines);

// "wrote PATH", the one way in which every verb says what it wrote.
void print_written(const CommonOptions& options, const std::string& path);

// Writes `result` where --json says, and says so; nothing when it was not given. Files are written beside, then
// renamed.
void write_json_result(const CommonOptions& options, const nlohmann::json& result);

// A verb may run inside another program (cli/host.h). Results that would be written are then handed to it, and a
// verb that was interrupted throws in place of ending the process.
using ResultTaker = std::function<void(const nlohmann::json&)>;
void offer_results(ResultTaker take);
struct Interrupted {
  int signal = 0;
};

// Ends the program with 128 + signal, or throws Interrupted where it has a host.
[[noreturn]] void end_interrupted(int signal);

// Program version, device, dtype, seed, threads and beginning-token rule; verbs add models, data and prompts.
nlohmann::json make_protocol(const CommonOptions& options);

// A protocol's record of model files: {"name", "path" (file name only), "sha256"}; of a MODEL+ADAPTER the base's, and
// "adapter": {"path", "sha256"} beside.
nlohmann::json describe_model_files(const std::string& name);

// The same of several models, and of data files: [{"file", "sha256"}].
nlohmann::json describe_models(const std::vector<std::string>& names);
nlohmann::json describe_data_files(const std::vector<std::string>& paths);

// "1,2,3" as numbers; fails naming the option.
std::vector<int64_t> parse_id_list(const std::string& text, const std::string& option);

// "L5H1,m3" cut at commas.
std::vector<std::string> split_names(const std::string& text);

}  // namespace openwork
