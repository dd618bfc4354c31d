// Forward pass of gated attention for one block of query rows (docs/operator.md). Phases:
//   1. transpose the queries, so that a vector holds one key's scores with neighbouring queries
//   2. logprob and idle: walk the tiles once for the row log-sum-exp, keeping what fits
//   3. walk the tiles: P = exp(S - shift), gates, out += (P z) v; for score, shift is the running maximum of
//      the row and earlier sums are rescaled when it grows, else it is the log-sum-exp itself
//   4. write out, log-sum-exp, and the block's part of penalty and active
#include "ops/cpu/gate.h"
#include "ops/cpu/noise.h"
#include "ops/cpu/tile.h"

namespace openwork::cpu::OPENWORK_CPU_NAMESPACE {
namespace {

constexpr double kNothingYet = -1e30;  // a running maximum before the first key

template <typename Real>
struct ForwardSpace {
  Real* queries;        // [kRows, padded]; later the sums of out
  Real* queries_t;      // [d, kRows]
  Real *keys, *values;  // [kColumns, padded], copies where they are needed
  int64_t kept;         // tiles kept between the two walks of logprob and idle
  Real* tiles;          // [kept + 1, kColumns, kRows]; the last is for those not kept
  Real *shift, *total;  // [kRows]
  Real* offset;         // [kRows], added to scores for g
  size_t bytes;

  ForwardSpace(const Problem& problem, void* workspace) {
    Carver carver(workspace);
    const int64_t padded = padded_size(problem.d), blocks = problem.blocks();
    queries = carver.take<Real>(kRows * padded);
    queries_t = carver.take<Real>(kRows * problem.d);
    keys = carver.take<Real>(kColumns * padded);
    values = carver.take<Real>(kColumns * padded);
    kept = problem.of_row ? (blocks < kKeptTiles ? blocks : kKeptTiles) : 0;
    tiles = carver.take<Real>((kept + 1) * kTile);
    shift = carver.take<Real>(kRows);
    total = carver.take<Real>(kRows);
    offset = carver.take<Real>(kRows);
    bytes = carver.bytes();
  }
};

template <typename Real, bool OfRow, bool Sampled>
class ForwardBlock {
 public:
  ForwardBlock(const ForwardProblem& problem, int64_t b, int64_t h, int64_t block, void* workspace)
      : problem_(problem), block_(problem, b, h, block), space_(problem, workspace) {}

  void run() {
    begin();
    if constexpr (OfRow) find_log_sum_exp();
    find_offsets();
    __builtin_memset(space_.queries, 0, kRows * block_.padded * sizeof(Real));
    for (int64_t tile = 0; tile <= block_.index; ++tile) add_tile(tile);
    write();
  }

 private:
  void begin() {
    load_queries(problem_, block_, space_.queries, space_.queries_t);
    for (int64_t r = 0; r < kRows; ++r) {
      space_.shift[r] = static_cast<Real>(kNothingYet);
      space_.total[r] = 0;
    }
  }

  bool is_kept(int64_t tile) const { return tile < space_.kept; }
  Real* place(int64_t tile) const { return space_.tiles + (is_kept(tile) ? tile : space_.kept) * kTile; }

  void score_tile(int64_t tile, Real* to) {
    const int64_t columns = block_.columns(tile);
    dot_tile(block_, block_.keys(problem_.k, tile, space_.keys), space_.queries_t, columns, to);
    hide_future(block_, tile, columns, to);
  }

  // Raises the row maxima to the tile's; true when any grew. Sums made so far are rescaled to it.
  bool raise_shift(const Real* tile, int64_t columns, Real* factor) {
    bool grew = false;
    for (int64_t r = 0; r < kRows; r += kLanes) {
      const Lanes<Real> before = load(space_.shift + r);
      Lanes<Real> after = before;
      for (int64_t c = 0; c < columns; ++c) after = larger(load(tile + c * kRows + r), after);
      const Lanes<Real> scale = exponential_of_negative<Real>(before - after);
      store(space_.shift + r, after);
      store(space_.total + r, load(space_.total + r) * scale);
      store(factor + r, scale);
      for (int lane = 0; lane < kLanes; ++lane) grew |= !(before[lane] == after[lane]);
    }
    return grew;
  }

  void find_log_sum_exp() {
    Real factor[kRows];
    for (int64_t tile = 0; tile <= block_.index; ++tile) {
      const int64_t columns = block_.columns(tile);
      score_tile(tile, place(tile));
      raise_shift(place(tile), columns, factor);
      for (int64_t r = 0; r < kRows; r += kLanes) {
        const Lanes<Real> shift = load(space_.shift + r);
        Lanes<Real> sum{};
        for (int64_t c = 0; c < columns; ++c)
          sum += exponential_of_negative<Real>(load(place(tile) + c * kRows + r) - shift);
        store(space_.total + r, load(space_.total + r) + sum);
      }
    }
    for (int64_t r = 0; r < kRows; ++r) {  // rows past the last have no keys: 0 keeps their gates closed
      const Real maximum = space_.shift[r];
      space_.shift[r] = r < block_.rows ? maximum + static_cast<Real>(__builtin_log(space_.total[r])) : 0;
    }
  }

  void find_offsets() {
    for (int64_t r = 0; r < kRows; ++r)
      space_.offset[r] = static_cast<Real>(row_gate(problem_, block_.h, space_.shift[r]).offset);
  }

  void add_tile(int64_t tile) {
    const int64_t columns = block_.columns(tile);
    Real* weights = place(tile);
    if (!is_kept(tile)) score_tile(tile, weights);
    if constexpr (!OfRow) {
      Real factor[kRows];
      if (raise_shift(weights, columns, factor)) rescale_out(factor);
    }
    int64_t open = 0;
    for (int64_t r = 0; r < kRows; r += kLanes) open += gate_lanes(tile, columns, r, weights + r);
    clear_future(block_, tile, columns, weights);
    active_ += open;
    if (open) add_values(tile, weights, columns, open);
  }

  void rescale_out(const Real* factor) {
    for (int64_t r = 0; r < block_.rows; ++r) {
      Real* row = space_.queries + r * block_.padded;
      for (int64_t e = 0; e < block_.padded; e += kLanes) store(row + e, load(row + e) * factor[r]);
    }
  }

  // Scores of kLanes rows become P z; sums P, sigmoid(g) and z. Returns the number of open gates.
  int64_t gate_lanes(int64_t tile, int64_t columns, int64_t r, Real* weights) {
    const Lanes<Real> exponent = load(space_.shift + r) + load(space_.offset + r);
    if (problem_.sharpness == 1 && is_narrow<Real>(exponent))
      return gate_lanes<true>(tile, columns, r, exponential_in_range(exponent), weights);
    return gate_lanes<false>(tile, columns, r, exponent, weights);
  }

  template <bool Narrow>
  int64_t gate_lanes(int64_t tile, int64_t columns, int64_t r, Lanes<Real> row_odds, Real* weights) {
    const Lanes<Real> shift = load(space_.shift + r), offset = load(space_.offset + r);
    const Real sharpness = static_cast<Real>(problem_.sharpness);
    const RowNoise noise = noise_of(block_, r);
    Lanes<Real> total{}, penalty{};
    Lanes<Index<Real>> count{};
    for (int64_t c = 0; c < columns; c += kGateKeys) {
      Lanes<uint32_t> words[kGateKeys / 2];
      if constexpr (Sampled) noise.draw((tile * kColumns + c) / kGateKeys, words);
      const int keys = columns - c < kGateKeys ? static_cast<int>(columns - c) : kGateKeys;
      for (int key = 0; key < keys; ++key) {
        Real* at = weights + (c + key) * kRows;
        const Lanes<Real> score = load(at), g = score + offset;
        Lanes<Real> P, exp_g;
        if constexpr (Narrow) {
          P = exponential_of_probability<Real>(score - shift);
          exp_g = P * row_odds;
        } else {
          P = exponential_of_negative<Real>(score - shift);
          exp_g = exponential_of_gate<Real>(g * sharpness);
        }
        Lanes<Index<Real>> z;
        if constexpr (Sampled)
          z = is_open<Real>(exp_g, odds_of<Real>(words, key));
        else
          z = g > 0;
        store(at, z ? P : Lanes<Real>{});
        total += P;
        penalty += sigmoid<Real>(exp_g);
        count -= z;
      }
    }
    if constexpr (!OfRow) store(space_.total + r, load(space_.total + r) + total);
    int64_t open = 0;
    for (int lane = 0; lane < kLanes; ++lane) {
      penalty_ += penalty[lane];
      open += count[lane];
    }
    return open;
  }

  void add_values(int64_t tile, const Real* weights, int64_t columns, int64_t open) {
    const RowsOf<Real> values = block_.keys(problem_.v, tile, space_.values);
    Real* out = space_.queries;
    if (is_sparse(open, columns)) {
      add_open_edges<true>(weights, columns, values, out, block_.padded, block_.padded);
    } else {
      add_product<Real>({weights, 1, kRows}, values.data, values.stride, out, block_.padded, block_.rows,
                        block_.padded, columns);
    }
  }

  void write() {
    Real* log_sum_exp = static_cast<Real*>(problem_.log_sum_exp) + block_.row_offset();
    for (int64_t r = 0; r < block_.rows; ++r) {
      log_sum_exp[r] = space_.shift[r];
      Real* row = space_.queries + r * block_.padded;
      if constexpr (OfRow) {
        if (!__builtin_isnan(log_sum_exp[r])) continue;  // not a number closes all gates, but is not nothing
        for (int64_t e = 0; e < block_.padded; e += kLanes) store(row + e, fill(log_sum_exp[r]));
      } else {
        log_sum_exp[r] += static_cast<Real>(__builtin_log(space_.total[r]));
        const Real inverse = 1 / space_.total[r];
        for (int64_t e = 0; e < block_.padded; e += kLanes) store(row + e, load(row + e) * inverse);
      }
    }
    const int64_t size = sizeof_element(problem_.element);
    store_rows(problem_, space_.queries, block_.rows, block_.padded, Real(1),
               static_cast<char*>(problem_.out) + block_.row_offset() * problem_.d * size);
    const int64_t at = (block_.b * problem_.H + block_.h) * problem_.blocks() + block_.index;
    problem_.penalty[at] = penalty_;
    problem_.active[at] = active_;
  }

  const ForwardProblem& problem_;
  Block block_;
  ForwardSpace<Real> space_;
  double penalty_ = 0;
  int64_t active_ = 0;
};

template <typename Real>
void forward_block(const ForwardProblem& problem, int64_t b, int64_t h, int64_t block, void* workspace) {
  if (problem.of_row && problem.sampled)
    return ForwardBlock<Real, true, true>(problem, b, h, block, workspace).run();
  if (problem.of_row) return ForwardBlock<Real, true, false>(problem, b, h, block, workspace).run();
  if (problem.sampled) return ForwardBlock<Real, false, true>(problem, b, h, block, workspace).run();
  ForwardBlock<Real, false, false>(problem, b, h, block, workspace).run();
}

}  // namespace

size_t forward_workspace(const Problem& problem) {
  return problem.element == Element::kDouble ? ForwardSpace<double>(problem, nullptr).bytes
                                             : ForwardSpace<float>(problem, nullptr).bytes;
}

void forward(const ForwardProblem& problem, int64_t b, int64_t h, int64_t block, void* workspace) {
  if (problem.element == Element::kDouble) return forward_block<double>(problem, b, h, block, workspace);
  forward_block<float>(problem, b, h, block, workspace);
}

}  // namespace openwork::cpu::OPENWORK_CPU_NAMESPACE
