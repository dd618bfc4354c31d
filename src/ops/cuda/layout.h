// Which keys a lane of a warp has in the fast kernels, and how lanes come by the noise of theirs: the index
// arithmetic alone, for host and device alike, so that it is tested without a GPU
// (tests/ops/layout_test.cpp).
//
// In a 16 x 8 product lane 4g + t holds rows g and g + 8, columns 2t and 2t + 1. One Philox call gives the
// gates of eight neighbouring keys of one query (an octet), two to a word. No call is made twice:
//   kOctets  keys are columns. Tiles store their rows in an order in which lane t has keys 8t .. 8t+7 of
//            thirty-two over four neighbouring products, two in each: it draws its rows' calls itself, and
//            word m of a call is product m's
//   kPairs   keys are rows: lane g has keys 2g, 2g+1 of sixteen, so four lanes share an octet. Each draws the
//            call of one of their four queries (two neighbouring products), then they trade words
#pragma once
#include "base/philox.h"

namespace openwork::cuda {

enum class Order { kPlain, kOctets, kPairs };

// Which head, and which of its `blocks` blocks, the index-th block of a grid takes: the longest walk of every head
// (rank 0), then every head's second, and so on, so that what runs last is short. `at_once` heads are taken together;
// the rows of many more than kHeadsAtOnce would not stay in the cache that multiprocessors share.
struct Turn {
  int head, rank;
};
inline constexpr int kHeadsAtOnce = 48;
OPENWORK_HOST_DEVICE constexpr int heads_at_once(int heads) {
  const int parties = (heads + kHeadsAtOnce - 1) / kHeadsAtOnce;
  return parties == 0 ? 1 : (heads + parties - 1) / parties;
}
OPENWORK_HOST_DEVICE constexpr Turn take_turn(unsigned index, unsigned blocks, unsigned heads,
                                              unsigned at_once) {
  const unsigned first = index / (blocks * at_once) * at_once, own = index - first * blocks;
  const unsigned together = heads - first < at_once ? heads - first : at_once;
  return {static_cast<int>(first + own % together), static_cast<int>(own / together)};
}

// Where row `row` of a tile is stored. Bits are moved and nothing else, so that the place of a sum of rows
// without common bits is the sum of their places.
template <Order order>
OPENWORK_HOST_DEVICE constexpr int place_row(int row) {
  if constexpr (order == Order::kOctets) return (row & ~31) | (row & 6) << 2 | (row >> 2 & 6) | (row & 1);
  if constexpr (order == Order::kPairs) return (row & ~15) | (row >> 1 & 7) | (row & 1) << 3;
  return row;
}

// Tiles of Hopper's warpgroup products: 64 rows, in panels of 64 columns (128 bytes), sixteen-byte pieces of
// row r in the order piece ^ (r % 8). The byte offset of piece `piece` of the row stored at `place`; and
// where a piece at `base` goes when its row's place rises by `placed`, which has no bit in common with it.
inline constexpr int kGroupRows = 64;
OPENWORK_HOST_DEVICE constexpr uint32_t panel_offset(int place, int piece) {
  return (piece >> 3) * (kGroupRows * 128) + place * 128 + (((piece & 7) ^ (place & 7)) << 4);
}
OPENWORK_HOST_DEVICE constexpr uint32_t step_panel(uint32_t base, int placed) {
  return (base ^ (placed & 7) << 4) + placed * 128;
}

// The key in column 2t + e of product n, of kPlain and kOctets; and the octet that products n .. n+3 (n a multiple
// of 4) hold of it in lane t in the latter.
template <Order order>
OPENWORK_HOST_DEVICE constexpr int key_of_column(int n, int t, int e) {
  static_assert(order != Order::kPairs, "keys are rows there");
  return order == Order::kPlain ? n * 8 + 2 * t + e : n / 4 * 32 + 8 * t + n % 4 * 2 + e;
}
OPENWORK_HOST_DEVICE constexpr int octet_of_lane(int n, int t) {
  return n + t;
}

// kPairs: of the four lanes g that share an octet, `rank` g % 4 draws the call of this query of sixteen.
OPENWORK_HOST_DEVICE constexpr int query_to_draw(int rank, int t) {
  return (rank >> 1) * 8 + 2 * t + (rank & 1);
}

// The trade: word w of lane `rank` goes to lane w as its word `rank`, in two steps (1, then 2), two words in
// each (pair 0 and 1). In a step lanes rank and rank ^ step swap: each hands over word_to_give and puts
// what it is given in its place.
OPENWORK_HOST_DEVICE constexpr int lower_of_pair(int step, int pair) {
  return step == 1 ? 2 * pair : pair;
}
OPENWORK_HOST_DEVICE uint32_t word_to_give(const uint32_t (&word)[4], int step, int pair, int rank) {
  const int lower = lower_of_pair(step, pair);
  return rank & step ? word[lower] : word[lower + step];
}
OPENWORK_HOST_DEVICE void put_word(uint32_t (&word)[4], int step, int pair, int rank, uint32_t given) {
  const int lower = lower_of_pair(step, pair);
  word[lower] = rank & step ? given : word[lower];
  word[lower + step] = rank & step ? word[lower + step] : given;
}

}  // namespace openwork::cuda
