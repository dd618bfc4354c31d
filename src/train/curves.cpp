#include "train/curves.h"

#include <fstream>
#include <string>

namespace openwork {
namespace {

std::vector<nlohmann::json> read_lines(const std::filesystem::path& path) {
  std::vector<nlohmann::json> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    nlohmann::json json = nlohmann::json::parse(line, nullptr, false);
    if (json.is_object() && json.contains("tokens") && json.contains("loss"))
      lines.push_back(std::move(json));
  }
  return lines;
}

}  // namespace

TrainingCurves read_curves(const std::filesystem::path& metrics, size_t points) {
  TrainingCurves curves;
  const std::vector<nlohmann::json> lines = read_lines(metrics);
  const size_t stride = lines.size() / points + 1;
  for (size_t n = 0; n < lines.size(); ++n) {
    const nlohmann::json& line = lines[n];
    if (line.contains("held_out_loss")) {
      curves.held_out_tokens.push_back(line.value("held_out_tokens", line.at("tokens").get<double>()));
      curves.held_out_loss.push_back(line.at("held_out_loss"));
      curves.held_out_kept_edges.push_back(line.at("held_out_kept_edges"));
    }
    if ((lines.size() - 1 - n) % stride != 0) continue;
    curves.tokens.push_back(line.at("tokens"));
    curves.loss.push_back(line.at("loss"));
    if (line.contains("target")) curves.target.push_back(line.at("target"));
    if (line.contains("kept_edges")) curves.kept_edges.push_back(line.at("kept_edges"));
  }
  return curves;
}

void append_curves(TrainingCurves& curves, TrainingCurves more, double tokens) {
  for (std::vector<double>* list : {&more.tokens, &more.held_out_tokens}) {
    for (double& value : *list) value += tokens;
  }
  for (const auto list : {&TrainingCurves::tokens, &TrainingCurves::loss, &TrainingCurves::target,
                          &TrainingCurves::kept_edges, &TrainingCurves::held_out_tokens,
                          &TrainingCurves::held_out_loss, &TrainingCurves::held_out_kept_edges})
    (curves.*list).insert((curves.*list).end(), (more.*list).begin(), (more.*list).end());
}

nlohmann::json to_json(const TrainingCurves& curves) {
  return {{"tokens", curves.tokens},
          {"loss", curves.loss},
          {"target", curves.target},
          {"kept_edges", curves.kept_edges},
          {"held_out_tokens", curves.held_out_tokens},
          {"held_out_loss", curves.held_out_loss},
          {"held_out_kept_edges", curves.held_out_kept_edges}};
}

}  // namespace openwork
