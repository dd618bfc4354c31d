#include "report/scatter_figure.h"

#include <fmt/format.h>

#include "report/captions.h"

namespace openwork {
namespace {

std::vector<std::string> names_of(const HeadScatter& scatter) {
  std::vector<std::string> names;
  for (const HeadPlace& place : scatter.places) names.push_back(place.name());
  return names;
}

}  // namespace

draw::ScatterBlock make_scatter_block(const HeadScatter& scatter, const std::string& title) {
  return {title,           names_of(scatter), scatter.values,
          scatter.pearson, scatter.spearman,  scatter.gated ? draw::kSparse : draw::kDense};
}

draw::ScatterMatrix make_scatter_matrix(const std::vector<HeadScatter>& models, const std::string& subtitle,
                                        const std::string& protocol) {
  draw::ScatterMatrix matrix;
  matrix.caption.title = "Head against head";
  matrix.caption.subtitle = subtitle;
  matrix.caption.note =
      "Attention weights at all causal pairs of tokens, the mean over prompts. In the upper half: Pearson's "
      "correlation, and Spearman's (ρ). "
      "Histograms count pairs, logarithmically. " +
      protocol;
  const std::vector<std::string> names = short_names_of(models);
  for (size_t n = 0; n < models.size(); ++n)
    matrix.blocks.push_back(make_scatter_block(models[n], title_model(names[n], models[n].gated)));
  return matrix;
}

nlohmann::json to_json(const HeadScatter& scatter) {
  return {{"name", scatter.name},       {"gated", scatter.gated},
          {"heads", names_of(scatter)}, {"tokens", scatter.tokens},
          {"prompts", scatter.prompts}, {"pairs", scatter.values.front().size()},
          {"pearson", scatter.pearson}, {"spearman", scatter.spearman}};
}

std::vector<std::string> format_scatter(const HeadScatter& model) {
  std::vector<std::string> lines;
  lines.push_back(fmt::format("{}: {} causal pairs", model.name, model.values.front().size()));
  for (size_t a = 0; a < model.places.size(); ++a) {
    for (size_t b = a + 1; b < model.places.size(); ++b) {
      lines.push_back(fmt::format("  {:<7} {:<7} Pearson {:>6}  Spearman {:>6}", model.places[a].name(),
                                  model.places[b].name(), draw::format_correlation(model.pearson[a][b], 3),
                                  draw::format_correlation(model.spearman[a][b], 3)));
    }
  }
  return lines;
}

}  // namespace openwork
