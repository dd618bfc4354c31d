#include "io/pth.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "io/byte_reader.h"
#include "io/pickle.h"
#include "io/zip.h"

namespace openwork {
namespace {

constexpr size_t kMaxDictDepth = 32;
// Bytes of names plus values visited: a pickle may hold one dict in very many places.
constexpr size_t kMaxFlattening = size_t{16} << 20;
constexpr std::string_view kPthAdvice = "the file is damaged or lies; save the weights again as safetensors";

using Members = std::map<std::string, ZipMember, std::less<>>;

std::span<const std::byte> use_member(const Members& members, const std::string& name,
                                      std::string_view origin) {
  const auto found = members.find(name);
  if (found == members.end()) {
    fail_input(fmt::format("no member '{}'", printable(name, 100)), origin, kDamagedAdvice);
  }
  if (!found->second.stored) {
    fail_input(fmt::format("member '{}' is compressed", printable(name, 100)), origin,
               "save the weights again with torch.save, which stores them uncompressed");
  }
  return found->second.bytes;
}

// The folder inside the zip that everything lies in: what stands before "/data.pkl".
std::string find_archive(const Members& members, std::string_view origin) {
  constexpr std::string_view kPickle = "/data.pkl";
  for (const auto& [name, member] : members) {
    const size_t slash = name.find('/');
    if (slash != std::string::npos && std::string_view(name).substr(slash) == kPickle)
      return name.substr(0, slash);
  }
  fail_input("a zip file without data.pkl", origin, "this is not a file of torch.save");
}

void check_byte_order(const Members& members, const std::string& archive, std::string_view origin) {
  const std::string name = archive + "/byteorder";
  if (!members.contains(name)) return;
  const auto bytes = use_member(members, name, origin);
  const std::string_view order(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (order != "little") {
    fail_input(fmt::format("byte order '{}'", printable(order, 20)), origin,
               "save the weights again on a little-endian machine");
  }
}

// Turns the pickle's tree into named entries.
class Flattener {
 public:
  Flattener(const PickleDocument& document, const Members& members, std::string archive,
            std::string_view origin)
      : document_(document), members_(members), archive_(std::move(archive)), origin_(origin) {}

  std::vector<TensorEntry> flatten() {
    const PickleValue root = unwrap(document_.root);
    if (root.kind != PickleKind::kDict) {
      fail_input("no dict of tensors", origin_, "save a state dict: torch.save(model.state_dict(), FILE)");
    }
    visit(root, "", 0);
    return std::move(entries_);
  }

 private:
  // Training programs keep the weights under one of these names, beside an optimiser's state.
  PickleValue unwrap(PickleValue root) const {
    if (root.kind != PickleKind::kDict) return root;
    for (const std::string_view wanted : {"state_dict", "model_state_dict", "model"}) {
      const auto& items = document_.items[root.index];
      for (size_t i = 0; i + 1 < items.size(); i += 2) {
        const bool named =
            items[i].kind == PickleKind::kString && document_.strings[items[i].index] == wanted;
        if (named && items[i + 1].kind == PickleKind::kDict) return items[i + 1];
      }
    }
    return root;
  }

  void visit(PickleValue value, const std::string& name, size_t depth) {
    spent_ += name.size() + 1;
    if (depth > kMaxDictDepth || spent_ > kMaxFlattening) {
      fail_input("dicts nested too deep or too often", origin_, kPthAdvice);
    }
    switch (value.kind) {
      case PickleKind::kTensor:
        entries_.push_back(make_entry(document_.tensors[value.index], name));
        return;
      case PickleKind::kDict:
        return visit_dict(document_.items[value.index], name, depth);
      case PickleKind::kList:
      case PickleKind::kTuple:
        return visit_list(document_.items[value.index], name, depth);
      default:
        return;  // a step count, a version: not weights
    }
  }

  void visit_dict(const std::vector<PickleValue>& items, const std::string& name, size_t depth) {
    for (size_t i = 0; i + 1 < items.size(); i += 2)
      visit(items[i + 1], join(name, describe_key(items[i])), depth + 1);
  }

  void visit_list(const std::vector<PickleValue>& items, const std::string& name, size_t depth) {
    for (size_t i = 0; i < items.size(); ++i) visit(items[i], join(name, std::to_string(i)), depth + 1);
  }

  static std::string join(const std::string& name, std::string_view part) {
    return name.empty() ? std::string(part) : fmt::format("{}.{}", name, part);
  }

  std::string describe_key(PickleValue key) const {
    if (key.kind == PickleKind::kString) return std::string(document_.strings[key.index]);
    if (key.kind == PickleKind::kInteger) return std::to_string(key.integer);
    fail_input("a dict key that is neither text nor a whole number", origin_, kPthAdvice);
  }

  // The storage's bytes, checked against the size the pickle gives.
  std::span<const std::byte> find_storage(const PickledStorage& storage, std::string_view tensor) const {
    const auto bytes = use_member(members_, fmt::format("{}/data/{}", archive_, storage.key), origin_);
    const uint64_t size = dtype_bytes(storage.dtype, 1);
    if (storage.count > bytes.size() / size) {
      fail_input(fmt::format("a storage of {} {} values in {} bytes", storage.count,
                             dtype_name(storage.dtype), bytes.size()),
                 describe_tensor(tensor, origin_), kDamagedAdvice);
    }
    return bytes.first(storage.count * size);
  }

  TensorEntry make_entry(const PickledTensor& tensor, const std::string& name) const {
    const PickledStorage& storage = document_.storages[tensor.storage];
    const auto bytes = find_storage(storage, name);
    const uint64_t values = count_values(tensor.shape, name, origin_);
    const uint64_t reach = find_reach(tensor, values, name);
    const auto offset = static_cast<uint64_t>(tensor.offset);
    if (tensor.offset < 0 || offset > storage.count || reach > storage.count - offset ||
        values > storage.count) {
      fail_input(fmt::format("shape [{}] with strides [{}] at {} does not fit its storage of {} values",
                             fmt::join(tensor.shape, ", "), fmt::join(tensor.strides, ", "), tensor.offset,
                             storage.count),
                 describe_tensor(name, origin_), kPthAdvice);
    }
    const uint64_t size = dtype_bytes(storage.dtype, 1);
    TensorEntry entry{name, storage.dtype, tensor.shape, tensor.strides,
                      bytes.subspan(offset * size, reach * size)};
    if (entry.is_contiguous()) entry.strides.clear();
    return entry;
  }

  // Values from the tensor's first to one past its last.
  uint64_t find_reach(const PickledTensor& tensor, uint64_t values, std::string_view name) const {
    int64_t last = 0;
    for (size_t i = 0; values > 0 && i < tensor.shape.size(); ++i) {
      int64_t step = 0;
      if (tensor.strides[i] < 0 || __builtin_mul_overflow(tensor.shape[i] - 1, tensor.strides[i], &step) ||
          __builtin_add_overflow(last, step, &last)) {
        fail_input(fmt::format("strides [{}] are negative or too large", fmt::join(tensor.strides, ", ")),
                   describe_tensor(name, origin_), kPthAdvice);
      }
    }
    return values == 0 ? 0 : static_cast<uint64_t>(last) + 1;
  }

  const PickleDocument& document_;
  const Members& members_;
  std::string archive_;
  std::string_view origin_;
  std::vector<TensorEntry> entries_;
  size_t spent_ = 0;
};

}  // namespace

TensorListing parse_pth(std::span<const std::byte> file, std::string_view origin) {
  const Members members = parse_zip(file, origin);
  const std::string archive = find_archive(members, origin);
  check_byte_order(members, archive, origin);
  const PickleDocument document = parse_pickle(use_member(members, archive + "/data.pkl", origin), origin);
  TensorListing listing;
  listing.entries = Flattener(document, members, archive, origin).flatten();
  sort_entries(listing.entries, origin);
  return listing;
}

}  // namespace openwork
