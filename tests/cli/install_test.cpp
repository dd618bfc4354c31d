// `make install`: the installed copy starts by itself, finds torch, its models, its completion and its man page.
#include <gmock/gmock.h>

#include "cli/command.h"
#include "sanitized.h"

namespace openwork {
namespace {

namespace fs = std::filesystem;

TEST(Install, TheInstalledCopyRuns) {
  if (kAddressSanitizer) GTEST_SKIP() << "a sanitizer looks for the libraries in the program's place";
  const fs::path build = fs::absolute(program_path()).parent_path();
  if (!fs::exists(build / "cmake_install.cmake")) GTEST_SKIP() << "no build folder at " << build;
  const ScratchFolder scratch;
  const std::string install = "cmake --install " + build.string() + " --prefix " + scratch / "there" + " >" +
                              scratch / "log" + " 2>&1";
  ASSERT_EQ(std::system(install.c_str()), 0) << read_file(scratch / "log");
  const std::string program = scratch / "there/bin/openwork";
  // From elsewhere, with nothing set that could help it.
  const auto run = [&](const std::string& words) {
    return std::system(("cd / && env -i HOME=" + scratch.path().string() + " " + program + " " + words +
                        " >" + scratch / "out" + " 2>" + scratch / "err")
                           .c_str());
  };
  EXPECT_EQ(run("models"), 0) << read_file(scratch / "err");
  EXPECT_THAT(read_file(scratch / "out"), testing::HasSubstr("openwork-8m"));
  EXPECT_EQ(run("run openwork-8m 'The city of' --device cpu --threads 1"), 0) << read_file(scratch / "err");
  for (const char* file : {"share/bash-completion/completions/openwork", "share/zsh/site-functions/_openwork",
                           "share/fish/vendor_completions.d/openwork.fish", "share/man/man1/openwork.1"})
    EXPECT_TRUE(fs::exists(fs::path(scratch / "there") / file)) << file;
}

}  // namespace
}  // namespace openwork
