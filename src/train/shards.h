// Whose the numbers of a flat buffer are when ranks share them. The buffer is cut into chunks of about 25 MB,
// each chunk into one piece per rank, equal and in the order of ranks:
//   [ chunk 0: rank 0 | rank 1 | ... ][ chunk 1: rank 0 | rank 1 | ... ] ... padding
// so that a chunk can be summed, every rank keeping its piece (reduce-scatter), or put together again
// (all-gather) in place, while others are still being computed. A rank's pieces, one after another, are its
// share. Pieces are whole blocks of kBlock numbers, counted from the buffer's start, whatever the number of
// ranks: what is summed up block by block (gradient_norm.h) is the same for one rank and for many.
#pragma once
#include <cstdint>
#include <vector>

namespace openwork {

class ShardPlan {
 public:
  static constexpr int64_t kBlock = 1024;  // numbers
  static constexpr int64_t kChunkBytes = int64_t{25} << 20;

  struct Chunk {
    int64_t begin = 0;  // in the whole buffer, padding included
    int64_t piece = 0;  // numbers of each rank
    bool operator==(const Chunk&) const = default;
  };

  ShardPlan() = default;
  // Of `numbers` float32. One rank alone: one chunk, no padding.
  ShardPlan(int64_t numbers, int rank, int ranks, int64_t chunk_bytes = kChunkBytes);

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  int64_t numbers() const { return numbers_; }
  int64_t padded() const { return padded_; }          // of a whole buffer: a multiple of ranks()
  int64_t share() const { return padded_ / ranks_; }  // of each rank
  const std::vector<Chunk>& chunks() const { return chunks_; }

  int64_t size(const Chunk& chunk) const { return chunk.piece * ranks_; }
  int64_t own_begin(const Chunk& chunk) const { return chunk.begin + rank_ * chunk.piece; }  // in the whole
  int64_t own_place(const Chunk& chunk) const { return chunk.begin / ranks_; }               // in the share

 private:
  int64_t numbers_ = 0, padded_ = 0;
  int rank_ = 0, ranks_ = 1;
  std::vector<Chunk> chunks_;
};

}  // namespace openwork
