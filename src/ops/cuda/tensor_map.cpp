#include "ops/cuda/tensor_map.h"

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <cuda.h>

#include <bit>

#include "ops/cuda/layout.h"

namespace openwork {
namespace {

// The driver is found through the runtime: nothing here is linked against it.
decltype(&cuTensorMapEncodeTiled) find_encoder() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  C10_CUDA_CHECK(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000,
                                                  cudaEnableDefault, &found));
  TORCH_CHECK(found == cudaDriverEntryPointSuccess && function,
              "gated_attention: the driver has no cuTensorMapEncodeTiled; CUDA 12 or later is wanted");
  return reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(function);
}

}  // namespace

cuda::TensorMap map_rows(const cuda::Rows& rows, cuda::Element element, int B, int heads, int T, int d) {
  static const auto encode = find_encoder();
  // The driver wants the device's context to be this thread's, which is so once the runtime has been told of the device
  // here: autograd's thread may not have asked it for anything yet.
  C10_CUDA_CHECK(cudaSetDevice(c10::cuda::current_device()));
  const auto dim = [](int size) { return static_cast<cuuint64_t>(size); };
  // A stride that is never taken may be anything, but is looked at.
  const auto bytes = [&](int64_t stride, int size) {
    return static_cast<cuuint64_t>(size == 1 ? d : stride) * 2;
  };
  const cuuint64_t sizes[] = {dim(d), dim(T), dim(heads), dim(B)};
  const cuuint64_t strides[] = {bytes(rows.row, T), bytes(rows.head, heads), bytes(rows.batch, B)};
  const cuuint32_t box[] = {64, cuda::kGroupRows, 1, 1}, steps[] = {1, 1, 1, 1};
  const auto type =
      element == cuda::Element::kFloat16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  CUtensorMap map;
  const CUresult result = encode(&map, type, 4, rows.data, sizes, strides, box, steps,
                                 CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                 CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  TORCH_CHECK(result == CUDA_SUCCESS, "gated_attention: error ", static_cast<int>(result),
              " of cuTensorMapEncodeTiled");
  return std::bit_cast<cuda::TensorMap>(map);
}

}  // namespace openwork
