// From a head size and element known at run time to the kernel compiled for them: returns what
// launcher<element, size>(arguments, stream) does.
#pragma once
#include "ops/cuda/launch.h"
#include "ops/cuda/tile.cuh"

#define OPENWORK_FOR_SIZE_OF(launcher, element, arguments, stream) \
  switch ((arguments).problem.d) {                                 \
    case 32:                                                       \
      return launcher<element, 32>(arguments, stream);             \
    case 64:                                                       \
      return launcher<element, 64>(arguments, stream);             \
    case 80:                                                       \
      return launcher<element, 80>(arguments, stream);             \
    case 96:                                                       \
      return launcher<element, 96>(arguments, stream);             \
    case 128:                                                      \
      return launcher<element, 128>(arguments, stream);            \
    case 256:                                                      \
      return launcher<element, 256>(arguments, stream);            \
    default:                                                       \
      return cudaErrorInvalidValue;                                \
  }

#define OPENWORK_FOR_SIZE(launcher, arguments, stream)        \
  if ((arguments).problem.element == Element::kFloat16) {     \
    OPENWORK_FOR_SIZE_OF(launcher, __half, arguments, stream) \
  }                                                           \
  OPENWORK_FOR_SIZE_OF(launcher, __nv_bfloat16, arguments, stream)

// The same for the warpgroup kernels, which exist for 64 and 128.
#define OPENWORK_FOR_GROUP_SIZE(launcher, arguments, stream)            \
  {                                                                     \
    const bool half = (arguments).problem.element == Element::kFloat16; \
    if ((arguments).problem.d == 64) {                                  \
      return half ? launcher<__half, 64>(arguments, stream)             \
                  : launcher<__nv_bfloat16, 64>(arguments, stream);     \
    }                                                                   \
    if ((arguments).problem.d == 128) {                                 \
      return half ? launcher<__half, 128>(arguments, stream)            \
                  : launcher<__nv_bfloat16, 128>(arguments, stream);    \
    }                                                                   \
    return cudaErrorInvalidValue;                                       \
  }
