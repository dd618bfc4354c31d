// Which libraries the program runs: its own, wherever it is started; and what it answers without opening torch's.
#include <algorithm>
#include <array>
#include <cstdio>
#include <sstream>

#include "cli/command.h"
#include "sanitized.h"

namespace openwork {
namespace {

namespace fs = std::filesystem;

std::string output_of(const std::string& command) {
  std::string text;
  FILE* pipe = popen(command.c_str(), "r");
  std::array<char, 4096> chunk;
  while (const size_t count = fread(chunk.data(), 1, chunk.size(), pipe)) text.append(chunk.data(), count);
  return pclose(pipe) == 0 ? text : "";
}

// The values of one kind of entry of a file's dynamic section: readelf writes them in brackets.
std::vector<std::string> dynamic_entries(const fs::path& file, const std::string& kind) {
  std::vector<std::string> values;
  std::istringstream lines(output_of("readelf -d '" + file.string() + "'"));
  for (std::string line; std::getline(lines, line);) {
    if (line.find("(" + kind + ")") == std::string::npos) continue;
    const size_t open = line.find('['), close = line.rfind(']');
    values.push_back(line.substr(open + 1, close - open - 1));
  }
  return values;
}

std::vector<fs::path> built_files() {
  const fs::path folder = fs::absolute(program_path()).parent_path();
  std::vector<fs::path> files = {folder / "openwork"};
  for (const char* name : {"libopenwork.so", "libopenwork_ops.so", "libopenwork_ops_cuda.so"})
    if (fs::exists(folder / name)) files.push_back(folder / name);
  return files;
}

// An empty entry means the current folder, and so does any that is not absolute or relative to the file itself.
TEST(Loading, SearchesNoFolderThatDependsOnWhereItIsStarted) {
  for (const fs::path& file : built_files()) {
    ASSERT_FALSE(dynamic_entries(file, "NEEDED").empty()) << file;
    std::vector<std::string> paths = dynamic_entries(file, "RUNPATH");
    for (const std::string& path : dynamic_entries(file, "RPATH")) paths.push_back(path);
    for (const std::string& path : paths) {
      std::istringstream entries(path + ":");
      for (std::string entry; std::getline(entries, entry, ':');)
        EXPECT_TRUE(entry.starts_with("/") || entry.starts_with("$ORIGIN"))
            << file << " has '" << entry << "' in " << path;
    }
  }
}

TEST(Loading, RunsItsOwnLibrariesInAFolderOfDecoys) {
  const ScratchFolder decoys;
  for (const fs::path& file : built_files()) {
    for (const std::string& name : dynamic_entries(file, "NEEDED"))
      std::ofstream(decoys / name) << "not a library";
    std::ofstream(decoys / file.filename().string()) << "not a library";
  }
  const std::string models = fs::absolute("models").string(), program = fs::absolute(program_path()).string();
  const std::string start =
      "cd '" + decoys.path().string() + "' && OPENWORK_MODELS='" + models + "' '" + program + "' ";
  EXPECT_NE(output_of(start + "--version 2>&1").find("openwork "), std::string::npos);
  EXPECT_NE(output_of(start + "inspect openwork-8m 2>&1").find("gpt2"), std::string::npos);
}

// What the program itself links has no torch in it: help, the version and the light verbs do not wait for it.
// Not GPT-2's own tokenizer, which a model of its shape without any is given.
TEST(Loading, TakesAVocabularyAndMergesBesideTheModel) {
  const ScratchFolder scratch;
  std::ofstream(scratch / "config.json") << R"({"model_type": "gpt2"})";
  std::ofstream(scratch / "vocab.json") << R"({"a": 0, "b": 1, "ab": 2})";
  std::ofstream(scratch / "merges.txt") << "#version: 0.2\na b\n";
  const ProgramResult result =
      run_openwork({"tokenize", scratch.path().string(), "abba", "--json", "-"}, {"HF_HOME=/nonexistent"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.json()["ids"], (nlohmann::json{2, 1, 0}));
}

TEST(Loading, OpensTorchOnlyForVerbsThatNeedIt) {
  for (const std::string& name : dynamic_entries(built_files().front(), "NEEDED"))
    EXPECT_EQ(name.find("torch"), std::string::npos) << name;
  const std::vector<std::string> trace = {"LD_DEBUG=files"};
  EXPECT_EQ(run_openwork({"--version"}, trace).err.find("libtorch"), std::string::npos);
  EXPECT_EQ(run_openwork({"models"}, trace).err.find("libtorch"), std::string::npos);
  EXPECT_EQ(run_openwork({"tokenize", "openwork-8m", "a"}, trace).err.find("libtorch"), std::string::npos);
  EXPECT_NE(run_openwork({"inspect", "openwork-8m"}, trace).err.find("libtorch"), std::string::npos);
}

TEST(Loading, SaysInOneLineThatItsLibraryIsMissing) {
  if (kAddressSanitizer) GTEST_SKIP() << "a sanitizer looks for the libraries in the program's place";
  const ScratchFolder alone;
  fs::copy_file(program_path(), alone / "openwork");
  const std::string said = output_of("'" + (alone / "openwork") + "' inspect openwork-8m 2>&1; true");
  EXPECT_TRUE(said.starts_with("openwork: error: ")) << said;
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
}

}  // namespace
}  // namespace openwork
