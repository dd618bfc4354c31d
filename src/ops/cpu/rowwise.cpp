// What a layer does to single rows between its products, in one walk each: a step of generation has so few numbers
// that several calls of ATen's would take longer than the numbers. Computed in float, rounded once.
#include "ops/cpu/wide.h"

namespace openwork::cpu::OPENWORK_CPU_NAMESPACE {
namespace {

using Vector = Lanes<float>;

// Calls run with a pointer of the element's kind.
template <typename Run>
void with_element(Element element, Run run) {
  if (element == Element::kBFloat16) return run(static_cast<const BFloat16*>(nullptr));
  if (element == Element::kHalf) return run(static_cast<const Half*>(nullptr));
  run(static_cast<const float*>(nullptr));
}

template <typename Stored>
void normalise_row(const RmsNormProblem& problem, int64_t row) {
  const int64_t D = problem.width;
  const Stored* const x = static_cast<const Stored*>(problem.x) + row * D;
  const Stored* const weight = static_cast<const Stored*>(problem.weight);
  Stored* const out = static_cast<Stored*>(problem.out) + row * D;
  Vector squares = {};
  float rest = 0;
  int64_t k = 0;
  for (; k + kLanes <= D; k += kLanes) {
    const Vector wide = load_wide(x + k);
    squares += wide * wide;
  }
  for (; k < D; ++k) rest += static_cast<float>(x[k]) * static_cast<float>(x[k]);
  const float mean = (sum_lanes(squares) + rest) / static_cast<float>(D);
  const float scale = 1 / __builtin_sqrtf(mean + problem.epsilon);
  for (k = 0; k + kLanes <= D; k += kLanes) {
    const Vector normal = load_wide(x + k) * scale;
    store_narrow(out + k, weight ? normal * load_wide(weight + k) : normal);
  }
  for (; k < D; ++k) {
    const float normal = static_cast<float>(x[k]) * scale;
    out[k] = narrow_to(out, weight ? normal * static_cast<float>(weight[k]) : normal);
  }
}

inline Vector silu(Vector x) {
  const Vector bounded = smaller(fill<float>(60), larger(fill<float>(-60), -x));
  return x * reciprocal(exponential_in_range(bounded) + 1.0f);
}

template <typename Stored>
void turn_row(const TurnProblem& problem, const Stored* x, const Stored* cosine, const Stored* sine,
              Stored* out) {
  const int64_t half = problem.half;
  int64_t n = 0;
  for (; n + kLanes <= half; n += kLanes) {
    const Vector first = load_wide(x + n), second = load_wide(x + half + n), c = load_wide(cosine + n),
                 s = load_wide(sine + n);
    store_narrow(out + n, first * c - second * s);
    store_narrow(out + half + n, second * c + first * s);
  }
  for (; n < half; ++n) {
    const float first = x[n], second = x[half + n], c = cosine[n], s = sine[n];
    out[n] = narrow_to(out, first * c - second * s);
    out[half + n] = narrow_to(out, second * c + first * s);
  }
  for (n = 2 * half; n < problem.d; ++n) out[n] = x[n];
}

template <typename Stored>
void turn_token(const TurnProblem& problem, int64_t token) {
  const int64_t b = token / problem.T, t = token % problem.T;
  const int64_t row = t * problem.table_stride;
  const auto at = [&](const View& view, int64_t h) {
    return static_cast<const Stored*>(view.data) + b * view.batch + t * view.token + h * view.head;
  };
  for (int64_t h = 0; h < problem.heads; ++h) {
    turn_row(problem, at(problem.from, h), static_cast<const Stored*>(problem.cosine) + row,
             static_cast<const Stored*>(problem.sine) + row, const_cast<Stored*>(at(problem.to, h)));
  }
}

}  // namespace

void rms_norm(const RmsNormProblem& problem, int64_t from, int64_t to) {
  with_element(problem.element, [&]<typename Stored>(const Stored*) {
    for (int64_t row = from; row < to; ++row) normalise_row<Stored>(problem, row);
  });
}

void silu_product(const SiluProblem& problem, int64_t from, int64_t to) {
  with_element(problem.element, [&]<typename Stored>(const Stored*) {
    const Stored* const gate = static_cast<const Stored*>(problem.gate);
    const Stored* const linear = static_cast<const Stored*>(problem.linear);
    Stored* const out = static_cast<Stored*>(problem.out);
    int64_t n = from;
    for (; n + kLanes <= to; n += kLanes)
      store_narrow(out + n, silu(load_wide(gate + n)) * load_wide(linear + n));
    if (n == to) return;
    Vector last = {};
    for (int64_t lane = 0; lane < to - n; ++lane) last[lane] = gate[n + lane];
    last = silu(last);
    for (int64_t lane = 0; lane < to - n; ++lane)
      out[n + lane] = narrow_to(out, last[lane] * static_cast<float>(linear[n + lane]));
  });
}

void turn(const TurnProblem& problem, int64_t from, int64_t to) {
  with_element(problem.element, [&]<typename Stored>(const Stored*) {
    for (int64_t token = from; token < to; ++token) turn_token<Stored>(problem, token);
  });
}

}  // namespace openwork::cpu::OPENWORK_CPU_NAMESPACE
