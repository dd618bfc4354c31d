// Keys and values of the tokens already seen, per layer, so that generation computes each token once.
// Room is taken for `capacity` tokens at the first use of a layer.
#pragma once
#include <ATen/core/Tensor.h>

#include <utility>
#include <vector>

#include "model/rotary.h"

namespace openwork {

class KeyValueCache {
 public:
  KeyValueCache(int64_t layers, int64_t capacity);

  int64_t length() const { return length_; }  // tokens held
  int64_t capacity() const { return capacity_; }

  // Appends k, v [B, G, T, d] of one layer behind what it holds and returns all of it, [B, G, length + T, d].
  std::pair<Tensor, Tensor> extend(int64_t layer, const Tensor& k, const Tensor& v);
  // The same in one kernel where there is one (ops/append_tokens.h): q, k, v [B, T, heads, d], of which q and k are
  // first turned by `table` (without tensors: left as they are). Returns q [B, H, T, d] with all keys and values. No
  // gradients.
  struct Turned {
    Tensor q, k, v;
  };
  Turned extend_turned(int64_t layer, const Tensor& q, const Tensor& k, const Tensor& v,
                       const RotaryTable& table);
  // The table of the next `tokens` positions, of one for all of them that is made at the first use: a step of
  // generation makes and copies none.
  RotaryTable rotary(const Rope& rope, int64_t tokens, const at::TensorOptions& options);
  // After every layer was extended by T tokens.
  void advance(int64_t tokens) { length_ += tokens; }

 private:
  struct Slot {
    Tensor k, v;  // [B, G, capacity, d]
  };
  // The layer's slot, with room for `tokens` more of B texts with heads as k's, sizes [B, G, d].
  Slot& reserve(int64_t layer, int64_t tokens, at::IntArrayRef sizes, const at::TensorOptions& options);

  std::vector<Slot> slots_;
  RotaryTable table_;  // of positions [0, capacity)
  int64_t capacity_, length_ = 0;
};

}  // namespace openwork
