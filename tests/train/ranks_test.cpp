// Ranks over loopback: what they find in the environment, what they add up, that a training run over several
// is the run of one process, and that the loss of one is noticed.
#include "train/ranks.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <chrono>
#include <csignal>
#include <map>
#include <thread>

#include "base/progress.h"
#include "train/checkpoint.h"
#include "train/gradient_exchange.h"
#include "train/gradient_norm.h"
#include "train/rank_processes.h"
#include "train/run_fixture.h"

namespace openwork {
namespace {

namespace fs = std::filesystem;
using testing::Each;
using testing::ElementsAre;

RankPlace place_of(const std::map<std::string, std::string>& environment) {
  return read_rank_place([&](const char* name) -> std::optional<std::string> {
    const auto it = environment.find(name);
    return it == environment.end() ? std::nullopt : std::optional(it->second);
  });
}

// "rank/count local/local_count address".
std::string text_of(const RankPlace& place) {
  return fmt::format("{}/{} {}/{} {}", place.rank, place.count, place.local, place.local_count,
                     place.address);
}

TEST(RankPlace, ReadsWhatLaunchersSet) {
  EXPECT_EQ(place_of({}).count, 1);
  EXPECT_EQ(place_of({{"RANK", "0"}, {"WORLD_SIZE", "1"}}).count, 1);
  std::map<std::string, std::string> torchrun = {
      {"RANK", "5"},         {"WORLD_SIZE", "8"},   {"LOCAL_RANK", "1"},         {"LOCAL_WORLD_SIZE", "4"},
      {"SLURM_PROCID", "3"}, {"SLURM_NTASKS", "9"}, {"MASTER_ADDR", "10.0.0.7"}, {"MASTER_PORT", "1234"}};
  EXPECT_EQ(text_of(place_of(torchrun)), "5/8 1/4 10.0.0.7");
  EXPECT_EQ(place_of(torchrun).port, 1234);
  const std::map<std::string, std::string> srun = {{"SLURM_PROCID", "3"},
                                                   {"SLURM_NTASKS", "4"},
                                                   {"SLURM_LOCALID", "1"},
                                                   {"SLURM_NTASKS_PER_NODE", "2"},
                                                   {"SLURM_JOB_ID", "77"},
                                                   {"SLURM_STEP_ID", "0"},
                                                   {"SLURM_STEP_NODELIST", "gpu[07-08]"}};
  EXPECT_EQ(text_of(place_of(srun)), "3/4 1/2 gpu07");
  EXPECT_GE(place_of(srun).port, 20000);
  const std::map<std::string, std::string> open_mpi = {{"OMPI_COMM_WORLD_RANK", "1"},
                                                       {"OMPI_COMM_WORLD_SIZE", "2"},
                                                       {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                                                       {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}};
  EXPECT_EQ(text_of(place_of(open_mpi)), "1/2 1/2 127.0.0.1");
  EXPECT_EQ(text_of(place_of({{"PMI_RANK", "2"}, {"PMI_SIZE", "3"}})), "2/3 2/3 127.0.0.1");
}

TEST(RankPlace, ABatchScriptOfItsOwnIsAlone) {
  EXPECT_EQ(place_of({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}, {"SLURM_JOB_ID", "77"}}).count, 1);
}

TEST(RankPlace, RefusesNumbersThatMakeNoPlace) {
  const auto refuse = [](const std::map<std::string, std::string>& environment, const std::string& message) {
    expect_failure(Error::Kind::kInput, message, [&] { place_of(environment); });
  };
  refuse({{"RANK", "two"}, {"WORLD_SIZE", "4"}}, "RANK is 'two'");
  refuse({{"RANK", "4"}, {"WORLD_SIZE", "4"}}, "RANK is '4'");
  refuse({{"RANK", "0"}, {"WORLD_SIZE", "0"}}, "WORLD_SIZE is '0'");
  refuse({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_PORT", "70000"}}, "MASTER_PORT is '70000'");
  refuse({{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}},
         "do not know where to meet");
}

TEST(RankPlace, FindsTheFirstMachineOfASlurmList) {
  EXPECT_EQ(first_slurm_host("node7"), "node7");
  EXPECT_EQ(first_slurm_host("node7,node9"), "node7");
  EXPECT_EQ(first_slurm_host("gpu[003-010,020]"), "gpu003");
  EXPECT_EQ(first_slurm_host("a1,b[2-3]"), "a1");
  EXPECT_EQ(first_slurm_host("b[2,5],a1"), "b2");
}

TEST(Ranks, AloneNothingHappens) {
  Ranks ranks;
  const at::Tensor x = at::ones({3});
  ranks.sum(x), ranks.broadcast(x), ranks.barrier(), ranks.leave();
  EXPECT_TRUE(at::equal(x, at::ones({3})));
  EXPECT_EQ(ranks.share(7), std::pair(int64_t{0}, int64_t{7}));
}

TEST(Ranks, AllHaveTheSumTheLargestAndTheFirstOnes) {
  const std::vector<int> codes = run_ranks(3, [](Ranks& ranks) {
    const double own = ranks.rank() + 1;
    const at::Tensor large = at::full({100000}, own, at::kFloat), small = at::full({2}, own, at::kDouble),
                     first = at::full({5}, own, at::kFloat);
    const Ranks::Wait wait_large = ranks.start_sum(large), wait_small = ranks.start_max(small);
    wait_small(), wait_large();
    ranks.broadcast(first);
    bool right = at::equal(large, at::full({100000}, 6.0, at::kFloat));
    right = right && at::equal(small, at::full({2}, 3.0, at::kDouble)) && at::equal(first, at::ones({5}));
    right = right && ranks.decide(ranks.is_first()) && !ranks.decide(!ranks.is_first());
    const auto [begin, end] = ranks.share(10);
    const at::Tensor covered = at::zeros({10});
    covered.narrow(0, begin, end - begin).fill_(1);
    ranks.sum(covered);
    return right && at::equal(covered, at::ones({10})) ? 0 : 1;
  });
  EXPECT_THAT(codes, Each(0));
}

TEST(Ranks, APieceEachIsSummedInTheOrderOfRanksAndFetchedByAll) {
  const std::vector<int> codes = run_ranks(3, [](Ranks& ranks) {
    const std::vector<double> given = {1e8, 1, -1e8};  // in float32 another order has another sum
    const double own = given[static_cast<size_t>(ranks.rank())];
    const at::Tensor pieces = at::full({3 * 5000}, own, at::kFloat), few = at::full({2}, own, at::kFloat);
    ranks.start_scatter_sum(pieces)();
    ranks.sum_in_order(few);
    bool right = pieces.narrow(0, ranks.rank() * 5000, 5000).eq(0).all().item<bool>();
    right = right && few.eq(0).all().item<bool>();
    for (const auto dtype : {at::kFloat, at::kBFloat16, at::kDouble}) {
      const at::Tensor whole = at::full({3 * 700}, -1, dtype);
      whole.narrow(0, ranks.rank() * 700, 700).fill_(ranks.rank());
      ranks.start_gather(whole)();
      right = right && at::equal(whole.to(at::kFloat), at::arange(3, at::kFloat).repeat_interleave(700));
    }
    return right ? 0 : 1;
  });
  EXPECT_THAT(codes, Each(0));
}

WeightOptions share_of(const Ranks& ranks, at::ScalarType dtype = at::kFloat,
                       int64_t chunk_bytes = ShardPlan::kChunkBytes) {
  WeightOptions options;
  options.learn_bias = true;
  options.dtype = dtype;
  options.rank = ranks.rank(), options.ranks = ranks.count();
  options.chunk_bytes = chunk_bytes;
  return options;
}

class LoopOverRanks : public testing::Test {
 protected:
  void SetUp() override {
    set_quiet(true);
    at::set_num_threads(1);
    write_tokens(folder_);  // before there are ranks that would all write them
  }

  // The weights that `count` ranks end with, and the last line of their metrics.
  at::Tensor train(int count, LoopOptions options, const std::string& name,
                   std::optional<LoraOptions> lora = {}) {
    options.folder = folder_ / name;
    const auto work = [&](Ranks& ranks) {
      WeightOptions share = share_of(ranks, dtype_, chunk_bytes_);
      share.learn_bias = learn_bias_;
      TinyRun run(folder_, lora, GateKind::kLogprob, share);
      options.ranks = std::shared_ptr<Ranks>(&ranks, [](Ranks*) {});
      run.run(options);
      // What the ranks compute with: the same on all or the sum tells.
      const TrainedWeights& weights = run.weights;
      const at::Tensor own =
          at::cat({(weights.copies().defined() ? weights.copies() : weights.masters()).to(at::kFloat),
                   weights.gates_of(weights.masters())});
      const at::Tensor total = own.clone();
      ranks.sum(total);
      return (total / ranks.count() - own).abs().max().item<double>() < 1e-7 ? 0 : 1;
    };
    EXPECT_THAT(run_ranks(count, work), Each(0)) << name;
    return read_saved(name, "masters", lora);
  }

  // A flat tensor of the newest checkpoint.
  at::Tensor read_saved(const std::string& name, const std::string& tensor,
                        std::optional<LoraOptions> lora = {}) {
    const at::Tensor numbers = at::zeros({TinyRun(folder_, lora).weights.plan().numbers()}, at::kFloat);
    CheckpointFolder checkpoints(folder_ / name / "checkpoints");
    checkpoints.read_tensors(checkpoints.latest().value(), {{tensor, numbers}});
    return numbers;
  }

  // As if the run had been killed before its last checkpoint.
  void lose_last_checkpoint(const std::string& name) {
    const fs::path folder = folder_ / name / "checkpoints";
    const int64_t last = CheckpointFolder(folder).latest().value();
    fs::remove_all(folder / fmt::format("step-{:08}", last));
    EXPECT_EQ(CheckpointFolder(folder).latest(), 10);
  }

  nlohmann::json last_line(const std::string& name) {
    std::ifstream file(folder_ / name / "metrics.jsonl");
    std::string line, last;
    while (std::getline(file, line)) last = line;
    return nlohmann::json::parse(last);
  }

  TestFolder folder_;
  at::ScalarType dtype_ = at::kFloat;
  int64_t chunk_bytes_ = ShardPlan::kChunkBytes;
  bool learn_bias_ = true;
};

// In bfloat16 too, where masters and gradients are shares; with one chunk and with many; more ranks than
// blocks of LoRA's few numbers; gates that are not learned.
TEST_F(LoopOverRanks, TheyEndAtTheBitsOfOneProcessInAsManyPasses) {
  for (const int count : {2, 3, 4}) {
    for (const auto dtype : {at::kFloat, at::kBFloat16}) {
      for (const auto& [way, of_lora] : ways_to_train()) {
        const std::string name = fmt::format("{}-{}-{}", count, c10::toString(dtype), way);
        LoopOptions options = tiny_options(folder_ / "x", 6);
        options.batch = 12;
        dtype_ = dtype, chunk_bytes_ = count == 3 ? 4096 : ShardPlan::kChunkBytes, learn_bias_ = count != 4;
        const at::Tensor shared = train(count, options, name + "-shared", of_lora);
        options.accumulate = count;
        const at::Tensor alone = train(1, options, name + "-alone", of_lora);
        EXPECT_TRUE(at::equal(shared, alone)) << name;
        for (const char* key : {"loss", "lambda", "gradient_norm", "kept_edges", "gate_bias"})
          EXPECT_EQ(last_line(name + "-shared").at(key), last_line(name + "-alone").at(key)) << name << key;
      }
    }
  }
}

TEST_F(LoopOverRanks, AnyNumberGoesOnWithWhatAnotherSaved) {
  for (const auto dtype : {at::kFloat, at::kBFloat16}) {
    for (const auto& [before, after] : std::vector<std::pair<int, int>>{{2, 1}, {1, 2}, {2, 4}, {4, 2}}) {
      const std::string name = fmt::format("{}-{}-{}", c10::toString(dtype), before, after);
      dtype_ = dtype, chunk_bytes_ = 16384;
      LoopOptions options = tiny_options(folder_ / "x");
      const auto run_on = [&](int ranks, int passes, const std::string& folder, bool resume) {
        options.accumulate = passes, options.resume = resume;
        train(ranks, options, folder);
      };
      run_on(before, 1, name + "-shared", false), run_on(1, before, name + "-alone", false);
      lose_last_checkpoint(name + "-shared"), lose_last_checkpoint(name + "-alone");
      run_on(after, 1, name + "-shared", true), run_on(1, after, name + "-alone", true);
      for (const char* tensor : {"masters", "first_moment", "second_moment"}) {
        EXPECT_TRUE(at::equal(read_saved(name + "-shared", tensor), read_saved(name + "-alone", tensor)))
            << name << " " << tensor;
        EXPECT_GT(read_saved(name + "-shared", tensor).abs().max().item<double>(), 0);
      }
    }
  }
}

TEST_F(LoopOverRanks, EachHasMomentsOfItsShareAlone) {
  const std::vector<int> codes = run_ranks(4, [&](Ranks& ranks) {
    const TinyRun plain(folder_, {}, GateKind::kLogprob, share_of(ranks)),
        narrow(folder_, {}, GateKind::kLogprob, share_of(ranks, at::kBFloat16));
    const int64_t numbers = plain.weights.plan().numbers();
    for (const TinyRun* run : {&plain, &narrow}) {
      const AdamW optimiser(run->weights, {}, &ranks);
      if (optimiser.first_moment().numel() > numbers / 4 + 2048) return 1;
    }
    const int64_t share = narrow.weights.masters().numel();
    return share <= numbers / 4 + 2048 && narrow.weights.gradients().numel() == share ? 0 : 2;
  });
  EXPECT_THAT(codes, Each(0));
}

TEST_F(LoopOverRanks, TheNormOfAGradientIsTheSameOnAnyNumber) {
  const auto norm_of = [&](Ranks& ranks) {
    const TinyRun run(folder_, {}, GateKind::kLogprob, share_of(ranks, at::kFloat, 4096));
    const WeightPlan& plan = run.weights.plan();
    const at::Tensor numbers =
                         at::randn({plan.numbers()}, at::detail::createCPUGenerator(5), at::TensorOptions()),
                     gradients = run.weights.gradients();
    gradients.narrow(0, 0, plan.shards.numbers()).copy_(numbers.narrow(0, 0, plan.shards.numbers()));
    run.weights.gates_of(gradients).copy_(numbers.narrow(0, plan.shards.numbers(), plan.gates()));
    return gradient_norm(run.weights, &ranks).item<float>();
  };
  Ranks nobody;
  const float alone = norm_of(nobody);
  EXPECT_GT(alone, 1);
  for (const int count : {2, 3, 5})
    EXPECT_THAT(run_ranks(count, [&](Ranks& ranks) { return norm_of(ranks) == alone ? 0 : 1; }), Each(0));
}

TEST_F(LoopOverRanks, TwoEndAtTheBitsOfOneProcessInTwoPasses) {
  for (const auto& [way, of_lora] : ways_to_train()) {
    LoopOptions options = tiny_options(folder_ / "x");
    const std::string name = way + "-";
    const at::Tensor shared = train(2, options, name + "shared", of_lora);
    options.accumulate = 2;
    const at::Tensor alone = train(1, options, name + "alone", of_lora);
    EXPECT_TRUE(at::equal(shared, alone)) << name;
    nlohmann::json first = last_line(name + "shared"), second = last_line(name + "alone");
    for (const char* clock : {"seconds", "tokens_per_second"}) first.erase(clock), second.erase(clock);
    EXPECT_EQ(first, second) << name;
  }
}

TEST_F(LoopOverRanks, TwoEndAtTheBitsOfOneProcessWhateverSteersThem) {
  LoopOptions options = tiny_options(folder_ / "x");
  options.loss.head_form = HeadForm::kLog;
  options.loss.head_over_batch = true;
  options.schedule.sharpness_end = 2;
  options.held_out_target = HeldOutTarget{.wanted = 4};
  options.measurements = 10;
  options.measure = [](const Transformer& model) {
    return HeldOutPoint{model.parameters().front().second.abs().mean().item<double>(), 0.5};
  };
  const at::Tensor shared = train(2, options, "shared");
  options.accumulate = 2;
  const at::Tensor alone = train(1, options, "alone");
  EXPECT_TRUE(at::equal(shared, alone));
  for (const char* key : {"target", "gap", "lambda", "loss"})
    EXPECT_EQ(last_line("shared").at(key), last_line("alone").at(key)) << key;
}

TEST_F(LoopOverRanks, MixedLengthsAreSharedLikeWholeRows) {
  LoopOptions options = tiny_options(folder_ / "x", 1);
  options.lengths = {4, 8, 16};
  train(1, options, "alone");
  for (const int count : {2, 4}) {
    const std::string name = "shared" + std::to_string(count);
    train(count, options, name);
    EXPECT_NEAR(last_line(name).at("loss").get<double>(), last_line("alone").at("loss").get<double>(), 1e-6);
    EXPECT_EQ(last_line(name).at("kept_edges"), last_line("alone").at("kept_edges"));
  }
}

TEST_F(LoopOverRanks, AStepIsThatOfOneProcessUpToTheOrderOfSums) {
  LoopOptions options = tiny_options(folder_ / "x", 1);
  const at::Tensor alone = train(1, options, "alone");
  for (const int count : {2, 4}) {
    const std::string name = "shared" + std::to_string(count);
    train(count, options, name);
    EXPECT_NEAR(last_line(name).at("loss").get<double>(), last_line("alone").at("loss").get<double>(),
                2e-7 * 5);
    EXPECT_NEAR(last_line(name).at("penalty").get<double>(), last_line("alone").at("penalty").get<double>(),
                1e-7);
    EXPECT_EQ(last_line(name).at("kept_edges"),
              last_line("alone").at("kept_edges"));  // a count: the same gates
    EXPECT_NEAR(last_line(name).at("gradient_norm").get<double>(),
                last_line("alone").at("gradient_norm").get<double>(), 1e-5);
  }
}

TEST_F(LoopOverRanks, RefusesABatchThatRanksCannotShare) {
  const std::vector<int> codes = run_ranks(3, [&](Ranks& ranks) {
    TinyRun run(folder_, {}, GateKind::kLogprob, share_of(ranks));
    LoopOptions options = tiny_options(folder_ / "x", 1);
    options.ranks = std::shared_ptr<Ranks>(&ranks, [](Ranks*) {});
    try {
      run.run(options);
    } catch (const Error& error) {
      return std::string(error.what()).find("4 samples cannot be shared by 3 ranks") != std::string::npos ? 0
                                                                                                          : 1;
    }
    return 2;
  });
  EXPECT_THAT(codes, Each(0));
}

TEST_F(LoopOverRanks, SumsBeginWhileTheBackwardPassRuns) {
  const std::vector<int> codes = run_ranks(2, [&](Ranks& ranks) {
    TinyRun run(folder_, {}, GateKind::kLogprob, share_of(ranks, at::kFloat, 4096));
    TrainedWeights& weights = run.weights;
    const at::Tensor tokens = run.batches.read(ranks.rank(), 1);
    const auto backward = [&] {
      weights.zero_gradients();
      next_token_loss(weights.pass_model().forward(tokens), tokens).backward();
    };
    const auto own_gradients = [&] {
      std::vector<at::Tensor> own = {weights.gates_of(weights.gradients())};
      for (const ShardPlan::Chunk& chunk : weights.plan().shards.chunks())
        own.push_back(weights.own_piece(weights.gradients(), chunk));
      return at::cat(own);
    };
    at::Tensor summed;
    {
      GradientExchange exchange(weights, ranks);
      exchange.begin(true);
      backward();
      exchange.finish();
      summed = own_gradients();
      if (exchange.chunks() < 4 || exchange.started_early() < exchange.chunks() / 2) return 2;
    }
    backward();  // the plain way: backward, then one sum
    ranks.sum(weights.gradients());
    return at::equal(summed, own_gradients()) && summed.abs().max().item<double>() > 0 ? 0 : 1;
  });
  EXPECT_THAT(codes, Each(0));
}

TEST_F(LoopOverRanks, ASignalToOneStopsAllAfterACheckpoint) {
  LoopOptions options = tiny_options(folder_ / "out", 100000);
  options.checkpoint_every = 0;
  const auto children = start_ranks(2, [&](Ranks& ranks) {
    TinyRun run(folder_, {}, GateKind::kLogprob, share_of(ranks));
    options.ranks = std::shared_ptr<Ranks>(&ranks, [](Ranks*) {});
    return run.run(options).signal;
  });
  while (!fs::exists(folder_ / "out" / "metrics.jsonl") ||
         fs::file_size(folder_ / "out" / "metrics.jsonl") == 0)
    usleep(1000);
  kill(children[1], SIGTERM);
  EXPECT_THAT(await_ranks(children), Each(SIGTERM));
  EXPECT_TRUE(CheckpointFolder(folder_ / "out" / "checkpoints").latest().has_value());
}

// Exit codes of the ranks that are left when one of three gets `signal`, and how long they took.
std::pair<std::vector<int>, double> lose_one(int number, int victim) {
  const TestFolder folder;
  const auto children = start_ranks(3, [&](Ranks& ranks) {
    std::ofstream(folder / std::to_string(ranks.rank())) << "here";
    for (int n = 0; n < 100000; ++n) {
      ranks.sum(at::ones({10000}));
      ranks.start_scatter_sum(at::ones({9000}))(), ranks.start_gather(at::ones({9000}))();
      usleep(1000);
    }
    return 0;
  });
  for (const char* name : {"0", "1", "2"}) {
    while (!fs::exists(folder / name)) usleep(1000);
  }
  usleep(100000);
  const auto start = std::chrono::steady_clock::now();
  kill(children[static_cast<size_t>(victim)], number);
  std::vector<int> codes;
  for (size_t n = 0; n < 3; ++n) {
    if (static_cast<int>(n) != victim) codes.push_back(await_ranks({children[n]}).front());
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  kill(children[static_cast<size_t>(victim)], SIGKILL);
  await_ranks({children[static_cast<size_t>(victim)]});
  return {codes, seconds};
}

TEST(LostRank, EndsTheOthersAtOnceWhereItsConnectionsClose) {
  for (const int victim : {0, 2}) {
    const auto [codes, seconds] = lose_one(SIGKILL, victim);
    EXPECT_THAT(codes, ElementsAre(1, 1)) << victim;
    EXPECT_LT(seconds, 10) << victim;
  }
}

TEST(LostRank, EndsTheOthersAfterATimeWhereItIsSilent) {
  setenv("OPENWORK_RANK_TIMEOUT", "2", 1);
  for (const int victim : {0, 1, 2}) {  // the first serves the store by which silence is noticed
    const auto [codes, seconds] = lose_one(SIGSTOP, victim);
    EXPECT_THAT(codes, ElementsAre(1, 1)) << victim;
    EXPECT_GT(seconds, 1) << victim;
    EXPECT_LT(seconds, 20) << victim;
  }
  unsetenv("OPENWORK_RANK_TIMEOUT");
}

TEST(LostRank, ARankThatNeverComesIsAnErrorOfTheOthers) {
  setenv("OPENWORK_JOIN_TIMEOUT", "1", 1);
  expect_failure(Error::Kind::kFailure, "the 2 ranks did not meet within 1 s", [] {
    const Ranks ranks({1, 2, 1, 2, "127.0.0.1", find_free_port()});
  });
  unsetenv("OPENWORK_JOIN_TIMEOUT");
}

}  // namespace
}  // namespace openwork
