// What the two backward passes share: how large their tiles are.
#pragma once
#ifndef OW_BW
#define OW_BW 4
#define OW_BS 32
#define OW_QB 3
#define OW_KB 3
#endif
#include "ops/cuda/sizes.cuh"
#include "ops/cuda/softmax.cuh"

namespace openwork::cuda {

template <int D>
struct BackwardShape {
  static constexpr int kWarps = OW_BW;                   // sixteen rows of a block each
  static constexpr int kTileRows = D <= 128 ? 64 : 32;  // rows of a tile that is walked over
  static constexpr int kStep = D <= 128 ? OW_BS : 16;   // of which this many are in registers at once
  static constexpr bool kHoldRows = D <= 64;         // the block's own rows as registers
  static constexpr int kQueryBlocks = D <= 64 ? OW_QB : D <= 128 ? 8 / kWarps : 1;  // blocks a multiprocessor should hold
  static constexpr int kKeyBlocks = D <= 64 ? OW_KB : D <= 128 ? 8 / kWarps : 1;
  static constexpr int kQueryBytes = (kWarps * 32 + 4 * kTileRows) * kPitch<D> * 2;
  static constexpr int kKeyBytes = kQueryBytes + 2 * kTileRows * static_cast<int>(sizeof(RowState));
};

}  // namespace openwork::cuda
