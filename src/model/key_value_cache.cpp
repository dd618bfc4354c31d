#include "model/key_value_cache.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "base/error.h"
#include "ops/append_tokens.h"

namespace openwork {

KeyValueCache::KeyValueCache(int64_t layers, int64_t capacity)
    : slots_(static_cast<size_t>(layers)), capacity_(capacity) {}

KeyValueCache::Slot& KeyValueCache::reserve(int64_t layer, int64_t tokens, at::IntArrayRef sizes,
                                            const at::TensorOptions& options) {
  Slot& slot = slots_[static_cast<size_t>(layer)];
  if (length_ + tokens > capacity_) {
    fail_input(fmt::format("{} tokens, but the cache has room for {}", length_ + tokens, capacity_),
               "key/value cache", "use a shorter prompt or generate fewer tokens");
  }
  if (!slot.k.defined()) {
    slot.k = at::empty({sizes[0], sizes[1], capacity_, sizes[2]}, options);
    slot.v = at::empty_like(slot.k);
  }
  return slot;
}

std::pair<Tensor, Tensor> KeyValueCache::extend(int64_t layer, const Tensor& k, const Tensor& v) {
  const int64_t tokens = k.size(2), total = length_ + tokens;
  const Slot& slot = reserve(layer, tokens, {k.size(0), k.size(1), k.size(3)}, k.options());
  slot.k.narrow(2, length_, tokens).copy_(k);
  slot.v.narrow(2, length_, tokens).copy_(v);
  return {slot.k.narrow(2, 0, total), slot.v.narrow(2, 0, total)};
}

KeyValueCache::Turned KeyValueCache::extend_turned(int64_t layer, const Tensor& q, const Tensor& k,
                                                   const Tensor& v, const RotaryTable& table) {
  const int64_t tokens = k.size(1), total = length_ + tokens;
  Slot& slot = reserve(layer, tokens, {k.size(0), k.size(2), k.size(3)}, k.options());
  const Tensor turned = append_tokens(q, k, v, table.cosine, table.sine, slot.k, slot.v, length_);
  return {turned.transpose(1, 2), slot.k.narrow(2, 0, total), slot.v.narrow(2, 0, total)};
}

RotaryTable KeyValueCache::rotary(const Rope& rope, int64_t tokens, const at::TensorOptions& options) {
  // Dynamic frequencies are those of the text's length, and beyond the capacity extend has its own word to say.
  if (rope.kind == "dynamic" || length_ + tokens > capacity_)
    return make_rotary_table(rope, length_, tokens, options);
  if (!table_.cosine.defined()) table_ = make_rotary_table(rope, 0, capacity_, options);
  return {table_.cosine.narrow(0, length_, tokens), table_.sine.narrow(0, length_, tokens)};
}

}  // namespace openwork
