// Files that need torch to be read, changed at random places: each reads as something, or is refused as bad input in
// one line. (The formats that need no torch have fuzzers, tests/fuzz.) OPENWORK_MUTATIONS=N tries more of each.
#include <gtest/gtest.h>
#include <zstd.h>

#include <cstdlib>

#include "base/error.h"
#include "base/philox.h"
#include "io/test_files.h"
#include "model/adapter.h"
#include "model/delta.h"
#include "model/load.h"
#include "train/starting_point.h"
#include "train/weights.h"
#include "transcode/descriptions.h"
#include "transcode/transcoder_files.h"

namespace openwork {
namespace {

namespace fs = std::filesystem;

// Draws that are the same on every machine.
class Draws {
 public:
  explicit Draws(uint64_t seed) : seed_(seed) {}
  size_t below(size_t limit) { return static_cast<size_t>(mix_seed(seed_, count_++) % limit); }

 private:
  uint64_t seed_, count_ = 0;
};

// A few bytes flipped, taken out, doubled, or replaced by what numbers and structures break on.
std::string mutate(std::string text, Draws& draws) {
  static const std::vector<std::string> kTokens = {
      "null", "-1", "1e999", "[]", "{}", "99999999999999999999", "\"\"", "0.5", "\xff",
      "true", ",",  ":",     "\n", "-"};
  for (size_t times = 1 + draws.below(4); times > 0 && !text.empty(); --times) {
    const size_t at = draws.below(text.size());
    switch (draws.below(4)) {
      case 0:
        text[at] = static_cast<char>(text[at] ^ (1 << draws.below(8)));
        break;
      case 1:
        text.erase(at, 1 + draws.below(16));
        break;
      case 2:
        text.insert(at, text.substr(at, 1 + draws.below(32)));
        break;
      default:
        text.replace(at, std::min(draws.below(8), text.size() - at), kTokens[draws.below(kTokens.size())]);
    }
  }
  return text;
}

// `read` on many changes of the file, which it finds in its place.
void try_mutations(const fs::path& file, uint64_t seed, const std::function<void()>& read) {
  const char* const given = std::getenv("OPENWORK_MUTATIONS");
  const int count = given ? std::atoi(given) : 150;
  const std::string whole = read_whole(file);
  Draws draws(seed);
  int taken = 0;
  for (int n = 0; n < count; ++n) {
    const std::string changed = mutate(whole, draws);
    std::ofstream(file, std::ios::binary) << changed;
    try {
      read();
      ++taken;
    } catch (const Error& error) {
      ASSERT_EQ(error.kind(), Error::Kind::kInput) << n << ": " << error.what();
    } catch (const nlohmann::json::exception&) {
      // The program says in one line that a value is not of the kind wanted.
    } catch (const std::exception& error) {
      FAIL() << file << " change " << n << ": " << error.what();
    }
  }
  EXPECT_LT(taken, count) << "nothing was refused";
  std::ofstream(file, std::ios::binary) << whole;
  read();
}

TEST(ChangedFile, AnAdapter) {
  const TestFolder folder;
  const StartingPoint start = put_gates(load_model("tests/data/llama"), GateKind::kScore, 1.0, {});
  WeightOptions options;
  options.lora = LoraOptions{3, 6, {"all"}, {"q_proj"}};
  const TrainedWeights weights(start.config, start.parameters, options);
  save_adapter(folder / "adapter", weights.config(), *options.lora, weights.export_adapter(), "llama");
  const auto read = [&] { load_adapted_model("tests/data/llama", folder / "adapter"); };
  try_mutations(folder / "adapter/adapter_config.json", 1, read);
  try_mutations(folder / "adapter/adapter_model.safetensors", 2, read);
}

TEST(ChangedFile, ACompactDifference) {
  const TestFolder folder;
  const std::string base = "tests/data/llama";
  const Transformer model = load_model(base);
  const StartingPoint start = put_gates(model, GateKind::kLogprob, 2.0, {});
  save_delta(folder / "small", start.config, start.parameters, {base, base, model.parameters()},
             plan_delta(start.config, 0.03));
  const auto read = [&] { load_delta_model(base, folder / "small", {}); };
  try_mutations(folder / "small/config.json", 3, read);
  try_mutations(folder / "small/openwork_delta.safetensors", 4, read);
}

TEST(ChangedFile, Transcoders) {
  for (const char* kind : {"plt", "clt"}) {
    const TestFolder folder;
    fs::copy(fs::path("tests/data/transcoders") / kind, folder / kind);
    const auto read = [&] { load_transcoders(folder / kind); };
    try_mutations(folder / kind / "config.yaml", 5, read);
    try_mutations(
        folder / kind / (std::string(kind) == "plt" ? "layer_0.safetensors" : "W_enc_0.safetensors"), 6,
        read);
  }
}

// Packed, so that the unpacked text is what changes.
TEST(ChangedFile, Descriptions) {
  const TestFolder folder;
  Descriptions descriptions{"model", std::string(64, 'a'), 100, {}};
  FeatureDescription feature;
  feature.largest = 2.5, feature.density = 0.01;
  feature.contexts.push_back({{1, 2, 3}, {0.0, 2.5, 0.5}, 1});
  feature.top_logits = {4, 5}, feature.bottom_logits = {6};
  descriptions.layers.assign(2, {feature, feature});
  save_descriptions(folder.path(), descriptions);
  const auto read = [&] { load_descriptions(folder.path()); };
  try_mutations(folder / "features.json.zst", 7, read);
  const std::string packed = read_whole(folder / "features.json.zst");
  std::string text(100000, '\0');
  text.resize(ZSTD_decompress(text.data(), text.size(), packed.data(), packed.size()));
  folder.write("features.json.zst", text);  // told apart by its first bytes: plain text is read as it is
  try_mutations(folder / "features.json.zst", 8, read);
}

}  // namespace
}  // namespace openwork
