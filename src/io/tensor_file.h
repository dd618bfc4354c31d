// Named tensors in a file, whatever its format: a TensorFile lists entries that point into a memory map, so
// opening reads the header and no weights. read_f32 turns any entry, quantised ones too, into plain floats.
//   auto weights = open_weights("models/openwork-8m");   // folder, .safetensors, .gguf, .pth or .bin
//   const TensorEntry& entry = weights->at("transformer.wte.weight");
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace openwork {

// How numbers lie in a file: plain numbers; what safetensors also has and is only listed; GGUF's blocks of
// quantised ones.
enum class DType {
  kF64,
  kF32,
  kF16,
  kBF16,
  kI64,
  kI32,
  kI16,
  kI8,
  kU8,
  kU16,
  kU32,
  kU64,
  kBool,
  kC64,
  kF8_E4M3,
  kF8_E5M2,
  kF8_E8M0,
  kF8_E4M3FNUZ,
  kF8_E5M2FNUZ,
  kF6_E2M3,
  kF6_E3M2,
  kF4,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ8_0,
  kQ2_K,
  kQ3_K,
  kQ4_K,
  kQ5_K,
  kQ6_K,
};

std::string_view dtype_name(DType dtype);  // "F32", "BF16", "Q4_K", ...
std::optional<DType> find_dtype(std::string_view name);
bool is_quantised(DType dtype);
bool is_listed_only(DType dtype);  // read_f32 refuses it
// Values that lie together: 1; 2 or 4 where they take less than a byte, 32 or 256 when quantised.
uint64_t dtype_block(DType dtype);
// Bytes that `count` values take (whole blocks; count must be a multiple of the block).
uint64_t dtype_bytes(DType dtype, uint64_t count);

struct TensorEntry {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;        // outermost first, as torch has it
  std::vector<int64_t> strides;      // in elements; empty means contiguous (only .pth has others)
  std::span<const std::byte> bytes;  // inside the map, perhaps unaligned; valid while the TensorFile lives

  int64_t element_count() const;
  bool is_contiguous() const;  // row-major, no gaps
};

class TensorFile {
 public:
  virtual ~TensorFile() = default;

  // Sorted by name, each name once.
  const std::vector<TensorEntry>& entries() const { return entries_; }
  const TensorEntry* find(std::string_view name) const;  // nullptr when absent
  const TensorEntry& at(std::string_view name) const;    // fails naming the file and near names
  // Fails, naming the tensor and the file, where it is missing or has another shape.
  void check_shape(std::string_view name, const std::vector<int64_t>& wanted) const;

  // Where it came from, for messages, and what the file says of itself (safetensors metadata, GGUF keys).
  const std::string& origin() const { return origin_; }
  virtual const nlohmann::json& metadata() const = 0;

  // Gives the pages of an entry back to the system once its numbers were copied elsewhere; they are read
  // again on the next touch. Keeps peak memory near the size of what was copied.
  virtual void release(const TensorEntry& entry) const = 0;

 protected:
  std::string origin_;
  std::vector<TensorEntry> entries_;
};

// Opens one file by its content (not its ending), an index file with its shards, or a folder, where the first
// of these counts: model.safetensors(.index.json), pytorch_model.bin(.index.json), final.pth, then a lone
// *.safetensors, *.pth, *.bin or *.gguf. Bad input is one error; nothing is executed, nothing read outside them.
std::unique_ptr<TensorFile> open_weights(const std::filesystem::path& path);

// A pickle that Hugging Face's trainer leaves beside the weights, by its name: optimizer.bin, rng_state.pth, ...
bool is_trainer_state(std::string_view name);

// The entry's numbers as floats in row-major order; out.size() must be element_count(). Any dtype
// but those that are only listed.
void read_f32(const TensorEntry& entry, std::span<float> out);

// A contiguous copy of the entry's bytes in row-major order (plain dtypes only); out must fit exactly.
void read_bytes(const TensorEntry& entry, std::span<std::byte> out);

}  // namespace openwork
