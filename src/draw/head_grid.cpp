#include "draw/head_grid.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "draw/legend.h"

namespace openwork::draw {
namespace {

constexpr double kPageWidth = 1020, kBlockGap = 34, kTitleHeight = 22, kBarHeight = 30;
constexpr double kNoteWidth = 330, kLeastNote = 28,
                 kNoHeads = 14;  // a note's lines, and what stands for no panel
constexpr double kBarWidth = 150, kBarRoom = 176, kKeysIndent = 6;
constexpr double kSmallestPanel = 24, kLargestPanel = 66, kLargestLonePanel = 150;
constexpr double kSmallestToken = 4.2, kLargestToken = 7;

// Where everything stands; the same for all blocks but the tokens' room.
struct Layout {
  double panel = 0, gap = 0, label = 0;  // side of a panel, room between two, size of its label
  bool label_above = false;              // patterns of so few tokens leave no empty triangle
  struct Block {
    double x = 0, left = 0, below = 0;  // of the block; room for tokens on its left and under its last row
    double token = 0;                   // size of the tokens' type; 0: not shown
    size_t columns = 0, rows = 0;
  };
  std::vector<Block> blocks;
  double width = 0, height = 0;  // of all blocks
  double scale = 0, keys = 0;    // heights of the scale's key, and of all keys
  bool frames_below = false;     // the key to frames stands under the scale's, not beside it

  double step() const { return panel + gap; }
  double row_step() const { return step() + (label_above ? label + 2 : 0); }
};

int64_t token_count(const HeadBlock& block) {
  return static_cast<int64_t>(block.tokens.size());
}

double widest_token(const HeadBlock& block, double size) {
  double width = 0;
  for (const std::string& token : block.tokens)
    width = std::max(width, measure_text(token, {.size = size}).width);
  return width;
}

size_t used_columns(const HeadBlock& block) {
  return std::max<size_t>(1, std::min(static_cast<size_t>(std::max(1, block.columns)), block.panels.size()));
}

// A panel as large as the page allows; larger still where few panels have tokens that then can be read.
double choose_panel(const HeadGrid& grid) {
  if (grid.panel > 0) return grid.panel;
  size_t columns = 0, most_panels = 0;
  int64_t tokens = 0;
  for (const HeadBlock& block : grid.blocks) {
    columns += used_columns(block);
    most_panels = std::max(most_panels, block.panels.size());
    tokens = std::max(tokens, token_count(block));
  }
  const double room = kPageWidth / static_cast<double>(std::max<size_t>(columns, 1));
  const double plain = std::clamp(room - 5, kSmallestPanel, kLargestPanel);
  if (tokens == 0 || most_panels > 12) return plain;
  return std::clamp(static_cast<double>(tokens) * 6.5, plain, std::clamp(room - 8, plain, kLargestLonePanel));
}

TextStyle note_style(double width) {
  return {.size = 7.5, .colour = kFaint, .level = Level::kTop, .width = width};
}

// A note may be wider than its block's panels.
double note_width(const Layout& layout, const Layout::Block& laid) {
  return std::max(kNoteWidth, static_cast<double>(laid.columns) * layout.step());
}

std::string describe_own_scales(const HeadGrid& grid) {
  return grid.value_name + ": each head on its own scale, white 0, dark blue its largest cell";
}

TextStyle own_scales_style(double width) {
  return {.size = 7, .colour = kFaint, .level = Level::kTop, .width = width};
}

std::vector<LegendEntry> key_to_frames(const HeadGrid& grid) {
  if (grid.frame_name.empty()) return {};
  return {{grid.frame_name, kMark, Swatch::kFrame}};
}

// The key to frames beside the scale's where it fits on one line, else under it.
void lay_keys(const HeadGrid& grid, Layout& layout) {
  const double room = layout.width - kKeysIndent;
  layout.scale = kBarHeight;
  if (!grid.shared_scale)
    layout.scale = measure_text(describe_own_scales(grid), own_scales_style(room)).height;
  layout.keys = layout.scale;
  const std::vector<LegendEntry> frames = key_to_frames(grid);
  if (frames.empty()) return;
  const double one_line = measure_legend(kPageWidth, frames);
  layout.frames_below = !grid.shared_scale || measure_legend(room - kBarRoom, frames) > one_line;
  if (layout.frames_below) layout.keys += 4 + measure_legend(room, frames);
}

Layout::Block lay_block(const HeadBlock& block, double panel, double x) {
  Layout::Block laid;
  laid.x = x;
  laid.columns = used_columns(block);
  if (block.panels.empty()) {
    laid.below = kNoHeads;
    return laid;
  }
  laid.rows = (block.panels.size() + laid.columns - 1) / laid.columns;
  const double pitch = token_count(block) > 0 ? panel / static_cast<double>(token_count(block)) : 0;
  if (pitch >= kSmallestToken) {
    laid.token = std::min(kLargestToken, pitch * 0.92);
    laid.left = laid.below = widest_token(block, laid.token) + 4;
  }
  return laid;
}

Layout lay_out(const HeadGrid& grid) {
  Layout layout;
  layout.panel = choose_panel(grid);
  layout.gap = std::clamp(layout.panel * 0.08, 2.5, 8.0);
  layout.label = std::clamp(layout.panel * 0.125, 4.0, 8.0);
  for (const HeadBlock& block : grid.blocks) {
    for (const HeadPanel& panel : block.panels)
      layout.label_above |= panel.cells.side > 0 && panel.cells.side < 4;
  }
  double x = 0, tallest = 0, notes = kLeastNote;
  for (const HeadBlock& block : grid.blocks) {
    Layout::Block laid = lay_block(block, layout.panel, x);
    const TextStyle title{.size = 10, .bold = true};
    const double grid_width = laid.left + static_cast<double>(laid.columns) * layout.step() - layout.gap;
    x += std::max({grid_width, measure_text(block.title, title).width,
                   std::min(measure_text(block.note, note_style(0)).width, kNoteWidth)}) +
         kBlockGap;
    notes = std::max(notes, measure_text(block.note, note_style(note_width(layout, laid))).height);
    tallest = std::max(tallest, static_cast<double>(laid.rows) * layout.row_step() + laid.below);
    layout.blocks.push_back(laid);
  }
  layout.width = std::max(x - kBlockGap, 180.0);
  lay_keys(grid, layout);
  layout.height = kTitleHeight + tallest + notes + layout.keys + 8;
  return layout;
}

void paint_frames(Canvas& canvas, const HeadPanel& panel, const Rect& area) {
  const double cell = area.width / static_cast<double>(panel.cells.side);
  for (const TokenPair& pair : panel.frames) {
    const auto row = static_cast<double>(panel.cells.cell_of(pair.query)),
               column = static_cast<double>(panel.cells.cell_of(pair.key));
    const double side = std::max(cell, 3.5),
                 shift = (side - cell) / 2;  // a frame one can see around a cell one cannot
    canvas.frame({area.x + column * cell - shift, area.y + row * cell - shift, side, side},
                 {kMark, std::clamp(cell * 0.12, 0.7, 1.3)});
  }
}

void paint_head(Canvas& canvas, const HeadGrid& grid, const HeadPanel& panel, const Layout& layout,
                const Rect& area, const ColourScale& shared) {
  const bool blank = panel.cells.values.empty();
  if (!blank) {
    const ColourScale scale =
        grid.shared_scale ? shared : ColourScale{std::max(panel.cells.largest(), 1e-9), grid.shade};
    canvas.paint_image(area, shade_cells(panel.cells, scale));
  }
  canvas.frame(area, {blank ? kHairline.with_alpha(0.6) : kHairline, 0.5});
  const Colour ink = blank ? kHairline : kInk;
  if (layout.label_above) {
    canvas.write({area.x, area.y - 1}, panel.label,
                 {.size = layout.label, .colour = ink, .level = Level::kBottom});
  } else {
    canvas.write({area.right() - 1.5, area.y + 0.5}, panel.label,
                 {.size = layout.label, .colour = ink, .align = Align::kEnd, .level = Level::kTop});
  }
  if (!blank) paint_frames(canvas, panel, area);
}

void paint_queries(Canvas& canvas, const HeadBlock& block, const Layout::Block& laid, const Rect& area) {
  const double pitch = area.height / static_cast<double>(block.tokens.size());
  for (size_t n = 0; n < block.tokens.size(); ++n) {
    canvas.write({area.x - 2, area.y + pitch * (static_cast<double>(n) + 0.5)}, block.tokens[n],
                 {.size = laid.token, .colour = kFaint, .align = Align::kEnd, .level = Level::kMiddle});
  }
}

void paint_keys(Canvas& canvas, const HeadBlock& block, const Layout::Block& laid, const Rect& area) {
  const double pitch = area.width / static_cast<double>(block.tokens.size());
  for (size_t n = 0; n < block.tokens.size(); ++n) {
    canvas.write(
        {area.x + pitch * (static_cast<double>(n) + 0.5), area.bottom() + 2}, block.tokens[n],
        {.size = laid.token, .colour = kFaint, .align = Align::kEnd, .level = Level::kMiddle, .turn = -90.0});
  }
}

void paint_block(Canvas& canvas, const HeadGrid& grid, size_t index, const Layout& layout, Point corner,
                 const ColourScale& shared) {
  const HeadBlock& block = grid.blocks[index];
  const Layout::Block& laid = layout.blocks[index];
  const double left = corner.x + laid.x, top = corner.y + kTitleHeight;
  canvas.write({left, corner.y + 3}, block.title, {.size = 10, .level = Level::kTop, .bold = true});
  for (size_t n = 0; n < block.panels.size(); ++n) {
    const double x = left + laid.left + static_cast<double>(n % laid.columns) * layout.step();
    const double y =
        top + static_cast<double>(n / laid.columns) * layout.row_step() + (layout.row_step() - layout.step());
    const Rect area{x, y, layout.panel, layout.panel};
    paint_head(canvas, grid, block.panels[n], layout, area, shared);
    if (laid.token == 0) continue;
    if (n % laid.columns == 0) paint_queries(canvas, block, laid, area);
    if (n + laid.columns >= block.panels.size()) paint_keys(canvas, block, laid, area);
  }
  if (block.panels.empty())
    canvas.write({left, top}, "no heads", {.size = 8, .colour = kFaint, .level = Level::kTop});
  const double foot = top + static_cast<double>(laid.rows) * layout.row_step() + laid.below;
  canvas.write({left, foot}, block.note, note_style(note_width(layout, laid)));
}

void paint_keys_to_figure(Canvas& canvas, const HeadGrid& grid, const Layout& layout, const Rect& area,
                          const ColourScale& shared) {
  const double x = area.x + kKeysIndent, top = area.bottom() - layout.keys;
  bool overflow = false;
  for (const HeadBlock& block : grid.blocks) {
    for (const HeadPanel& panel : block.panels) overflow |= panel.cells.largest() > shared.high * (1 + 1e-6);
  }
  if (grid.shared_scale) {
    paint_colour_bar(canvas, {x, top, kBarWidth, kBarHeight}, shared, grid.value_name, overflow);
  } else {
    canvas.write({x, top}, describe_own_scales(grid), own_scales_style(area.right() - x));
  }
  const Point frames = layout.frames_below ? Point{x, top + layout.scale + 4} : Point{x + kBarRoom, top + 10};
  paint_legend(canvas, {frames.x, frames.y, area.right() - frames.x, 12}, key_to_frames(grid));
}

}  // namespace

ColourScale shared_scale(const HeadGrid& grid) {
  double high = 0;
  for (const HeadBlock& block : grid.blocks) {
    for (const HeadPanel& panel : block.panels) high = std::max(high, panel.cells.largest());
  }
  return {grid.scale_high.value_or(high > 0 ? high : 1), grid.shade};
}

int choose_columns(int64_t layers, int64_t heads) {
  int64_t best = std::max<int64_t>(heads, 1);
  const auto squareness = [&](int64_t columns) {
    return std::abs(std::log(static_cast<double>(columns * columns) /
                             static_cast<double>(std::max<int64_t>(layers * heads, 1))));
  };
  for (int64_t whole = 2; whole <= layers && whole * heads <= 64; ++whole) {
    if (squareness(whole * heads) < squareness(best)) best = whole * heads;
  }
  return static_cast<int>(best);
}

Figure draw_head_grid(const HeadGrid& grid) {
  const Layout layout = lay_out(grid);
  const double width = layout.width + 20;
  const double height = layout.height + measure_caption(grid.caption, width);
  // The patterns of many heads are large: one copy, shared by every painting.
  const auto kept = std::make_shared<const HeadGrid>(grid);
  return {width, height, [kept, layout, width, height](Canvas& canvas) {
            const Rect area = paint_caption(canvas, {0, 0, width, height}, kept->caption);
            const ColourScale shared = shared_scale(*kept);
            for (size_t n = 0; n < kept->blocks.size(); ++n)
              paint_block(canvas, *kept, n, layout, {area.x, area.y}, shared);
            paint_keys_to_figure(canvas, *kept, layout, area, shared);
          }};
}

}  // namespace openwork::draw
