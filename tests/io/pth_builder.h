// PyTorch files put together by hand: pickle opcodes as torch.save writes them, in a zip of stored members.
// What the tests spoil is said by fields and arguments.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/test_files.h"

namespace openwork {

inline std::string pickle_text(std::string_view text) {
  return "X" + pack(static_cast<uint32_t>(text.size())) + std::string(text);
}
inline std::string pickle_number(int64_t number) {
  return "\x8a\x08" + pack(number);
}
inline std::string pickle_global(std::string_view module, std::string_view name) {
  return "c" + std::string(module) + "\n" + std::string(name) + "\n";
}

inline std::string pickle_tuple(const std::vector<int64_t>& numbers) {
  std::string out = "(";
  for (const int64_t number : numbers) out += pickle_number(number);
  return out + "t";
}

inline std::string pickle_storage(std::string_view type, std::string_view key, int64_t count) {
  return "(" + pickle_text("storage") + pickle_global("torch", type) + pickle_text(key) + pickle_text("cpu") +
         pickle_number(count) + "tQ";
}

struct TensorParts {
  std::string type = "FloatStorage", key = "0";
  int64_t count = 6, offset = 0;
  std::vector<int64_t> shape = {2, 3}, strides = {3, 1};
};

inline std::string pickle_tensor(const TensorParts& parts = {}) {
  return pickle_global("torch._utils", "_rebuild_tensor_v2") + "(" +
         pickle_storage(parts.type, parts.key, parts.count) + pickle_number(parts.offset) +
         pickle_tuple(parts.shape) + pickle_tuple(parts.strides) + "\x89" +
         pickle_global("collections", "OrderedDict") + ")R" + "tR";
}

using PickleItems = std::vector<std::pair<std::string, std::string>>;  // key, pickled value

inline std::string pickle_dict(const PickleItems& items) {
  std::string out = "}(";
  for (const auto& [key, value] : items) out += pickle_text(key) + value;
  return out + "u";
}

inline std::string finish_pickle(std::string_view value) {
  return "\x80\x02" + std::string(value) + ".";
}

struct ZipPart {
  std::string name, content;
  uint16_t method = 0, flags = 0;
};

// `zip64` writes sizes and places as 64-bit numbers, as torch does for files of 4 GB and more.
inline std::string make_zip(const std::vector<ZipPart>& parts, bool zip64 = false) {
  std::string file, directory;
  for (const ZipPart& part : parts) {
    const uint64_t offset = file.size(), size = part.content.size();
    const auto narrow = [&](uint64_t value) {
      return pack(zip64 ? 0xffffffffu : static_cast<uint32_t>(value));
    };
    const std::string fields = pack(part.flags) + pack(part.method) + pack<uint32_t>(0) + pack<uint32_t>(0);
    const std::string extra =
        zip64 ? pack<uint16_t>(1) + pack<uint16_t>(24) + pack(size) + pack(size) + pack(offset) : "";
    const auto name = static_cast<uint16_t>(part.name.size());
    file += "PK\3\4" + pack<uint16_t>(0) + fields + narrow(size) + narrow(size) + pack(name) +
            pack<uint16_t>(7) + part.name + "padding" + part.content;
    directory += "PK\1\2" + pack<uint16_t>(0) + pack<uint16_t>(0) + fields + narrow(size) + narrow(size) +
                 pack(name) + pack(static_cast<uint16_t>(extra.size())) + pack<uint16_t>(0) +
                 pack<uint16_t>(0) + pack<uint16_t>(0) + pack<uint32_t>(0) + narrow(offset) + part.name +
                 extra;
  }
  const uint64_t at = file.size(), count = parts.size(), size = directory.size();
  file += directory;
  if (zip64) {
    const uint64_t record = file.size();
    file += "PK\6\6" + pack<uint64_t>(44) + pack<uint32_t>(0) + pack<uint64_t>(0) + pack(count) +
            pack(count) + pack(size) + pack(at);
    file += "PK\6\7" + pack<uint32_t>(0) + pack(record) + pack<uint32_t>(1);
  }
  const auto shown = static_cast<uint16_t>(zip64 ? 0xffff : count);
  return file + "PK\5\6" + pack<uint32_t>(0) + pack(shown) + pack(shown) +
         pack(zip64 ? 0xffffffffu : static_cast<uint32_t>(size)) +
         pack(zip64 ? 0xffffffffu : static_cast<uint32_t>(at)) + pack<uint16_t>(0);
}

// A file whose storage "0" holds the floats 0 to 5.
inline std::string make_pth(std::string_view value) {
  std::string storage;
  for (int i = 0; i < 6; ++i) storage += pack(static_cast<float>(i));
  return make_zip({{"m/data.pkl", finish_pickle(value)}, {"m/byteorder", "little"}, {"m/data/0", storage}});
}

}  // namespace openwork
