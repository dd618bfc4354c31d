#include "io/pickle.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <optional>

#include "base/error.h"
#include "base/utf8.h"
#include "io/byte_reader.h"
#include "io/pickle_stack.h"
#include "io/tensor_listing.h"

namespace openwork {
namespace {

constexpr std::string_view kAdvice = "only plain tensors are read; save the weights again as safetensors";
constexpr size_t kLongestGlobal = 256;

// The callables torch.save writes; what each makes is decided in reduce().
enum class Global : int64_t { kOrderedDict, kRebuildTensor, kRebuildParameter, kFirstStorage };

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

// A storage type is kFirstStorage plus its place in kStorageTypes.
std::optional<int64_t> find_global(std::string_view module, std::string_view name) {
  if (module == "collections" && name == "OrderedDict") return static_cast<int64_t>(Global::kOrderedDict);
  if (module == "torch._utils" && name == "_rebuild_tensor_v2")
    return static_cast<int64_t>(Global::kRebuildTensor);
  if (module == "torch._utils" && name == "_rebuild_parameter") {
    return static_cast<int64_t>(Global::kRebuildParameter);
  }
  for (size_t i = 0; module == "torch" && i < std::size(kStorageTypes); ++i) {
    if (kStorageTypes[i].name == name)
      return static_cast<int64_t>(Global::kFirstStorage) + static_cast<int64_t>(i);
  }
  return std::nullopt;
}

PickleValue make_value(PickleKind kind, int64_t integer = 0) {
  PickleValue value;
  value.kind = kind;
  value.integer = integer;
  return value;
}

PickleValue make_indexed(PickleKind kind, size_t index) {
  return make_value(kind, static_cast<int64_t>(static_cast<uint32_t>(index)));
}

class Machine {
 public:
  Machine(std::span<const std::byte> pickle, std::string_view origin)
      : reader_(pickle, origin), stack_(origin) {}

  PickleDocument run() {
    while (!step(reader_.read<uint8_t>("an opcode"))) {
    }
    document_.root = stack_.pop();
    return std::move(document_);
  }

 private:
  // One opcode; true at the end. The letters are pickle's own.
  // clang-format off
  bool step(uint8_t opcode) {
    switch (opcode) {
      case 0x80: return check_protocol(number<uint8_t>());
      case 0x95: return skip_frame();
      case '.': return true;
      case '(': return push_mark();
      case 'N': return push(make_value(PickleKind::kNone));
      case 0x88: return push(make_value(PickleKind::kBool, 1));
      case 0x89: return push(make_value(PickleKind::kBool, 0));
      case 'J': return push(make_value(PickleKind::kInteger, number<int32_t>()));
      case 'K': return push(make_value(PickleKind::kInteger, number<uint8_t>()));
      case 'M': return push(make_value(PickleKind::kInteger, number<uint16_t>()));
      case 0x8a: return push(make_value(PickleKind::kInteger, read_long()));
      case 'G': return push_real();
      case 'X': return push_string(number<uint32_t>());
      case 0x8c: return push_string(number<uint8_t>());
      case 0x8d: return push_string(number<uint64_t>());
      case '}': return push_items(PickleKind::kDict, {});
      case ']': return push_items(PickleKind::kList, {});
      case ')': return push_items(PickleKind::kTuple, {});
      case 't': return push_items(PickleKind::kTuple, stack_.pop_to_mark());
      case 0x85: return push_items(PickleKind::kTuple, stack_.pop_last(1));
      case 0x86: return push_items(PickleKind::kTuple, stack_.pop_last(2));
      case 0x87: return push_items(PickleKind::kTuple, stack_.pop_last(3));
      case 'a': return append(PickleKind::kList, stack_.pop_last(1));
      case 'e': return append(PickleKind::kList, stack_.pop_to_mark());
      case 's': return append(PickleKind::kDict, stack_.pop_last(2));
      case 'u': return append(PickleKind::kDict, stack_.pop_to_mark());
      case 'q': return remember(number<uint8_t>());
      case 'r': return remember(number<uint32_t>());
      case 0x94: return remember(stack_.remembered());
      case 'h': return recall(number<uint8_t>());
      case 'j': return recall(number<uint32_t>());
      case 'c': return push_global_lines();
      case 0x93: return push_global_strings();
      case 'Q': return push_storage();
      case 'R': return reduce();
      case 'b': return build();
      default: refuse(fmt::format("a pickle with anything but tensors in it (opcode 0x{:02x})", opcode));
    }
  }
  // clang-format on

  template <typename Number>
  Number number() {
    return reader_.read<Number>("a pickle");
  }

  [[noreturn]] void refuse(std::string_view what) const { fail_input(what, reader_.origin(), kAdvice); }
  [[noreturn]] void refuse_damaged(std::string_view what) const { refuse_pickle(what, reader_.origin()); }

  bool check_protocol(uint8_t protocol) const {
    if (protocol < 2 || protocol > 5) refuse(fmt::format("pickle protocol {} is not supported", protocol));
    return false;
  }

  bool skip_frame() {  // its length; the bytes follow as usual
    reader_.take(8, "a frame");
    return false;
  }

  // --- the stack; each returns false, for step()
  bool push_mark() {
    stack_.mark();
    return false;
  }

  bool push(PickleValue value) {
    stack_.push(value);
    return false;
  }

  bool remember(uint32_t place) {
    stack_.remember(place);
    return false;
  }

  bool recall(uint32_t place) {
    stack_.recall(place);
    return false;
  }

  // --- plain values
  int64_t read_long() {
    const auto size = number<uint8_t>();
    if (size > 8) refuse(fmt::format("an integer of {} bytes", size));
    const auto bytes = reader_.take(size, "a pickle");
    uint64_t value = 0;
    for (size_t i = 0; i < size; ++i) value |= std::to_integer<uint64_t>(bytes[i]) << (8 * i);
    const bool negative = size > 0 && (bytes[size - 1] & std::byte{0x80}) != std::byte{0};
    if (negative && size < 8) value |= ~uint64_t{0} << (8 * size);
    return static_cast<int64_t>(value);
  }

  bool push_real() {  // big-endian, unlike everything else in a pickle
    PickleValue value = make_value(PickleKind::kReal);
    value.real = std::bit_cast<double>(__builtin_bswap64(number<uint64_t>()));
    return push(value);
  }

  bool push_string(uint64_t size) {
    const std::string_view text = reader_.take_text(size, "a string");
    if (find_invalid_utf8(text) != std::string_view::npos) refuse_damaged("a string is not UTF-8");
    document_.strings.push_back(text);
    return push(make_indexed(PickleKind::kString, document_.strings.size() - 1));
  }

  bool push_items(PickleKind kind, std::vector<PickleValue> values) {
    document_.items.push_back(std::move(values));
    return push(make_indexed(kind, document_.items.size() - 1));
  }

  bool append(PickleKind kind, const std::vector<PickleValue>& values) {
    if (kind == PickleKind::kDict && values.size() % 2 != 0) refuse_damaged("a key without a value");
    auto& items = document_.items[expect_top(kind).index];
    items.insert(items.end(), values.begin(), values.end());
    return false;
  }

  PickleValue expect_top(PickleKind kind) {
    const PickleValue value = stack_.pop();
    if (value.kind != kind) refuse_damaged("an operation on the wrong kind of value");
    push(value);
    return value;
  }

  const std::vector<PickleValue>& items_of(PickleValue value, PickleKind kind) const {
    if (value.kind != kind) refuse_damaged("an operation on the wrong kind of value");
    return document_.items[value.index];
  }

  std::string_view string_of(PickleValue value) const {
    if (value.kind != PickleKind::kString) refuse_damaged("a string is missing");
    return document_.strings[value.index];
  }

  // --- names of callables
  bool push_global(std::string_view module, std::string_view name) {
    const auto global = find_global(module, name);
    if (!global) {
      refuse(fmt::format("a pickle with anything but tensors in it ('{}.{}')", printable(module, 100),
                         printable(name, 100)));
    }
    return push(make_value(PickleKind::kGlobal, *global));
  }

  std::string_view read_line() {
    const size_t room = std::min(reader_.remaining(), kLongestGlobal);
    ByteReader ahead = reader_;
    const std::string_view text = ahead.take_text(room, "a name");
    const size_t end = text.find('\n');
    if (end == std::string_view::npos) refuse_damaged("a name without an end");
    return reader_.take_text(end + 1, "a name").substr(0, end);
  }

  bool push_global_lines() {
    const std::string_view module = read_line(), name = read_line();
    return push_global(module, name);
  }

  bool push_global_strings() {
    const std::string_view name = string_of(stack_.pop()), module = string_of(stack_.pop());
    return push_global(module, name);
  }

  // --- storages and tensors
  // ("storage", type, key, location, count)
  bool push_storage() {
    const auto& parts = items_of(stack_.pop(), PickleKind::kTuple);
    constexpr auto kFirst = static_cast<int64_t>(Global::kFirstStorage);
    if (parts.size() != 5 || string_of(parts[0]) != "storage" || parts[1].kind != PickleKind::kGlobal ||
        parts[1].integer < kFirst || parts[4].kind != PickleKind::kInteger || parts[4].integer < 0) {
      refuse("a pickle with anything but tensors in it (a persistent id that is no storage)");
    }
    const DType dtype = kStorageTypes[parts[1].integer - kFirst].dtype;
    document_.storages.push_back({dtype, string_of(parts[2]), static_cast<uint64_t>(parts[4].integer)});
    return push(make_indexed(PickleKind::kStorage, document_.storages.size() - 1));
  }

  bool reduce() {
    const auto arguments = items_of(stack_.pop(), PickleKind::kTuple);
    const PickleValue callable = stack_.pop();
    if (callable.kind != PickleKind::kGlobal) refuse_damaged("a call of what cannot be called");
    switch (static_cast<Global>(callable.integer)) {
      case Global::kOrderedDict:
        if (!arguments.empty()) refuse("an OrderedDict with arguments");
        return push_items(PickleKind::kDict, {});
      case Global::kRebuildTensor:
        return rebuild_tensor(arguments);
      case Global::kRebuildParameter:  // (tensor, requires_grad, hooks)
        if (arguments.size() != 3 || arguments[0].kind != PickleKind::kTensor)
          refuse_damaged("not a parameter");
        return push(arguments[0]);
      default:
        refuse("a pickle with anything but tensors in it (a storage type called)");
    }
  }

  // (storage, offset, shape, strides, requires_grad, hooks[, metadata])
  bool rebuild_tensor(const std::vector<PickleValue>& arguments) {
    if (arguments.size() < 6 || arguments.size() > 7 || arguments[0].kind != PickleKind::kStorage ||
        arguments[1].kind != PickleKind::kInteger) {
      refuse_damaged("not a tensor");
    }
    PickledTensor tensor;
    tensor.storage = arguments[0].index;
    tensor.offset = arguments[1].integer;
    tensor.shape = integers_of(arguments[2]);
    tensor.strides = integers_of(arguments[3]);
    if (tensor.shape.size() != tensor.strides.size()) refuse_damaged("a tensor's shape and strides disagree");
    document_.tensors.push_back(std::move(tensor));
    return push(make_indexed(PickleKind::kTensor, document_.tensors.size() - 1));
  }

  std::vector<int64_t> integers_of(PickleValue tuple) const {
    const auto& values = items_of(tuple, PickleKind::kTuple);
    if (values.size() > kMaxRank)
      refuse_damaged(fmt::format("a tensor of more than {} dimensions", kMaxRank));
    std::vector<int64_t> integers;
    for (const PickleValue value : values) {
      if (value.kind != PickleKind::kInteger) refuse_damaged("a tensor's sizes are no integers");
      integers.push_back(value.integer);
    }
    return integers;
  }

  // Sets attributes; torch gives a state dict its _metadata so. Nothing reads them, so they are dropped.
  bool build() {
    items_of(stack_.pop(), PickleKind::kDict);
    expect_top(PickleKind::kDict);
    return false;
  }

  ByteReader reader_;
  PickleDocument document_;
  PickleStack stack_;
};

}  // namespace

void refuse_pickle(std::string_view what, std::string_view origin) {
  fail_input(fmt::format("damaged pickle: {}", what), origin, kDamagedAdvice);
}

PickleDocument parse_pickle(std::span<const std::byte> pickle, std::string_view origin) {
  if (pickle.size() > kMaxPickleBytes) {
    fail_input(fmt::format("a pickle of {} bytes, more than {}", pickle.size(), kMaxPickleBytes), origin,
               kAdvice);
  }
  return Machine(pickle, origin).run();
}

}  // namespace openwork
