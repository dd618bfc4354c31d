#include "train/checkpoint.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>

#include "base/error.h"
#include "base/progress.h"
#include "io/atomic_file.h"
#include "io/json.h"
#include "io/safe_files.h"
#include "io/sha256.h"
#include "io/tensor_file.h"
#include "model/save.h"

namespace openwork {
namespace {

namespace fs = std::filesystem;
constexpr std::string_view kPrefix = "step-";

constexpr const char* kSums = "SHA256SUMS";  // as sha256sum writes and checks it
constexpr const char* kFiles[] = {"state.safetensors", "state.json"};

std::string make_sums(const fs::path& folder) {
  std::string text;
  for (const char* name : kFiles) text += fmt::format("{}  {}\n", sha256_of_file(folder / name), name);
  return text;
}

std::string read_text(const fs::path& file) {
  std::ifstream input(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(input), {}};
}

// Renamed before it is deleted, so that half of one never looks whole.
void remove_folder(const fs::path& folder) {
  std::error_code ignored;
  const fs::path going = folder.string() + ".part";
  fs::rename(folder, going, ignored);
  fs::remove_all(going, ignored);
}

// What a kill left half written or half deleted, or was set aside, by the ends of its names.
void remove_leftovers(const fs::path& folder, std::initializer_list<std::string_view> ends) {
  std::error_code ignored;
  std::vector<fs::path> leftovers;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    if (std::find(ends.begin(), ends.end(), entry.path().extension().string()) != ends.end())
      leftovers.push_back(entry.path());
  }
  for (const fs::path& path : leftovers) fs::remove_all(path, ignored);
}

// The number in step-N; none for anything else, step-N.part and step-N.broken too.
std::optional<int64_t> parse_step(std::string_view name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  int64_t step = 0;
  const char* const end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data() + kPrefix.size(), end, step);
  return error == std::errc() && stop == end && step >= 0 ? std::optional(step) : std::nullopt;
}

}  // namespace

CheckpointFolder::CheckpointFolder(fs::path folder, int keep) : folder_(std::move(folder)), keep_(keep) {}

fs::path CheckpointFolder::folder_of(int64_t step) const {
  return folder_ / fmt::format("{}{:08}", kPrefix, step);
}

std::vector<int64_t> CheckpointFolder::list_steps() const {
  std::vector<int64_t> steps;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder_, error)) {
    if (const auto step = parse_step(entry.path().filename().string())) steps.push_back(*step);
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

bool CheckpointFolder::has(int64_t step) const {
  std::error_code ignored;
  return fs::exists(folder_of(step), ignored);
}

void CheckpointFolder::save(int64_t step, const NamedTensors& tensors, const nlohmann::json& state) {
  std::vector<OutputTensor> output;
  for (const auto& [name, tensor] : tensors) output.push_back(output_of(name, tensor));
  write(step, std::move(output), state);
}

void CheckpointFolder::write(int64_t step, std::vector<OutputTensor> tensors, const nlohmann::json& state) {
  const fs::path whole = folder_of(step), part = fmt::format("{}.{}.part", whole.string(), ::getpid());
  std::error_code ignored;
  if (has(step)) return;  // the same step of the same run: the same numbers
  fs::remove_all(part, ignored);
  make_folder(part);
  try {
    write_safetensors(part / kFiles[0], std::move(tensors), {{"format", "pt"}});
    write_text_file(part / kFiles[1], state.dump(1) + "\n");
    write_text_file(part / kSums, make_sums(part));
    rename_file(part, whole);
  } catch (...) {
    fs::remove_all(part, ignored);
    throw;
  }
  write_latest(step);
  prune();
}

void CheckpointFolder::write_latest(int64_t step) const {
  write_text_file(folder_ / "latest", folder_of(step).filename().string() + "\n");
}

std::optional<std::string> CheckpointFolder::find_damage(int64_t step) const {
  const fs::path folder = folder_of(step);
  std::error_code ignored;
  for (const char* name : kFiles) {
    if (!fs::is_regular_file(folder / name, ignored)) return fmt::format("{} is missing", name);
  }
  try {
    if (fs::exists(folder / kSums, ignored)) {
      if (read_text(folder / kSums) != make_sums(folder)) return "its sums are wrong";
    } else {  // of an older program
      read_json_file(folder / kFiles[1]);
      open_weights(folder / kFiles[0]);
    }
  } catch (const Error& error) {
    return error.what();
  }
  return std::nullopt;
}

void CheckpointFolder::recover() const {
  std::vector<int64_t> steps = list_steps();
  std::vector<std::pair<int64_t, std::string>> broken;
  while (!steps.empty()) {
    const auto damage = find_damage(steps.back());
    if (!damage) break;
    broken.emplace_back(steps.back(), *damage);
    steps.pop_back();
  }
  if (steps.empty() && broken.empty()) return;
  if (steps.empty()) {
    fail_input(
        fmt::format("no checkpoint is whole (step {}: {})", broken.front().first, broken.front().second),
        folder_.string(), "put one back from a copy, or choose another --out");
  }
  for (const auto& [step, damage] : broken) {
    const fs::path folder = folder_of(step), aside = folder.string() + ".broken";
    std::error_code ignored;
    fs::remove_all(aside, ignored);
    rename_file(folder, aside);
    note(fmt::format("the checkpoint of step {} is broken ({}): going on from step {}", step, damage,
                     steps.back()));
  }
  remove_leftovers(folder_, {".part"});  // the last prune of a run has no other after it
  if (read_text(folder_ / "latest") != folder_of(steps.back()).filename().string() + "\n")
    write_latest(steps.back());
}

std::optional<int64_t> CheckpointFolder::latest() const {
  const std::vector<int64_t> steps = list_steps();
  return steps.empty() ? std::nullopt : std::optional(steps.back());
}

nlohmann::json CheckpointFolder::read_state(int64_t step) const {
  return read_json_file(folder_of(step) / "state.json");
}

void CheckpointFolder::read_tensors(int64_t step, const NamedTensors& tensors) const {
  const at::NoGradGuard no_grad;
  const auto file = open_weights(folder_of(step) / "state.safetensors");
  for (const auto& [name, tensor] : tensors) {
    const TensorEntry& entry = file->at(name);
    Tensor host = at::empty(entry.shape, tensor.options().device(at::kCPU));
    if (!host.sizes().equals(tensor.sizes()) || entry.bytes.size() != host.nbytes()) {
      fail_input(fmt::format("tensor '{}' of the checkpoint is of another size", name), file->origin(),
                 "resume with the model and options of the run, or choose another --out");
    }
    read_bytes(entry, {static_cast<std::byte*>(host.data_ptr()), host.nbytes()});
    Tensor target = tensor;
    target.copy_(host);
  }
}

void CheckpointFolder::read_places(int64_t step, const std::string& name, int64_t numbers,
                                   const std::vector<std::pair<int64_t, Tensor>>& places) const {
  const at::NoGradGuard no_grad;
  const auto file = open_weights(folder_of(step) / kFiles[0]);
  const TensorEntry& entry = file->at(name);
  if (entry.dtype != DType::kF32 || entry.shape != std::vector<int64_t>{numbers}) {
    fail_input(fmt::format("tensor '{}' of the checkpoint is of another size", name), file->origin(),
               "resume with the model and options of the run, or choose another --out");
  }
  constexpr int64_t kPiece = int64_t{1} << 24;
  for (const auto& [first, tensor] : places) {
    for (int64_t begin = 0; begin < tensor.numel(); begin += kPiece) {
      const Tensor host = at::empty({std::min(kPiece, tensor.numel() - begin)}, at::kFloat);
      TensorEntry part = entry;
      part.shape = {host.numel()};
      part.bytes = entry.bytes.subspan(static_cast<size_t>(first + begin) * sizeof(float), host.nbytes());
      read_bytes(part, {static_cast<std::byte*>(host.data_ptr()), host.nbytes()});
      tensor.narrow(0, begin, host.numel()).copy_(host);
    }
  }
  file->release(entry);
}

void CheckpointFolder::prune() const {
  const std::vector<int64_t> steps = list_steps();
  for (size_t n = 0; n + static_cast<size_t>(keep_) < steps.size(); ++n) remove_folder(folder_of(steps[n]));
  remove_leftovers(folder_, {".part", ".broken"});
}

}  // namespace openwork
