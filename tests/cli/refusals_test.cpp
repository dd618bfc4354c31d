// Small files that would take all memory or time are refused within 2 s of work and 200 MB, and numbers that are none,
// results that cannot be written and answers that are not finite are never a success.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <zstd.h>

#include "cli/training_command.h"
#include "io/safetensors.h"
#include "sanitized.h"

namespace openwork {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using Words = std::vector<std::string>;

// expect_refusal, and what the refusal may cost: the program with torch opened has 130 MB of its own.
void expect_cheap_refusal(const ScratchFolder& scratch, const Words& arguments, const std::string& message) {
  const pid_t child = start_openwork(arguments, scratch / "cheap");
  int status = 0;
  rusage usage{};
  wait4(child, &status, 0, &usage);
  const std::string err = read_file(scratch / "cheap.err");
  EXPECT_EQ(WEXITSTATUS(status), 2) << err;
  EXPECT_THAT(err, HasSubstr(message));
  EXPECT_EQ(std::count(err.begin(), err.end(), '\n'), 1) << err;
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  EXPECT_LT(seconds(usage.ru_utime) + seconds(usage.ru_stime), 2 * kStretch) << err;
  EXPECT_LT(usage.ru_maxrss, 200 * 1024 * kStretch) << err;  // KB
}

// A copy of a small model, with one file replaced.
std::string copy_model(const ScratchFolder& scratch, const std::string& fixture) {
  const fs::path folder = scratch.path() / fixture;
  fs::create_directories(folder);
  for (const auto& entry : fs::directory_iterator(fs::path("tests/data") / fixture)) {
    if (entry.path().filename() != "golden.safetensors") fs::copy(entry.path(), folder);
  }
  return folder.string();
}

TEST(SmallFile, AConfigurationOfABillionLayers) {
  for (const char* key : {"n_layer", "n_head", "n_embd", "vocab_size", "n_positions"}) {
    const ScratchFolder scratch;
    const std::string model = copy_model(scratch, "gpt2");
    nlohmann::json config = nlohmann::json::parse(read_file(model + "/config.json"));
    config[key] = 1000000000;
    std::ofstream(model + "/config.json") << config.dump();
    expect_cheap_refusal(scratch, {"run", model, "--tokens", "1,2"}, model);
    // Positions and tokens are only held against the tensors, which inspect does not open.
    if (std::string_view(key).starts_with("n_") && std::string_view(key) != "n_positions")
      expect_cheap_refusal(scratch, {"inspect", model}, model);
  }
}

TEST(SmallFile, ANormalizerThatMakesTextsGrow) {
  const ScratchFolder scratch;
  nlohmann::json tokenizer = nlohmann::json::parse(read_file("tests/data/text/small_tokenizer.json"));
  nlohmann::json steps = nlohmann::json::array();
  for (int n = 0; n < 12; ++n)
    steps.push_back({{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", "aaaaaaaaaa"}});
  tokenizer["normalizer"] = {{"type", "Sequence"}, {"normalizers", steps}};
  std::ofstream(scratch / "tokenizer.json") << tokenizer.dump();
  expect_cheap_refusal(scratch, {"tokenize", scratch / "tokenizer.json", "banana"},
                       "makes a text longer than");
}

TEST(SmallFile, AHeaderLargerThanItsTensors) {
  const ScratchFolder scratch;
  std::string header = "{";
  for (int n = 0; header.size() < (size_t{95} << 20); ++n)
    header += (n ? "," : "") + ("\"t" + std::to_string(n)) +
              R"(":{"dtype":"F32","shape":[0],"data_offsets":[0,0]})";
  header += "}";
  const uint64_t size = header.size();
  std::ofstream file(scratch / "model.safetensors", std::ios::binary);
  file.write(reinterpret_cast<const char*>(&size), sizeof size);
  file << header;
  file.close();
  expect_cheap_refusal(scratch, {"inspect", scratch / "model.safetensors"}, "bytes of tensors");
}

void write_packed(const fs::path& path, const std::string& text) {
  std::string packed(ZSTD_compressBound(text.size()), '\0');
  packed.resize(ZSTD_compress(packed.data(), packed.size(), text.data(), text.size(), 1));
  std::ofstream(path, std::ios::binary) << packed;
}

// A model's folder with descriptions that unpack without end among its transcoders.
fs::path write_endless_descriptions(const ScratchFolder& scratch) {
  const fs::path model = scratch.path() / "model", folder = model / "transcoders";
  fs::copy("models/openwork-8m", model, fs::copy_options::recursive);
  const std::string text(size_t{1} << 30, ' ');
  write_packed(folder / "features.json.zst", text);
  return model;
}

TEST(SmallFile, DescriptionsThatUnpackWithoutEnd) {
  const ScratchFolder scratch;
  const fs::path model = write_endless_descriptions(scratch);
  const std::string folder = model / "transcoders", name = model.string();
  for (const Words& words :
       {Words{"trace", "openwork-8m", "The cat", "--transcoder", folder, "--graph", scratch / "graph.json"},
        Words{"features", "openwork-8m", "--transcoder", folder}, Words{"serve", name, "--port", "0"},
        Words{"compare", name, name, "--out", scratch / "report"}}) {
    Words quiet = words;
    quiet.insert(quiet.end(), {"--device", "cpu", "--quiet"});
    expect_cheap_refusal(scratch, quiet, "it unpacks to more than");
  }
  EXPECT_FALSE(fs::exists(scratch / "report"));
}

// Some hundred bytes that unpack to eight million, each third of them a list.
TEST(SmallFile, DescriptionsOfMillionsOfLayers) {
  const ScratchFolder scratch;
  const fs::path folder = scratch.path() / "transcoders";
  fs::copy("models/openwork-8m/transcoders", folder);
  std::string text = R"({"version":1,"model":"","model_sha256":"","tokens":1,"layers":[[])";
  while (text.size() < 8000000) text += ",[]";
  text += "]}";
  write_packed(folder / "features.json.zst", text);
  expect_cheap_refusal(scratch,
                       {"trace", "openwork-8m", "The cat", "--transcoder", folder.string(), "--quiet"},
                       "more than such a file has");
}

TEST(SmallFile, GraphsThatUnpackWithoutEndOrToMillionsOfLists) {
  const ScratchFolder scratch;
  const Words words = {"trace", "--from-graph", scratch / "g.json.zst", "--out", scratch / "g.svg"};
  write_packed(scratch / "g.json.zst", std::string(size_t{1} << 30, ' '));
  expect_cheap_refusal(scratch, words, "it unpacks to more than");
  std::string text = R"({"metadata":{},"nodes":[[])";
  while (text.size() < 8000000) text += ",[]";
  write_packed(scratch / "g.json.zst", text + "]}");
  expect_cheap_refusal(scratch, words, "more than such a file has");
  EXPECT_FALSE(fs::exists(scratch / "g.svg"));
}

// The weights are not there, and nobody has missed them yet.
TEST(Descriptions, ThatAreBrokenAreRefusedBeforeTheModelIsOpened) {
  const ScratchFolder scratch;
  const fs::path model = write_endless_descriptions(scratch);
  fs::remove(model / "model.safetensors");
  const std::string name = model.string();
  for (const Words& words :
       {Words{"trace", "openwork-8m", name, "The cat"}, Words{"serve", "openwork-8m", name},
        Words{"features", name}, Words{"compare", "openwork-8m", name}})
    expect_refusal(words, "it unpacks to more than");
  std::ofstream(model / "transcoders/config.yaml") << "model_kind: none\n";
  expect_refusal({"trace", name, "The cat"}, "model_kind 'none'");
}

TEST(Results, ThatCannotBeWrittenAreAFailure) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "no /dev/full on this system";
  const ScratchFolder scratch;
  for (const Words& words : {Words{"models"}, Words{"tokenize", "openwork-8m", "x", "--json", "-"},
                             Words{"run", "openwork-8m", "x", "--device", "cpu"}, Words{"--help"}}) {
    const pid_t child = fork();
    if (child == 0) {
      if (!freopen("/dev/full", "w", stdout) || !freopen((scratch / "err").c_str(), "w", stderr)) _exit(126);
      std::vector<char*> argv = {strdup("openwork")};
      for (const std::string& word : words) argv.push_back(strdup(word.c_str()));
      argv.push_back(nullptr);
      execv(program_path().c_str(), argv.data());
      _exit(127);
    }
    EXPECT_EQ(await(child), 1) << words[0];
    expect_one_line(read_file(scratch / "err"), "the results could not be written");
  }
}

// The model's weights as `change` makes them, called with each tensor's name, its shape and its numbers.
void change_weights(
    const ScratchFolder& scratch, const std::string& model,
    const std::function<void(const std::string&, const std::vector<int64_t>&, std::vector<float>&)>& change) {
  const auto file = open_weights(model);
  std::vector<std::vector<float>> values;
  std::vector<OutputTensor> tensors;
  for (const TensorEntry& entry : file->entries()) {
    std::vector<float>& numbers = values.emplace_back(static_cast<size_t>(entry.element_count()));
    read_f32(entry, numbers);
    change(entry.name, entry.shape, numbers);
  }
  for (size_t n = 0; n < values.size(); ++n)
    tensors.push_back({file->entries()[n].name, DType::kF32, file->entries()[n].shape, bytes_of(values[n])});
  fs::remove(model + "/model.safetensors");
  write_safetensors(scratch / "changed.safetensors", tensors, {{"format", "pt"}});
  fs::rename(scratch / "changed.safetensors", model + "/model.safetensors");
}

TEST(Results, ThatAreNotFiniteAreRefused) {
  const ScratchFolder scratch;
  const std::string model = copy_model(scratch, "gpt2");
  // Finite weights whose products are not.
  change_weights(scratch, model, [](const std::string& name, const auto&, std::vector<float>& numbers) {
    if (!name.ends_with("wte.weight")) return;
    for (float& number : numbers) number = 3e38F * (number > 0 ? 1 : -1);
  });
  std::ofstream(scratch / "ids.json") << "[[1, 2, 3]]";
  expect_refusal({"run", model, "--tokens", "1,2,3", "--device", "cpu", "--quiet"}, "not finite");
  expect_refusal({"run", model, "--tokens-file", scratch / "ids.json", "--save", scratch / "out", "--device",
                  "cpu", "--quiet"},
                 "not finite");
  EXPECT_FALSE(fs::exists(scratch.path() / "out"));
  for (const char* verb : {"heads", "stats", "scatter", "trace"}) {
    expect_refusal({verb, model, "--tokens", "1,2,3", "--device", "cpu", "--quiet"}, "not finite");
  }
}

// The model's own pass is as it was, but for large logits: values are small, and what reads them large. The way back from the
// answer meets the large ones first.
TEST(Results, EffectsThatAreNotFiniteAreNoGraph) {
  const ScratchFolder scratch;
  const std::string model = copy_model(scratch, "gpt2");
  change_weights(scratch, model,
                 [](const std::string& name, const std::vector<int64_t>& shape, std::vector<float>& numbers) {
                   const auto width = static_cast<size_t>(shape.back());
                   for (size_t n = 0; n < numbers.size(); ++n) {
                     if (name.find("attn.c_attn.") != name.npos && n % width >= width / 3 * 2)
                       numbers[n] *= 1e-22F;
                     if (name.ends_with("attn.c_proj.weight") || name.ends_with("ln_f.weight"))
                       numbers[n] *= 1e22F;
                   }
                 });
  EXPECT_EQ(run_openwork({"run", model, "--tokens", "1,2,3", "--device", "cpu", "--quiet"}).exit_code, 0);
  expect_refusal({"trace", model, "--tokens", "1,2,3", "--device", "cpu", "--quiet", "--graph",
                  scratch / "g.json", "--out", scratch / "g.svg"},
                 "are not finite");
  EXPECT_FALSE(fs::exists(scratch / "g.json"));
  EXPECT_FALSE(fs::exists(scratch / "g.svg"));
}

TEST(Numbers, ThatAreNoneAreRefused) {
  const ScratchFolder scratch;
  write_small_model(scratch);
  expect_refusal({"tokenize", "openwork-8m", "x", "--seed", "-1"}, "'-1' is no seed");
  expect_refusal({"tokenize", "openwork-8m", "x", "--seed", "12345678901234567890123"}, "is no seed");
  expect_refusal({"run", "openwork-8m", "x", "--temperature", "nan"}, "nan");
  expect_refusal({"heads", "openwork-8m", "x", "--threshold", "NaN", "--out", scratch / "f.svg"}, "NaN");
  expect_refusal(small_run(scratch, "out", {"--lr", "nan"}), "nan");
  expect_refusal(small_run(scratch, "out", {"--lr", "0"}), "0 is not a number from 1e-12 to 10");
  expect_refusal(small_run(scratch, "out", {"--target-loss", "inf"}), "inf");
  EXPECT_FALSE(fs::exists(scratch.path() / "out"));
  EXPECT_EQ(run_openwork({"tokenize", "openwork-8m", "nan", "--seed", "18446744073709551615"}).exit_code, 0);
}

TEST(Output, PlacesAreCheckedBeforeAnyWork) {
  const ScratchFolder scratch;
  const std::string none = scratch / "none/x.json";
  std::ofstream(scratch / "file") << "in the way";
  // The model is not there either: the place is what is said first.
  for (const Words& words :
       {Words{"eval", "nowhere", "--data", "tests/data/held_out.txt", "--json", none},
        Words{"compare", "nowhere", "nowhere", "--json", none},
        Words{"circuit", "nowhere", "--task", "copy", "--out", none},
        Words{"stats", "nowhere", "x", "--csv", none}, Words{"trace", "nowhere", "x", "--graph", none},
        Words{"run", "nowhere", "x", "--save", none}, Words{"tokenize", "nowhere", "x", "--json", none},
        Words{"transcode", "nowhere", "--measure", "x", "--data", "tests/data/held_out.txt", "--out",
              none}}) {
    expect_refusal(words, "no such folder; " + none);
  }
  expect_refusal({"compare", "nowhere", "nowhere", "--out", scratch / "file/below"}, "is not a folder");
  expect_refusal({"compare", "openwork-8m", "openwork-8m-sparse", "--task", "copy", "ioi", "copy", "--out",
                  scratch / "o"},
                 "two tasks are called 'copy'");
  expect_refusal({"tokenize", "nowhere", "x", "--json", scratch.path().string()},
                 "a folder where an output file");
  EXPECT_FALSE(fs::exists(scratch.path() / "none"));
  // What is measured is drawn into a file: no other lies in it.
  const std::string curves = scratch / "curves.svg";
  expect_refusal({"transcode", "nowhere", "--measure", "x", "--data", "tests/data/held_out.txt", "--out",
                  curves, "--json", curves + "/x.json"},
                 "no such folder; " + curves + "/x.json");
  const std::string same = scratch / "same.svg";
  expect_refusal({"heads", "nowhere", "x", "--out", same, "--json", same}, "are the same");
}

// Said though the model, or one of the models, is not there: nothing was opened for it.
TEST(Names, AreCheckedBeforeAnyModelIsOpened) {
  const ScratchFolder scratch;
  for (const Words& words :
       {Words{"eval", "nowhere", "--data", "nothing.txt"},
        Words{"prune", "nowhere", "--data", "nothing.txt", "--out", scratch / "o"},
        Words{"compare", "nowhere", "nowhere", "--data", "nothing.txt", "--out", scratch / "o"},
        Words{"sparsify", "nowhere", "--data", "nothing.txt", "--out", scratch / "o"}})
    expect_refusal(words, "there is no such data file; nothing.txt");
  for (const Words& words :
       {Words{"ablate", "nowhere", "--task", "nope"}, Words{"circuit", "nowhere", "--task", "nope"},
        Words{"heads", "nowhere", "--task", "nope", "--out", scratch / "f.svg"},
        Words{"trace", "nowhere", "--interventions", "--task", "nope"},
        Words{"compare", "tests/data/gpt2", "tests/data/gpt2", "--task", "nope"}})
    expect_refusal(words, "no task 'nope'");
  // A weight that is not finite is found when the model is opened.
  const std::string model = copy_model(scratch, "gpt2");
  std::fstream weights(model + "/model.safetensors", std::ios::binary | std::ios::in | std::ios::out);
  weights.seekp(-4, std::ios::end).write("\xff\xff\xff\xff", 4);
  weights.close();
  for (const char* verb : {"heads", "scatter"})
    expect_refusal({verb, model, "--tokens", "1,2", "--heads", "L99H0", "--out", scratch / "f.svg"},
                   "no head L99H0");
  expect_refusal({"heads", model, "--tokens", "1,2", "--out", scratch / "f.svg"}, "not finite");
  EXPECT_FALSE(fs::exists(scratch / "o"));
}

TEST(Json, EveryResultCarriesTheCommonProtocol) {
  for (const Words& words : {Words{"tokenize", "openwork-8m", "x", "--json", "-"},
                             Words{"inspect", "tests/data/gpt2", "--json", "-"}}) {
    const ProgramResult result = run_openwork(words);
    ASSERT_EQ(result.exit_code, 0) << result.err;
    for (const char* key : {"program", "device", "dtype", "bos", "threads", "seed"})
      EXPECT_TRUE(result.json().at("protocol").contains(key)) << words[0] << " " << key;
  }
  const ScratchFolder scratch;
  write_small_model(scratch);
  const ProgramResult run =
      run_openwork(small_run(scratch, "out", {"--steps", "1", "--quiet", "--json", "-"}));
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const nlohmann::json protocol = run.json().at("protocol");
  EXPECT_EQ(protocol.at("model").at("sha256").get<std::string>().size(), 64u);
  EXPECT_EQ(protocol.at("data").at(0).at("sha256").get<std::string>().size(), 64u);
}

// Whether the process takes SIGINT itself by now.
bool takes_interrupt(pid_t process) {
  const std::string status = read_file("/proc/" + std::to_string(process) + "/status");
  const size_t at = status.find("SigCgt:");
  return at != std::string::npos &&
         (std::stoull(status.substr(at + 7), nullptr, 16) & (1U << (SIGINT - 1))) != 0;
}

TEST(Signals, AnInterruptIsOneLineAnd130) {
  const ScratchFolder scratch;
  write_documents(scratch);
  Words words = {"eval", "openwork-8m", "--context", "64", "--device", "cpu", "--threads", "1", "--data"};
  words.insert(words.end(), 200, scratch / "documents.jsonl");
  const pid_t child = start_openwork(words, scratch / "eval");
  while (!takes_interrupt(child) && kill(child, 0) == 0) usleep(10000);
  usleep(300000);
  kill(child, SIGINT);
  EXPECT_EQ(await(child), 130);
  EXPECT_THAT(read_file(scratch / "eval.err"), HasSubstr("openwork: interrupted\n"));
}

// Both make their folder before the work, to be sure of it.
TEST(Signals, AnInterruptLeavesNoEmptyFolder) {
  const ScratchFolder scratch;
  fs::create_directories(scratch / "made");
  for (const Words& words :
       {Words{"compare"}, Words{"stats", "openwork-8m", "openwork-8m-sparse", "--prompts", "sample"}}) {
    Words command = words;
    command.insert(command.end(), {"--out", scratch / "made/a/b", "--threads", "1"});
    const pid_t child = start_openwork(command, scratch / "run");
    while (!fs::exists(scratch / "made/a/b") && kill(child, 0) == 0) usleep(10000);
    usleep(100000);
    kill(child, SIGTERM);
    EXPECT_EQ(await(child), 143) << words[0];
    EXPECT_TRUE(fs::is_empty(scratch / "made")) << words[0];
  }
}

}  // namespace
}  // namespace openwork
