// The parts figures are made of: ticks, colours, cells, marks, pictures inside pictures.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <set>

#include "base/token_marks.h"
#include "draw/cells.h"
#include "draw/legend.h"
#include "draw/pictures.h"
#include "draw/ticks.h"

namespace openwork::draw {
namespace {

using testing::ElementsAre;

std::vector<std::string> labels(const std::vector<Tick>& ticks) {
  std::vector<std::string> out;
  for (const Tick& tick : ticks) out.push_back(tick.label);
  return out;
}

TEST(Ticks, AreRoundNumbersWithJustTheDigitsTheyNeed) {
  EXPECT_THAT(labels(choose_ticks(0, 1)), ElementsAre("0.0", "0.2", "0.4", "0.6", "0.8", "1.0"));
  EXPECT_THAT(labels(choose_ticks(0, 64)), ElementsAre("0", "10", "20", "30", "40", "50", "60"));
  EXPECT_THAT(labels(choose_ticks(-0.03, 0.07)), ElementsAre("-0.02", "0.00", "0.02", "0.04", "0.06"));
  EXPECT_THAT(labels(choose_ticks(0, 12288, 3)), ElementsAre("0", "5,000", "10,000"));
  EXPECT_THAT(labels(choose_ticks(0, 2.2e7, 2)), ElementsAre("0", "1e7", "2e7"));
}

TEST(Ticks, LieWithinTheAxisWhateverItsRange) {
  for (const double low : {-3.7, 0.0, 0.0001234, 5.0, 99999.5}) {
    for (const double span : {1e-5, 0.3, 7.0, 1234.0, 3e8}) {
      const auto ticks = choose_ticks(low, low + span);
      ASSERT_FALSE(ticks.empty()) << low << " + " << span;
      EXPECT_LE(ticks.size(), 11u);
      EXPECT_GE(ticks.front().value, low - 1e-6 * span);
      EXPECT_LE(ticks.back().value, low + span + 1e-6 * span);
    }
  }
}

TEST(Ticks, OfALogarithmicAxisArePowersOfTen) {
  EXPECT_THAT(labels(choose_log_ticks(0.001, 10)), ElementsAre("0.001", "0.01", "0.1", "1", "10"));
  EXPECT_THAT(labels(choose_log_ticks(0.015, 0.3)), ElementsAre("0.02", "0.05", "0.1", "0.2"));
  EXPECT_LE(choose_log_ticks(1e-12, 1e12).size(), 7u);
}

TEST(ColourScale, GetsDarkerAtEveryStepAndNoColourTwice) {
  std::set<PaletteEntry> seen;
  double before = 2;
  for (const PaletteEntry& entry : attention_palette()) {
    const double lightness = (0.2126 * entry.red + 0.7152 * entry.green + 0.0722 * entry.blue) / 255;
    EXPECT_LT(lightness, before);
    before = lightness;
    EXPECT_TRUE(seen.insert(entry).second) << "a colour stands for two values";
  }
  EXPECT_EQ(attention_palette()[0], (PaletteEntry{255, 255, 255}));
}

TEST(ColourBar, EndsWithASignWhereValuesLieAboveIt) {
  EXPECT_THAT(labels(choose_bar_ticks({0.056}, true)), testing::IsSupersetOf({"0.00", "0.05", "≥ 0.056"}));
  EXPECT_EQ(choose_bar_ticks({0.056}, true).back().value, 0.056);
  EXPECT_EQ(labels(choose_bar_ticks({0.051}, true)).back(), "≥ 0.051");
  EXPECT_EQ(labels(choose_bar_ticks({0.5}, true)).back(), "≥ 0.5");
  EXPECT_EQ(labels(choose_bar_ticks({0.5}, false)).back(), "0.5");
}

TEST(Legend, BreaksALabelWiderThanItsArea) {
  const std::string name = "the 12 strongest moves between tokens of each model";
  EXPECT_EQ(measure_legend(400, {{name, kMark}}), 12);
  EXPECT_GT(measure_legend(100, {{name, kMark}}), 24);
  EXPECT_EQ(measure_legend(100, {{"a", kMark}, {name, kMark}}), 12 + measure_legend(100, {{name, kMark}}));
}

TEST(ModelColours, TellEveryModelOfACircuitApart) {
  std::set<std::tuple<double, double, double>> seen;
  for (size_t n = 0; n < 6; ++n) {
    const Colour colour = model_colour(n, 6);
    EXPECT_TRUE(seen.insert({colour.red, colour.green, colour.blue}).second) << n;
  }
  EXPECT_EQ(model_colour(5, 6).blue, kSparse.blue);
}

TEST(ColourScale, EveryValueCanBeReadBackToOne255thOfTheScale) {
  for (const Shade shade : {Shade::kLinear, Shade::kSquareRoot}) {
    const ColourScale scale{0.8, shade};
    for (double value = 0; value <= 0.8; value += 0.001)
      EXPECT_NEAR(scale.value_at(scale.index_of(value)), value, 0.8 / 255);
    EXPECT_EQ(scale.index_of(5), 255);
    EXPECT_EQ(scale.index_of(-1), 0);
    EXPECT_EQ(scale.index_of(std::nan("")), 0);
  }
}

std::vector<float> make_pattern(int64_t tokens) {
  std::vector<float> pattern(static_cast<size_t>(tokens * tokens),
                             7.0F);  // above the diagonal: must not be read
  for (int64_t i = 0; i < tokens; ++i) {
    for (int64_t j = 0; j <= i; ++j)
      pattern[static_cast<size_t>(i * tokens + j)] =
          static_cast<float>(std::fmod(0.37 * static_cast<double>(i * i + 3 * j), 1.0));
  }
  return pattern;
}

double causal_sum(const std::vector<float>& pattern, int64_t tokens) {
  double sum = 0;
  for (int64_t i = 0; i < tokens; ++i) {
    for (int64_t j = 0; j <= i; ++j) sum += pattern[static_cast<size_t>(i * tokens + j)];
  }
  return sum;
}

TEST(Cells, AveragingALongPromptKeepsItsMean) {
  for (const auto& [tokens, side] :
       std::vector<std::pair<int64_t, int64_t>>{{500, 66}, {17, 5}, {128, 64}, {9, 9}, {1, 1}, {3, 2}}) {
    const std::vector<float> pattern = make_pattern(tokens);
    const Cells cells = average_cells(pattern, tokens, side);
    double sum = 0;
    int64_t pairs = 0;
    for (int64_t row = 0; row < side; ++row) {
      for (int64_t column = 0; column <= row; ++column) {
        sum += cells.values[static_cast<size_t>(row * side + column)] *
               static_cast<double>(cells.causal_pairs(row, column));
        pairs += cells.causal_pairs(row, column);
      }
      for (int64_t column = row + 1; column < side; ++column)
        EXPECT_EQ(cells.values[static_cast<size_t>(row * side + column)], 0);
    }
    EXPECT_EQ(pairs, tokens * (tokens + 1) / 2) << tokens << " tokens in " << side << " cells";
    EXPECT_NEAR(sum, causal_sum(pattern, tokens), 1e-4 * static_cast<double>(pairs));
  }
}

TEST(Cells, AreTheTokensThemselvesWhereTheyFit) {
  const std::vector<float> pattern = {1, 9, 9, 0.25, 0.75, 9, 0.5, 0.3, 0.2F};
  EXPECT_THAT(average_cells(pattern, 3, 100).values, ElementsAre(1, 0, 0, 0.25F, 0.75F, 0, 0.5F, 0.3F, 0.2F));
}

TEST(Cells, EveryTokenIsInTheCellThatHoldsIt) {
  const Cells cells{500, 66, {}};
  for (int64_t token = 0; token < 500; ++token) {
    const int64_t cell = cells.cell_of(token);
    EXPECT_LE(cells.first_token(cell), token);
    EXPECT_GT(cells.first_token(cell + 1), token);
  }
}

TEST(Cells, AreFewerPerHeadWhereHeadsAreMany) {
  EXPECT_EQ(choose_cells(51, 128), 51);
  EXPECT_EQ(choose_cells(1, 1), 1);
  EXPECT_LT(choose_cells(500, 2048), 80);
  EXPECT_GT(choose_cells(500, 128), 200);
}

TEST(TokenMarks, ShowWhatWouldNotShow) {
  EXPECT_EQ(mark_token(" the"), "·the");
  EXPECT_EQ(mark_token("\n\n"), "↵↵");
  EXPECT_EQ(mark_token("\t"), "⇥");
  EXPECT_EQ(mark_token(""), "∅");
  EXPECT_EQ(mark_token("\x01"), "\\u0001");
  EXPECT_EQ(mark_token("\xE4\xBD"), "\\xE4\\xBD");   // part of a character
  EXPECT_EQ(mark_token("\xE2\x80\x8B"), "\\u200B");  // zero-width space
  EXPECT_EQ(mark_token("\xE2\x80\xAE"), "\\u202E");  // turns the writing direction
  EXPECT_EQ(mark_token("\xCC\x81"), "◌\xCC\x81");    // a lone accent
  EXPECT_EQ(mark_token("日本"), "日本");
  EXPECT_EQ(mark_token("internationalisation", 8), "interna…");
}

TEST(PaletteImage, PixelsComeBackOutOfThePng) {
  PaletteImage image{16, 16, std::vector<uint8_t>(256), &attention_palette()};
  std::iota(image.pixels.begin(), image.pixels.end(), uint8_t{0});
  const Picture picture = decode_png(encode_png(image));
  ASSERT_EQ(picture.width, 16);
  for (size_t n = 0; n < 256; ++n) {
    EXPECT_EQ(std::lround(picture.red[n] * 255), attention_palette()[n].red);
    EXPECT_EQ(std::lround(picture.blue[n] * 255), attention_palette()[n].blue);
  }
}

}  // namespace
}  // namespace openwork::draw
