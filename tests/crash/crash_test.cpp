// The program killed, and its disk failing, at the calls by which it changes files (fault.c): whatever the moment,
// what was there before is whole or replaced by the whole of the new, the same command run again ends with the bits
// of a run without trouble, and nothing unfinished is left.
// A few places of each command in `make test`; every one of them with OPENWORK_CRASH=all (`make test-crash`), which
// prints the table of docs/results.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cerrno>
#include <functional>
#include <map>

#include "cli/training_command.h"
#include "flow/hub_server.h"
#include "io/sha256.h"

namespace openwork {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

// A command whose files all lie in one folder.
struct Trial {
  std::string name;
  std::function<Words(const fs::path& folder)> command;
  Words results;  // files in the folder that must be the same bits
  Words environment = {};
  Words again = {};                                          // more words where it is run again
  std::function<void(const fs::path& folder)> prepare = {};  // what is there before: older results
  bool made_once = false;                                    // it refuses where its result is there already
};

struct Tally {
  int calls = 0, kills = 0, faults = 0, unharmed = 0;
};

bool tries_all() {
  const char* const value = std::getenv("OPENWORK_CRASH");
  return value && std::string_view(value) == "all";
}

std::map<std::string, std::string> hash_results(const Trial& trial, const fs::path& folder) {
  std::map<std::string, std::string> hashes;
  for (const std::string& name : trial.results)
    hashes[name] = fs::exists(folder / name) ? sha256_of_file(folder / name) : "";
  return hashes;
}

Words list_unfinished(const fs::path& folder) {
  Words names;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const std::string end = entry.path().extension().string();
    if (end == ".part" || end == ".incomplete" || end == ".broken") names.push_back(entry.path().string());
  }
  return names;
}

class CrashTrial {
 public:
  explicit CrashTrial(Trial trial) : trial_(std::move(trial)) {
    const fs::path folder = make_folder("whole");
    old_ = hash_results(trial_, folder);
    const ProgramResult result = run(folder, {"OPENWORK_FAULT_COUNT=" + (scratch_ / "count")});
    EXPECT_EQ(result.exit_code, 0) << trial_.name << "\n" << result.err;
    new_ = hash_results(trial_, folder);
    for (const auto& [name, hash] : new_) EXPECT_FALSE(hash.empty()) << trial_.name << " " << name;
    EXPECT_THAT(list_unfinished(folder), testing::IsEmpty()) << trial_.name;
    tally_.calls = std::atoi(read_file(scratch_ / "count").c_str());
    EXPECT_GT(tally_.calls, 3) << trial_.name;
  }

  // At most `most` places, spread over all calls; all of them with OPENWORK_CRASH=all.
  void run_all(int most) {
    const int step = tries_all() ? 1 : std::max(1, (tally_.calls + most - 1) / most);
    for (int call = 1; call <= tally_.calls; call += step) {
      try_kill(call);
      for (const int error : {ENOSPC, EIO}) try_error(call, error);
      if (testing::Test::HasFailure()) return;
    }
    fmt::print("| {} | {} | {} | {} | {} |\n", trial_.name, tally_.calls, tally_.kills, tally_.faults,
               tally_.unharmed);
    std::fflush(stdout);  // what is left in the buffer would be a child's too
  }

 private:
  fs::path make_folder(const std::string& name) {
    const fs::path folder = scratch_.path() / name;
    fs::remove_all(folder);
    fs::create_directories(folder);
    if (trial_.prepare) trial_.prepare(folder);
    return folder;
  }

  ProgramResult run(const fs::path& folder, Words environment, bool again = false) {
    environment.insert(environment.end(), trial_.environment.begin(), trial_.environment.end());
    environment.push_back("OPENWORK_FAULT_FOLDER=" + folder.string());
    environment.push_back(std::string("LD_PRELOAD=") + OPENWORK_FAULT_LIBRARY);
    Words words = trial_.command(folder);
    if (again) words.insert(words.end(), trial_.again.begin(), trial_.again.end());
    return run_openwork(words, environment);
  }

  // Each result is as it was or as it shall be.
  void expect_whole(const fs::path& folder, const std::string& where) {
    for (const auto& [name, hash] : hash_results(trial_, folder))
      EXPECT_THAT(hash, testing::AnyOf(old_.at(name), new_.at(name))) << where << ": " << name;
  }

  void expect_recovery(const fs::path& folder, const std::string& where) {
    if (trial_.made_once && hash_results(trial_, folder) == new_) return;
    const ProgramResult result = run(folder, {}, true);
    EXPECT_EQ(result.exit_code, 0) << where << "\n" << result.err;
    EXPECT_EQ(hash_results(trial_, folder), new_) << where;
    EXPECT_THAT(list_unfinished(folder), testing::IsEmpty()) << where;
  }

  void try_kill(int call) {
    const std::string where = fmt::format("{} killed at call {}", trial_.name, call);
    const fs::path folder = make_folder("killed");
    const ProgramResult result = run(folder, {fmt::format("OPENWORK_FAULT=kill:{}", call)});
    EXPECT_THAT(result.exit_code, testing::AnyOf(128 + SIGKILL, 0)) << where << "\n" << result.err;
    tally_.kills += result.exit_code != 0;
    expect_whole(folder, where);
    expect_recovery(folder, where);
  }

  void try_error(int call, int error) {
    const std::string where = fmt::format("{}, {} at call {}", trial_.name, strerror(error), call);
    const fs::path folder = make_folder("failed");
    const ProgramResult result = run(folder, {fmt::format("OPENWORK_FAULT={}:{}", error, call)});
    ++tally_.faults;
    if (result.exit_code == 0) {  // a call that may fail, such as removing what is not needed any more
      ++tally_.unharmed;
      EXPECT_EQ(hash_results(trial_, folder), new_) << where;
    } else {
      EXPECT_EQ(result.exit_code, 1) << where << "\n" << result.err;
      const size_t line = result.err.rfind("openwork: error: ");
      ASSERT_NE(line, std::string::npos) << where << "\n" << result.err;
      EXPECT_EQ(std::count(result.err.begin() + static_cast<std::ptrdiff_t>(line), result.err.end(), '\n'), 1)
          << where << "\n"
          << result.err;
      expect_whole(folder, where);
    }
    expect_recovery(folder, where);
  }

  Trial trial_;
  ScratchFolder scratch_;
  std::map<std::string, std::string> old_, new_;
  Tally tally_;
};

void write_old(const fs::path& folder, const std::string& name) {
  std::ofstream(folder / name) << "what was there before\n";
}

TEST(Crash, JsonIsWholeOrAsItWas) {
  CrashTrial({.name = "tokenize --json",
              .command =
                  [](const fs::path& folder) {
                    return Words{"tokenize", "openwork-8m", "A few words.", "--json", folder / "out.json"};
                  },
              .results = {"out.json"},
              .prepare = [](const fs::path& folder) { write_old(folder, "out.json"); }})
      .run_all(100);
}

TEST(Crash, AFetchEndsWithTheFilesOfTheHub) {
  HubServer hub;
  hub.add_file("config.json", R"({"model_type": "gpt2"})");
  Words files = {"config.json"}, cached;  // a model in many parts where there is time for all of them
  for (int part = 1; part <= (tries_all() ? 24 : 1); ++part) {
    files.push_back(fmt::format("model-{:05}.safetensors", part));
    hub.add_large_file(files.back(), std::string(static_cast<size_t>(300000 - 1000 * part), 'w'));
  }
  const std::string name = std::string("hf:") + HubServer::kRepo;
  CrashTrial({.name = "fetch --to",
              .command =
                  [&](const fs::path& folder) {
                    return Words{"fetch", name, "--quiet", "--to", folder};
                  },
              .results = files,
              .environment = {"HF_ENDPOINT=" + hub.endpoint()}})
      .run_all(6);
  const std::string snapshot =
      std::string("hub/models--someone--tiny-model/snapshots/") + HubServer::kCommit + "/";
  for (const std::string& file : files) cached.push_back(snapshot + file);
  CrashTrial({.name = "fetch",
              .command =
                  [&](const fs::path& folder) {
                    setenv("HF_HOME", folder.c_str(), 1);
                    return Words{"fetch", name, "--quiet"};
                  },
              .results = cached,
              .environment = {"HF_ENDPOINT=" + hub.endpoint()}})
      .run_all(6);
  unsetenv("HF_HOME");
}

TEST(Crash, AFigureIsWholeOrAsItWas) {
  CrashTrial({.name = "heads --out",
              .command =
                  [](const fs::path& folder) {
                    return Words{"heads",     "openwork-8m", "The cat sat", "--out", folder / "heads.svg",
                                 "--threads", "1",           "--device",    "cpu",   "--quiet"};
                  },
              .results = {"heads.svg"},
              .prepare = [](const fs::path& folder) { write_old(folder, "heads.svg"); }})
      .run_all(2);
}

// The folder is there whole or not at all.
TEST(Crash, APrunedModelIsWholeOrAbsent) {
  const ScratchFolder scratch;
  write_small_model(scratch);
  ASSERT_EQ(run_openwork(small_run(scratch, "gated", {"--steps", "1", "--quiet"})).exit_code, 0);
  CrashTrial({.name = "prune",
              .command =
                  [&](const fs::path& folder) {
                    return Words{"prune",     scratch / "gated",
                                 "--data",    "tests/data/held_out.txt",
                                 "--keep",    "2",
                                 "--blocks",  "1",
                                 "--context", "32",
                                 "--out",     folder / "pruned",
                                 "--device",  "cpu",
                                 "--quiet"};
                  },
              .results = {"pruned/model.safetensors", "pruned/config.json", "pruned/tokenizer.json"},
              .made_once = true})
      .run_all(4);
}

// Data, checkpoints (three, so that the first is removed), the result, the report.
TEST(Crash, ATrainingRunEndsAtTheSameBits) {
  const ScratchFolder scratch;
  write_small_model(scratch);
  CrashTrial({.name = "sparsify",
              .command =
                  [&](const fs::path& folder) {
                    Words words =
                        small_run(scratch, "unused", {"--steps", "3", "--checkpoint-every", "1", "--quiet"});
                    *std::find(words.begin(), words.end(), scratch / "unused") = folder;
                    return words;
                  },
              .results = {"model.safetensors", "config.json", "checkpoints/step-00000003/state.safetensors"},
              .again = {"--resume"}})
      .run_all(5);
}

}  // namespace
}  // namespace openwork
