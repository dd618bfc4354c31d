#include "io/pickle_names.h"

#include <fmt/format.h>

#include "base/error.h"
#include "io/pickle_stack.h"
#include "io/tensor_listing.h"

namespace openwork {
namespace {

// A storage type's number is kFirstStorage plus its place in kStorageTypes.
enum Global : int64_t { kOrderedDict, kRebuildTensor, kRebuildParameter, kFirstStorage };

struct StorageType {
  std::string_view name;
  DType dtype;
};

constexpr StorageType kStorageTypes[] = {
    {"DoubleStorage", DType::kF64},    {"FloatStorage", DType::kF32}, {"HalfStorage", DType::kF16},
    {"BFloat16Storage", DType::kBF16}, {"LongStorage", DType::kI64},  {"IntStorage", DType::kI32},
    {"ShortStorage", DType::kI16},     {"CharStorage", DType::kI8},   {"ByteStorage", DType::kU8},
    {"BoolStorage", DType::kBool},
};

}  // namespace

PickleValue PickleNames::find(std::string_view module, std::string_view name) const {
  const auto value = [](int64_t global) { return make_value(PickleKind::kGlobal, global); };
  if (module == "collections" && name == "OrderedDict") return value(kOrderedDict);
  if (module == "torch._utils" && name == "_rebuild_tensor_v2") return value(kRebuildTensor);
  if (module == "torch._utils" && name == "_rebuild_parameter") return value(kRebuildParameter);
  for (size_t i = 0; module == "torch" && i < std::size(kStorageTypes); ++i) {
    if (kStorageTypes[i].name == name) return value(kFirstStorage + static_cast<int64_t>(i));
  }
  refuse(fmt::format("'{}.{}'", printable(module, 100), printable(name, 100)));
}

PickleValue PickleNames::call(PickleValue callable, PickleValue arguments) {
  if (callable.kind != PickleKind::kGlobal) refuse_pickle("a call of what cannot be called", origin_);
  const auto& given = document_.items[arguments.index];
  switch (callable.integer) {
    case kOrderedDict:
      if (!given.empty()) refuse("an OrderedDict with arguments");
      document_.items.emplace_back();
      return make_indexed(PickleKind::kDict, document_.items.size() - 1);
    case kRebuildTensor:
      return rebuild_tensor(given);
    case kRebuildParameter:
      if (given.size() != 3 || given[0].kind != PickleKind::kTensor)
        refuse_pickle("not a parameter", origin_);
      return given[0];
    default:
      refuse("a storage type called");
  }
}

PickleValue PickleNames::make_storage(PickleValue id) {
  const auto& parts = document_.items[id.index];
  const bool good = parts.size() == 5 && is_text(parts[0], "storage") &&
                    parts[1].kind == PickleKind::kGlobal && parts[1].integer >= kFirstStorage &&
                    parts[2].kind == PickleKind::kString && parts[4].kind == PickleKind::kInteger &&
                    parts[4].integer >= 0;
  if (!good) refuse("a persistent id that is no storage");
  const DType dtype = kStorageTypes[parts[1].integer - kFirstStorage].dtype;
  const std::string_view key = document_.strings[parts[2].index];
  document_.storages.push_back({dtype, key, static_cast<uint64_t>(parts[4].integer)});
  return make_indexed(PickleKind::kStorage, document_.storages.size() - 1);
}

PickleValue PickleNames::rebuild_tensor(const std::vector<PickleValue>& arguments) {
  if (arguments.size() < 6 || arguments.size() > 7 || arguments[0].kind != PickleKind::kStorage ||
      arguments[1].kind != PickleKind::kInteger) {
    refuse_pickle("not a tensor", origin_);
  }
  PickledTensor tensor;
  tensor.storage = arguments[0].index;
  tensor.offset = arguments[1].integer;
  tensor.shape = integers_of(arguments[2]);
  tensor.strides = integers_of(arguments[3]);
  if (tensor.shape.size() != tensor.strides.size()) {
    refuse_pickle("a tensor's shape and strides disagree", origin_);
  }
  document_.tensors.push_back(std::move(tensor));
  return make_indexed(PickleKind::kTensor, document_.tensors.size() - 1);
}

std::vector<int64_t> PickleNames::integers_of(PickleValue tuple) const {
  if (tuple.kind != PickleKind::kTuple || document_.items[tuple.index].size() > kMaxRank) {
    refuse_pickle(fmt::format("a tensor's sizes are no tuple of at most {}", kMaxRank), origin_);
  }
  std::vector<int64_t> integers;
  for (const PickleValue value : document_.items[tuple.index]) {
    if (value.kind != PickleKind::kInteger) refuse_pickle("a tensor's sizes are no integers", origin_);
    integers.push_back(value.integer);
  }
  return integers;
}

bool PickleNames::is_text(PickleValue value, std::string_view wanted) const {
  return value.kind == PickleKind::kString && document_.strings[value.index] == wanted;
}

void PickleNames::refuse(std::string_view what) const {
  fail_input(fmt::format("a pickle with anything but tensors in it ({})", what), origin_, kPickleAdvice);
}

}  // namespace openwork
