// Figures as files: endings, sizes, places that cannot be written; and the grid of heads at its edges.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "draw/head_grid.h"
#include "draw/pictures.h"

namespace openwork::draw {
namespace {

namespace fs = std::filesystem;

class FigureFiles : public testing::Test {
 protected:
  FigureFiles() : folder_(fs::temp_directory_path() / ("openwork-draw-" + std::to_string(getpid()))) {
    fs::create_directories(folder_);
  }
  ~FigureFiles() override { fs::remove_all(folder_); }

  fs::path folder_;
  Figure square_{72, 36, [](Canvas& canvas) { canvas.fill({0, 0, 36, 36}, kSparse); }};
};

std::string message_of(const std::function<void()>& work, int& exit_code) {
  try {
    work();
  } catch (const Error& error) {
    exit_code = error.exit_code();
    return error.what();
  }
  exit_code = 0;
  return "";
}

TEST_F(FigureFiles, TheEndingIsTheFormat) {
  for (const char* name : {"a.svg", "a.pdf", "a.png"}) {
    write_figure(square_, folder_ / name);
    EXPECT_TRUE(fs::exists(folder_ / name)) << name;
  }
  int code = 0;
  EXPECT_NE(message_of([&] { write_figure(square_, folder_ / "a.gif"); }, code)
                .find("end it in .svg, .pdf or .png"),
            std::string::npos);
  EXPECT_EQ(code, 2);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 3)
      << "nothing half-written is left";
}

TEST_F(FigureFiles, APlaceThatCannotBeWrittenIsBadInput) {
  int code = 0;
  EXPECT_NE(
      message_of([&] { write_figure(square_, folder_ / "none" / "a.svg"); }, code).find("no such folder"),
      std::string::npos);
  EXPECT_EQ(code, 2);
  fs::create_directory(folder_ / "b.svg");
  EXPECT_NE(message_of([&] { write_figure(square_, folder_ / "b.svg"); }, code)
                .find("a folder where an output file is wanted"),
            std::string::npos);
  EXPECT_EQ(code, 2);
}

TEST_F(FigureFiles, DotsPerInchSetThePixels) {
  EXPECT_EQ(decode_png(render_figure(square_, Format::kPng, 72)).width, 72);
  const Picture large = decode_png(render_figure(square_, Format::kPng, 300));
  EXPECT_EQ(large.width, 300);
  EXPECT_EQ(large.height, 150);
  EXPECT_LT(large.red[large.index(75, 75)], 0.1);   // the square
  EXPECT_EQ(large.red[large.index(225, 75)], 1.0);  // white beside it
  int code = 0;
  EXPECT_NE(message_of([&] { render_figure(square_, Format::kPng, 40000); }, code).find("lower --dpi"),
            std::string::npos);
  EXPECT_EQ(code, 2);
}

TEST(HeadGrid, OneHeadAndOneTokenMakeOneCell) {
  HeadGrid grid;
  grid.blocks.push_back(
      {"one", "1 of 1 heads", 8, {{"L0H0", average_cells(std::vector<float>{1.0F}, 1, 64), {}}}, {"x"}});
  const Picture picture = decode_png(render_figure(draw_head_grid(grid), Format::kPng, 72));
  double dark = 0;
  for (const double red : picture.red) dark += red < 0.05;
  EXPECT_GT(dark, 600) << "the cell is filled";
}

// The pixels of the only panel of a grid without words: its cells are where they belong, at any resolution.
TEST(HeadGrid, CellsAreInTheirPlaces) {
  std::vector<float> pattern(64);
  for (int i = 0; i < 8; ++i) pattern[static_cast<size_t>(i * 8 + i / 2)] = 1;
  HeadGrid grid;
  grid.panel = 80;
  grid.blocks.push_back({"", "", 1, {{"", average_cells(pattern, 8, 8), {}}}, {}});
  const Figure figure = draw_head_grid(grid);
  for (const double dpi : {72.0, 200.0}) {
    const Picture picture = decode_png(render_figure(figure, Format::kPng, dpi));
    const auto shade = [&](double x, double y) {
      return picture.red[picture.index(static_cast<int>(x * dpi / 72), static_cast<int>(y * dpi / 72))];
    };
    // The panel's corner: the page's margin, then the room of the title.
    const double left = 10, top = 10 + 22;
    for (int i = 0; i < 8; ++i) {
      for (int j = 0; j <= i; ++j)
        EXPECT_EQ(shade(left + 10 * j + 5, top + 10 * i + 5) < 0.1, j == i / 2)
            << i << ", " << j << " at " << dpi;
    }
  }
}

TEST(HeadGrid, AScaleCanBeSharedOrEachHeadsOwn) {
  HeadGrid grid;
  grid.panel = 60;
  grid.blocks.push_back({"",
                         "",
                         2,
                         {{"", average_cells(std::vector<float>{1.0F}, 1, 1), {}},
                          {"", average_cells(std::vector<float>{0.01F}, 1, 1), {}}},
                         {}});
  const auto faint = [&] {
    const Picture picture = decode_png(render_figure(draw_head_grid(grid), Format::kPng, 72));
    return picture.red[picture.index(10 + 64 + 30, 10 + 22 + 40)];
  };
  EXPECT_GT(faint(), 0.7);
  grid.shared_scale = false;
  EXPECT_LT(faint(), 0.1);
}

TEST(HeadGrid, RowsHoldWholeLayers) {
  EXPECT_EQ(choose_columns(8, 8), 8);
  EXPECT_EQ(choose_columns(30, 9), 18);
  EXPECT_EQ(choose_columns(32, 32), 32);
  EXPECT_EQ(choose_columns(12, 12), 12);
  EXPECT_EQ(choose_columns(1, 1), 1);
}

TEST(HeadGrid, ThousandsOfHeadsStayUnderTenMegabytes) {
  std::vector<float> pattern(500 * 500);
  for (size_t n = 0; n < pattern.size(); ++n)
    pattern[n] = static_cast<float>((n * 2654435761U >> 7) % 1000) / 1000;
  const Cells cells = average_cells(pattern, 500, choose_cells(500, 2048));
  HeadGrid grid;
  for (int model = 0; model < 2; ++model) {
    HeadBlock block{"model", "", 32, {}, {}};
    for (int n = 0; n < 1024; ++n)
      block.panels.push_back({"L" + std::to_string(n / 32) + "H" + std::to_string(n % 32), cells, {}});
    grid.blocks.push_back(block);
  }
  EXPECT_LT(render_figure(draw_head_grid(grid), Format::kSvg).size(), 10'000'000U);
}

}  // namespace
}  // namespace openwork::draw
