#include "train/lengths.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace openwork {
namespace {

// How many n < end have n mod size == place.
int64_t count_places(int64_t end, int64_t place, int64_t size) {
  return (end + size - 1 - place) / size;
}

}  // namespace

LengthPlan::LengthPlan(std::vector<int64_t> lengths, int64_t context)
    : lengths_(std::move(lengths)), context_(context) {
  if (lengths_.empty()) lengths_ = {context};
  for (size_t n = 0; n < lengths_.size(); ++n) {
    const int64_t length = lengths_[n];
    if (length < 1 || context % length != 0) {
      fail_input(fmt::format("blocks of {} tokens do not fill a context of {}", length, context), "--lengths",
                 "choose divisors of --context, which is the longest of them unless given");
    }
    if (std::count(lengths_.begin(), lengths_.end(), length) > 1)
      fail_input(fmt::format("the length {} is named twice", length), "--lengths", "name each once");
  }
}

std::vector<LengthCall> LengthPlan::calls(int64_t first, int64_t count) const {
  const auto size = static_cast<int64_t>(lengths_.size());
  std::vector<LengthCall> result;
  for (int64_t place = 0; place < size; ++place) {
    const int64_t length = lengths_[static_cast<size_t>(place)];
    const int64_t before = count_places(first, place, size);  // rows of this length in earlier passes
    const int64_t rows = count_places(first + count, place, size) - before;
    if (rows > 0)
      result.push_back({length, before * size + place - first, size, rows, before * (context_ / length)});
  }
  return result;
}

at::Tensor LengthPlan::cut(const at::Tensor& rows, const LengthCall& call) const {
  const at::Tensor own = rows.slice(0, call.row, call.row + (call.rows - 1) * call.stride + 1, call.stride);
  if (call.length == context_) return own;
  // The last token of a block is the first of the next: [rows, blocks of a row, length + 1].
  return own.unfold(1, call.length + 1, call.length).reshape({-1, call.length + 1});
}

double LengthPlan::pairs(int64_t rows) const {
  double total = 0;
  for (const LengthCall& call : calls(0, rows))
    total += static_cast<double>(call.rows * (context_ / call.length)) *
             (static_cast<double>(call.length * (call.length + 1)) / 2);
  return total;
}

}  // namespace openwork
