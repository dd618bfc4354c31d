#include "train/report.h"

#include <fmt/format.h>

#include "base/number_text.h"
#include "io/atomic_file.h"
#include "io/interval_json.h"

namespace openwork {
namespace {

using nlohmann::json;

struct Row {
  std::string name;
  const Evaluation* held_out;
  const LoopResult* training;  // null for the base
};

std::vector<Row> rows_of(const RunReport& report) {
  std::vector<Row> rows;
  if (report.base) rows.push_back({"base", &*report.base, nullptr});
  if (report.control) rows.push_back({"dense control", &report.control->held_out, &report.control->training});
  for (size_t n = 0; n + 1 < report.frontier.size(); ++n) {  // the last of them is the result
    const FrontierPoint& point = report.frontier[n];
    rows.push_back({point.folder, &point.model.held_out, &point.model.training});
  }
  rows.push_back({report.result_name, &report.result.held_out, &report.result.training});
  return rows;
}

std::string closing_lines(const RunReport& report, std::string_view mark) {
  const Evaluation& result = report.result.held_out;
  std::string text;
  const auto line = [&](const std::string& content) { text += fmt::format("{}{}\n", mark, content); };
  if (report.base)
    line(fmt::format("loss against the base: {:+.4f} nats/token",
                     result.nats_per_token - report.base->nats_per_token));
  if (report.control) {
    line(fmt::format("loss against the dense control: {:+.4f} nats/token",
                     result.nats_per_token - report.control->held_out.nats_per_token));
  }
  if (report.target)
    line(fmt::format(
        "held-out loss wanted: {:.4f}, reached: {:.4f}; training loss above it on the way: {:.4f}; "
        "multiplier at the end: {:.4g}",
        report.target->wanted, result.nats_per_token, report.target->gap, report.result.training.lambda));
  for (const FrontierPoint& point : report.frontier) {
    const Evaluation& e = point.model.held_out;
    line(fmt::format("{}: wanted {:.4f}, reached {:.4f}, {:.3f} % of edges, {}, {} tokens in all",
                     point.folder, point.target, e.nats_per_token, 100 * e.kept_edges,
                     count_of(e.open_heads, "open head"), point.tokens));
  }
  line(fmt::format("measured on {} of {} of {}, hard gates; 95 % intervals, documents resampled",
                   count_of(result.blocks, "block"), count_of(result.context, "token"),
                   count_of(result.documents, "held-out document")));
  for (const Row& row : rows_of(report)) {
    line(fmt::format("kept by the {}: {}", row.name, describe_short_texts(*row.held_out)));
    if (const std::string fullest = describe_fullest_heads(*row.held_out); !fullest.empty()) line(fullest);
  }
  if (const LoopResult& training = report.result.training; training.peak_memory > 0)
    line(fmt::format("memory of a process: {:.2f} GB predicted, {:.2f} GB at most",
                     training.predicted_memory.at("total").get<double>() / 1e9,
                     static_cast<double>(training.peak_memory) / 1e9));
  line(fmt::format("seed {}", report.seed));
  line("command: " + report.command);
  return text;
}

json target_to_json(const RunReport& report) {
  if (!report.target) return {};
  return {{"kind", report.target->kind},
          {"tolerance", report.target->tolerance},
          {"wanted", report.target->wanted},
          {"reached", report.result.held_out.nats_per_token},
          {"gap", report.target->gap}};
}

json frontier_to_json(const RunReport& report) {
  if (report.frontier.empty()) return {};
  json points = json::array();
  for (const FrontierPoint& point : report.frontier) {
    const Evaluation& e = point.model.held_out;
    points.push_back({{"folder", point.folder},
                      {"target", point.target},
                      {"held_out_loss", e.nats_per_token},
                      {"interval", interval_json({e.low, e.high})},
                      {"kept_edges", e.kept_edges},
                      {"open_heads", e.open_heads},
                      {"closed_heads", e.closed_heads},
                      {"tokens", point.tokens}});
  }
  return points;
}

}  // namespace

json to_json(const TrainedModel& model) {
  json result = to_json(model.held_out);
  const LoopResult& t = model.training;
  result["training"] = {
      {"steps", t.steps},     {"tokens", t.tokens},
      {"seconds", t.seconds}, {"tokens_per_second", t.tokens_per_second},
      {"loss", t.loss},       {"lambda", t.lambda},
      {"gap", t.gap},         {"memory", {{"predicted", t.predicted_memory}, {"measured", t.peak_memory}}}};
  return result;
}

TrainedModel trained_model_from_json(const json& j) {
  TrainedModel model{evaluation_from_json(j), {}};
  const json& t = j.at("training");
  model.training.steps = t.at("steps"), model.training.tokens = t.at("tokens"),
  model.training.seconds = t.at("seconds");
  model.training.tokens_per_second = t.at("tokens_per_second");
  model.training.loss = t.at("loss"), model.training.lambda = t.at("lambda");
  model.training.gap = t.value("gap", 0.0);
  if (t.contains("memory")) {
    model.training.predicted_memory = t.at("memory").at("predicted");
    model.training.peak_memory = t.at("memory").at("measured");
  }
  return model;
}

json to_json(const RunReport& report) {
  json result = {{"verb", report.verb},        {"model", report.model},     {"seed", report.seed},
                 {"command", report.command},  {"options", report.options}, {"data", report.data},
                 {"protocol", report.protocol}};
  result["base"] = report.base ? to_json(*report.base) : json();
  result["control"] = report.control ? to_json(*report.control) : json();
  result[report.result_name] = to_json(report.result);  // which may be the control itself
  result["curves"] = to_json(report.curves);
  result["control_curves"] = report.control ? to_json(report.control_curves) : json();
  result["target"] = target_to_json(report);
  result["frontier"] = frontier_to_json(report);
  return result;
}

std::string to_markdown(const RunReport& report) {
  std::string text = fmt::format(
      "# {} of {}\n\n| model | held-out nats/token | 95 % interval | bits/byte | kept edges | open heads | "
      "closed heads "
      "| steps | tokens | seconds | tokens/s |\n|---|---|---|---|---|---|---|---|---|---|---|\n",
      report.verb, report.model);
  for (const Row& row : rows_of(report)) {
    const Evaluation& e = *row.held_out;
    text += fmt::format("| {} | {:.4f} | {} | {:.4f} | {:.3f} % | {} | {} |", row.name, e.nats_per_token,
                        interval_text({e.low, e.high}, 4), e.bits_per_byte, 100 * e.kept_edges, e.open_heads,
                        e.closed_heads);
    text += row.training
                ? fmt::format(" {} | {} | {:.1f} | {:.0f} |\n", row.training->steps, row.training->tokens,
                              row.training->seconds, row.training->tokens_per_second)
                : " | | | |\n";
  }
  return text + "\n" + closing_lines(report, "- ") + "\n![loss and kept edges over tokens](report.svg)\n";
}

std::string to_text(const RunReport& report) {
  std::string text = fmt::format("{:<14} {:>8} {:<18} {:>8} {:>11} {:>6} {:>7} {:>7} {:>11} {:>9} {:>10}\n",
                                 "model", "nats/tok", "95 % interval", "bits/B", "kept edges", "open",
                                 "closed", "steps", "tokens", "seconds", "tokens/s");
  for (const Row& row : rows_of(report)) {
    const Evaluation& e = *row.held_out;
    text += fmt::format("{:<14} {:>8.4f} {:<18} {:>8.4f} {:>9.3f} % {:>6} {:>7}", row.name, e.nats_per_token,
                        interval_text({e.low, e.high}, 4), e.bits_per_byte, 100 * e.kept_edges, e.open_heads,
                        e.closed_heads);
    if (row.training) {
      text += fmt::format(" {:>7} {:>11} {:>9.1f} {:>10.0f}", row.training->steps, row.training->tokens,
                          row.training->seconds, row.training->tokens_per_second);
    }
    text += "\n";
  }
  return text + closing_lines(report, "");
}

void write_report(const std::filesystem::path& folder, const RunReport& report) {
  write_text_file(folder / "report.md", to_markdown(report));
  write_text_file(folder / "report.json", to_json(report).dump(1) + "\n");
}

}  // namespace openwork
