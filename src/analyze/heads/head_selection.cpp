#include "analyze/heads/head_selection.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

#include "base/error.h"

namespace openwork {
namespace {

std::vector<std::string_view> split_at(std::string_view text, char mark) {
  std::vector<std::string_view> parts;
  for (size_t from = 0; from <= text.size();) {
    const size_t to = std::min(text.find(mark, from), text.size());
    parts.push_back(text.substr(from, to - from));
    from = to + 1;
  }
  return parts;
}

std::optional<int64_t> parse_number(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size() || value < 0)
    return std::nullopt;
  return value;
}

std::vector<int64_t> every(int64_t count, int64_t from, int64_t step) {
  std::vector<int64_t> numbers;
  for (int64_t n = from; n < count; n += step) numbers.push_back(n);
  return numbers;
}

template <typename Item>
void add_once(std::vector<Item>& list, const Item& item) {
  if (std::find(list.begin(), list.end(), item) == list.end()) list.push_back(item);
}

}  // namespace

std::vector<int64_t> parse_number_list(const std::string& text, int64_t count, const std::string& option) {
  if (text == "all" || text.empty()) return every(count, 0, 1);
  if (text == "even") return every(count, 0, 2);
  if (text == "odd") return every(count, 1, 2);
  std::vector<int64_t> numbers;
  for (const std::string_view part : split_at(text, ',')) {
    const size_t dash = part.find('-');
    const auto from = parse_number(part.substr(0, dash));
    const auto to = dash == std::string_view::npos ? from : parse_number(part.substr(dash + 1));
    if (!from || !to || *from > *to)
      fail_input(fmt::format("'{}' is not a list of numbers", printable(text, 60)), option,
                 "write it like even, 0-7 or 0,2,5");
    if (*to >= count)
      fail_input(fmt::format("number {}", *to), option, fmt::format("the model has 0 to {}", count - 1));
    for (int64_t n = *from; n <= *to; ++n) add_once(numbers, n);
  }
  return numbers;
}

std::vector<HeadPlace> parse_head_names(const std::string& text, const ModelConfig& config,
                                        const std::string& option) {
  std::vector<HeadPlace> places;
  for (const std::string_view part : split_at(text, ',')) {
    const auto place = parse_head_place(part);
    if (!place)
      fail_input(fmt::format("'{}' is not a list of heads", printable(text, 60)), option,
                 "write it like L0H1,L5H5");
    if (place->layer >= config.layers || place->head >= config.heads) {
      fail_input(fmt::format("no head {}", place->name()), option,
                 fmt::format("the model has L0H0 to L{}H{}", config.layers - 1, config.heads - 1));
    }
    add_once(places, *place);
  }
  return places;
}

std::vector<HeadPlace> select_heads(const std::string& layers, const std::string& heads,
                                    const ModelConfig& config) {
  if (heads.starts_with('L')) {
    if (!layers.empty())
      fail_input("heads by name and --layers together", "--layers",
                 "name the heads, or give numbers to both");
    return parse_head_names(heads, config, "--heads");
  }
  std::vector<HeadPlace> places;
  for (const int64_t layer : parse_number_list(layers, config.layers, "--layers")) {
    for (const int64_t head : parse_number_list(heads, config.heads, "--heads"))
      places.push_back({layer, head});
  }
  return places;
}

std::vector<HeadPlace> sample_heads(const std::string& layers, const std::string& heads,
                                    const ModelConfig& config) {
  const bool sampled = is_large(config.layers, config.heads) && config.gate == GateKind::kNone;
  if (!sampled) return select_heads(layers, heads, config);
  const std::string first = fmt::format("0-{}", std::min(config.heads, kSampledHeads) - 1);
  return select_heads(layers.empty() ? "even" : layers, heads.empty() ? first : heads, config);
}

std::vector<HeadPlace> whole_layers(const ModelConfig& config, int64_t most_heads) {
  const int64_t wanted = std::max<int64_t>(1, most_heads / config.heads),
                step = (config.layers + wanted - 1) / wanted;
  std::vector<HeadPlace> places;
  for (int64_t layer = 0; layer < config.layers; layer += step) {
    for (int64_t head = 0; head < config.heads; ++head) places.push_back({layer, head});
  }
  return places;
}

}  // namespace openwork
