// Numbers of a weights file as torch tensors, in the dtype asked for: straight out of the memory map where the
// file already holds that dtype, converted piece by piece otherwise, so that memory stays near what is kept.
#pragma once
#include <ATen/core/Tensor.h>

#include <memory>
#include <string>

#include "io/tensor_file.h"

namespace openwork {

using at::Tensor;

class WeightReader {
 public:
  // copy: never hand out tensors that lie in the map.
  WeightReader(std::shared_ptr<const TensorFile> file, at::ScalarType dtype, bool copy);

  const TensorFile& file() const { return *file_; }
  bool has(const std::string& name) const { return file_->find(name) != nullptr; }
  // On the CPU, shape as in the file. Fails on non-finite numbers, naming the tensor.
  Tensor read(const std::string& name) const;
  // The numbers of a gate: float32 whatever the dtype asked for. An idle score may be infinite: -infinity
  // makes the gate logprob's, +infinity closes it.
  Tensor read_gate(const std::string& name, bool may_be_infinite) const;

 private:
  Tensor read_unchecked(const std::string& name) const;
  Tensor read_mapped(const TensorEntry& entry, at::ScalarType stored) const;
  Tensor read_quantised(const TensorEntry& entry) const;

  std::shared_ptr<const TensorFile> file_;
  at::ScalarType dtype_;
  bool copy_;
};

}  // namespace openwork
