#include "report/comparison_figures.h"

#include "draw/head_grid.h"
#include "report/captions.h"
#include "report/scatter_figure.h"

namespace openwork {
namespace {

// The model's heads in rows of whole layers, averaged into as many cells as `panels` heads have room for.
draw::HeadBlock make_block(const ModelHeads& heads, int64_t panels) {
  const auto layers = static_cast<int64_t>(heads.shown.size()) / heads.heads;
  draw::HeadBlock block{
      heads.name, "", draw::choose_columns(layers, heads.heads), {}, mark_tokens(heads.pieces)};
  const int64_t cells = choose_cells(heads.tokens, panels);
  for (const CollectedHead& head : heads.shown) {
    draw::HeadPanel panel{head.place.name(), {}};
    if (!head.summary.blank()) panel.cells = average_cells(head.cells.values, heads.tokens, cells);
    block.panels.push_back(std::move(panel));
  }
  return block;
}

}  // namespace

std::vector<NamedFigure> draw_compared_heads(const ComparisonRecord& record) {
  const Comparison& comparison = record.compared;
  draw::HeadGrid grid;
  grid.caption = {"Every head", record.prompt,
                  "Queries downwards, keys to the right. " + describe_protocol(record.protocol)};
  for (const ComparedModel& model : comparison.models) {
    const size_t panels = model.heads.shown.size() * comparison.models.size();
    grid.blocks.push_back(make_block(model.heads, static_cast<int64_t>(panels)));
  }
  return {{"heads",
           comparison.models.size() > 2 ? "Every head of all models as a causal heat map."
                                        : "Every head of both models as a causal heat map.",
           draw::draw_head_grid(grid)}};
}

std::vector<NamedFigure> draw_compared_scatter(const ComparisonRecord& record) {
  draw::ScatterMatrix matrix;
  for (const ComparedModel& model : record.compared.models) {
    if (model.scatter) matrix.blocks.push_back(make_scatter_block(*model.scatter, model.name));
  }
  if (matrix.blocks.empty()) return {};
  matrix.caption = {"Head against head", record.prompt,
                    "Attention weights at all causal pairs of tokens. In the upper half: Pearson's "
                    "correlation, and Spearman's (ρ). " +
                        describe_protocol(record.protocol)};
  return {{"scatter", "Scatter plots of head against head.", draw::draw_scatter_matrix(matrix)}};
}

std::vector<Sample> list_samples(const Comparison& comparison) {
  std::vector<Sample> samples;
  for (size_t n = 0; n < sample_openings().size(); ++n) {
    Sample sample{sample_openings()[n], {}};
    for (const ComparedModel& model : comparison.models) {
      if (n < model.continuations.size()) sample.continuations.push_back(model.continuations[n]);
    }
    if (!sample.continuations.empty() && sample.continuations.size() == comparison.models.size())
      samples.push_back(std::move(sample));
  }
  return samples;
}

}  // namespace openwork
