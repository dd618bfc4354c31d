#include "train/checkpoint.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>

#include "base/error.h"
#include "io/atomic_file.h"
#include "io/json.h"
#include "io/tensor_file.h"
#include "model/save.h"

namespace openwork {
namespace {

namespace fs = std::filesystem;
constexpr std::string_view kPrefix = "step-";

void sync_folder(const fs::path& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY);
  if (descriptor < 0) return;
  ::fsync(descriptor);
  ::close(descriptor);
}

// The number in step-N; none for anything else, step-N.part too.
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

void CheckpointFolder::save(int64_t step, const NamedTensors& tensors, const nlohmann::json& state) {
  const fs::path whole = folder_of(step), part = whole.string() + ".part";
  std::error_code error;
  if (fs::exists(whole, error)) return;  // the same step of the same run: the same numbers
  fs::remove_all(part, error);
  fs::create_directories(part, error);
  if (error)
    fail(fmt::format("cannot make the checkpoint's folder ({})", error.message()), part.string(),
         "check the disk");
  try {
    save_tensors(part / "state.safetensors", tensors);
    write_text_file(part / "state.json", state.dump(1) + "\n");
  } catch (...) {
    fs::remove_all(part, error);
    throw;
  }
  sync_folder(part);
  fs::rename(part, whole, error);
  if (error)
    fail(fmt::format("cannot rename the checkpoint ({})", error.message()), whole.string(), "check the disk");
  sync_folder(folder_);
  write_text_file(folder_ / "latest", whole.filename().string() + "\n");
  prune();
}

std::optional<int64_t> CheckpointFolder::latest() const {
  const std::vector<int64_t> steps = list_steps();
  std::ifstream file(folder_ / "latest");
  std::string name;
  if (file && std::getline(file, name)) {
    const auto step = parse_step(name);
    if (step && std::find(steps.begin(), steps.end(), *step) != steps.end()) return step;
  }
  return steps.empty() ? std::nullopt : std::optional(steps.back());  // killed before `latest` was there
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

void CheckpointFolder::prune() const {
  std::error_code ignored;
  const std::vector<int64_t> steps = list_steps();
  for (size_t n = 0; n + static_cast<size_t>(keep_) < steps.size(); ++n)
    fs::remove_all(folder_of(steps[n]), ignored);
  for (const auto& entry : fs::directory_iterator(folder_, ignored)) {
    if (entry.path().extension() == ".part") fs::remove_all(entry.path(), ignored);
  }
}

}  // namespace openwork
