// Keys and values of the tokens already seen, per layer, so that generation computes each token once.
// Room is taken for `capacity` tokens at the first use of a layer.
#pragma once
#include <ATen/core/Tensor.h>

#include <utility>
#include <vector>

namespace openwork {

using at::Tensor;

class KeyValueCache {
 public:
  KeyValueCache(int64_t layers, int64_t capacity);

  int64_t length() const { return length_; }  // tokens held
  int64_t capacity() const { return capacity_; }

  // Appends k, v [B, G, T, d] of one layer behind what it holds and returns all of it, [B, G, length + T, d].
  std::pair<Tensor, Tensor> extend(int64_t layer, const Tensor& k, const Tensor& v);
  // After every layer was extended by T tokens.
  void advance(int64_t tokens) { length_ += tokens; }

 private:
  struct Slot {
    Tensor k, v;  // [B, G, capacity, d]
  };
  std::vector<Slot> slots_;
  int64_t capacity_, length_ = 0;
};

}  // namespace openwork
