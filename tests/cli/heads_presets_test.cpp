// The presets of heads that make whole pictures: the 16 x 16 sample of a model with many heads beside the
// heads that a sparse one retained, and the heads that a task needs, by importance.
#include <algorithm>
#include <cmath>
#include <fstream>

#include "cli/command.h"
#include "io/safetensors.h"

namespace openwork {
namespace {

using nlohmann::json;

constexpr int64_t kLayers = 32, kHeads = 32, kWidth = 64, kVocabulary = 40, kContext = 16;

// A GPT-2 of 1,024 heads, two numbers wide each, with made-up weights. Where it is gated, the gates of even
// heads are open everywhere and those of odd ones nowhere.
class ManyHeads {
 public:
  explicit ManyHeads(bool gated) {
    json config = {{"model_type", "gpt2"}, {"n_layer", kLayers},        {"n_head", kHeads},
                   {"n_embd", kWidth},     {"vocab_size", kVocabulary}, {"n_positions", kContext}};
    if (gated) config["attention_gate"] = {{"kind", "score"}, {"version", 1}};
    std::ofstream(scratch_ / "config.json") << config;
    add("transformer.wte.weight", {kVocabulary, kWidth});
    add("transformer.wpe.weight", {kContext, kWidth});
    for (int64_t n = 0; n < kLayers; ++n) add_layer("transformer.h." + std::to_string(n) + ".", gated);
    add_norm("transformer.ln_f");
    std::vector<OutputTensor> tensors;
    for (const Entry& entry : entries_)
      tensors.push_back({entry.name, DType::kF32, entry.shape, bytes_of(entry.values)});
    write_safetensors(scratch_ / "model.safetensors", tensors);
  }
  std::string path() const { return scratch_.path().string(); }

 private:
  struct Entry {
    std::string name;
    std::vector<int64_t> shape;
    std::vector<float> values;
  };

  void add(const std::string& name, std::vector<int64_t> shape, float offset = 0) {
    int64_t count = 1;
    for (const int64_t size : shape) count *= size;
    std::vector<float> values(static_cast<size_t>(count));
    for (float& value : values) value = offset + 0.3f * std::sin(1.7f * static_cast<float>(++drawn_ % 9973));
    entries_.push_back({name, std::move(shape), std::move(values)});
  }
  void add_norm(const std::string& name) {
    add(name + ".weight", {kWidth}, 1);
    add(name + ".bias", {kWidth});
  }
  void add_linear(const std::string& name, int64_t in, int64_t out) {
    add(name + ".weight", {in, out});
    add(name + ".bias", {out});
  }
  void add_layer(const std::string& prefix, bool gated) {
    add_norm(prefix + "ln_1");
    add_linear(prefix + "attn.c_attn", kWidth, 3 * kWidth);
    add_linear(prefix + "attn.c_proj", kWidth, kWidth);
    add_norm(prefix + "ln_2");
    add_linear(prefix + "mlp.c_fc", kWidth, 4 * kWidth);
    add_linear(prefix + "mlp.c_proj", 4 * kWidth, kWidth);
    if (!gated) return;
    std::vector<float> biases;
    for (int64_t head = 0; head < kHeads; ++head) biases.push_back(head % 2 == 0 ? 1e6f : -1e6f);
    entries_.push_back({prefix + "attn.gate_bias", {kHeads}, biases});
  }

  ScratchFolder scratch_;
  std::vector<Entry> entries_;
  int64_t drawn_ = 0;
};

std::vector<std::string> shown_heads(const json& model) {
  std::vector<std::string> names;
  for (const json& head : model["shown"]) names.push_back(head["head"]);
  return names;
}

TEST(SamplePreset, ShowsSixteenBySixteenBesideTheRetainedHeadsInRowsOfSixteen) {
  const ScratchFolder scratch;
  const ManyHeads dense(false), sparse(true);
  const ProgramResult result =
      run_openwork({"heads", dense.path(), sparse.path(), "--tokens", "3,1,4,1,5,9,2,6", "--preset", "sample",
                    "--out", scratch / "sample.svg", "--json", "-", "--quiet"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const json models = result.json()["models"];
  std::vector<std::string> sample, retained;
  for (int64_t layer = 0; layer < kLayers; ++layer) {
    for (int64_t head = 0; head < kHeads; ++head) {
      const std::string name = "L" + std::to_string(layer) + "H" + std::to_string(head);
      if (layer % 2 == 0 && head < 16) sample.push_back(name);
      if (head % 2 == 0) retained.push_back(name);
    }
  }
  EXPECT_EQ(sample.size(), 256u);
  EXPECT_EQ(sample.back(), "L30H15");
  EXPECT_EQ(shown_heads(models[0]), sample);
  EXPECT_EQ(models[0]["heads"], 1024);
  EXPECT_EQ(models[0]["blank"].size(), 0u);
  EXPECT_EQ(shown_heads(models[1]), retained);
  EXPECT_EQ(models[1]["blank"].size(), 512u);
  EXPECT_EQ(result.json()["columns"], 16);
}

TEST(SamplePreset, ShowsEveryHeadOfASmallModel) {
  const ScratchFolder scratch;
  const ProgramResult result = run_openwork({"heads", "openwork-8m", "a b c", "--preset", "sample", "--out",
                                             scratch / "sample.svg", "--json", "-", "--quiet"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.json()["models"][0]["shown"].size(), 64u);
  EXPECT_EQ(result.json()["columns"], 8);
}

TEST(TaskPreset, ShowsTheHeadsTheTaskNeedsByImportanceAndCountsThem) {
  const ScratchFolder scratch;
  const ProgramResult result = run_openwork(
      {"heads", "openwork-8m", "openwork-8m-sparse", "--preset", "task", "--task", "copy", "--prompts", "2",
       "--out", scratch / "task.svg", "--json", scratch / "task.json", "--quiet"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const json drawn = json::parse(read_file(scratch / "task.json"));
  ASSERT_EQ(drawn["models"].size(), 2u);
  for (const json& model : drawn["models"]) {
    const auto needed = model["heads_at_threshold"].get<size_t>();
    EXPECT_EQ(model["shown"].size(), needed);
    EXPECT_LT(needed, 64u);
    EXPECT_GE(model["faithfulness"].get<double>(), 0.9);
    std::vector<double> effects;
    for (const json& head : model["shown"]) effects.push_back(head["effect"]);
    EXPECT_TRUE(std::is_sorted(effects.rbegin(), effects.rend()));
    EXPECT_GT(effects.front(), 0.5);
    // What the caption of its block says is printed too.
    EXPECT_NE(result.out.find(model["name"].get<std::string>() + ": " + std::to_string(needed) +
                              " of 64 heads are needed for 90 % of the copy task"),
              std::string::npos)
        << result.out;
  }
  EXPECT_EQ(shown_heads(drawn["models"][0]).front(), "L5H6");  // the previous-token head
  EXPECT_EQ(drawn["protocol"]["task"]["prompts"], 2);
  EXPECT_TRUE(read_file(scratch / "task.svg").starts_with("<?xml"));
}

void find_copy_circuit(const std::string& prompts, const std::string& file) {
  const ProgramResult result = run_openwork(
      {"circuit", "openwork-8m", "--task", "copy", "--prompts", prompts, "--json", file, "--quiet"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
}

TEST(TaskPreset, DrawsACircuitThatWasFoundBefore) {
  const ScratchFolder scratch;
  const std::string circuit = scratch / "circuit.json", out = scratch / "task.svg";
  find_copy_circuit("2", circuit);
  const auto draw = [&](std::vector<std::string> more) {
    std::vector<std::string> arguments = {"heads", "openwork-8m", "--preset", "task", "--task", "copy",
                                          "--out", out,           "--json",   "-",    "--quiet"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_openwork(arguments);
  };
  const ProgramResult found = draw({"--prompts", "2"}), read = draw({"--prompts", "2", "--circuit", circuit});
  ASSERT_EQ(read.exit_code, 0) << read.err;
  EXPECT_EQ(shown_heads(read.json()["models"][0]), shown_heads(found.json()["models"][0]));
  EXPECT_EQ(read.json()["models"][0]["heads_at_threshold"], found.json()["models"][0]["heads_at_threshold"]);
  const ProgramResult other = draw({"--prompts", "3", "--circuit", circuit});
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_NE(other.err.find("prompts is 2 there, 3 here"), std::string::npos) << other.err;
  const ProgramResult drawn_again = draw({"--prompts", "2", "--seed", "1", "--circuit", circuit});
  EXPECT_EQ(drawn_again.exit_code, 2);
  EXPECT_NE(drawn_again.err.find("task_seed is 0 there, 1 here"), std::string::npos) << drawn_again.err;
  std::ofstream(circuit) << "{}";
  EXPECT_NE(draw({"--prompts", "2", "--circuit", circuit}).err.find("not a circuit of heads"),
            std::string::npos);
}

TEST(TaskPreset, DrawsNoHeadWhereNoneOfThoseAskedForIsNeeded) {
  const ScratchFolder scratch;
  const ProgramResult result =
      run_openwork({"heads", "openwork-8m", "--preset", "task", "--task", "copy", "--prompts", "1", "--heads",
                    "L0H0", "--out", scratch / "task.png", "--json", "-", "--quiet"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.json()["models"][0]["shown"].size(), 0u);
  EXPECT_TRUE(read_file(scratch / "task.png").starts_with("\x89PNG"));
}

TEST(TaskPreset, RefusesACircuitThatWasChangedByHand) {
  const ScratchFolder scratch;
  const std::string circuit = scratch / "circuit.json", out = scratch / "task.svg";
  find_copy_circuit("1", circuit);
  const json found = json::parse(read_file(circuit));
  const std::vector<std::string> draw = {"heads", "openwork-8m", "--task", "copy",  "--prompts",
                                         "1",     "--circuit",   circuit,  "--out", out};
  const auto refuse = [&](const std::string& pointer, const json& value, const std::string& message) {
    json changed = found;
    changed[json::json_pointer(pointer)] = value;
    std::ofstream(circuit) << changed;
    expect_refusal(draw, message);
  };
  refuse("/models/0/heads_at_threshold", -1, "'heads_at_threshold' is -1");
  refuse("/models/0/heads_at_threshold", 500, "'heads_at_threshold' is 500");
  refuse("/models/0/heads_at_threshold", 2.5, "'heads_at_threshold' is 2.5");
  refuse("/models/0/order", {"L5H6", "L6H0"}, "'order' has 2 of the model's 64 heads");
  refuse("/models/0/order/3", "L5H6:8<-5", "'L5H6:8<-5' in 'order' is no head of the model");
  refuse("/models/0/order/3", "m3", "'m3' in 'order' is no head of the model");
  refuse("/models/0/order/3", "L8H0", "'L8H0' in 'order' is no head of the model");
  refuse("/models/0/order/3", found["models"][0]["order"][0], " twice in 'order'");
  refuse("/protocol/threshold", 7e9, "'threshold' is 7000000000.0");
  json none = found;
  none["models"][0]["heads_at_threshold"] = 0, none["protocol"]["threshold"] = 0;  // as --threshold 0 writes
  std::ofstream(circuit) << none;
  std::vector<std::string> empty = draw;
  empty.insert(empty.end(), {"--preset", "task"});
  EXPECT_EQ(run_openwork(empty).exit_code, 0);
  for (const auto& [option, value] : {std::pair("--threshold", "0.5"), std::pair("--ablation", "zero")}) {
    std::vector<std::string> both = draw;
    both.insert(both.end(), {option, value});
    expect_refusal(both, std::string(option) + " with --circuit");
  }
}

TEST(TaskPreset, NeedsMoreHeadsForMoreOfTheTask) {
  const ScratchFolder scratch;
  const auto needed = [&](const std::string& threshold) {
    const ProgramResult result =
        run_openwork({"heads", "openwork-8m", "--preset", "task", "--prompts", "1", "--threshold", threshold,
                      "--out", scratch / "task.png", "--json", "-", "--quiet"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.json()["models"][0]["shown"].size();
  };
  EXPECT_LT(needed("0.3"), needed("0.95"));
}

TEST(TaskPreset, TakesNoOtherPromptsBesideTheTask) {
  const ScratchFolder scratch;
  const std::string out = scratch / "task.svg";
  expect_refusal({"heads", "openwork-8m", "--preset", "task", "--tokens", "1,2", "--out", out},
                 "a task and other prompts together");
  expect_refusal({"heads", "openwork-8m", "--preset", "task", "--prompts", "few", "--out", out},
                 "'few' is no number of prompts");
  expect_refusal({"heads", "openwork-8m", "--preset", "prompt", "--task", "copy", "--out", out},
                 "a task and a prompt's edges together");
}

}  // namespace
}  // namespace openwork
