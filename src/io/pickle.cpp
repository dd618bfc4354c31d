#include "io/pickle.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "base/error.h"
#include "base/utf8.h"
#include "io/byte_reader.h"
#include "io/pickle_names.h"
#include "io/pickle_stack.h"

namespace openwork {
namespace {

constexpr size_t kLongestGlobal = 256;

class Machine {
 public:
  Machine(std::span<const std::byte> pickle, std::string_view origin)
      : reader_(pickle, origin), names_(document_, origin), stack_(origin) {}

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

  [[noreturn]] void refuse(std::string_view what) const { fail_input(what, reader_.origin(), kPickleAdvice); }
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
  bool push_global(std::string_view module, std::string_view name) { return push(names_.find(module, name)); }

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
  bool push_storage() {
    const PickleValue id = stack_.pop();
    items_of(id, PickleKind::kTuple);
    return push(names_.make_storage(id));
  }

  bool reduce() {
    const PickleValue arguments = stack_.pop(), callable = stack_.pop();
    items_of(arguments, PickleKind::kTuple);
    return push(names_.call(callable, arguments));
  }

  // Sets attributes; torch gives a state dict its _metadata so. Nothing reads them, so they are dropped.
  bool build() {
    items_of(stack_.pop(), PickleKind::kDict);
    expect_top(PickleKind::kDict);
    return false;
  }

  ByteReader reader_;
  PickleDocument document_;
  PickleNames names_;
  PickleStack stack_;
};

}  // namespace

void refuse_pickle(std::string_view what, std::string_view origin) {
  fail_input(fmt::format("damaged pickle: {}", what), origin, kDamagedAdvice);
}

PickleDocument parse_pickle(std::span<const std::byte> pickle, std::string_view origin) {
  if (pickle.size() > kMaxPickleBytes) {
    fail_input(fmt::format("a pickle of {} bytes, more than {}", pickle.size(), kMaxPickleBytes), origin,
               kPickleAdvice);
  }
  return Machine(pickle, origin).run();
}

}  // namespace openwork
