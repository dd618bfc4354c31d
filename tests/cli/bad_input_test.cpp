// Every bad input of the contract that a verb can meet by now: one line, the exit code, nothing left behind.
#include <sys/stat.h>

#include "cli/command.h"

namespace openwork {
namespace {

namespace fs = std::filesystem;

// A copy of a small model that a test may damage.
class DamagedModel {
 public:
  explicit DamagedModel(const std::string& fixture = "gpt2") {
    for (const auto& entry : fs::directory_iterator(fs::path("tests/data") / fixture)) {
      if (entry.path().filename() != "golden.safetensors") fs::copy(entry.path(), scratch_.path());
    }
  }
  std::string path() const { return scratch_.path().string(); }
  std::string file(const std::string& name) const { return scratch_ / name; }
  void overwrite(const std::string& name, const std::string& content) const {
    std::ofstream(file(name), std::ios::binary) << content;
  }
  void truncate(const std::string& name, uint64_t size) const { fs::resize_file(file(name), size); }

 private:
  ScratchFolder scratch_;
};

TEST(BadInput, UsageErrorsAreOneLine) {
  expect_refusal({}, "openwork");
  expect_refusal({"dance"}, "dance");
  expect_refusal({"run"}, "MODEL");
  expect_refusal({"run", "openwork-8m", "x", "--frobnicate"}, "--frobnicate");
  expect_refusal({"run", "openwork-8m"}, "exactly one prompt is needed");
  expect_refusal({"run", "openwork-8m", "x", "--tokens", "1"}, "a prompt, 'x', and --tokens together");
  expect_refusal({"run", "openwork-8m", "x", "--dtype", "int4"}, "int4");
  expect_refusal({"run", "openwork-8m", "x", "--device", "toaster"}, "unknown device 'toaster'");
  expect_refusal({"run", "openwork-8m", "x", "--device", "cuda:x"}, "unknown device 'cuda:x'");
  expect_refusal({"bench", "gravity"}, "unknown benchmark 'gravity'");
  expect_refusal({"bench", "attention", "--shape", "1,2,64"}, "--shape");
  expect_refusal({"stats", "openwork-8m", "a b", "--interaction", "0.5", "--no-interactions"}, "excludes");
  expect_refusal({"ablate", "openwork-8m", "--task", "copy", "--of", "mlp", "--only", "L5H1"}, "excludes");
  expect_refusal({"bench", "attention", "--shape", "1,2,0,16"}, "--shape: 0 is not a number");
  expect_refusal({"bench", "attention", "--shape", "1,2,64,16", "--long"}, "--long excludes --shape");
  expect_refusal({"eval", "openwork-8m"}, "--data");
}

TEST(BadInput, UnknownModel) {
  expect_refusal({"run", "openwork-9m", "x"}, "openwork-9m");
}

TEST(BadInput, EmptyOrTooLongPrompt) {
  expect_refusal({"run", "openwork-8m", ""}, "the prompt is empty");
  std::string tokens = "1";
  for (int n = 0; n < 512; ++n) tokens += ",1";
  expect_refusal({"run", "openwork-8m", "--tokens", tokens}, "513 tokens, but the model's context is 512");
  expect_refusal({"run", "openwork-8m", "a b c", "--generate", "600"}, "the model's context is 512");
}

TEST(BadInput, TokensThatAreNone) {
  expect_refusal({"run", "openwork-8m", "--tokens", "1,x"}, "not a list of token ids");
  expect_refusal({"run", "openwork-8m", "--tokens", "1,,2"}, "not a list of token ids");
  expect_refusal({"run", "openwork-8m", "--tokens", "1,2,"}, "not a list of token ids");
  expect_refusal({"run", "openwork-8m", "--tokens", "8192"}, "token id 8192");
  expect_refusal({"run", "openwork-8m", "--tokens", "-1"}, "token id -1");
  expect_refusal({"tokenize", "openwork-8m", "--ids", "99999"}, "token id 99999");
}

TEST(BadInput, TokensFiles) {
  const ScratchFolder scratch;
  std::ofstream(scratch / "flat.json") << "[1, 2]";
  std::ofstream(scratch / "broken.json") << "[[1, 2";
  std::ofstream(scratch / "unequal.json") << "[[1, 2], [3]]";
  expect_refusal({"run", "openwork-8m", "--tokens-file", scratch / "flat.json"}, "not a list of lists");
  expect_refusal({"run", "openwork-8m", "--tokens-file", scratch / "broken.json"}, "broken.json");
  expect_refusal({"run", "openwork-8m", "--tokens-file", scratch / "none.json"}, "none.json");
  expect_refusal({"run", "openwork-8m", "--tokens-file", scratch / "unequal.json", "--save", scratch / "out"},
                 "prompts of 2 and 1 tokens");
  EXPECT_FALSE(fs::exists(scratch / "out"));
}

TEST(BadInput, InvalidUtf8) {
  expect_refusal({"run", "openwork-8m", "abc\xff"}, "UTF-8");
  expect_refusal({"tokenize", "openwork-8m", "\xc0\x80"}, "UTF-8");
  const ScratchFolder scratch;
  std::ofstream(scratch / "text") << "fine so far \xfe";
  expect_refusal({"eval", "openwork-8m", "--data", scratch / "text"}, "UTF-8");
}

TEST(BadInput, TruncatedOrLyingWeights) {
  const DamagedModel cut;
  cut.truncate("model.safetensors", 5000);
  expect_refusal({"run", cut.path(), "--tokens", "1,2"}, "model.safetensors");
  const DamagedModel empty;
  empty.truncate("model.safetensors", 0);
  expect_refusal({"inspect", empty.path()}, "model.safetensors");
  const DamagedModel lying;
  lying.overwrite("model.safetensors", std::string("\xff\xff\xff\xff\xff\xff\xff\x7f{}", 10));
  expect_refusal({"inspect", lying.path()}, "model.safetensors");
}

TEST(BadInput, MissingConfiguration) {
  const DamagedModel model;
  fs::remove(model.file("config.json"));
  expect_refusal({"run", model.path(), "--tokens", "1,2"}, "config.json");
  const DamagedModel broken;
  broken.overwrite("config.json", "{\"model_type\": ");
  expect_refusal({"run", broken.path(), "--tokens", "1,2"}, "config.json");
  const DamagedModel unknown;
  unknown.overwrite("config.json", "{\"model_type\": \"rwkv\"}");
  expect_refusal({"run", unknown.path(), "--tokens", "1,2"}, "unknown architecture 'rwkv'");
}

TEST(BadInput, APickleThatIsMoreThanTensors) {
  const DamagedModel model("sparse_gpt2_published");
  std::string bytes = read_file(model.file("final.pth"));
  const std::string harmless = "torch._utils\n_rebuild_tensor_v2",
                    harmful = "posix\nsystem\nxxxxxxxxxxxxxxxxxx";
  bytes.replace(bytes.find(harmless), harmless.size(), harmful.substr(0, harmless.size()));
  model.overwrite("final.pth", bytes);
  expect_refusal({"run", model.path(), "--tokens", "1,2"}, "final.pth");
}

TEST(BadInput, NoTokenizer) {
  expect_refusal({"run", "tests/data/llama", "some text"}, "no tokenizer.json");
  expect_refusal({"run", "tests/data/llama/model.safetensors", "some text"}, "no tokenizer.json");
}

TEST(BadInput, UnknownActivationOrTensorKind) {
  const ScratchFolder scratch;
  expect_refusal({"run", "openwork-8m", "x y", "--save", scratch / "f", "--what", "thoughts"},
                 "'thoughts' cannot be saved");
  expect_refusal({"run", "openwork-8m", "x y", "--save", scratch / "f", "--cache", "blocks.8.hook_z"},
                 "unknown activation 'blocks.8.hook_z'");
  expect_refusal({"run", "openwork-8m", "x y", "--cache", "hook_embed"}, "nowhere to go");
  EXPECT_TRUE(fs::is_empty(scratch.path()));
}

TEST(BadInput, DataThatIsNone) {
  const ScratchFolder scratch;
  std::ofstream(scratch / "empty.txt").flush();
  std::ofstream(scratch / "short.txt") << "too short for one block";
  std::ofstream(scratch / "broken.xz") << std::string(
      "\xfd"
      "7zXZ\0rubbish",
      13);
  expect_refusal({"eval", "openwork-8m", "--data", scratch / "missing.txt"}, "missing.txt");
  expect_refusal({"eval", "openwork-8m", "--data", scratch / "empty.txt"}, "empty.txt");
  expect_refusal({"eval", "openwork-8m", "--data", scratch / "short.txt", "--context", "128"}, "");
  expect_refusal({"eval", "openwork-8m", "--data", scratch / "broken.xz"}, "broken.xz");
  expect_refusal({"eval", "openwork-8m", "--data", "tests/data/held_out.txt", "--context", "1024"},
                 "the model's context is 512");
}

TEST(BadInput, UnwritableOutput) {
  const ScratchFolder scratch;
  expect_refusal({"run", "openwork-8m", "x", "--json", scratch / "no/such/folder.json"}, "folder.json");
  expect_refusal({"run", "openwork-8m", "x y", "--save", scratch.path().string()}, scratch.path().string());
}

TEST(BadInput, AnOutputDoesNotReplaceAnInput) {
  const ScratchFolder scratch;
  const std::string text = "tests/data/held_out.txt";
  fs::copy("tests/data/gpt2", scratch.path() / "model", fs::copy_options::recursive);
  fs::copy(text, scratch / "text.txt");
  const std::string weights = scratch / "model/model.safetensors", before = read_file(weights);
  expect_refusal({"run", scratch / "model", "--tokens", "1,2", "--save", weights},
                 "--save would replace what MODEL reads");
  expect_refusal({"eval", "openwork-8m", "--json", scratch / "text.txt", "--data", scratch / "text.txt"},
                 "--json would replace what --data reads");
  expect_refusal({"stats", "openwork-8m", "--prompts", scratch / "text.txt", "--csv", scratch / "./text.txt"},
                 "--csv would replace what --prompts reads");
  EXPECT_EQ(read_file(weights), before);
  EXPECT_EQ(read_file(scratch / "text.txt"), read_file(text));
  expect_refusal({"run", "openwork-8m", "x", "--save", "-"}, "only --json writes to standard output");
}

TEST(BadInput, AFullDiskIsAFailureAndLeavesNothing) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "no /dev/full on this system";
  expect_refusal({"run", "openwork-8m", "x y", "--quiet", "--json", "/dev/full"}, "/dev/full", 1);
  expect_refusal({"run", "openwork-8m", "x y", "--quiet", "--save", "/dev/full"}, "/dev/full", 1);
}

TEST(BadInput, AGpuThatIsNotHere) {
  if (fs::exists("/dev/nvidia0")) GTEST_SKIP() << "this machine has a GPU";
  expect_refusal({"run", "openwork-8m", "x", "--device", "cuda"}, "device 'cuda' is not here");
}

TEST(BadInput, OptionsThatWouldSayNothingAreRefused) {
  const ScratchFolder scratch;
  const std::string text = "tests/data/held_out.txt", long_text(20000, 'a');
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"heads", "openwork-8m", "a b", "--threshold", "0.5"}, "--threshold without a task"},
      {{"heads", "openwork-8m", "a b", "--ablation", "zero"}, "--ablation without a task"},
      {{"heads", "openwork-8m", "a b", "--layers", ""}, "name at least one"},
      {{"scatter", "openwork-8m", "a b", "--heads", ","}, "name at least one"},
      {{"ablate", "openwork-8m", "--task", "copy", "--only", ""}, "name at least one"},
      {{"eval", "openwork-8m", "--suite", "--tests", " "}, "name at least one"},
      {{"circuit", "openwork-8m", "--task", "copy", "--heads", ""}, "name at least one"},
      {{"circuit", "openwork-8m", "--task", "copy", "--agreement"}, "--agreement with exact effects"},
      {{"prune", "openwork-8m", "--data", text, "--out", scratch / "pruned", "--prompts", "3"},
       "--prompts requires --task"},
      {{"sparsify", "openwork-8m", "--data", text, "--out", scratch / "sparse", "--head-penalty-form", "sqrt",
        "--head-penalty-knee", "1e-4"},
       "a root has no knee"},
      {{"serve", "openwork-8m", "--port", "0", "--prompt", ""}, "empty"},
      {{"serve", "openwork-8m", "--port", "0", "--prompt", long_text}, "context"},
  };
  for (const auto& [arguments, message] : cases) expect_refusal(arguments, message);
  EXPECT_FALSE(fs::exists(scratch / "pruned"));
}

}  // namespace
}  // namespace openwork
