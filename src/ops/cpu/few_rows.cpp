// Few rows times a matrix: each weight is loaded once, widened to float and multiplied with all rows. Sums of a row run
// in an order that depends on the matrix alone.
#include "ops/cpu/wide.h"

namespace openwork::cpu::OPENWORK_CPU_NAMESPACE {
namespace {

using Vector = Lanes<float>;

// Weights come from memory, in order: asking for them this many bytes ahead keeps more of them on their way.
constexpr int64_t kAhead = 2048, kLine = 64;

template <typename Stored>
void put(const FewRowsProblem& problem, int64_t row, int64_t n, float sum) {
  if (problem.bias) sum += static_cast<float>(static_cast<const Stored*>(problem.bias)[n]);
  Stored* const to = static_cast<Stored*>(problem.out) + row * problem.outputs + n;
  *to = narrow_to(to, sum);
}

// The dot product of a row of x and a row of weights, in four chains so that additions do not wait for one another.
template <typename Stored>
float multiply_row(const float* x, const Stored* weights, int64_t K) {
  constexpr int kChains = 4;
  Vector sum[kChains] = {};
  int64_t k = 0;
  for (; k + kChains * kLanes <= K; k += kChains * kLanes) {
    for (int64_t byte = 0; byte < kChains * kLanes * static_cast<int64_t>(sizeof(Stored)); byte += kLine)
      __builtin_prefetch(reinterpret_cast<const char*>(weights + k) + kAhead + byte);
#pragma GCC unroll 4
    for (int chain = 0; chain < kChains; ++chain)
      sum[chain] += load_wide(weights + k + chain * kLanes) * load(x + k + chain * kLanes);
  }
  float rest = 0;
  for (; k < K; ++k) rest += static_cast<float>(weights[k]) * x[k];
  return sum_lanes((sum[0] + sum[1]) + (sum[2] + sum[3])) + rest;
}

#if defined(__AVX512F__)
// Machines that multiply pairs of bfloat16 need not widen them: 32 weights an instruction, products and sums in float.
const bool kHasPairs = __builtin_cpu_supports("avx512bf16");

__attribute__((target("avx512bf16"))) float multiply_pairs(const BFloat16* x, const BFloat16* weights,
                                                           int64_t K) {
  constexpr int kChains = 4;
  constexpr int64_t kPairs = 2 * kLanes;
  const auto load_pairs = [](const BFloat16* from) {
    return reinterpret_cast<__m512bh>(_mm512_loadu_si512(from));
  };
  __m512 sum[kChains] = {};
  int64_t k = 0;
  for (; k + kChains * kPairs <= K; k += kChains * kPairs) {
#pragma GCC unroll 4
    for (int chain = 0; chain < kChains; ++chain) {
      const BFloat16* const here = weights + k + chain * kPairs;
      __builtin_prefetch(reinterpret_cast<const char*>(here) + kAhead);
      sum[chain] = _mm512_dpbf16_ps(sum[chain], load_pairs(here), load_pairs(x + k + chain * kPairs));
    }
  }
  for (; k + kPairs <= K; k += kPairs)
    sum[0] = _mm512_dpbf16_ps(sum[0], load_pairs(weights + k), load_pairs(x + k));
  float rest = 0;
  for (; k < K; ++k) rest += static_cast<float>(weights[k]) * static_cast<float>(x[k]);
  const __m512 all = (sum[0] + sum[1]) + (sum[2] + sum[3]);
  return sum_lanes(reinterpret_cast<Vector>(all)) + rest;
}

bool takes_pairs(const FewRowsProblem& problem) {
  return kHasPairs && problem.element == Element::kBFloat16 && problem.stored_x;
}

void multiply_rows_by_pairs(const FewRowsProblem& problem, int64_t from, int64_t to) {
  const auto* const x = static_cast<const BFloat16*>(problem.stored_x);
  for (int64_t n = from; n < to; ++n) {
    const auto* const weights = static_cast<const BFloat16*>(problem.weight) + n * problem.weight_stride;
    for (int64_t row = 0; row < problem.rows; ++row)
      put<BFloat16>(problem, row, n, multiply_pairs(x + row * problem.inputs, weights, problem.inputs));
  }
}
#endif

template <typename Stored>
void multiply_rows(const FewRowsProblem& problem, int64_t from, int64_t to) {
#if defined(__AVX512F__)
  if (takes_pairs(problem)) return multiply_rows_by_pairs(problem, from, to);
#endif
  for (int64_t n = from; n < to; ++n) {
    const Stored* const weights = static_cast<const Stored*>(problem.weight) + n * problem.weight_stride;
    for (int64_t row = 0; row < problem.rows; ++row)
      put<Stored>(problem, row, n, multiply_row(problem.x + row * problem.inputs, weights, problem.inputs));
  }
}

// Weights stored [in, out]: outputs lie side by side, kWide vectors of them in registers. Sums are made in parts of
// kPart inputs, then of those: rounding grows with the length of a sum.
constexpr int64_t kPart = 128;
constexpr int kWide = kRegisters / 2;

template <typename Stored>
void multiply_wide(const FewRowsProblem& problem, const float* x, const Stored* weights, Vector* sum) {
  for (int64_t first = 0; first < problem.inputs; first += kPart) {
    const int64_t last = first + kPart < problem.inputs ? first + kPart : problem.inputs;
    Vector part[kWide] = {};
    for (int64_t k = first; k < last; ++k) {
      const Vector left = fill(x[k]);
#pragma GCC unroll 16
      for (int v = 0; v < kWide; ++v)
        part[v] += left * load_wide(weights + k * problem.weight_stride + v * kLanes);
    }
    for (int v = 0; v < kWide; ++v) sum[v] += part[v];
  }
}

template <typename Stored>
float multiply_column(const FewRowsProblem& problem, const float* x, const Stored* weights) {
  float sum = 0;
  for (int64_t first = 0; first < problem.inputs; first += kPart) {
    const int64_t last = first + kPart < problem.inputs ? first + kPart : problem.inputs;
    float part = 0;
    for (int64_t k = first; k < last; ++k)
      part += x[k] * static_cast<float>(weights[k * problem.weight_stride]);
    sum += part;
  }
  return sum;
}

template <typename Stored>
void multiply_columns(const FewRowsProblem& problem, int64_t from, int64_t to) {
  const Stored* const weights = static_cast<const Stored*>(problem.weight);
  for (int64_t row = 0; row < problem.rows; ++row) {
    const float* const x = problem.x + row * problem.inputs;
    int64_t n = from;
    for (; n + kWide * kLanes <= to; n += kWide * kLanes) {
      Vector sum[kWide] = {};
      multiply_wide(problem, x, weights + n, sum);
      for (int out = 0; out < kWide * kLanes; ++out)
        put<Stored>(problem, row, n + out, sum[out / kLanes][out % kLanes]);
    }
    for (; n < to; ++n) put<Stored>(problem, row, n, multiply_column(problem, x, weights + n));
  }
}

template <typename Stored>
void multiply(const FewRowsProblem& problem, int64_t from, int64_t to) {
  return problem.transposed ? multiply_columns<Stored>(problem, from, to)
                            : multiply_rows<Stored>(problem, from, to);
}

}  // namespace

void few_rows(const FewRowsProblem& problem, int64_t from, int64_t to) {
  if (problem.element == Element::kBFloat16) return multiply<BFloat16>(problem, from, to);
  if (problem.element == Element::kHalf) return multiply<Half>(problem, from, to);
  multiply<float>(problem, from, to);
}

}  // namespace openwork::cpu::OPENWORK_CPU_NAMESPACE
