#include "shell/common.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <utility>

#include "base/error.h"
#include "base/parallel.h"
#include "base/progress.h"
#include "base/progress_line.h"
#include "io/atomic_file.h"
#include "io/model_store.h"
#include "io/sha256.h"
#include "shell/version.h"

namespace openwork {
namespace {

ResultTaker result_taker;  // offer_results

}  // namespace

void offer_results(ResultTaker take) {
  result_taker = std::move(take);
}

void end_interrupted(int signal) {
  if (result_taker) throw Interrupted{signal};
  std::fflush(nullptr);
  std::exit(128 + signal);
}

bool is_given(const CLI::App& verb, const std::string& option) {
  return verb.get_option(option)->count() > 0;
}

void refuse_options(const CLI::App& verb, const std::vector<std::string>& options, const std::string& why,
                    const std::string& advice) {
  for (const std::string& option : options)
    if (is_given(verb, option)) fail_input(fmt::format("{} {}", option, why), "command line", advice);
}

CLI::Validator names_something() {
  return CLI::Validator(
      [](std::string& list) {
        return list.find_first_not_of(" ,") == std::string::npos
                   ? std::string("name at least one, or leave it out")
                   : std::string();
      },
      "");
}

void add_common_options(CLI::App& verb, CommonOptions& options) {
  const char* group = kCommonGroup;
  verb.add_option("--device", options.device, "auto, cpu, cuda or cuda:N")
      ->type_name("DEVICE")
      ->capture_default_str()
      ->group(group);
  verb.add_option("--dtype", options.dtype, "fp32 or bf16")
      ->check(CLI::IsMember({"fp32", "bf16"}))
      ->capture_default_str()
      ->group(group);
  verb.add_option("--bos", options.bos, "beginning token: auto (what the tokenizer adds), yes or no")
      ->check(CLI::IsMember({"auto", "yes", "no"}))
      ->capture_default_str()
      ->group(group);
  verb.add_option("--threads", options.threads, "CPU threads; 0 for OMP_NUM_THREADS, else all cores")
      ->type_name("N")
      ->check(between(0, 4096))
      ->capture_default_str()
      ->group(group);
  verb.add_option("--seed", options.seed, "seed of everything random")
      ->type_name("N")
      ->capture_default_str()
      ->group(group);
  verb.add_option("--json", options.json, "write the result as JSON to FILE, - for standard output")
      ->type_name("FILE")
      ->group(group);
  verb.add_flag("--quiet", options.quiet, "no progress on standard error")->group(group);
}

void apply_common_options(const CommonOptions& options) {
  set_quiet(options.quiet);
  set_thread_count(options.threads);
}

void print_result(const CommonOptions& options, std::string_view line) {
  if (!options.speaks || options.json == "-") return;
  clear_progress_line();
  fmt::print("{}\n", line);
}

void print_results(const CommonOptions& options, const std::vector<std::string>& lines) {
  for (const std::string& line : lines) print_result(options, line);
}

void print_written(const CommonOptions& options, const std::string& path) {
  if (path != "-") print_result(options, "wrote " + path);
}

void write_json_result(const CommonOptions& options, const nlohmann::json& result) {
  if (options.json.empty() || !options.speaks) return;
  if (result_taker && options.json == "-") return result_taker(result);
  // Bytes of a token need not be UTF-8; they are shown with replacement characters rather than refused.
  const std::string text = result.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  if (options.json == "-") {
    fmt::print("{}", text);
  } else {
    write_text_file(options.json, text);
    print_written(options, options.json);
  }
}

nlohmann::json make_protocol(const CommonOptions& options) {
  return {{"program", fmt::format("openwork {}", kVersion)},
          {"device", options.device},
          {"dtype", options.dtype},
          {"bos", options.bos},
          {"threads", thread_count()},
          {"seed", options.seed}};
}

nlohmann::json describe_model_files(const std::string& name) {
  const LocatedModel located = locate_model(name);
  nlohmann::json files = {
      {"name", name}, {"path", located.path.filename().string()}, {"sha256", model_hash(located.path)}};
  if (located.adapter)
    files["adapter"] = {{"path", located.adapter->filename().string()},
                        {"sha256", model_hash(*located.adapter)}};
  return files;
}

nlohmann::json describe_models(const std::vector<std::string>& names) {
  nlohmann::json models = nlohmann::json::array();
  for (const std::string& name : names) models.push_back(describe_model_files(name));
  return models;
}

nlohmann::json describe_data_files(const std::vector<std::string>& paths) {
  nlohmann::json files = nlohmann::json::array();
  for (const std::string& path : paths)
    files.push_back(
        {{"file", std::filesystem::path(path).filename().string()}, {"sha256", sha256_of_file(path)}});
  return files;
}

std::vector<int64_t> parse_id_list(const std::string& text, const std::string& option) {
  std::vector<int64_t> ids;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at < end) {
    int64_t id = 0;
    const auto [next, error] = std::from_chars(at, end, id);
    if (error != std::errc() || (next < end && *next != ',') || next + 1 == end) {
      fail_input(fmt::format("'{}' is not a list of token ids", printable(text, 60)), option,
                 "write it like 15,27,3");
    }
    ids.push_back(id);
    at = next + 1;
  }
  return ids;
}

std::vector<std::string> split_names(const std::string& text) {
  std::vector<std::string> names;
  std::stringstream stream(text);
  for (std::string name; std::getline(stream, name, ',');) {
    if (!name.empty()) names.push_back(name);
  }
  return names;
}

}  // namespace openwork
