// Patterns as bytes: the causal entries of many heads, of each token pair or averaged into cells, as floats or as
// bytes b with value = scale (b / 255)^2, whose square root keeps weak attention visible.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "analyze/heads/patterns.h"
#include "base/causal_cells.h"
#include "base/error.h"
#include "serve/answers.h"
#include "serve/binary_tensor.h"

namespace openwork::serve {
namespace {

// The causal entries of a pattern, averaged where there are fewer cells than tokens.
std::vector<float> read_entries(const PatternView& pattern, int64_t side) {
  if (side == pattern.tokens) return causal_values(pattern);
  const Cells cells = average_cells(pattern.values, pattern.tokens, side);
  return causal_values({pattern.place, side, cells.values});
}

// One row of bytes; returns the row's scale.
float quantise(const std::vector<float>& entries, uint8_t* row) {
  const float scale = entries.empty() ? 0 : std::max(0.0f, *std::max_element(entries.begin(), entries.end()));
  for (size_t n = 0; n < entries.size(); ++n) {
    const float share = scale > 0 ? std::max(0.0f, entries[n]) / scale : 0;
    row[n] = static_cast<uint8_t>(std::lround(255 * std::sqrt(share)));
  }
  return scale;
}

void check_size(size_t heads, size_t entries, size_t each) {
  if (heads * entries * each <= static_cast<size_t>(kMostPatternBytes)) return;
  fail_input(fmt::format("{} heads of {} entries", heads, entries), "patterns",
             fmt::format("ask for fewer heads, or fewer cells: at most {} bytes", kMostPatternBytes));
}

}  // namespace

Answer answer(const ServedModels& models, const PatternsRequest& request, Work&) {
  const TracedModel& model = models.find(request.model);
  const std::vector<int64_t> ids = tokenise(model, request.prompt);
  const std::vector<HeadPlace> places = read_heads(model, request.heads);
  const auto tokens = static_cast<int64_t>(ids.size());
  const int64_t side = request.cells == 0 ? tokens : std::min(tokens, request.cells);
  const auto entries = static_cast<size_t>(side * (side + 1) / 2);
  const bool bytes = request.format == "u8";
  const size_t each = bytes ? 1 : sizeof(float);
  check_size(places.size(), entries, each);

  std::map<HeadPlace, size_t> row_of;
  nlohmann::json names = nlohmann::json::array();
  for (const HeadPlace& place : places) row_of.emplace(place, row_of.size()), names.push_back(place.name());
  std::string data(places.size() * entries * each, '\0');
  std::vector<float> scale(places.size());
  const auto visit = [&](const PatternView& pattern) {
    const auto found = row_of.find(pattern.place);
    if (found == row_of.end()) return;
    const std::vector<float> values = read_entries(pattern, side);
    char* row = data.data() + found->second * entries * each;
    if (bytes) {
      scale[found->second] = quantise(values, reinterpret_cast<uint8_t*>(row));
    } else {
      std::memcpy(row, values.data(), values.size() * sizeof(float));
      scale[found->second] = *std::max_element(values.begin(), values.end());
    }
  };
  const Tensor batch = at::tensor(ids, at::kLong).unsqueeze(0).to(model.model.device());  // [1, T]
  visit_patterns(model.model, batch, visit,
                 request.weights == "value" ? PatternWeights::kValue : PatternWeights::kAttention);
  const nlohmann::json header = {
      {"model", model.name},     {"weights", request.weights},        {"tokens", tokens},   {"cells", side},
      {"dtype", request.format}, {"shape", {places.size(), entries}}, {"layout", "causal"}, {"heads", names},
      {"scale", scale}};
  return {kBinaryType, std::make_shared<const std::string>(pack_tensor(header, data))};
}

}  // namespace openwork::serve
