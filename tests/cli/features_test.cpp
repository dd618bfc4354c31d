// features as a person calls it: the built-in model's own set, listed, searched and written.
#include "cli/command.h"

namespace openwork {
namespace {

namespace fs = std::filesystem;

TEST(FeaturesVerb, ListsSearchesAndWritesWhatDashboardsRead) {
  const ScratchFolder scratch;
  const ProgramResult result =
      run_openwork({"features", "openwork-8m", "--search", "the", "--layer", "0", "--top", "2", "--out",
                    scratch / "out", "--json", "-", "--threads", "1"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const nlohmann::json json = result.json();
  ASSERT_EQ(json.at("features").size(), 2u);
  const nlohmann::json& first = json.at("features")[0];
  EXPECT_EQ(first.at("layer"), 0);
  EXPECT_GT(first.at("reads").get<double>() + first.at("writes").get<double>(), 0.5);
  EXPECT_GE(first.at("density"), 0.0);
  EXPECT_EQ(first.at("raises").size(), 5u);
  EXPECT_FALSE(first.at("contexts").empty());
  EXPECT_TRUE(json.at("protocol").at("transcoders").contains("sha256"));
  const auto files = std::distance(fs::directory_iterator(scratch / "out"), {});
  EXPECT_GE(files, json.at("found").get<int64_t>()) << "all that were found, listed or not";
  const nlohmann::json written =
      nlohmann::json::parse(read_file(fs::directory_iterator(scratch / "out")->path()));
  EXPECT_TRUE(written.contains("examples_quantiles"));

  const ProgramResult text =
      run_openwork({"features", "openwork-8m", "--layer", "3", "--top", "1", "--contexts", "2"});
  ASSERT_EQ(text.exit_code, 0) << text.err;
  EXPECT_NE(text.out.find("L3F"), std::string::npos);
  EXPECT_NE(text.out.find("1 of "), std::string::npos);
}

TEST(FeaturesVerb, BadInputIsOneLine) {
  expect_refusal({"features", "openwork-8m", "--layer", "8"}, "layer 8 of 8");
  expect_refusal({"features", "tests/data/gpt2"}, "no transcoders");
  expect_refusal({"features", "openwork-8m", "--transcoder", "models/openwork-8m-sparse/transcoders"},
                 "of another model");
}

}  // namespace
}  // namespace openwork
