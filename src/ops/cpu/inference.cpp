// Gated attention for z alone, hard gates: what cannot open is skipped. An edge of gate
//   score    is open where S > -b
//   logprob  where S > L - b: never where b <= 0
//   idle     where e^S > (e^L + e^a) e^-b; as e^L >= e^S, only where S > a - log(e^b - 1), whatever the row holds
// so a head has a border below which no edge of it is open, whatever its row holds. Phases, for a block of rows:
//   1. scores, and each row's largest, tile by tile; where no row's is above the head's border, z is 0
//   2. for rows that are above it: log-sum-exp, and from it the row's own border
//   3. tiles with a score above it: P, and P v of the open edges
// A single query (generation) goes the same way with its scores in one line; values are read for open edges alone.
#include "ops/cpu/gate.h"
#include "ops/cpu/tile.h"

namespace openwork::cpu::OPENWORK_CPU_NAMESPACE {
namespace {

constexpr double kNothingYet = -1e30;  // a running maximum before the first key, and a key out of sight

// No edge of head h with a score at or below this is open. Rounding is given room.
double border_of_head(const InferenceProblem& problem, int64_t h) {
  constexpr double kRoom = 1e-3, kInfinity = __builtin_inf();
  if (!problem.gated) return -kInfinity;
  const double b = problem.bias[h];
  if (!problem.of_row) return -b - kRoom;
  if (b <= 0) return kInfinity;
  if (!problem.idle) return -kInfinity;
  const double log_odds = b + __builtin_log(-__builtin_expm1(-b));  // log(e^b - 1)
  return problem.idle[h] - log_odds - kRoom;
}

// What is added to a row's scores for g, by its log-sum-exp.
double offset_of_row(const InferenceProblem& problem, int64_t h, double L) {
  return problem.gated ? row_gate(problem, h, L).offset : __builtin_inf();
}

// One query against K keys.
template <typename Real>
struct RowSpace {
  Real *query, *out;    // [padded]
  Real *keys, *values;  // [kColumns, padded], copies where they are needed
  Real* scores;         // [K and room for a vector]
  size_t bytes;

  RowSpace(const InferenceProblem& problem, void* workspace) {
    Carver carver(workspace);
    const int64_t padded = padded_size(problem.d);
    query = carver.take<Real>(padded);
    out = carver.take<Real>(padded);
    keys = carver.take<Real>(kColumns * padded);
    values = carver.take<Real>(padded);
    scores = carver.take<Real>(problem.K + kLanes);
    bytes = carver.bytes();
  }
};

template <typename Real>
class InferenceRow {
 public:
  InferenceRow(const InferenceProblem& problem, int64_t b, int64_t h, int64_t row, void* workspace)
      : problem_(problem),
        b_(b),
        h_(h),
        row_(row),
        keys_(problem.K - problem.T + row + 1),
        padded_(padded_size(problem.d)),
        space_(problem, workspace) {}

  void run() {
    const double border = border_of_head(problem_, h_);
    __builtin_memset(space_.out, 0, static_cast<size_t>(padded_) * sizeof(Real));
    if (border < __builtin_inf()) {
      const Real most = find_scores();
      if (static_cast<double>(most) > border) add_open(most);
    }
    const int64_t at = ((b_ * problem_.H + h_) * problem_.T + row_) * problem_.d;
    store_rows(problem_, space_.out, 1, padded_, Real(1),
               static_cast<char*>(problem_.out) + at * sizeof_element(problem_.element));
  }

 private:
  Real find_scores() {
    load_rows(problem_, element_at(problem_, problem_.q, b_, h_, row_), problem_.q.token, 1, padded_,
              static_cast<Real>(problem_.scale), space_.query);
    Real most = static_cast<Real>(kNothingYet);
    for (int64_t first = 0; first < keys_; first += kColumns) {
      const int64_t columns = keys_ - first < kColumns ? keys_ - first : kColumns;
      const RowsOf<Real> rows =
          borrow_rows(problem_, problem_.k, b_, problem_.key_head[h_], first, columns, padded_, space_.keys);
      for (int64_t c = 0; c < columns; ++c) {
        const Real score = dot(rows.data + c * rows.stride);
        space_.scores[first + c] = score;
        most = score > most ? score : most;
      }
    }
    for (int64_t j = keys_; j % kLanes != 0; ++j) space_.scores[j] = static_cast<Real>(kNothingYet);
    return most;
  }

  Real dot(const Real* key) const {
    Lanes<Real> sum{};
    for (int64_t e = 0; e < padded_; e += kLanes) sum += load(space_.query + e) * load(key + e);
    return sum_lanes(sum);
  }

  void add_open(Real most) {
    Lanes<Real> sum{};
    for (int64_t j = 0; j < keys_; j += kLanes)
      sum += exponential_of_negative<Real>(load(space_.scores + j) - most);
    const Real L = most + static_cast<Real>(__builtin_log(sum_lanes(sum)));
    const Real offset = static_cast<Real>(offset_of_row(problem_, h_, L));
    for (int64_t j = 0; j < keys_; j += kLanes) {
      const Lanes<Real> score = load(space_.scores + j);
      uint32_t open = nonzero_bits(score + offset > 0 ? fill<Real>(1) : Lanes<Real>{});
      if (!open) continue;
      const Lanes<Real> P = exponential_of_negative<Real>(score - L);
      for (; open; open &= open - 1) {
        const int lane = __builtin_ctz(open);
        if (j + lane < keys_) add_value(j + lane, P[lane]);
      }
    }
  }

  void add_value(int64_t j, Real weight) {
    const RowsOf<Real> row =
        borrow_rows(problem_, problem_.v, b_, problem_.key_head[h_], j, 1, padded_, space_.values);
    add_scaled_row(space_.out, weight, row.data, padded_);
  }

  const InferenceProblem& problem_;
  int64_t b_, h_, row_, keys_, padded_;
  RowSpace<Real> space_;
};

// A block of kRows queries against the keys they see.
template <typename Real>
struct BlockSpace {
  Real* queries;        // [kRows, padded]; later the sums of out
  Real* queries_t;      // [d, kRows]
  Real *keys, *values;  // [kColumns, padded], copies where they are needed
  int64_t kept;         // tiles kept after the first look
  Real* tiles;          // [kept + 1, kColumns, kRows]; the last is for those not kept
  Real* tile_most;      // [tiles, kRows]: the largest score of a row in a tile
  Real *most, *total;   // [kRows]
  Real *L, *offset;     // [kRows]
  size_t bytes;

  BlockSpace(const InferenceProblem& problem, void* workspace) {
    Carver carver(workspace);
    const int64_t padded = padded_size(problem.d), all = (problem.K + kColumns - 1) / kColumns;
    queries = carver.take<Real>(kRows * padded);
    queries_t = carver.take<Real>(kRows * problem.d);
    keys = carver.take<Real>(kColumns * padded);
    values = carver.take<Real>(kColumns * padded);
    kept = all < kKeptTiles ? all : kKeptTiles;
    tiles = carver.take<Real>((kept + 1) * kTile);
    tile_most = carver.take<Real>(all * kRows);
    most = carver.take<Real>(kRows);
    total = carver.take<Real>(kRows);
    L = carver.take<Real>(kRows);
    offset = carver.take<Real>(kRows);
    bytes = carver.bytes();
  }
};

template <typename Real>
class InferenceBlock {
 public:
  InferenceBlock(const InferenceProblem& problem, int64_t b, int64_t h, int64_t block, void* workspace)
      : problem_(problem), block_(problem, b, h, block), space_(problem, workspace) {
    position_ = problem.K - problem.T + block_.start;
    tiles_ = (position_ + block_.rows - 1) / kColumns + 1;
  }

  void run() {
    const double border = border_of_head(problem_, block_.h);
    bool any = border < __builtin_inf();
    if (any) {
      load_queries(problem_, block_, space_.queries, space_.queries_t);
      find_scores();
      any = find_live(border);
    }
    __builtin_memset(space_.queries, 0, static_cast<size_t>(kRows * block_.padded) * sizeof(Real));
    if (any) {
      find_offsets();
      for (int64_t tile = 0; tile < tiles_; ++tile) add_tile(tile);
    }
    const int64_t size = sizeof_element(problem_.element);
    store_rows(problem_, space_.queries, block_.rows, block_.padded, Real(1),
               static_cast<char*>(problem_.out) + block_.row_offset() * problem_.d * size);
  }

 private:
  int64_t columns(int64_t tile) const {
    const int64_t left = problem_.K - tile * kColumns;
    return left < kColumns ? left : kColumns;
  }
  bool has_future(int64_t tile) const {
    return tile * kColumns + columns(tile) - 1 > position_ || block_.rows < kRows;
  }
  Real* place(int64_t tile) const { return space_.tiles + (tile < space_.kept ? tile : space_.kept) * kTile; }
  RowsOf<Real> rows_of(const View& view, int64_t tile, Real* copy) const {
    return borrow_rows(problem_, view, block_.b, problem_.key_head[block_.h], tile * kColumns, columns(tile),
                       block_.padded, copy);
  }

  // Entries that are no causal pairs: keys after their query, and places past the last query.
  void put_future(int64_t tile, Real value, Real* to) const {
    for (int64_t c = 0; c < columns(tile); ++c) {
      const Lanes<Index<Real>> j = fill(static_cast<Index<Real>>(tile * kColumns + c - position_));
      for (int64_t r = 0; r < kRows; r += kLanes) {
        const Lanes<Index<Real>> row = count_from(static_cast<Index<Real>>(r));
        const Lanes<Index<Real>> seen = (j <= row) & (row < fill(static_cast<Index<Real>>(block_.rows)));
        store(to + c * kRows + r, seen ? load(to + c * kRows + r) : fill(value));
      }
    }
  }

  void score_tile(int64_t tile) {
    dot_tile(block_, rows_of(problem_.k, tile, space_.keys), space_.queries_t, columns(tile), place(tile));
    if (has_future(tile)) put_future(tile, static_cast<Real>(kNothingYet), place(tile));
  }

  void find_scores() {
    for (int64_t r = 0; r < kRows; ++r) space_.most[r] = static_cast<Real>(kNothingYet);
    for (int64_t tile = 0; tile < tiles_; ++tile) {
      score_tile(tile);
      const Real* scores = place(tile);
      for (int64_t r = 0; r < kRows; r += kLanes) {
        Lanes<Real> most = load(scores + r);
        for (int64_t c = 1; c < columns(tile); ++c) most = larger(load(scores + c * kRows + r), most);
        store(space_.tile_most + tile * kRows + r, most);
        store(space_.most + r, larger(most, load(space_.most + r)));
      }
    }
  }

  // Marks, kLanes rows at a time, those that have a score above the head's border; false where none has.
  bool find_live(double border) {
    bool any = false;
    for (int64_t group = 0; group < kRows / kLanes; ++group) {
      live_[group] = false;
      for (int64_t r = group * kLanes; r < (group + 1) * kLanes && r < block_.rows; ++r)
        live_[group] |= static_cast<double>(space_.most[r]) > border;
      any |= live_[group];
    }
    return any;
  }

  void find_offsets() {
    for (int64_t r = 0; r < kRows; ++r) space_.total[r] = 0;
    for (int64_t tile = 0; tile < tiles_; ++tile) {
      if (tile >= space_.kept) score_tile(tile);
      for (int64_t r = 0; r < kRows; r += kLanes) {
        if (live_[r / kLanes]) sum_tile(place(tile) + r, columns(tile), r);
      }
    }
    for (int64_t r = 0; r < kRows; ++r) {
      const bool live = live_[r / kLanes] && r < block_.rows;
      space_.L[r] = live ? space_.most[r] + static_cast<Real>(__builtin_log(space_.total[r])) : 0;
      space_.offset[r] =
          static_cast<Real>(live ? offset_of_row(problem_, block_.h, space_.L[r]) : -__builtin_inf());
    }
  }

  void sum_tile(const Real* scores, int64_t columns, int64_t r) {
    const Lanes<Real> most = load(space_.most + r);
    Lanes<Real> sum{};
    for (int64_t c = 0; c < columns; ++c)
      sum += exponential_of_negative<Real>(load(scores + c * kRows) - most);
    store(space_.total + r, load(space_.total + r) + sum);
  }

  // True where a score of the tile is above its row's border in these lanes.
  bool may_open(int64_t tile, int64_t r) const {
    const Lanes<Real> g = load(space_.tile_most + tile * kRows + r) + load(space_.offset + r);
    return nonzero_bits(g > 0 ? fill<Real>(1) : Lanes<Real>{}) != 0;
  }

  void add_tile(int64_t tile) {
    bool any = false;
    for (int64_t r = 0; r < kRows && !any; r += kLanes) any = may_open(tile, r);
    if (!any) return;
    if (tile >= space_.kept) score_tile(tile);
    int64_t open = 0;
    for (int64_t r = 0; r < kRows; r += kLanes) open += gate_lanes(tile, r, place(tile) + r);
    if (has_future(tile)) put_future(tile, 0, place(tile));
    if (open == 0) return;
    const RowsOf<Real> values = rows_of(problem_.v, tile, space_.values);
    if (is_sparse(open, columns(tile))) {
      add_open_edges<true>(place(tile), columns(tile), values, space_.queries, block_.padded, block_.padded);
    } else {
      add_product<Real>({place(tile), 1, kRows}, values.data, values.stride, space_.queries, block_.padded,
                        block_.rows, block_.padded, columns(tile));
    }
  }

  // Scores of kLanes rows become P z. Returns the number of open gates.
  int64_t gate_lanes(int64_t tile, int64_t r, Real* weights) {
    const Lanes<Real> L = load(space_.L + r), offset = load(space_.offset + r);
    const bool none = !may_open(tile, r);
    int64_t count = 0;
    for (int64_t c = 0; c < columns(tile); ++c) {
      Real* at = weights + c * kRows;
      if (none) {
        store(at, Lanes<Real>{});
        continue;
      }
      const Lanes<Real> score = load(at);
      const Lanes<Index<Real>> z = score + offset > 0;
      const uint32_t open = nonzero_bits(z ? fill<Real>(1) : Lanes<Real>{});
      store(at, open ? (z ? exponential_of_negative<Real>(score - L) : Lanes<Real>{}) : Lanes<Real>{});
      count += __builtin_popcount(open);
    }
    return count;
  }

  const InferenceProblem& problem_;
  Block block_;
  BlockSpace<Real> space_;
  int64_t position_, tiles_;  // of the first query among the keys; that the block's rows see
  bool live_[kRows / kLanes];
};

template <typename Real>
void infer_as(const InferenceProblem& problem, int64_t b, int64_t h, int64_t task, void* workspace) {
  if (problem.by_rows()) return InferenceRow<Real>(problem, b, h, task, workspace).run();
  InferenceBlock<Real>(problem, b, h, task, workspace).run();
}

template <typename Real>
size_t bytes_for(const InferenceProblem& problem) {
  return problem.by_rows() ? RowSpace<Real>(problem, nullptr).bytes
                           : BlockSpace<Real>(problem, nullptr).bytes;
}

}  // namespace

size_t inference_workspace(const InferenceProblem& problem) {
  return problem.element == Element::kDouble ? bytes_for<double>(problem) : bytes_for<float>(problem);
}

void infer(const InferenceProblem& problem, int64_t b, int64_t h, int64_t task, void* workspace) {
  if (problem.element == Element::kDouble) return infer_as<double>(problem, b, h, task, workspace);
  infer_as<float>(problem, b, h, task, workspace);
}

}  // namespace openwork::cpu::OPENWORK_CPU_NAMESPACE
