// The numbers of one head's causal pattern on one prompt (docs/method.md, 3), read off in one walk over its
// rows.
//   HeadNumbers numbers = measure_pattern({pattern, tokens});
#pragma once
#include <cstdint>

#include "analyze/heads/head_records.h"

namespace openwork {

struct HeadPattern {
  const float* values = nullptr;  // [tokens, tokens], zero above the diagonal
  int64_t tokens = 0;
  const float* gate = nullptr;         // [tokens, tokens], 1 where open; none: every causal pair is kept
  const float* value_norms = nullptr;  // [tokens], |v_j W_O|; none: value mass is not a number
};

inline constexpr int64_t kLocalReach = 8;     // local mass: i - kLocalReach <= j <= i
inline constexpr double kStrongCell = 0.5;    // an off-diagonal cell above this is strong
inline constexpr int64_t kColumnRows = 8;     // a column is judged over max(kColumnRows, tokens / 8) rows
inline constexpr int64_t kSpreadRowKeys = 8;  // rows with fewer keys are not called spread
inline constexpr double kSpreadShare = 0.5;   // of its keys above 1/(2(i+1)) of its mass

// Rows i >= 1; of one token there is none, and every number is NaN. Induction, duplicate and repeat mass are
// left NaN: they need a prompt made for them.
HeadNumbers measure_pattern(const HeadPattern& pattern);

// Fills induction, duplicate and repeat mass from a prompt of `before` tokens and then `length` tokens twice.
void measure_repeat(const HeadPattern& pattern, int64_t before, int64_t length, HeadNumbers& numbers);

// The local mass of a head that attends evenly to all its keys; NaN for one token.
double uniform_local_mass(int64_t tokens);

}  // namespace openwork
