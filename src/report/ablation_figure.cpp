#include "report/ablation_figure.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/number_text.h"
#include "draw/heat_map.h"
#include "report/captions.h"

namespace openwork {

draw::Figure draw_effects(const TaskRecord& task, const std::string& protocol) {
  double high = 0;
  for (const TaskModel& model : task.models) {
    for (const auto& layer : model.effects) {
      for (const double effect : layer) high = std::max(high, std::abs(effect));
    }
  }
  std::vector<draw::Figure> maps;
  const std::vector<std::string> names = short_names_of(task.models);
  for (const TaskModel& model : task.models) {
    draw::HeatMap map;
    map.caption.title = names[maps.size()];
    map.value_name = "effect";
    map.values = model.effects;
    map.high = high;
    for (size_t layer = 0; layer < model.effects.size(); ++layer)
      map.rows.push_back(fmt::format("L{}", layer));
    for (size_t head = 0; head < model.effects[0].size(); ++head)
      map.columns.push_back(fmt::format("H{}", head));
    maps.push_back(draw::draw_heat_map(map));
  }
  draw::Caption caption;
  caption.title = fmt::format("What each head is worth on {}", task.task);
  caption.note = fmt::format("{} lost when the head alone is ablated ({}), mean over {}. {}", task.metric,
                             task.ablation, count_of(task.prompts, "prompt"), protocol);
  return draw::arrange_figures(std::move(maps), 2, caption);
}

draw::Figure draw_effects(const nlohmann::json& result, const std::string& model) {
  const nlohmann::json& protocol = result["protocol"];
  TaskRecord task;
  protocol["task"].get_to(task.task), protocol["metric"].get_to(task.metric);
  protocol["prompts"].get_to(task.prompts), protocol["ablation"].get_to(task.ablation);
  TaskModel& one = task.models.emplace_back();
  one.name = model;
  result["effects"].get_to(one.effects);
  return draw_effects(task, describe_protocol(protocol));
}

}  // namespace openwork
