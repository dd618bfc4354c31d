#include "model/key_value_cache.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "base/error.h"

namespace openwork {

KeyValueCache::KeyValueCache(int64_t layers, int64_t capacity)
    : slots_(static_cast<size_t>(layers)), capacity_(capacity) {}

std::pair<Tensor, Tensor> KeyValueCache::extend(int64_t layer, const Tensor& k, const Tensor& v) {
  Slot& slot = slots_[static_cast<size_t>(layer)];
  const int64_t tokens = k.size(2), total = length_ + tokens;
  if (total > capacity_) {
    fail_input(fmt::format("{} tokens, but the cache has room for {}", total, capacity_), "key/value cache",
               "use a shorter prompt or generate fewer tokens");
  }
  if (!slot.k.defined()) {
    slot.k = at::empty({k.size(0), k.size(1), capacity_, k.size(3)}, k.options());
    slot.v = at::empty_like(slot.k);
  }
  slot.k.narrow(2, length_, tokens).copy_(k);
  slot.v.narrow(2, length_, tokens).copy_(v);
  return {slot.k.narrow(2, 0, total), slot.v.narrow(2, 0, total)};
}

}  // namespace openwork
