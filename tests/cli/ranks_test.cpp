// sparsify, eval, ablate and circuit as torchrun, srun or mpirun start them: several processes on this
// machine, over loopback, that give what one process gives, stop together, and notice the loss of one.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <sys/socket.h>

#include <chrono>

#include "cli/training_command.h"
#include "flow/free_port.h"
#include "io/sha256.h"

namespace openwork {
namespace {

namespace fs = std::filesystem;
using testing::AnyOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

// One process per rank; the outputs of rank N go to FILE.N.out and FILE.N.err.
std::vector<pid_t> start_job(int count, const std::vector<std::string>& arguments, const std::string& file,
                             const std::vector<std::string>& names = {"RANK", "WORLD_SIZE", "LOCAL_RANK"}) {
  const std::string port = std::to_string(find_free_port());
  std::vector<pid_t> children;
  for (int rank = 0; rank < count; ++rank) {
    const std::string number = std::to_string(rank);
    children.push_back(start_openwork(
        arguments, file + "." + number,
        {names[0] + "=" + number, names[1] + "=" + std::to_string(count), names[2] + "=" + number,
         "MASTER_ADDR=127.0.0.1", "MASTER_PORT=" + port, "OPENWORK_RANK_TIMEOUT=20"}));
  }
  return children;
}

std::vector<int> await_all(const std::vector<pid_t>& children) {
  std::vector<int> codes;
  for (const pid_t child : children) codes.push_back(await(child));
  return codes;
}

TEST(Ranks, TwoTrainTheModelOfOneProcess) {
  const ScratchFolder scratch;
  write_small_model(scratch);
  ASSERT_EQ(
      run_openwork(small_run(scratch, "alone", {"--quiet", "--accumulate", "2", "--control"})).exit_code, 0);
  EXPECT_THAT(
      await_all(start_job(2, small_run(scratch, "shared", {"--quiet", "--control"}), scratch / "shared")),
      Each(0))
      << read_file(scratch / "shared.0.err") << read_file(scratch / "shared.1.err");
  EXPECT_EQ(sha256_of_file(scratch / "shared/model.safetensors"),
            sha256_of_file(scratch / "alone/model.safetensors"));
  EXPECT_THAT(read_file(scratch / "shared.0.out"), HasSubstr("dense control"));
  EXPECT_EQ(read_file(scratch / "shared.1.out"), "");  // the first one speaks for all
  const auto alone = read_lines(scratch / "alone/metrics.jsonl"),
             shared = read_lines(scratch / "shared/metrics.jsonl");
  ASSERT_EQ(alone.size(), shared.size());
  for (size_t n = 0; n < alone.size(); ++n) {
    for (const char* key : {"loss", "lambda", "penalty", "kept_edges", "open_heads", "gradient_norm"})
      EXPECT_EQ(alone[n].at(key), shared[n].at(key)) << key << " at line " << n;
  }
  nlohmann::json one = nlohmann::json::parse(read_file(scratch / "alone/report.json")),
                 two = nlohmann::json::parse(read_file(scratch / "shared/report.json"));
  for (const char* key : {"nats_per_token", "interval", "kept_edges", "open_heads", "bits_per_byte"})
    EXPECT_EQ(one.at("sparse").at(key), two.at("sparse").at(key)) << key;
  EXPECT_EQ(two.at("options").at("ranks"), 2);
  // Each has moments of its share; what both had is said beforehand and measured.
  const auto memory_of = [](const nlohmann::json& report) { return report["sparse"]["training"]["memory"]; };
  EXPECT_LT(memory_of(two)["predicted"]["moments"], memory_of(one)["predicted"]["moments"]);
  for (const nlohmann::json& memory : {memory_of(one), memory_of(two)}) {
    EXPECT_GT(memory["predicted"]["total"], 1e7);
    EXPECT_GT(memory["measured"], 1e7);
  }
}

// Where masters are a share of each rank's, what is saved is put together from them.
TEST(Ranks, TwoTrainTheModelOfOneProcessInBfloat16) {
  const ScratchFolder scratch;
  write_small_model(scratch);
  const std::vector<std::vector<std::string>> ways = {
      {}, {"--lora", "4"}, {"--lora", "4", "--lora-full", "attention"}};
  for (const std::vector<std::string>& how : ways) {
    const std::string out = "way" + std::to_string(how.size());
    std::vector<std::string> more = {"--dtype", "bf16", "--steps", "6"}, alone = {"--accumulate", "2"};
    more.insert(more.end(), how.begin(), how.end());
    alone.insert(alone.end(), more.begin(), more.end());
    ASSERT_EQ(run_openwork(small_run(scratch, out + "-alone", alone)).exit_code, 0);
    EXPECT_THAT(await_all(start_job(2, small_run(scratch, out, more), scratch / out)), Each(0))
        << read_file(scratch / out + ".0.err");
    EXPECT_THAT(read_file(scratch / out + ".0.err"), HasSubstr("memory per rank: "));
    const std::string file = how.empty() ? "/model.safetensors" : "/adapter_model.safetensors";
    EXPECT_EQ(sha256_of_file(scratch / (out + file)), sha256_of_file(scratch / (out + "-alone" + file)));
  }
}

TEST(Ranks, SrunAndMpirunStartThemToo) {
  const ScratchFolder scratch;
  write_small_model(scratch);
  ASSERT_EQ(
      run_openwork(small_run(scratch, "alone", {"--quiet", "--accumulate", "2", "--steps", "2"})).exit_code,
      0);
  const std::vector<std::vector<std::string>> launchers = {
      {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"},
      {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"},
      {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"}};
  for (const auto& names : launchers) {
    const std::string out = names[0];
    EXPECT_THAT(
        await_all(start_job(2, small_run(scratch, out, {"--quiet", "--steps", "2"}), scratch / out, names)),
        Each(0))
        << read_file(scratch / out + ".0.err");
    EXPECT_EQ(sha256_of_file(scratch / (out + "/model.safetensors")),
              sha256_of_file(scratch / "alone/model.safetensors"))
        << out;
  }
}

TEST(Ranks, TheOthersEndWhenOneIsLostAndTheJobResumesToTheSameWeights) {
  const ScratchFolder scratch;
  write_small_model(scratch);
  const std::vector<std::string> options = {"--quiet", "--steps",     "400", "--checkpoint-every",
                                            "10",      "--log-every", "1"};
  std::vector<std::string> alone = options;
  alone.insert(alone.end(), {"--accumulate", "2"});
  ASSERT_EQ(run_openwork(small_run(scratch, "alone", alone)).exit_code, 0);
  const auto children = start_job(2, small_run(scratch, "lost", options), scratch / "lost");
  ASSERT_TRUE(await_file(scratch.path() / "lost/checkpoints/latest", children[0]))
      << read_file(scratch / "lost.0.err");
  const auto start = std::chrono::steady_clock::now();
  kill(children[1], SIGKILL);
  EXPECT_THAT(await_all(children), ElementsAre(1, 128 + SIGKILL));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(60));
  // By the broken connection, or, where it broke between two messages and nobody noticed, by its silence.
  const std::string said = read_file(scratch / "lost.0.err");
  expect_one_line(said, "start the job again");
  EXPECT_THAT(said, AnyOf(HasSubstr("another rank was lost"), HasSubstr("rank 1 has not been heard of")));
  EXPECT_FALSE(fs::exists(scratch / "lost/model.safetensors"));
  std::vector<std::string> resumed = options;
  resumed.push_back("--resume");
  EXPECT_THAT(await_all(start_job(2, small_run(scratch, "lost", resumed), scratch / "lost")), Each(0))
      << read_file(scratch / "lost.0.err");
  EXPECT_EQ(sha256_of_file(scratch / "lost/model.safetensors"),
            sha256_of_file(scratch / "alone/model.safetensors"));
}

TEST(Ranks, ASignalToOneStopsAll) {
  const ScratchFolder scratch;
  write_small_model(scratch);
  const auto children =
      start_job(2, small_run(scratch, "out", {"--steps", "100000", "--log-every", "1"}), scratch / "out");
  ASSERT_TRUE(await_file(scratch.path() / "out/metrics.jsonl", children[0]))
      << read_file(scratch / "out.0.err");
  kill(children[1], SIGTERM);
  EXPECT_THAT(await_all(children), Each(143))
      << read_file(scratch / "out.0.err") << read_file(scratch / "out.1.err");
  EXPECT_TRUE(fs::exists(scratch / "out/checkpoints/latest"));
  EXPECT_THAT(read_file(scratch / "out.0.err"), HasSubstr("continue with --resume"));
}

TEST(Ranks, TranscodersAreMeasuredAsByOneProcess) {
  const ScratchFolder scratch;
  const auto measure = [&](const std::string& name) {
    return std::vector<std::string>{"transcode",
                                    "openwork-8m",
                                    "--measure",
                                    "models/openwork-8m/transcoders",
                                    "--data",
                                    "tests/data/held_out.txt",
                                    "--context",
                                    "64",
                                    "--held-out-blocks",
                                    "4",
                                    "--curve-blocks",
                                    "2",
                                    "--device",
                                    "cpu",
                                    "--threads",
                                    "1",
                                    "--quiet",
                                    "--out",
                                    scratch / (name + ".svg"),
                                    "--json",
                                    scratch / (name + ".json")};
  };
  ASSERT_EQ(run_openwork(measure("alone")).exit_code, 0);
  EXPECT_THAT(await_all(start_job(2, measure("shared"), scratch / "shared")), Each(0))
      << read_file(scratch / "shared.0.err") << read_file(scratch / "shared.1.err");
  EXPECT_EQ(read_file(scratch / "shared.1.out"), "");
  const auto read = [&](const char* file) { return nlohmann::json::parse(read_file(scratch / file)); };
  const nlohmann::json one = read("alone.json"), two = read("shared.json");
  EXPECT_EQ(two.at("protocol").at("ranks"), 2);
  EXPECT_EQ(one.at("tokens"), two.at("tokens"));
  for (const char* key : {"model", "replaced"})
    EXPECT_NEAR(one.at("losses").at(key), two.at("losses").at(key), 1e-9) << key;
  for (size_t layer = 0; layer < 8; ++layer)
    EXPECT_NEAR(one.at("curves").at("up_to")[layer], two.at("curves").at("up_to")[layer], 1e-9);
}

TEST(Ranks, EvalGivesTheAnswerOfOneProcess) {
  const ScratchFolder scratch;
  const std::string data = write_documents(scratch);
  const std::vector<std::string> arguments = {
      "eval",   "openwork-8m",           "--data",  data,       "--context", "32",        "--blocks", "130",
      "--json", scratch / "shared.json", "--quiet", "--device", "cpu",       "--threads", "1"};
  EXPECT_THAT(await_all(start_job(2, arguments, scratch / "eval")), Each(0))
      << read_file(scratch / "eval.0.err");
  std::vector<std::string> alone = arguments;
  std::replace(alone.begin(), alone.end(), scratch / "shared.json", scratch / "alone.json");
  ASSERT_EQ(run_openwork(alone).exit_code, 0);
  nlohmann::json one = nlohmann::json::parse(read_file(scratch / "alone.json")).at("models").at(0),
                 two = nlohmann::json::parse(read_file(scratch / "shared.json")).at("models").at(0);
  one.erase("seconds"), two.erase("seconds");
  EXPECT_EQ(one, two);
  EXPECT_EQ(read_file(scratch / "eval.1.out"), "");
}

// What a command writes with --json, by one process and by two; how many there were is all that may differ.
class SharedSweep : public testing::Test {
 protected:
  std::vector<std::string> command(std::vector<std::string> arguments, const std::string& file) const {
    const std::vector<std::string> usual = {"--task", "copy",      "--prompts", "2",      "--device",
                                            "cpu",    "--threads", "1",         "--json", scratch_ / file};
    arguments.insert(arguments.end(), usual.begin(), usual.end());
    return arguments;
  }
  nlohmann::json read(const std::string& file, int ranks) const {
    nlohmann::json result = nlohmann::json::parse(read_file(scratch_ / file));
    EXPECT_EQ(result["protocol"]["ranks"], ranks);
    result["protocol"].erase("ranks");
    return result;
  }
  // What a run printed, less its last line, which names the file it wrote.
  std::string said(const std::string& out, const std::string& file) const {
    const size_t line = out.find("wrote " + (scratch_ / file));
    EXPECT_NE(line, std::string::npos) << out;
    return out.substr(0, line);
  }
  void expect_the_answer_of_one(const std::vector<std::string>& arguments) const {
    const ProgramResult alone = run_openwork(command(arguments, "alone.json"));
    ASSERT_EQ(alone.exit_code, 0) << alone.err;
    const auto codes = await_all(start_job(2, command(arguments, "shared.json"), scratch_ / "job"));
    ASSERT_THAT(codes, Each(0)) << read_file(scratch_ / "job.0.err") << read_file(scratch_ / "job.1.err");
    EXPECT_EQ(read("alone.json", 1), read("shared.json", 2));
    EXPECT_EQ(said(read_file(scratch_ / "job.0.out"), "shared.json"), said(alone.out, "alone.json"));
    EXPECT_EQ(read_file(scratch_ / "job.1.out"), "");
    EXPECT_FALSE(fs::exists(scratch_ / "shared.json.sweep"));
  }
  ScratchFolder scratch_;
};

TEST_F(SharedSweep, AblateGivesTheAnswerOfOneProcess) {
  expect_the_answer_of_one({"ablate", "openwork-8m"});
  expect_the_answer_of_one({"ablate", "openwork-8m", "--only", "L5H6,L6H0<k>,m3,L6H0:30<-6"});
}

TEST_F(SharedSweep, CircuitGivesTheAnswerOfOneProcessAtEveryLevel) {
  expect_the_answer_of_one({"circuit", "openwork-8m", "--greedy", "--heads", "L5H6,L6H0"});
  expect_the_answer_of_one({"circuit", "openwork-8m-sparse", "--level", "attention-edge"});
  expect_the_answer_of_one({"circuit", "openwork-8m", "--level", "graph-edge", "--agreement"});
}

TEST_F(SharedSweep, RanksGoOnWithWhatASweepKept) {
  ASSERT_EQ(run_openwork(command({"ablate", "openwork-8m"}, "alone.json")).exit_code, 0);
  const nlohmann::json alone = read("alone.json", 1);
  // A kept sweep with numbers that no run gives shows that both ranks take them from it.
  const double kept = alone["clean_metric"].get<double>() - 77;
  std::ofstream(scratch_ / "shared.json.sweep") << nlohmann::json{
      {"key", alone["protocol"]}, {"done", {{"L0H3", {kept, kept}}, {"L7H7", {kept, kept}}}}};
  const auto codes =
      await_all(start_job(2, command({"ablate", "openwork-8m"}, "shared.json"), scratch_ / "job"));
  ASSERT_THAT(codes, Each(0)) << read_file(scratch_ / "job.0.err");
  EXPECT_THAT(read_file(scratch_ / "job.0.err"), HasSubstr("continuing the sweep"));
  const nlohmann::json shared = read("shared.json", 2);
  for (size_t layer = 0; layer < 8; ++layer) {
    for (size_t head = 0; head < 8; ++head) {
      const bool was_kept = (layer == 0 && head == 3) || (layer == 7 && head == 7);
      const double expected = was_kept ? 77 : alone["effects"][layer][head].get<double>();
      EXPECT_NEAR(shared["effects"][layer][head].get<double>(), expected, 1e-5) << layer << " " << head;
    }
  }
  EXPECT_FALSE(fs::exists(scratch_ / "shared.json.sweep"));
}

TEST_F(SharedSweep, ASignalToOneStopsAllAndTheSweepIsKept) {
  const std::vector<std::string> arguments = {"circuit",    "openwork-8m", "--level",
                                              "graph-edge", "--method",    "exact"};
  const auto children = start_job(2, command(arguments, "shared.json"), scratch_ / "job");
  ASSERT_TRUE(await_file(scratch_ / "shared.json.sweep", children[0])) << read_file(scratch_ / "job.0.err");
  kill(children[1], SIGTERM);
  EXPECT_THAT(await_all(children), Each(143))
      << read_file(scratch_ / "job.0.err") << read_file(scratch_ / "job.1.err");
  EXPECT_THAT(read_file(scratch_ / "job.0.err"), HasSubstr("the same command continues"));
  EXPECT_FALSE(nlohmann::json::parse(read_file(scratch_ / "shared.json.sweep")).at("done").empty());
  EXPECT_FALSE(fs::exists(scratch_ / "shared.json"));
}

// A file of the same name with other prompts is another task: what was kept says nothing of it.
TEST_F(SharedSweep, OfATaskFileThatChangedIsRefused) {
  const std::string task = scratch_ / "task.jsonl";
  const auto write_task = [&](int first) {  // twelve tokens, and eleven of them again
    std::ofstream file(task);
    for (int prompt = 0; prompt < 8; ++prompt) {
      const auto token = [&](int n) { return first + prompt + n % 12 * 31; };
      nlohmann::json line = {{"clean", {0}}, {"corrupt", {0}}, {"answer", token(11)}, {"wrong", 900}};
      for (int n = 0; n < 23; ++n) line["clean"].push_back(token(n));
      for (int n = 0; n < 23; ++n) line["corrupt"].push_back(n < 12 ? 1087 - n * 17 : token(n));
      file << line.dump() << "\n";
    }
  };
  const std::vector<std::string> arguments = {
      "circuit",    "openwork-8m", "--task", task,     "--level",
      "graph-edge", "--method",    "exact",  "--json", scratch_ / "shared.json"};
  write_task(300);
  const auto children = start_job(1, arguments, scratch_ / "job");
  ASSERT_TRUE(await_file(scratch_ / "shared.json.sweep", children[0])) << read_file(scratch_ / "job.0.err");
  kill(children[0], SIGTERM);
  EXPECT_THAT(await_all(children), Each(143)) << read_file(scratch_ / "job.0.err");
  write_task(301);
  const ProgramResult changed = run_openwork(arguments);
  EXPECT_EQ(changed.exit_code, 2);
  expect_one_line(changed.err, "an interrupted sweep of another command");
}

TEST(BadInput, PlacesAmongRanksThatAreNone) {
  const ScratchFolder scratch;
  write_small_model(scratch);
  const auto refuse = [&](const std::vector<std::string>& environment, const std::string& words) {
    const ProgramResult result = run_openwork(small_run(scratch, "out", {}), environment);
    EXPECT_EQ(result.exit_code, 2);
    expect_one_line(result.err, words);
  };
  refuse({"RANK=3", "WORLD_SIZE=2"}, "RANK is '3'");
  refuse({"RANK=0", "WORLD_SIZE=many"}, "WORLD_SIZE is 'many'");
  refuse({"RANK=0", "WORLD_SIZE=2", "MASTER_PORT=x"}, "MASTER_PORT is 'x'");
}

}  // namespace
}  // namespace openwork
