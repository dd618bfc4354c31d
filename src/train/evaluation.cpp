#include "train/evaluation.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "io/interval_json.h"

namespace openwork {
namespace {

using nlohmann::json;

json or_null(const std::optional<double>& value) {
  return value ? json(*value) : json();
}

// Absent or null: nothing.
std::optional<double> optional_number(const json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? std::nullopt : std::optional(found->get<double>());
}

}  // namespace

int64_t Evaluation::head_count() const {
  int64_t count = 0;
  for (const auto& layer : heads) count += static_cast<int64_t>(layer.size());
  return count;
}

std::vector<HeadPlace> Evaluation::fullest_heads() const {
  std::vector<std::pair<double, HeadPlace>> by_share;
  double all = 0;
  for (size_t layer = 0; layer < heads.size(); ++layer) {
    for (size_t head = 0; head < heads[layer].size(); ++head) {
      by_share.emplace_back(heads[layer][head],
                            HeadPlace{static_cast<int64_t>(layer), static_cast<int64_t>(head)});
      all += heads[layer][head];
    }
  }
  std::vector<HeadPlace> fullest;
  if (kept_edges >= 1) return fullest;
  std::stable_sort(by_share.begin(), by_share.end(),
                   [](const auto& one, const auto& other) { return one.first > other.first; });
  const double half = all / 2 * (1 - 1e-12);  // sums in another order may differ in their last digits
  double have = 0;
  for (size_t n = 0; have < half; ++n) {
    fullest.push_back(by_share[n].second);
    have += by_share[n].first;
  }
  return fullest;
}

json to_json(const Evaluation& e) {
  json by_row = json::object();
  for (size_t n = 0; n < kRowRanges.size(); ++n) by_row[kRowRanges[n].name] = or_null(e.kept_edges_by_row[n]);
  json half = json::array();
  for (const HeadPlace& head : e.fullest_heads()) half.push_back(head.name());
  return {{"nats_per_token", e.nats_per_token},
          {"interval", interval_json({e.low, e.high})},
          {"bits_per_byte", e.bits_per_byte > 0 ? json(e.bits_per_byte) : json()},
          {"kept_edges", e.kept_edges},
          {"kept_edges_by_row", by_row},
          {"prompt_kept_edges", or_null(e.prompt_kept_edges)},
          {"prompt_open_heads", or_null(e.prompt_open_heads)},
          {"open_heads", e.open_heads},
          {"closed_heads", e.closed_heads},
          {"heads", e.heads},
          {"half_of_edges", half},
          {"tokens", e.tokens},
          {"documents", e.documents},
          {"blocks", e.blocks},
          {"context", e.context},
          {"seconds", e.seconds}};
}

Evaluation evaluation_from_json(const json& j) {
  Evaluation e;
  e.nats_per_token = j.at("nats_per_token");
  const Interval interval = interval_from_json(j.at("interval"));
  e.low = interval.low, e.high = interval.high;
  e.bits_per_byte = optional_number(j, "bits_per_byte").value_or(0), e.kept_edges = j.at("kept_edges");
  const json& by_row = j.at("kept_edges_by_row");
  for (size_t n = 0; n < kRowRanges.size(); ++n)
    e.kept_edges_by_row[n] = optional_number(by_row, kRowRanges[n].name);
  e.prompt_kept_edges = optional_number(j, "prompt_kept_edges");
  e.prompt_open_heads = optional_number(j, "prompt_open_heads");
  e.open_heads = j.at("open_heads"), e.closed_heads = j.at("closed_heads");
  e.heads = j.at("heads").get<std::vector<std::vector<double>>>();
  e.tokens = j.at("tokens"), e.documents = j.at("documents"), e.blocks = j.at("blocks");
  e.context = j.at("context"), e.seconds = j.at("seconds");
  return e;
}

std::string describe_short_texts(const Evaluation& e) {
  std::string text = "rows";
  for (size_t n = 0; n < kRowRanges.size(); ++n) {
    if (!e.kept_edges_by_row[n]) continue;
    text +=
        fmt::format("{} {} {:.3g} %", n == 0 ? "" : ",", kRowRanges[n].name, 100 * *e.kept_edges_by_row[n]);
  }
  if (!e.prompt_kept_edges || !e.prompt_open_heads) return text;
  return text + fmt::format("; a prompt {:.3g} %, {:.1f} of {} heads", 100 * *e.prompt_kept_edges,
                            *e.prompt_open_heads, e.head_count());
}

std::string describe_fullest_heads(const Evaluation& e) {
  constexpr size_t kNamed = 6;
  const std::vector<HeadPlace> fullest = e.fullest_heads();
  if (fullest.empty()) return {};
  std::string text = fmt::format("half of it in {} of {} heads:", fullest.size(), e.head_count());
  for (size_t n = 0; n < std::min(kNamed, fullest.size()); ++n) {
    const double share = e.heads[static_cast<size_t>(fullest[n].layer)][static_cast<size_t>(fullest[n].head)];
    text += fmt::format("{} {} {:.3g} %", n == 0 ? "" : ",", fullest[n].name(), 100 * share);
  }
  return fullest.size() > kNamed ? text + ", ..." : text;
}

}  // namespace openwork
