// A pickle machine that can build tensors and nothing else. It knows the opcodes torch.save writes and six
// callables (collections.OrderedDict, torch's rebuild functions and storage types), none of which it calls:
// it notes what they would make. Any other name or opcode is refused, so a file cannot have code run.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "io/tensor_file.h"

namespace openwork {

// Larger than any state dict's (a tensor takes some 150 bytes); bounds what a hostile one can make us hold.
inline constexpr size_t kMaxPickleBytes = size_t{16} << 20;

enum class PickleKind : uint8_t {
  kNone,
  kBool,
  kInteger,
  kReal,    // `integer` or `real`
  kString,  // strings[index]
  kTuple,
  kList,  // items[index]
  kDict,  // items[index], key, value, key, value, ...
  kGlobal,
  kStorage,
  kTensor,  // storages[index], tensors[index]; globals never leave the machine
};

struct PickleValue {
  PickleKind kind = PickleKind::kNone;
  union {
    int64_t integer = 0;
    double real;
    uint32_t index;
  };
};

inline PickleValue make_value(PickleKind kind, int64_t integer = 0) {
  PickleValue value;
  value.kind = kind;
  value.integer = integer;
  return value;
}

inline PickleValue make_indexed(PickleKind kind, size_t index) {
  return make_value(kind, static_cast<int64_t>(static_cast<uint32_t>(index)));
}

struct PickledStorage {
  DType dtype = DType::kF32;
  std::string_view key;  // the storage's bytes are the zip member ARCHIVE/data/KEY
  uint64_t count = 0;    // values
};

struct PickledTensor {
  uint32_t storage = 0;
  int64_t offset = 0;  // in values
  std::vector<int64_t> shape, strides;
};

// Everything the pickle holds, side by side: values name their parts by index, so a value may stand in many
// places, even inside itself, and nothing needs freeing. Strings point into the pickle's bytes.
struct PickleDocument {
  std::vector<std::string_view> strings;
  std::vector<std::vector<PickleValue>> items;
  std::vector<PickledStorage> storages;
  std::vector<PickledTensor> tensors;
  PickleValue root;
};

inline constexpr std::string_view kPickleAdvice =
    "only plain tensors are read; save the weights again as safetensors";

PickleDocument parse_pickle(std::span<const std::byte> pickle, std::string_view origin);

}  // namespace openwork
