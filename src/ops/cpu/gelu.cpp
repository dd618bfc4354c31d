// GELU by its tanh formula, x (1 + tanh u) / 2 = x / (1 + e^(-2u)) with u = sqrt(2 / pi) (x + 0.044715 x^3):
// one exponential instead of a tanh.
#include "ops/cpu/kernel.h"
#include "ops/cpu/vector.h"

namespace openwork::cpu::OPENWORK_CPU_NAMESPACE {
namespace {

inline Lanes<float> gelu_of(Lanes<float> x) {
  constexpr float kLinear = 1.5957691216057308f, kCubic = 0.07135481627159736f;
  const Lanes<float> twice_u = x * (kLinear + kCubic * (x * x));
  const Lanes<float> bounded = smaller(fill<float>(60), larger(fill<float>(-60), -twice_u));
  return x * reciprocal(exponential_in_range(bounded) + 1.0f);
}

}  // namespace

void gelu(const float* x, float* y, int64_t count) {
  int64_t n = 0;
  for (; n + kLanes <= count; n += kLanes) store(y + n, gelu_of(load(x + n)));
  if (n == count) return;
  Lanes<float> last = {};
  for (int64_t lane = 0; lane < count - n; ++lane) last[lane] = x[n + lane];
  last = gelu_of(last);
  for (int64_t lane = 0; lane < count - n; ++lane) y[n + lane] = last[lane];
}

}  // namespace openwork::cpu::OPENWORK_CPU_NAMESPACE
