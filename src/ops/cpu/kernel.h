// What the CPU kernels are given and offer, in plain types: the kernel sources are compiled once per
// instruction set (AVX-512, AVX2, and whatever the machine has at least), and nothing that other sources
// instantiate may be compiled with those flags, so no torch and no standard containers here.
// A head's T x T scores are walked in tiles of kRows query rows by kColumns keys; tiles above the diagonal
// are never touched and only a bounded number of tiles is held at a time.
#pragma once
#include <cstddef>
#include <cstdint>

namespace openwork::cpu {

inline constexpr int64_t kRows = 64;     // query rows of a tile; a multiple of every lane count
inline constexpr int64_t kColumns = 64;  // keys of a tile; a multiple of 8, the gates of one random draw
// The logprob and idle gates look at a row block twice. This many of its tiles are kept from the first look;
// the tiles of longer rows are computed again, so that memory does not grow with T.
inline constexpr int64_t kKeptTiles = 48;

enum class Element { kFloat, kDouble, kBFloat16, kHalf };
constexpr int64_t sizeof_element(Element element) {
  return element == Element::kDouble ? 8 : element == Element::kFloat ? 4 : 2;
}

// A [B, H, T, d] tensor whose last dimension is contiguous; strides in elements.
struct View {
  const void* data;
  int64_t batch, head, token;
};

struct Problem {
  Element element;            // of q, k, v, out and their gradients
  int64_t B, H, group, T, d;  // group: query heads per key/value head
  View q, k, v;
  const double* bias;  // [H]
  const double* idle;  // [H]; null unless the gate is idle
  double scale, sharpness;
  bool of_row;  // gates know their row's log-sum-exp: logprob and idle
  bool sampled;
  uint64_t seed, first;

  int64_t blocks() const {
    return (T + kRows - 1) / kRows;
  }  // row blocks of a head, also tiles of its last row
};

// Row sums and statistics are double for float64 problems, float for all others ("real" below).
struct ForwardProblem : Problem {
  void* out;          // [B, H, T, d] contiguous
  void* log_sum_exp;  // [B, H, T] real
  double* penalty;    // [B, H, blocks] sums of sigmoid(g) over the block's causal pairs
  int64_t* active;    // [B, H, blocks] counts of open gates
};

struct BackwardProblem : Problem {
  View grad_out, out;
  const void* log_sum_exp;     // [B, H, T] real
  const double* grad_penalty;  // [B, H], divided by the number of causal pairs
  void* grad_q;                // [B, H, T, d] contiguous
  void *grad_k, *grad_v;       // [B, H / group, T, padded d] real, zero at first; gradients are added
  void* gate_sums;             // [B, H, T] real: w_i G_i, written with grad_q, read back for grad_k (of_row)
  double *grad_bias, *grad_idle;  // [B, H, blocks]; grad_idle null unless the gate is idle
};

// Hard gates and z alone, nothing for a backward pass: what is closed is skipped. T queries stand at the end of K
// keys.
struct InferenceProblem : Problem {
  int64_t K;
  const int64_t* key_head;  // [H]: the key/value head a query head reads
  bool gated;               // off: every causal edge is open
  void* out;                // [B, H, T, d] contiguous

  bool by_rows() const { return T < 8; }  // generation: few queries, each by itself
  int64_t tasks_per_head() const { return by_rows() ? T : blocks(); }
};

// Few rows times a matrix: out [rows, outputs] = x [rows, inputs] W^T + bias, sums in float.
struct FewRowsProblem {
  Element element;  // of weight, bias and out
  int64_t rows, inputs, outputs;
  const float* x;             // contiguous
  const void* stored_x;       // the same as elements, where x was made of such; else null
  const void *weight, *bias;  // bias null where there is none
  int64_t weight_stride;      // from row to row of weight as it is stored:
  bool transposed;            // [inputs, outputs], else [outputs, inputs]
  void* out;                  // contiguous
};

// Rows over their root mean square, times weight: out, x [rows, width] contiguous, weight [width] or null.
struct RmsNormProblem {
  Element element;  // of all; not double, here and below
  int64_t width;
  float epsilon;
  const void *x, *weight;
  void* out;
};

// silu(gate) * linear, number by number.
struct SiluProblem {
  Element element;
  const void *gate, *linear;
  void* out;
};

// Rotary positions: pairs (x_n, x_{n + half}) of a row turned by its token's angles, what lies beyond 2 half kept.
// With half 0 rows are copied.
struct TurnProblem {
  Element element;
  int64_t T, heads, d, half;
  View from, to;              // to is written
  const void *cosine, *sine;  // [T, half]
  int64_t table_stride;
};

// What a call of Kernels::backward computes for its row block.
struct BackwardPart {
  int64_t b, h, block;            // block of query rows
  int64_t first_tile, last_tile;  // key tiles, both included
  bool rows, columns;             // grad_q, gate_sums, grad_bias and grad_idle; grad_k and grad_v
};

// Workspaces are bytes, 64-aligned, one per thread.
struct Kernels {
  int64_t lanes;  // head sizes are padded to a multiple of this
  size_t (*forward_workspace)(const Problem&);
  size_t (*backward_workspace)(const Problem&);
  void (*forward)(const ForwardProblem&, int64_t b, int64_t h, int64_t block, void* workspace);
  void (*backward)(const BackwardProblem&, const BackwardPart&, void* workspace);
  void (*gelu)(const float* x, float* y, int64_t count);
  void (*few_rows)(const FewRowsProblem&, int64_t from, int64_t to);  // these outputs
  size_t (*inference_workspace)(const InferenceProblem&);
  // One query, or one block of query rows, of head h.
  void (*infer)(const InferenceProblem&, int64_t b, int64_t h, int64_t task, void* workspace);
  void (*rms_norm)(const RmsNormProblem&, int64_t from, int64_t to);   // these rows
  void (*silu_product)(const SiluProblem&, int64_t from, int64_t to);  // these numbers
  void (*turn)(const TurnProblem&, int64_t from, int64_t to);          // these of the B T tokens
};

// Those of this machine's instruction set.
const Kernels& choose_kernels();

// The kernels of one instruction set, each compiled from the same sources.
namespace avx512 {
extern const Kernels kKernels;
}
namespace avx2 {
extern const Kernels kKernels;
}
namespace baseline {
extern const Kernels kKernels;
}

}  // namespace openwork::cpu
