// Head statistics as figures: which classes each layer is made of, how dense each head is, and what changes
// from one model to the other, by head and by prompt.
#pragma once
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "draw/figure.h"
#include "report/statistics_tables.h"

namespace openwork {

struct NamedFigure {
  std::string name;  // of its files: classes -> classes.svg, classes.png
  std::string text;  // what a person who cannot see it is told
  draw::Figure figure;
};

// What a figure calls the two models it compares (captions.h).
struct NamePair {
  std::string dense, sparse;
};

// `protocol` ends each figure's note.
draw::Figure draw_class_composition(const StatisticsReport& report, const std::string& protocol);
draw::Figure draw_density(const StatisticsReport& report, const std::string& protocol);
// One thin line per head; both models must have the same heads.
draw::Figure draw_head_changes(const ModelStatistics& dense, const ModelStatistics& sparse,
                               const NamePair& names, const std::string& protocol);
// One thin line per prompt, with the paired tests.
draw::Figure draw_prompt_changes(const ModelComparison& comparison, const NamePair& names,
                                 const std::string& protocol);

// All of them that the report has the numbers for.
std::vector<NamedFigure> draw_statistics(const StatisticsReport& report, const std::string& protocol);

// All of it into a folder, made where it is not there: statistics.json (`result`, with its protocol),
// heads.csv, statistics.md, and each figure as SVG and PNG.
void write_statistics(const StatisticsReport& report, const nlohmann::json& result,
                      const std::filesystem::path& folder);

// Each figure as NAME.svg and NAME.png, so that one can be put into a paper.
void write_figures(const std::vector<NamedFigure>& figures, const std::filesystem::path& folder);

}  // namespace openwork
