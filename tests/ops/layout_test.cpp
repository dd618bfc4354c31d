// The fast GPU kernels' index arithmetic, lane by lane on the CPU: that the keys a lane holds are those whose
// noise it draws or is handed, that each is held once, and that no Philox call is made twice.
#include "ops/cuda/layout.h"

#include <gtest/gtest.h>

#include <array>
#include <set>
#include <utility>

namespace openwork::cuda {
namespace {

constexpr uint64_t kSeed = 0x0123456789ABCDEF, kHeads = 3, kTokens = 203;  // an odd number of keys

uint32_t wanted_bits(int query, int key) {
  const Philox4 draw =
      philox<kGateRounds>(kSeed, gate_counter(0, 1, query, key / kGateKeys, kHeads, kTokens));
  return gate_bits(draw, key);
}
Philox4 draw_octet(int query, int octet) {
  return philox<kGateRounds>(kSeed, gate_counter(0, 1, query, octet, kHeads, kTokens));
}

// Every block of every head has its turn, once; no head's walk comes before a longer one of the heads it goes with, and
// these are parties of about the same size.
TEST(BlockTurns, TakeEveryBlockOnceAndTheLongestFirst) {
  for (const int blocks : {1, 3, 16}) {
    for (const int heads : {1, 2, 47, 48, 49, 96, 97, 144, 1000}) {
      const int at_once = heads_at_once(heads), parties = (heads + at_once - 1) / at_once;
      EXPECT_LE(at_once, kHeadsAtOnce);
      EXPECT_GT(at_once * parties, heads - parties);
      std::set<std::pair<int, int>> taken;
      Turn last = {0, 0};
      for (int index = 0; index < blocks * heads; ++index) {
        const Turn turn = take_turn(index, blocks, heads, at_once);
        EXPECT_TRUE(turn.head >= 0 && turn.head < heads && turn.rank >= 0 && turn.rank < blocks);
        EXPECT_TRUE(taken.insert({turn.head, turn.rank}).second) << "taken twice";
        if (turn.head / at_once == last.head / at_once) {
          EXPECT_GE(turn.rank, last.rank);
        } else {
          EXPECT_EQ(turn.rank, 0);
          EXPECT_EQ(turn.head / at_once, last.head / at_once + 1);
        }
        last = turn;
      }
    }
  }
  EXPECT_EQ(heads_at_once(0), 1);  // no heads, no division by them
}

template <Order order>
void expect_places_of_sums_are_sums() {
  std::set<int> places;
  for (int row = 0; row < 64; ++row) {
    places.insert(place_row<order>(row));
    for (int step = 8; step < 64; step *= 2) {
      if (row % step == row) {
        EXPECT_EQ(place_row<order>(row + step), place_row<order>(row) + place_row<order>(step));
      }
    }
  }
  EXPECT_EQ(places.size(), 64u);
  EXPECT_EQ(*places.rbegin(), 63);
}
TEST(TileLayout, PlacesOfSumsAreSumsOfPlaces) {
  expect_places_of_sums_are_sums<Order::kPlain>();
  expect_places_of_sums_are_sums<Order::kOctets>();
  expect_places_of_sums_are_sums<Order::kPairs>();
}

// Where a thread's later pieces of a panel tile go follows from its first one's place, at every head size.
TEST(TileLayout, StepsThroughPanelsKeepTheSwizzle) {
  for (const int chunks : {8, 16}) {  // of sixteen bytes in a row: head sizes 64 and 128
    const int step_rows = 128 / chunks;
    for (int first = 0; first < step_rows; ++first) {
      for (int chunk = 0; chunk < chunks; ++chunk) {
        for (int step = 0; step < kGroupRows; step += step_rows) {
          EXPECT_EQ(step_panel(panel_offset(place_row<Order::kOctets>(first), chunk),
                               place_row<Order::kOctets>(step)),
                    panel_offset(place_row<Order::kOctets>(first + step), chunk));
          EXPECT_EQ(step_panel(panel_offset(first, chunk), step), panel_offset(first + step, chunk));
        }
      }
    }
  }
}

// A product's column is a tile's place: the key stored there is the one key_of_column names.
TEST(TileLayout, ColumnsHoldTheKeysTheyAreTakenFor) {
  for (int n = 0; n < 8; ++n) {
    for (int t = 0; t < 4; ++t) {
      for (int e = 0; e < 2; ++e) {
        EXPECT_EQ(place_row<Order::kOctets>(key_of_column<Order::kOctets>(n, t, e)), n * 8 + 2 * t + e);
        EXPECT_EQ(place_row<Order::kPlain>(key_of_column<Order::kPlain>(n, t, e)), n * 8 + 2 * t + e);
      }
    }
  }
}

TEST(TileLayout, ALanesOctetIsItsOwnOfFourProducts) {
  std::set<int> octets;
  for (int n = 0; n < 8; n += 4) {
    for (int t = 0; t < 4; ++t) {
      EXPECT_TRUE(octets.insert(octet_of_lane(n, t)).second) << "a call made twice";
      const Philox4 draw = draw_octet(150, octet_of_lane(n, t));
      for (int m = 0; m < 4; ++m) {
        for (int e = 0; e < 2; ++e) {
          const uint32_t bits = draw.word[m] >> (16 * e) & 0xFFFF;
          EXPECT_EQ(bits, wanted_bits(150, key_of_column<Order::kOctets>(n + m, t, e)));
        }
      }
    }
  }
}

// dk and dv come out of the fused pass with a warp's rows in kOctets order; backward_fused.cu writes them so.
TEST(TileLayout, FoursOfEightAreAWarpsRowsInOctetOrder) {
  for (int warp = 0; warp < 4; ++warp) {
    for (int g = 0; g < 8; ++g) {
      for (int high = 0; high < 2; ++high) {
        const int row = (g >> 1) * 4 + (g & 1) + 2 * high;                      // of the warp's sixteen
        const int key = (warp >> 1) * 32 + (warp & 1) * 4 + row + row / 4 * 4;  // store_sums with a gap of 4
        EXPECT_EQ(place_row<Order::kOctets>(key), warp * 16 + g + 8 * high);
      }
    }
  }
}

// The pass by keys, a whole warp at once: each lane draws one call, two steps of trading, and then has the
// words of its own two keys for its own four queries.
TEST(TileLayout, TradedWordsAreThoseOfTheLanesKeysAndQueries) {
  constexpr int kFirstQuery = 96, kFirstKey = 80;
  std::array<Philox4, 32> lanes;
  std::set<std::pair<int, int>> calls;
  for (int lane = 0; lane < 32; ++lane) {
    const int g = lane >> 2, query = kFirstQuery + query_to_draw(g & 3, lane & 3);
    const int octet = kFirstKey / kGateKeys + g / 4;
    EXPECT_TRUE(calls.insert({query, octet}).second) << "a call made twice";
    lanes[lane] = draw_octet(query, octet);
  }
  for (int step = 1; step <= 2; ++step) {
    for (int pair = 0; pair < 2; ++pair) {
      std::array<uint32_t, 32> given;
      for (int lane = 0; lane < 32; ++lane) {
        given[lane] = word_to_give(lanes[lane].word, step, pair, lane >> 2 & 3);
      }
      for (int lane = 0; lane < 32; ++lane) {
        put_word(lanes[lane].word, step, pair, lane >> 2 & 3, given[lane ^ 4 * step]);
      }
    }
  }
  for (int lane = 0; lane < 32; ++lane) {
    const int g = lane >> 2, t = lane & 3;
    for (int product = 0; product < 2; ++product) {
      for (int column = 0; column < 2; ++column) {
        const int query = kFirstQuery + product * 8 + 2 * t + column;
        for (int high = 0; high < 2; ++high) {
          const int key = kFirstKey + 2 * g + high;  // row g, or g + 8, of kPairs
          EXPECT_EQ(place_row<Order::kPairs>(2 * g + high), g + 8 * high);
          const uint32_t word = lanes[lane].word[2 * product + column];
          EXPECT_EQ(word >> (16 * high) & 0xFFFF, wanted_bits(query, key)) << "lane " << lane;
        }
      }
    }
  }
}

}  // namespace
}  // namespace openwork::cuda
