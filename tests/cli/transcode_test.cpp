// The verb transcode, as a person uses it: a small model of random weights, a few documents, a second or two.
#include <map>

#include "cli/training_command.h"

namespace openwork {
namespace {

namespace fs = std::filesystem;

// small/ with weights: pretrain drawn from the seed, one step.
class Transcode : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    scratch = new ScratchFolder;
    write_small_model(*scratch);
    std::ofstream(*scratch / "config.json") << small_config().dump();
    const ProgramResult made = run_openwork({"pretrain",
                                             "--config",
                                             *scratch / "config.json",
                                             "--tokenizer",
                                             *scratch / "small",
                                             "--data",
                                             *scratch / "documents.jsonl",
                                             "--out",
                                             *scratch / "model",
                                             "--held-out",
                                             "0.1",
                                             "--batch-tokens",
                                             "256",
                                             "--context",
                                             "32",
                                             "--device",
                                             "cpu",
                                             "--threads",
                                             "1",
                                             "--held-out-blocks",
                                             "2",
                                             "--steps",
                                             "2"});
    ASSERT_EQ(made.exit_code, 0) << made.err;
  }
  static void TearDownTestSuite() { delete scratch; }

  static std::vector<std::string> command(const std::string& out, const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments = {
        "transcode", *scratch / "model", "--data", *scratch / "documents.jsonl", "--out", *scratch / out};
    const std::vector<std::pair<std::string, std::string>> usual = {
        {"--held-out", "0.1"}, {"--batch-tokens", "256"},   {"--context", "32"},
        {"--device", "cpu"},   {"--threads", "1"},          {"--held-out-blocks", "4"},
        {"--steps", "20"},     {"--checkpoint-every", "5"}, {"--features", "64"},
        {"--k", "8"},          {"--log-every", "5"}};
    for (const auto& [option, value] : usual) {
      if (std::find(more.begin(), more.end(), option) == more.end())
        arguments.insert(arguments.end(), {option, value});
    }
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }

  static ScratchFolder* scratch;
};
ScratchFolder* Transcode::scratch = nullptr;

TEST_F(Transcode, TrainsMeasuresDescribesAndUnpacks) {
  const ProgramResult result =
      run_openwork(command("eight", {"--bits", "8", "--json", "-", "--details", *scratch / "details"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const nlohmann::json report = result.json();
  ASSERT_EQ(report.at("layers").size(), 2u);
  EXPECT_LE(report.at("mean").at("explained_variance"), 1.0);
  EXPECT_GT(report.at("losses").at("replaced"), 0.0);
  EXPECT_EQ(report.at("losses").at("interval").size(), 2u);
  EXPECT_EQ(report.at("training").at("steps"), 20);
  EXPECT_TRUE(report.at("protocol").at("model").contains("sha256"));
  EXPECT_EQ(nlohmann::json::parse(read_file(*scratch / "eight/report.json")).at("mean"), report.at("mean"));
  EXPECT_EQ(read_lines(*scratch / "eight/metrics.jsonl").size(), 4u);
  EXPECT_TRUE(fs::exists(*scratch / "eight/features.json.zst"));
  EXPECT_EQ(std::distance(fs::directory_iterator(*scratch / "details"), {}), 128);
  EXPECT_TRUE(nlohmann::json::parse(read_file(*scratch / "details/0.json")).contains("examples_quantiles"));

  // Measured again on the same held-out tokens, without the run.
  const ProgramResult again = run_openwork({"transcode",
                                            *scratch / "model",
                                            "--measure",
                                            *scratch / "eight",
                                            "--data",
                                            *scratch / "eight/data/held_out.safetensors",
                                            "--context",
                                            "32",
                                            "--held-out-blocks",
                                            "4",
                                            "--describe",
                                            "0",
                                            "--device",
                                            "cpu",
                                            "--threads",
                                            "1",
                                            "--json",
                                            "-",
                                            "--out",
                                            *scratch / "curves.svg"});
  ASSERT_EQ(again.exit_code, 0) << again.err;
  ASSERT_EQ(again.json().at("curves").at("up_to").size(), 2u);
  EXPECT_NEAR(again.json().at("curves").at("up_to")[1], report.at("losses").at("increase"), 1e-6);
  EXPECT_TRUE(report.at("curves").is_null()) << "a run measures none";
  EXPECT_NE(read_file(*scratch / "curves.svg").find("<svg"), std::string::npos);
  EXPECT_NEAR(again.json().at("mean").at("explained_variance"), report.at("mean").at("explained_variance"),
              1e-6);
  EXPECT_NEAR(again.json().at("losses").at("replaced"), report.at("losses").at("replaced"), 1e-6);

  const ProgramResult plain =
      run_openwork({"transcode", "--unpack", *scratch / "eight", "--out", *scratch / "plain"});
  ASSERT_EQ(plain.exit_code, 0) << plain.err;
  EXPECT_GT(fs::file_size(*scratch / "plain/layer_0.safetensors"),
            2 * fs::file_size(*scratch / "eight/layer_0.safetensors"));
  EXPECT_EQ(read_file(*scratch / "plain/config.yaml"), read_file(*scratch / "eight/config.yaml"));
}

TEST_F(Transcode, TrainsInPlaceWithASkipAndGoesOnFromWhatItSaved) {
  const std::vector<std::string> more = {"--skip", "--joint-share", "0.5", "--share-k", "--describe",
                                         "0",      "--json",        "-"};
  const ProgramResult first = run_openwork(command("joint", more));
  ASSERT_EQ(first.exit_code, 0) << first.err;
  const nlohmann::json options = first.json().at("options");
  EXPECT_EQ(options.at("joint_share"), 0.5);
  EXPECT_EQ(options.at("skip"), true);
  EXPECT_TRUE(read_lines(*scratch / "joint/metrics.jsonl").back().contains("distance"));
  std::vector<std::string> again = more;
  again.insert(again.end(), {"--start", *scratch / "joint"});
  const ProgramResult second = run_openwork(command("joint-again", again));
  ASSERT_EQ(second.exit_code, 0) << second.err;
  EXPECT_GT(second.json().at("mean").at("explained_variance"),
            first.json().at("mean").at("explained_variance"));
  std::vector<std::string> resumed = more;
  resumed.push_back("--resume");
  expect_refusal(command("joint-again", resumed), "start is null, but the run to resume has");
  resumed = again;
  resumed.push_back("--resume");
  EXPECT_EQ(run_openwork(command("joint-again", resumed)).exit_code, 0);
  again.insert(again.end(), {"--features", "32"});
  expect_refusal(command("none", again), "2 layers of 64 features");
  expect_refusal(command("none", {"--start", *scratch / "joint"}),
                 "skips");  // without them it would be another function
}

TEST_F(Transcode, MeasuringWritesNothingUnlessDescriptionsAreAskedFor) {
  ASSERT_EQ(run_openwork(command("measured", {"--describe", "3"})).exit_code, 0);
  const auto look = [] {
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::recursive_directory_iterator(*scratch / "measured")) {
      if (entry.is_regular_file()) files[entry.path().string()] = read_file(entry.path());
    }
    return files;
  };
  const auto before = look();
  std::vector<std::string> measure = {"transcode",
                                      *scratch / "model",
                                      "--measure",
                                      *scratch / "measured",
                                      "--data",
                                      *scratch / "documents.jsonl",
                                      "--context",
                                      "32",
                                      "--held-out-blocks",
                                      "4",
                                      "--device",
                                      "cpu",
                                      "--threads",
                                      "1"};
  ASSERT_EQ(run_openwork(measure).exit_code, 0);
  EXPECT_EQ(look(), before) << "other text would have given other descriptions";
  std::vector<std::string> details = measure;
  details.insert(details.end(), {"--details", *scratch / "none"});
  expect_refusal(details, "give --describe N");
  measure.insert(measure.end(), {"--describe", "1", "--curve-blocks", "1", "--out", *scratch / "curves.svg"});
  const ProgramResult described = run_openwork(measure);
  ASSERT_EQ(described.exit_code, 0) << described.err;
  for (const char* file : {"measured/features.json.zst", "curves.svg"})
    EXPECT_NE(described.out.find("wrote " + *scratch / file), std::string::npos) << described.out;
  const auto after = look();
  ASSERT_EQ(after.size(), before.size());
  for (const auto& [path, bytes] : before) {
    EXPECT_EQ(after.at(path) == bytes, !path.ends_with("features.json.zst")) << path;
  }
}

TEST_F(Transcode, ASignalLeavesACheckpointToResumeFromToTheSameWeights) {
  ASSERT_EQ(run_openwork(command("straight", {"--describe", "0"})).exit_code, 0);
  const pid_t child = start_openwork(command("stopped", {"--describe", "0"}), *scratch / "stopped-log");
  ASSERT_TRUE(await_file(*scratch / "stopped/checkpoints/latest", child));
  kill(child, SIGTERM);
  const int code = await(child);
  EXPECT_TRUE(code == 143 || code == 0) << code;  // 0: it had ended before
  expect_refusal(command("stopped", {"--describe", "0"}), "already holds a run");
  const ProgramResult resumed = run_openwork(command("stopped", {"--describe", "0", "--resume"}));
  ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
  for (const char* file : {"layer_0.safetensors", "layer_1.safetensors"}) {
    EXPECT_EQ(read_file(*scratch / ("stopped/" + std::string(file))),
              read_file(*scratch / ("straight/" + std::string(file))));
  }
}

TEST_F(Transcode, BadInputIsOneLine) {
  expect_refusal({"transcode", "--out", *scratch / "none"}, "wants a MODEL and --data");
  expect_refusal({"transcode", *scratch / "model", "--data", *scratch / "documents.jsonl"}, "give --out DIR");
  expect_refusal({"transcode", *scratch / "model", "--measure", *scratch / "model", "--data",
                  *scratch / "documents.jsonl", "--context", "32"},
                 "no config.yaml");
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{"--steps", "3"}, {"--lr", "1"}, {"--features", "64"}, {"--start", "x"}}) {
    std::vector<std::string> measure = {"transcode",        *scratch / "model", "--measure",
                                        *scratch / "model", "--data",           *scratch / "documents.jsonl"};
    measure.insert(measure.end(), more.begin(), more.end());
    expect_refusal(measure, more[0] + " with --measure");
  }
  expect_refusal({"transcode", "--unpack", *scratch / "model", "--out", *scratch / "none", "--bits", "8"},
                 "--bits with --unpack");
  expect_refusal(command("none", {"--joint-rate", "2"}), "--joint-rate without --joint-share");
  expect_refusal(command("none", {"--curve-blocks", "2"}), "--curve-blocks without --measure");
  expect_refusal(command("none", {"--k", "65"}), "65 of 64 features");
  expect_refusal(command("none", {"--kind", "both"}), "--kind");
  expect_refusal(command("none", {"--minutes", "1"}), "the length of the run is not clear");
  expect_refusal({"transcode", "--unpack", *scratch / "model", "--out", *scratch / "none"}, "no config.yaml");
  EXPECT_FALSE(fs::exists(*scratch / "none"));
}

TEST_F(Transcode, ARefusedRunLeavesNoFolder) {
  expect_refusal(command("new/none", {"--data", *scratch / "missing.txt"}), "missing.txt");
  expect_refusal(command("new/none", {"--held-out", "0.00001"}), "no document is held out");
  expect_refusal(command("new/none", {"--start", *scratch / "model"}), "no config.yaml");
  expect_refusal(command("new/none", {"--kind", "clt", "--skip"}), "a skip across layers");
  std::ofstream(*scratch / "short.txt") << "A few words.";
  expect_refusal(command("new/none", {"--held-out", *scratch / "short.txt"}), "fewer than one block of 32");
  EXPECT_FALSE(fs::exists(*scratch / "new"));
}

// Found before the training, not after it.
TEST_F(Transcode, AFolderThatHoldsAModelIsRefusedAtOnce) {
  fs::create_directories(scratch->path() / "of_a_model");
  std::ofstream(*scratch / "of_a_model/config.json") << "{}";
  expect_refusal(command("of_a_model"), "the folder holds a model");
  EXPECT_FALSE(fs::exists(*scratch / "of_a_model/data"));
}

// What is wrong with the folder is said before a text is read.
TEST_F(Transcode, AFolderToMeasureIsLookedAtFirst) {
  std::ofstream(*scratch / "bytes.txt") << "\xff\xfe";  // no text
  expect_refusal({"transcode", *scratch / "model", "--measure", *scratch / "model", "--data",
                  *scratch / "bytes.txt", "--context", "32"},
                 "no config.yaml");
}

}  // namespace
}  // namespace openwork
