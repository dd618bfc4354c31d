#include "shell/option_checks.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <string_view>

#include "base/error.h"
#include "io/write_error.h"

namespace openwork {
namespace {

namespace fs = std::filesystem;

constexpr const char* kOutputs[] = {"--json",  "--out", "--csv",   "--markdown",     "--save",   "--export",
                                    "--graph", "--mib", "--sweep", "--features-out", "--details"};
constexpr std::string_view kNumbers[] = {"X", "M", "MB", "W",   "R",     "B",  "A",
                                         "S", "N", "K",  "POS", "FLOAT", "INT"};

std::string kind_of(const CLI::Option& option) {
  const std::string name = option.get_type_name();
  return name.substr(0, name.find(':'));  // what follows describes checks
}

// By its type name: DIR is a folder, anything else a file; "DIR, FILE with --other" a file where --other is given.
bool is_folder(const CLI::App& verb, const CLI::Option& option) {
  constexpr std::string_view kUnless = "DIR, FILE with ";
  const std::string kind = kind_of(option);
  if (!kind.starts_with(kUnless)) return kind == "DIR";
  return verb.get_option(kind.substr(kUnless.size()))->results().empty();
}

// Fails unless files can be made in the folder.
void check_folder(const fs::path& folder, const std::string& given) {
  std::error_code error;
  if (!fs::is_directory(folder, error))
    fail_to_write("write the output", given, error ? error.value() : ENOTDIR);
  if (::access(folder.c_str(), W_OK | X_OK) != 0) fail_to_write("write the output", given, errno);
}

// Whether the path lies in the folder that the verb itself will make.
bool lies_in_output(const fs::path& path, const CLI::App& verb) {
  const CLI::Option* const out = verb.get_option_no_throw("--out");
  if (out == nullptr || out->results().empty() || !is_folder(verb, *out)) return false;
  const fs::path folder = fs::absolute(out->results().front()).lexically_normal() / "";
  return (fs::absolute(path).lexically_normal().string() + "/").starts_with(folder.string());
}

void check_output_file(const std::string& given, const CLI::App& verb) {
  if (given == "-") return;
  if (given.empty()) fail_input("an empty output path", "''", "name a file");
  std::error_code error;
  const fs::path path(given), parent = path.has_parent_path() ? path.parent_path() : ".";
  if (fs::is_directory(path, error)) fail_to_write("write the output", given, EISDIR);
  if (fs::exists(path, error) && !fs::is_regular_file(path, error)) return;  // a device or pipe
  if (!fs::exists(parent, error) && lies_in_output(path, verb)) return;
  check_folder(parent, given);
}

// Two results in one file would leave only the second.
void check_distinct(const CLI::App& verb, const CLI::Option& option, const std::string& given) {
  if (given == "-") return;
  for (const char* name : kOutputs) {
    const CLI::Option* const other = verb.get_option_no_throw(name);
    if (other == nullptr || other == &option || other->results().empty()) continue;
    if (fs::absolute(other->results().front()).lexically_normal() == fs::absolute(given).lexically_normal())
      fail_input(fmt::format("{} and {} are the same", option.get_name(), name), given, "name two files");
  }
}

bool is_output(const CLI::Option& option) {
  return std::any_of(std::begin(kOutputs), std::end(kOutputs),
                     [&](const char* each) { return option.check_name(each); });
}

// Files that make a folder a model.
bool is_of_model(const fs::path& file) {
  const std::string name = file.filename().string(), ending = file.extension().string();
  if (ending == ".safetensors")
    return name.starts_with("model") || name == "adapter_model.safetensors" ||
           name == "openwork_delta.safetensors";
  return name == "config.json" || name == "adapter_config.json" || name == "tokenizer.json" ||
         ending == ".gguf" || ending == ".pth";
}

// Whether writing `output` would take away what `input`, any word of the command line, names.
bool replaces(const fs::path& output, const fs::path& input) {
  std::error_code error;  // of words that are no files
  if (fs::equivalent(output, input, error)) return true;
  return fs::is_directory(input, error) && is_of_model(output) &&
         fs::equivalent(fs::absolute(output).parent_path(), input, error);
}

// After all words are read: an output in the place of an input would leave only the output.
void check_inputs_stay(const CLI::App& verb) {
  std::error_code error;
  for (const CLI::Option* option : verb.get_options()) {
    if (!is_output(*option) || option->results().empty() || is_folder(verb, *option)) continue;
    const std::string& output = option->results().front();
    if (!fs::is_regular_file(output, error)) continue;
    for (const CLI::Option* other : verb.get_options()) {
      if (is_output(*other)) continue;
      for (const std::string& input : other->results())
        if (replaces(output, input))
          fail_input(fmt::format("{} would replace what {} reads", option->get_name(), other->get_name()),
                     output, "name another file");
    }
  }
}

// It or the first of its parents that is there.
void check_output_folder(const std::string& given) {
  if (given.empty()) fail_input("an empty output path", "''", "name a folder");
  std::error_code error;
  fs::path at = fs::absolute(given).lexically_normal();
  while (!fs::exists(at, error) && at.has_relative_path()) at = at.parent_path();
  check_folder(at, given);
}

// Said by the program's own reader, too, but only when the model has been opened.
void check_data_file(const std::string& given) {
  std::error_code error;
  if (!fs::exists(given, error)) fail_input("there is no such data file", given, "check its name");
}

bool is_not_finite(const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  return !text.empty() && end == text.c_str() + text.size() && !std::isfinite(value);
}

void check_seed(const std::string& text) {
  uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end)
    fail_input(fmt::format("'{}' is no seed", printable(text, 60)), "--seed",
               "give a whole number from 0 to 18446744073709551615");
}

// Without words of its own in the help.
template <typename Check>
void add_check(CLI::Option& option, Check check) {
  option.check(CLI::Validator(
      [check](std::string& text) {
        check(text);
        return std::string();
      },
      ""));
}

void add_checks(CLI::App& verb, CLI::Option& option) {
  const std::string kind = kind_of(option), name = option.get_name();
  if (option.check_lname("seed")) add_check(option, check_seed);
  if (option.check_lname("data")) add_check(option, check_data_file);
  if (std::find(std::begin(kNumbers), std::end(kNumbers), kind) != std::end(kNumbers)) {
    add_check(option, [name](const std::string& text) {
      if (is_not_finite(text))
        fail_input(fmt::format("{} {}", name, printable(text, 60)), "command line", "give a finite number");
    });
  }
  if (!is_output(option)) return;
  add_check(option, [&verb, &option](const std::string& text) {
    if (is_folder(verb, option)) return check_output_folder(text);
    if (text == "-" && !option.check_lname("json"))
      fail_input(fmt::format("{} -", option.get_name()), "command line",
                 "name a file: only --json writes to standard output");
    check_distinct(verb, option, text);
    check_output_file(text, verb);
  });
}

}  // namespace

void add_option_checks(CLI::App& app) {
  for (CLI::App* verb : app.get_subcommands(nullptr)) {
    for (CLI::Option* option : verb->get_options()) add_checks(*verb, *option);
    verb->parse_complete_callback([verb] { check_inputs_stay(*verb); });
  }
}

}  // namespace openwork
