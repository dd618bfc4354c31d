// What the kernels of ops/norm.h and ops/linear.h are given: rows of d numbers, all contiguous, every row of a multiple
// of 16 bytes that starts at such an address (has_whole_rows in ops/fused_kernels.h). Like launch.h otherwise.
#pragma once
#include "ops/cuda/launch.h"

namespace openwork::cuda {

// sum = x + added where something is added (else x is the sum); normal = (sum - mean) scale weight + bias.
struct Norm {
  Element element = Element::kFloat32;
  int64_t rows = 0;
  int d = 0;
  bool centred = false;  // else the mean is 0
  float epsilon = 0;
  const void *x = nullptr, *added = nullptr, *weight = nullptr, *bias = nullptr;  // all but x may be null
  void *sum = nullptr, *normal = nullptr;
  float *mean = nullptr, *scale = nullptr;  // [rows]
};
cudaError_t launch_norm(const Norm& arguments, cudaStream_t stream);

// grad_x: of the sum, by both its ways. parts [blocks, d] is room for each block's own sums.
struct NormBackward {
  Element element = Element::kFloat32;
  int64_t rows = 0;
  int d = 0;
  bool centred = false;
  const void *sum = nullptr, *weight = nullptr, *grad_normal = nullptr;
  const void* grad_sum = nullptr;  // may be null, like weight
  const float *mean = nullptr, *scale = nullptr;
  void *grad_x = nullptr, *grad_weight = nullptr, *grad_bias = nullptr;  // the last two may be null
  bool adds = false;  // to what is there in these two, else writes over it
  int blocks = 0;     // norm_blocks
  float *weight_parts = nullptr, *bias_parts = nullptr;
};
int norm_blocks(const NormBackward& arguments, int multiprocessors);
cudaError_t launch_norm_backward(const NormBackward& arguments, cudaStream_t stream);

// out [d] = the sum of x's rows, or that is added to it, by way of parts [blocks, d].
struct ColumnSum {
  Element element = Element::kFloat32;
  int64_t rows = 0;
  int d = 0, blocks = 0;
  const void* x = nullptr;
  float* parts = nullptr;
  void* out = nullptr;
  bool adds = false;
};
cudaError_t launch_column_sum(const ColumnSum& arguments, cudaStream_t stream);

}  // namespace openwork::cuda
