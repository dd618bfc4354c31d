// open_weights of io/tensor_file.h: finds a folder's weights, tells formats apart by content, joins shards.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "base/error.h"
#include "io/byte_reader.h"
#include "io/gguf.h"
#include "io/mapped_file.h"
#include "io/pth.h"
#include "io/safetensors.h"
#include "io/shards.h"
#include "io/tensor_file.h"

namespace openwork {
namespace {

namespace fs = std::filesystem;

using Parser = TensorListing (*)(std::span<const std::byte>, std::string_view);

bool starts_with(std::span<const std::byte> file, std::string_view prefix) {
  return file.size() >= prefix.size() && std::memcmp(file.data(), prefix.data(), prefix.size()) == 0;
}

// By the first bytes; where they tell nothing, the name's ending picks whose error is shown.
Parser choose_parser(std::span<const std::byte> file, const fs::path& path) {
  constexpr size_t kLengthBytes = 8;
  if (starts_with(file, "GGUF")) return parse_gguf;
  if (starts_with(file, "PK\x03\x04")) return parse_pth;
  if (starts_with(file, "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19")) {  // its magic number
    fail_input("a PyTorch file of the old kind, from before version 1.6", path.string(),
               "load and save it again with a newer PyTorch, or as safetensors");
  }
  if (file.size() > kLengthBytes && file[kLengthBytes] == std::byte{'{'}) return parse_safetensors;
  if (file.empty()) fail_input("an empty file", path.string(), "fetch it again");
  if (starts_with(file, "version https://git-lfs")) {
    fail_input("a Git LFS pointer, not the weights", path.string(), "fetch the real file (git lfs pull)");
  }
  const std::string ending = path.extension().string();
  if (ending == ".safetensors") return parse_safetensors;
  if (ending == ".gguf") return parse_gguf;
  fail_input("not a file of weights", path.string(), "give a safetensors, GGUF or PyTorch (.pth, .bin) file");
}

// One file and its map.
class MappedTensorFile final : public TensorFile {
 public:
  explicit MappedTensorFile(const fs::path& path) : file_(path) {
    origin_ = path.string();
    TensorListing listing = choose_parser(file_.bytes(), path)(file_.bytes(), origin_);
    entries_ = std::move(listing.entries);
    metadata_ = std::move(listing.metadata);
  }

  const nlohmann::json& metadata() const override { return metadata_; }
  void release(const TensorEntry& entry) const override { file_.release(entry.bytes); }

  bool holds(const TensorEntry& entry) const {
    const auto bytes = file_.bytes();
    return !entry.bytes.empty() && std::less_equal<>()(bytes.data(), entry.bytes.data()) &&
           std::less<>()(entry.bytes.data(), bytes.data() + bytes.size());
  }

 private:
  MappedFile file_;
  nlohmann::json metadata_;
};

// Several files as one.
class ShardedTensorFile final : public TensorFile {
 public:
  explicit ShardedTensorFile(const fs::path& index_path) {
    origin_ = index_path.string();
    const ShardIndex index = parse_shard_index(MappedFile(index_path).text(), origin_);
    metadata_ = index.metadata;
    for (const std::string& shard : index.shards) open_shard(shard, index_path.parent_path() / shard);
    sort_entries(entries_, origin_);
    for (const auto& [tensor, shard] : index.weight_map) check_listed(tensor, shard);
  }

  const nlohmann::json& metadata() const override { return metadata_; }

  void release(const TensorEntry& entry) const override {
    for (const auto& [name, shard] : shards_) {
      if (shard->holds(entry)) shard->release(entry);
    }
  }

 private:
  void open_shard(const std::string& name, const fs::path& path) {
    std::error_code ignored;
    if (!fs::exists(path, ignored)) {
      fail_input(fmt::format("shard '{}' is missing", printable(name, 100)), origin_,
                 "fetch the model again; it resumes");
    }
    const auto& shard = *(shards_[name] = std::make_unique<MappedTensorFile>(path));
    entries_.insert(entries_.end(), shard.entries().begin(), shard.entries().end());
  }

  void check_listed(const std::string& tensor, const std::string& shard) const {
    if (shards_.at(shard)->find(tensor)) return;
    fail_input(fmt::format("tensor '{}' is not in shard '{}', where the index has it", printable(tensor, 100),
                           printable(shard, 100)),
               origin_, "fetch the model again");
  }

  std::map<std::string, std::unique_ptr<MappedTensorFile>> shards_;
  nlohmann::json metadata_;
};

bool is_index(const fs::path& path) {
  return path.filename().string().ends_with(".index.json");
}

std::unique_ptr<TensorFile> open_file(const fs::path& path) {
  if (is_index(path)) return std::make_unique<ShardedTensorFile>(path);
  return std::make_unique<MappedTensorFile>(path);
}

// Files that end in `ending`, less the trainer's.
std::vector<fs::path> list_files(const fs::path& folder, std::string_view ending) {
  std::vector<fs::path> files;
  std::error_code error;
  const fs::directory_iterator listing(folder, error);
  if (error)
    fail_input("the folder cannot be listed", folder.string(), "allow reading it, or name the file in it");
  for (const fs::directory_entry& entry : listing) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(ending) && !is_trainer_state(name) && entry.is_regular_file(error))
      files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

// An empty path when there is none; several are the user's to choose from.
fs::path find_lone_file(const fs::path& folder, std::string_view ending) {
  const auto files = list_files(folder, ending);
  if (files.size() > 1) {
    fail_input(fmt::format("{} {} files and no index or usual name among them", files.size(), ending),
               folder.string(), fmt::format("name one, such as {}", files.front().string()));
  }
  return files.empty() ? fs::path() : files.front();
}

fs::path find_in_folder(const fs::path& folder) {
  std::error_code ignored;
  const auto named = [&](std::string_view name) {
    return fs::exists(folder / name, ignored) ? folder / name : "";
  };
  // Usual names first: other tensors (saved passes, say) may lie beside the weights. final.pth is how the
  // published Sparse GPT-2 names them.
  for (const std::string_view name : {"model.safetensors", "model.safetensors.index.json",
                                      "pytorch_model.bin", "pytorch_model.bin.index.json", "final.pth"}) {
    if (fs::path path = named(name); !path.empty()) return path;
  }
  for (const std::string_view ending : {".safetensors", ".pth", ".bin", ".gguf"}) {
    if (fs::path path = find_lone_file(folder, ending); !path.empty()) return path;
  }
  fail_input(
      "no weights in the folder", folder.string(),
      "it should hold model.safetensors or its index, pytorch_model.bin or its index, final.pth, or one "
      "file that ends in .safetensors, .pth, .bin or .gguf");
}

}  // namespace

bool is_trainer_state(std::string_view name) {
  constexpr std::string_view kNames[] = {"training_args.bin", "optimizer.bin", "scheduler.bin",
                                         "optimizer.pth",     "scheduler.pth", "rng_state.pth"};
  if (name.starts_with("rng_state_") && name.ends_with(".pth")) return true;  // one for each rank
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

std::unique_ptr<TensorFile> open_weights(const fs::path& path) {
  std::error_code ignored;
  return open_file(fs::is_directory(path, ignored) ? find_in_folder(path) : path);
}

}  // namespace openwork
