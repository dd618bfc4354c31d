// What --resume takes over of a run: the base's measurement and a finished control, where they are this run's.
#include <gtest/gtest.h>

#include <fstream>

#include "io/json.h"
#include "train/run_fixture.h"
#include "train/run_once.h"

namespace openwork {
namespace {

class FinishedParts : public testing::Test {
 protected:
  RunOptions options(int64_t held_out_blocks) const {
    RunOptions options;
    options.model = options.model_path = "tests/data/gpt2";
    options.out = folder_ / "out";
    options.gate = GateKind::kLogprob;
    options.target_loss = 4;  // one that does not follow from the base
    options.loop = tiny_options("", 2);
    options.loop.resume = true;
    options.held_out_blocks = held_out_blocks;
    return options;
  }

  RunReport run(const RunOptions& options) {
    Batches batches(write_tokens(folder_), 16, 3);
    return run_training(options, batches, [&](const Transformer&, const std::string& name, HeldOutPart part) {
      if (name == "base" && part == HeldOutPart::kAll) ++bases_measured_;
      Evaluation evaluation;
      evaluation.nats_per_token = 5, evaluation.blocks = options.held_out_blocks;
      return evaluation;
    });
  }

  // As an older program wrote the file.
  void forget_identity(const std::filesystem::path& file) const {
    nlohmann::json record = read_json_file(file);
    EXPECT_EQ(record.erase("identity"), 1u);
    record.erase("version");
    std::ofstream(file) << record.dump();
  }

  TestFolder folder_;
  int bases_measured_ = 0;
};

TEST_F(FinishedParts, TheBaseIsMeasuredAgainOnOtherBlocks) {
  run(options(30));
  EXPECT_EQ(run(options(30)).base->blocks, 30);
  EXPECT_EQ(bases_measured_, 1);
  EXPECT_EQ(run(options(3)).base->blocks, 3);
  EXPECT_EQ(bases_measured_, 2);
  forget_identity(folder_ / "out/base.json");
  EXPECT_EQ(run(options(30)).base->blocks, 3);
  EXPECT_EQ(bases_measured_, 2);
}

TEST_F(FinishedParts, AControlMeasuredOnOtherBlocksIsRefused) {
  RunOptions few = options(3), many = options(30);
  few.control = many.control = true;
  run(many);
  EXPECT_EQ(run(many).control->held_out.blocks, 30);
  expect_failure(Error::Kind::kInput, "held_out_blocks is 3, but the run to resume has 30",
                 [&] { run(few); });
  forget_identity(folder_ / "out/control/result.json");
  EXPECT_EQ(run(few).control->held_out.blocks, 30);
}

TEST_F(FinishedParts, AnAdapterIsPartOfTheModel) {
  RunOptions options = this->options(3);
  const nlohmann::json base = identify_model(options);
  for (const char* name : {"one", "other"}) {
    std::filesystem::create_directory(folder_ / name);
    std::ofstream(folder_ / name / "adapter_model.safetensors") << name;
  }
  options.adapter = folder_ / "one";
  const nlohmann::json one = identify_model(options);
  options.adapter = folder_ / "other";
  EXPECT_EQ(one.at("model"), base.at("model"));
  EXPECT_NE(one, base);
  EXPECT_NE(identify_model(options), one);
}

}  // namespace
}  // namespace openwork
