// The scripts read relative paths where they were typed, not in the repository; a stub stands for the program.
#include <gmock/gmock.h>

#include "cli/command.h"

namespace openwork {
namespace {

namespace fs = std::filesystem;

// A folder with a stub that writes down its arguments, and what it is asked to write.
class Scripts : public testing::Test {
 protected:
  void SetUp() override {
    std::ofstream(scratch / "stub") << "#!/usr/bin/env bash\n"
                                       "printf '%s\\n' \"$*\" >>calls\n"
                                       "while [ $# -gt 0 ]; do\n"
                                       "  case $1 in --json) echo '{}' >\"$2\" ;; esac\n"
                                       "  shift\n"
                                       "done\n";
    fs::permissions(scratch.path() / "stub", fs::perms::owner_all);
  }

  int run_here(const std::string& settings, const std::string& script, const std::string& arguments) {
    const std::string command = "cd '" + scratch.path().string() + "' && " + settings + " OPENWORK=./stub '" +
                                fs::absolute("scripts").string() + "/" + script + "' " + arguments +
                                " >log 2>&1";
    return WEXITSTATUS(std::system(command.c_str()));
  }

  std::string calls() const { return read_file(scratch / "calls"); }

  ScratchFolder scratch;
};

TEST_F(Scripts, CircuitsWritesWhereItWasTyped) {
  ASSERT_EQ(run_here("LEVELS=head", "circuits.sh", "- - model found copy"), 0) << read_file(scratch / "log");
  EXPECT_TRUE(fs::exists(scratch / "found/copy-head.json"));
  EXPECT_THAT(calls(), testing::StartsWith("circuit model --task copy"));
  EXPECT_FALSE(fs::exists("found")) << "in the repository";
}

TEST_F(Scripts, TwinTrainsAndMeasuresWhereItWasTyped) {
  std::ofstream(scratch / "text") << "words";
  fs::create_directories(scratch.path() / "twin");
  ASSERT_EQ(
      run_here("DATA=text HELD_OUT=text TASKS=copy LEVELS=head", "twin.sh", "sparse base twin --steps 1"), 0)
      << read_file(scratch / "log");
  EXPECT_THAT(calls(), testing::HasSubstr("sparsify base --data text --held-out text"));
  for (const char* file : {"eval.json", "suite.json", "trace.json", "copy-head.json"})
    EXPECT_TRUE(fs::exists(scratch.path() / "twin/measured" / file)) << file;
  EXPECT_FALSE(fs::exists("twin")) << "in the repository";
}

TEST_F(Scripts, GalleryDrawsWhereItWasTyped) {
  ASSERT_EQ(run_here("OUT=pictures COPY_CIRCUIT=own.json", "gallery.sh", "smollm2-copy smollm2-features"), 0)
      << read_file(scratch / "log");
  EXPECT_THAT(calls(), testing::HasSubstr("--circuit own.json --out pictures/smollm2-copy.png"));
  EXPECT_TRUE(fs::exists(scratch / "pictures"));
  EXPECT_FALSE(fs::exists("pictures")) << "in the repository";
}

}  // namespace
}  // namespace openwork
