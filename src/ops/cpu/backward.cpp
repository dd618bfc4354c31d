// Backward pass of gated attention for one block of query rows (docs/operator.md). Scores and gates are made
// again from q, k, the row log-sum-exp and the seed. Phases:
//   1. load q and dy (both ways round), the log-sum-exp and D_i = dy_i . y_i
//   2. per tile: S, dA, gates; dS (logprob, idle: still without the G_i term); dv += (P z)^T dy
//   3. score: dq += dS k, dk += dS^T q at once; logprob, idle: G_i = sum of dg over the row first, then a
//      second walk takes w P G off dS and adds dq, dk, making again the tiles that were not kept
//   4. write dq, w G and the block's part of the gradients of bias and idle
// A call computes rows (dq), columns (dk, dv) or both; the sums have the same order either way.
#include "ops/cpu/gate.h"
#include "ops/cpu/noise.h"
#include "ops/cpu/tile.h"

namespace openwork::cpu::OPENWORK_CPU_NAMESPACE {
namespace {

template <typename Real>
struct BackwardSpace {
  Real *queries, *grads;      // [kRows, padded]: scale * q, dy
  Real *queries_t, *grads_t;  // [d, kRows]
  Real* grad_q;               // [kRows, padded]
  Real *keys, *values;        // [kColumns, padded], copies where they are needed
  int64_t kept;               // tiles kept between the two walks of logprob and idle
  Real* scores;               // [kept + 1, kColumns, kRows]: S, then P; the last place is for tiles not kept
  Real* slopes;               // [kept + 1, kColumns, kRows]: dA, then dS
  Real* weights;              // [kColumns, kRows]: P z
  Real *log_sum_exp, *D, *G;  // [kRows]; G is w_i G_i here
  Real* offset;               // [kRows], added to scores for g
  Real* sums;                 // [kRows]: sum of dg, over the tiles so far
  size_t bytes;

  BackwardSpace(const Problem& problem, void* workspace) {
    Carver carver(workspace);
    const int64_t padded = padded_size(problem.d), blocks = problem.blocks();
    queries = carver.take<Real>(kRows * padded);
    grads = carver.take<Real>(kRows * padded);
    queries_t = carver.take<Real>(kRows * problem.d);
    grads_t = carver.take<Real>(kRows * problem.d);
    grad_q = carver.take<Real>(kRows * padded);
    keys = carver.take<Real>(kColumns * padded);
    values = carver.take<Real>(kColumns * padded);
    kept = problem.of_row ? (blocks < kKeptTiles ? blocks : kKeptTiles) : 0;
    scores = carver.take<Real>((kept + 1) * kTile);
    slopes = carver.take<Real>((kept + 1) * kTile);
    weights = carver.take<Real>(kTile);
    log_sum_exp = carver.take<Real>(kRows);
    D = carver.take<Real>(kRows);
    G = carver.take<Real>(kRows);
    offset = carver.take<Real>(kRows);
    sums = carver.take<Real>(kRows);
    bytes = carver.bytes();
  }
};

template <typename Real, bool OfRow, bool Sampled>
class BackwardBlock {
 public:
  BackwardBlock(const BackwardProblem& problem, const BackwardPart& part, void* workspace)
      : problem_(problem),
        part_(part),
        block_(problem, part.b, part.h, part.block),
        space_(problem, workspace) {}

  void run() {
    load_block();
    const bool sums_known = !OfRow || !part_.rows;  // a call for columns reads the G_i of an earlier one
    for (int64_t tile = part_.first_tile; tile <= part_.last_tile; ++tile) {
      const int64_t open = differentiate_tile(tile);
      if (part_.columns && open) add_grad_v(tile, open);
      if (sums_known) add_grad_q_and_k(tile);
    }
    if (part_.rows) write_sums();
    if (!sums_known) {
      for (int64_t tile = part_.first_tile; tile <= part_.last_tile; ++tile) {
        if (!is_kept(tile)) differentiate_tile(tile);
        add_grad_q_and_k(tile);
      }
    }
    if (part_.rows) write_grad_q();
  }

 private:
  bool is_kept(int64_t tile) const { return tile < space_.kept; }
  int64_t place(int64_t tile) const { return (is_kept(tile) ? tile : space_.kept) * kTile; }

  void load_side(const View& view, Real scale, Real* rows, Real* transposed) {
    const void* from = element_at(problem_, view, block_.b, block_.h, block_.start);
    load_rows(problem_, from, view.token, block_.rows, block_.padded, scale, rows);
    transpose_rows(rows, block_.rows, problem_.d, block_.padded, transposed);
  }

  void load_block() {
    const Real* log_sum_exp = static_cast<const Real*>(problem_.log_sum_exp) + block_.row_offset();
    const Real* gate_sums = static_cast<const Real*>(problem_.gate_sums) + block_.row_offset();
    for (int64_t r = 0; r < kRows; ++r) {
      const bool exists = r < block_.rows;
      space_.log_sum_exp[r] = exists ? log_sum_exp[r] : 0;
      space_.offset[r] = static_cast<Real>(row_gate(problem_, block_.h, space_.log_sum_exp[r]).offset);
      space_.G[r] = exists && OfRow && !part_.rows ? gate_sums[r] : 0;
      space_.sums[r] = 0;
    }
    load_side(problem_.grad_out, Real(1), space_.grads, space_.grads_t);
    find_D();
    load_side(problem_.q, static_cast<Real>(problem_.scale), space_.queries, space_.queries_t);
    __builtin_memset(space_.grad_q, 0, kRows * block_.padded * sizeof(Real));
  }

  // D_i = dy_i . y_i; y passes through the places of dq and q, which come after it.
  void find_D() {
    load_side(problem_.out, Real(1), space_.grad_q, space_.queries_t);
    for (int64_t r = 0; r < kRows; r += kLanes) {
      Lanes<Real> D{};
      for (int64_t e = 0; e < problem_.d; ++e) {
        D += load(space_.queries_t + e * kRows + r) * load(space_.grads_t + e * kRows + r);
      }
      store(space_.D + r, D);
    }
  }

  // S and dA of the tile become P and dS, weights become P z; returns the number of open gates.
  int64_t differentiate_tile(int64_t tile) {
    const int64_t columns = block_.columns(tile);
    Real *scores = space_.scores + place(tile), *slopes = space_.slopes + place(tile);
    dot_tile(block_, block_.keys(problem_.k, tile, space_.keys), space_.queries_t, columns, scores);
    hide_future(block_, tile, columns, scores);
    if (Sampled || any_open(scores, columns)) {
      dot_tile(block_, block_.keys(problem_.v, tile, space_.values), space_.grads_t, columns, slopes);
    } else {
      __builtin_memset(slopes, 0, kTile * sizeof(Real));  // a closed hard gate reads no dA
    }
    int64_t open = 0;
    for (int64_t r = 0; r < kRows; r += kLanes) {
      open += differentiate_lanes(tile, columns, r, scores + r, slopes + r, space_.weights + r);
    }
    clear_future(block_, tile, columns, scores);
    clear_future(block_, tile, columns, slopes);
    clear_future(block_, tile, columns, space_.weights);
    return open;
  }

  bool any_open(const Real* scores, int64_t columns) const {
    Lanes<Index<Real>> open{};
    for (int64_t r = 0; r < kRows; r += kLanes) {
      const Lanes<Real> offset = load(space_.offset + r);
      for (int64_t c = 0; c < columns; ++c) open |= load(scores + c * kRows + r) + offset > 0;
    }
    Index<Real> any = 0;
    for (int lane = 0; lane < kLanes; ++lane) any |= open[lane];
    return any != 0;
  }

  // The gradient of kLanes rows: dg, then dS = P (z dA - D) + dg.
  int64_t differentiate_lanes(int64_t tile, int64_t columns, int64_t r, Real* scores, Real* slopes,
                              Real* weights) {
    const Lanes<Real> exponent = load(space_.log_sum_exp + r) + load(space_.offset + r);
    if (problem_.sharpness == 1 && is_narrow<Real>(exponent)) {
      const Lanes<Real> odds = exponential_in_range(exponent);
      return differentiate_lanes<true>(tile, columns, r, odds, scores, slopes, weights);
    }
    return differentiate_lanes<false>(tile, columns, r, exponent, scores, slopes, weights);
  }

  template <bool Narrow>
  int64_t differentiate_lanes(int64_t tile, int64_t columns, int64_t r, Lanes<Real> row_odds, Real* scores,
                              Real* slopes, Real* weights) {
    const Lanes<Real> log_sum_exp = load(space_.log_sum_exp + r), D = load(space_.D + r);
    const Lanes<Real> offset = load(space_.offset + r);
    const Real sharpness = static_cast<Real>(problem_.sharpness);
    const Real grad_penalty = static_cast<Real>(problem_.grad_penalty[block_.b * problem_.H + block_.h]);
    const RowNoise noise = noise_of(block_, r);
    Lanes<Real> sum{};
    Lanes<Index<Real>> count{};
    for (int64_t c = 0; c < columns; c += kGateKeys) {
      Lanes<uint32_t> words[kGateKeys / 2];
      if constexpr (Sampled) noise.draw((tile * kColumns + c) / kGateKeys, words);
      const int keys = columns - c < kGateKeys ? static_cast<int>(columns - c) : kGateKeys;
      for (int key = 0; key < keys; ++key) {
        const int64_t at = (c + key) * kRows;
        const Lanes<Real> score = load(scores + at), dA = load(slopes + at);
        const Lanes<Real> g = score + offset;
        Lanes<Real> P, exp_g;
        if constexpr (Narrow) {
          P = exponential_of_probability<Real>(score - log_sum_exp);
          exp_g = P * row_odds;
        } else {
          P = exponential_of_negative<Real>(score - log_sum_exp);
          exp_g = exponential_of_gate<Real>(g * sharpness);
        }
        Lanes<Real> dg = grad_penalty * sigmoid_slope<Real>(exp_g);
        Lanes<Index<Real>> z = g > 0;
        if constexpr (Sampled) {
          const Odds<Real> odds = odds_of<Real>(words, key);
          z = is_open<Real>(exp_g, odds);
          dg += P * dA * sampled_slope<Real>(exp_g, odds);
        }
        if constexpr (!Narrow) dg *= sharpness;
        store(scores + at, P);
        store(slopes + at, P * ((z ? dA : Lanes<Real>{}) - D) + dg);
        store(weights + at, z ? P : Lanes<Real>{});
        sum += dg;
        count -= z;
      }
    }
    store(space_.sums + r, load(space_.sums + r) + sum);
    int64_t open = 0;
    for (int lane = 0; lane < kLanes; ++lane) open += count[lane];
    return open;
  }

  Real* columns_of(void* gradient, int64_t tile) const {
    const int64_t head = block_.b * (problem_.H / problem_.group) + block_.h / problem_.group;
    return static_cast<Real*>(gradient) + (head * problem_.T + tile * kColumns) * block_.padded;
  }

  void add_grad_v(int64_t tile, int64_t open) {
    const int64_t columns = block_.columns(tile), padded = block_.padded;
    Real* grad_v = columns_of(problem_.grad_v, tile);
    if (is_sparse(open, columns)) {
      add_open_edges<false>(space_.weights, columns, RowsOf<Real>{space_.grads, padded}, grad_v, padded,
                            padded);
    } else {
      add_product<Real>({space_.weights, kRows, 1}, space_.grads, padded, grad_v, padded, columns, padded,
                        block_.rows);
    }
  }

  void add_grad_q_and_k(int64_t tile) {
    const int64_t columns = block_.columns(tile), padded = block_.padded;
    Real* slopes = space_.slopes + place(tile);
    if constexpr (OfRow) subtract_sums(space_.scores + place(tile), columns, slopes);
    if (part_.rows) {
      const RowsOf<Real> keys = block_.keys(problem_.k, tile, space_.keys);
      add_product<Real>({slopes, 1, kRows}, keys.data, keys.stride, space_.grad_q, padded, block_.rows,
                        padded, columns);
    }
    if (part_.columns) {
      add_product<Real>({slopes, kRows, 1}, space_.queries, padded, columns_of(problem_.grad_k, tile), padded,
                        columns, padded, block_.rows);
    }
  }

  // dS -= w P G
  void subtract_sums(const Real* P, int64_t columns, Real* slopes) {
    for (int64_t r = 0; r < kRows; r += kLanes) {
      const Lanes<Real> G = load(space_.G + r);
      for (int64_t at = r; at < columns * kRows; at += kRows)
        store(slopes + at, load(slopes + at) - load(P + at) * G);
    }
  }

  void write_sums() {
    Real* gate_sums = static_cast<Real*>(problem_.gate_sums) + block_.row_offset();
    double grad_bias = 0, grad_idle = 0;
    for (int64_t r = 0; r < block_.rows; ++r) {
      const RowGate row = row_gate(problem_, block_.h, space_.log_sum_exp[r]);
      grad_bias += space_.sums[r];
      grad_idle -= row.rest * space_.sums[r];
      gate_sums[r] = space_.G[r] = static_cast<Real>(row.weight * space_.sums[r]);
    }
    const int64_t at = (block_.b * problem_.H + block_.h) * problem_.blocks() + block_.index;
    problem_.grad_bias[at] = grad_bias;
    if (problem_.grad_idle) problem_.grad_idle[at] = grad_idle;
  }

  void write_grad_q() {
    const int64_t size = sizeof_element(problem_.element);
    store_rows(problem_, space_.grad_q, block_.rows, block_.padded, static_cast<Real>(problem_.scale),
               static_cast<char*>(problem_.grad_q) + block_.row_offset() * problem_.d * size);
  }

  const BackwardProblem& problem_;
  const BackwardPart part_;
  Block block_;
  BackwardSpace<Real> space_;
};

template <typename Real>
void backward_block(const BackwardProblem& problem, const BackwardPart& part, void* workspace) {
  if (problem.of_row && problem.sampled)
    return BackwardBlock<Real, true, true>(problem, part, workspace).run();
  if (problem.of_row) return BackwardBlock<Real, true, false>(problem, part, workspace).run();
  if (problem.sampled) return BackwardBlock<Real, false, true>(problem, part, workspace).run();
  BackwardBlock<Real, false, false>(problem, part, workspace).run();
}

}  // namespace

size_t backward_workspace(const Problem& problem) {
  return problem.element == Element::kDouble ? BackwardSpace<double>(problem, nullptr).bytes
                                             : BackwardSpace<float>(problem, nullptr).bytes;
}

void backward(const BackwardProblem& problem, const BackwardPart& part, void* workspace) {
  if (problem.element == Element::kDouble) return backward_block<double>(problem, part, workspace);
  backward_block<float>(problem, part, workspace);
}

size_t forward_workspace(const Problem& problem);
void forward(const ForwardProblem& problem, int64_t b, int64_t h, int64_t block, void* workspace);
void gelu(const float* x, float* y, int64_t count);
void rms_norm(const RmsNormProblem& problem, int64_t from, int64_t to);
void silu_product(const SiluProblem& problem, int64_t from, int64_t to);
void turn(const TurnProblem& problem, int64_t from, int64_t to);
void few_rows(const FewRowsProblem& problem, int64_t from, int64_t to);
size_t inference_workspace(const InferenceProblem& problem);
void infer(const InferenceProblem& problem, int64_t b, int64_t h, int64_t task, void* workspace);

const Kernels kKernels = {
    kLanes, forward_workspace, backward_workspace, forward, backward, gelu, few_rows, inference_workspace,
    infer,  rms_norm,          silu_product,       turn};

}  // namespace openwork::cpu::OPENWORK_CPU_NAMESPACE
