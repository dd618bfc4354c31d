// From a head size and element known at run time to the kernel compiled for them.
#pragma once
#include "ops/cuda/tile.cuh"

#ifndef OPENWORK_FEW_SIZES
#define OPENWORK_FOR_SIZE_OF(launcher, element, arguments, stream)             \
  switch ((arguments).problem.d) {                                             \
    case 32: return launcher<element, 32>(arguments, stream);                  \
    case 64: return launcher<element, 64>(arguments, stream);                  \
    case 80: return launcher<element, 80>(arguments, stream);                  \
    case 96: return launcher<element, 96>(arguments, stream);                  \
    case 128: return launcher<element, 128>(arguments, stream);                \
    case 256: return launcher<element, 256>(arguments, stream);                \
    default: return cudaErrorInvalidValue;                                     \
  }
#define OPENWORK_FOR_SIZE(launcher, arguments, stream)                                                     \
  if ((arguments).problem.element == Element::kFloat16) {                                                  \
    OPENWORK_FOR_SIZE_OF(launcher, __half, arguments, stream)                                              \
  }                                                                                                        \
  OPENWORK_FOR_SIZE_OF(launcher, __nv_bfloat16, arguments, stream)
#else
#define OPENWORK_FOR_SIZE(launcher, arguments, stream)                                \
  switch ((arguments).problem.d) {                                                    \
    case 64: return launcher<__nv_bfloat16, 64>(arguments, stream);                   \
    case 128: return launcher<__nv_bfloat16, 128>(arguments, stream);                 \
    default: return cudaErrorInvalidValue;                                            \
  }
#endif
