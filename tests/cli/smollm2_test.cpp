// SmolLM2-135M-Instruct out of its GGUF, against the reference; skips where `openwork fetch smollm2-135m` has
// not brought it (make test tries).
#include "cli/command.h"
#include "model/golden.h"

namespace openwork {
namespace {

namespace fs = std::filesystem;

bool is_fetched() {
  return run_openwork({"inspect", "smollm2-135m"}).exit_code == 0;
}

#define SKIP_WITHOUT_SMOLLM2() \
  if (!is_fetched()) GTEST_SKIP() << "smollm2-135m is not here: run `openwork fetch smollm2-135m`"

TEST(SmolLM2, GivesTheReferencesIdsAndLogits) {
  SKIP_WITHOUT_SMOLLM2();
  for (const nlohmann::json& prompt : nlohmann::json::parse(read_file("tests/data/smollm2.json"))) {
    const ScratchFolder scratch;
    const ProgramResult result =
        run_openwork({"run", "smollm2-135m", prompt["text"], "--top", "10", "--json", "-", "--save",
                      scratch / "pass.safetensors", "--what", "loss"});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const nlohmann::json shown = result.json()["prompts"][0];
    EXPECT_EQ(shown["ids"], prompt["ids"]);
    for (size_t n = 0; n < prompt["top"].size(); ++n) {
      EXPECT_NEAR(shown["top"][n]["logit"].get<double>(), prompt["top"][n][1].get<double>(), 2e-2)
          << prompt["text"];
    }
    EXPECT_NEAR(read_golden(scratch / "pass.safetensors").at("loss").item<double>(),
                prompt["loss"].get<double>(), 1e-3);
  }
}

TEST(SmolLM2, SaysSmallIsTheOppositeOfLarge) {
  SKIP_WITHOUT_SMOLLM2();
  const ProgramResult result =
      run_openwork({"run", "smollm2-135m", "The opposite of 'large' is '", "--json", "-"});
  EXPECT_EQ(result.json()["prompts"][0]["top"][0]["token"], "small");
}

TEST(SmolLM2, AttendsAsTheReferenceDoes) {
  SKIP_WITHOUT_SMOLLM2();
  const fs::path golden_path = "../shared/fixtures/smollm2.safetensors";
  if (!fs::exists(golden_path))
    GTEST_SKIP() << "the reference's attention is not here (" << golden_path.string() << ")";
  const ScratchFolder scratch;
  const ProgramResult result = run_openwork({"run", "smollm2-135m", "The opposite of 'large' is '", "--save",
                                             scratch / "pass.safetensors", "--what", "logits,attention"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto golden = read_golden(golden_path), saved = read_golden(scratch / "pass.safetensors");
  for (int layer = 0; layer < 30; ++layer) {
    expect_close(saved.at("attention." + std::to_string(layer))[0],
                 golden.at("attn." + std::to_string(layer)), "attention", 1e-3, 1e-3);
  }
  expect_close(saved.at("logits")[0], golden.at("logits"), "logits", 2e-2, 1e-3);
}

// The shipped sparse twin: the fetched base joined with the compact difference under models/.
TEST(SmolLM2, HasASparseTwinThatKnowsTheOpposite) {
  SKIP_WITHOUT_SMOLLM2();
  const ProgramResult result =
      run_openwork({"run", "smollm2-135m-sparse", "The opposite of 'large' is '", "--json", "-"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.json()["prompts"][0]["top"][0]["token"], "small");
}

}  // namespace
}  // namespace openwork
