// What is measured of a model on held-out text (docs/json.md has the keys): the one record that training
// reports, `eval` prints and `compare` shows. analyze/held_out.h fills it in; gates are hard.
#pragma once
#include <array>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/head_place.h"

namespace openwork {

// A head is open where it keeps more than this share of its causal pairs.
inline constexpr double kOpenShare = 1e-4;

// Rows of a block by how many keys they see: a share over all rows says little of the first ones, which are
// what a short prompt has.
struct RowRange {
  const char* name;
  int64_t first, last;  // keys seen, from 1 on, both included
};
inline constexpr std::array<RowRange, 4> kRowRanges = {{{"1-8", 1, 8},
                                                        {"9-64", 9, 64},
                                                        {"65-256", 65, 256},
                                                        {"257-", 257, std::numeric_limits<int64_t>::max()}}};

struct Evaluation {
  double nats_per_token = 0, low = 0, high = 0;  // 95 % interval, documents resampled
  double bits_per_byte = 0;                      // 0 where nothing says how many bytes the text had
  double kept_edges = 1;  // share of all causal pairs of all heads; 1 for a dense model
  // The same in some rows of a block alone; nothing where it has no such row.
  std::array<std::optional<double>, kRowRanges.size()> kept_edges_by_row = {};
  // Means over the program's sample prompts, where they were measured: the share of a prompt's causal pairs
  // that is kept, and the number of heads that keep at least one.
  std::optional<double> prompt_kept_edges = {}, prompt_open_heads = {};
  int64_t open_heads = 0, closed_heads = 0;                    // above kOpenShare; keep none
  std::vector<std::vector<double>> heads = {};                 // kept share [layer][head]
  int64_t tokens = 0, documents = 0, blocks = 0, context = 0;  // tokens: predicted
  double seconds = 0;                                          // that measuring took

  int64_t head_count() const;
  // The fewest heads that together have half of all kept edges, the fullest first; none where no edge is kept or all are.
  std::vector<HeadPlace> fullest_heads() const;
};

nlohmann::json to_json(const Evaluation& evaluation);
Evaluation evaluation_from_json(const nlohmann::json& json);

// "rows 1-8 12.5 %, 9-64 3.1 %; a prompt 9.8 %, 41.5 of 270 heads": what is kept where texts are short.
std::string describe_short_texts(const Evaluation& evaluation);
// "half of it in 2 of 64 heads: L1H6 43.5 %, L0H6 38.7 %": shares of their own pairs; empty where there are none.
std::string describe_fullest_heads(const Evaluation& evaluation);

}  // namespace openwork
