#include <numeric>

#include "io/pth_builder.h"
#include "io/safetensors.h"
#include "io/shards.h"

namespace openwork {
namespace {

const std::vector<float> kNumbers = {1, 2};

void write_tensor(const std::filesystem::path& path, const std::string& name) {
  write_safetensors(path, {{name, DType::kF32, {2}, bytes_of(kNumbers)}});
}

std::string only_tensor(const std::filesystem::path& path) {
  const auto file = open_weights(path);
  return file->entries().size() == 1 ? file->entries()[0].name : "not one tensor";
}

TEST(OpenWeights, TellsFormatsApartByContent) {
  const TestFolder folder;
  write_tensor(folder / "weights.bin", "safe");
  EXPECT_EQ(only_tensor(folder / "weights.bin"), "safe");
  EXPECT_EQ(only_tensor(folder.write("weights.gguf", make_pth(pickle_dict({{"torch", pickle_tensor()}})))),
            "torch");
  std::filesystem::copy("tests/data/gguf_quants.gguf", folder / "weights.safetensors");
  EXPECT_EQ(open_weights(folder / "weights.safetensors")->entries().size(), 13u);
  EXPECT_EQ(open_weights(folder / "weights.safetensors")->metadata()["general.architecture"], "llama");
}

TEST(OpenWeights, SaysWhatAFileIsInstead) {
  const TestFolder folder;
  expect_bad_input("an empty file", [&] { open_weights(folder.write("model.pth", "")); });
  expect_bad_input("not a file of weights",
                   [&] { open_weights(folder.write("notes.txt", "some text here")); });
  expect_bad_input("Git LFS pointer", [&] {
    open_weights(folder.write("model.safetensors", "version https://git-lfs.github.com/spec/v1\n"));
  });
  const std::string old = "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.";
  expect_bad_input("a PyTorch file of the old kind", [&] { open_weights(folder.write("old.pth", old)); });
  expect_bad_input("the header", [&] { open_weights(folder.write("a.safetensors", "short")); });
  expect_bad_input("no GGUF magic number", [&] { open_weights(folder.write("a.gguf", "short text")); });
  expect_bad_input("no such file", [&] { open_weights(folder / "absent"); });
}

TEST(OpenWeights, FindsAFoldersWeights) {
  for (const std::string_view name : {"model.safetensors", "adapter_model.safetensors", "final.pth",
                                      "weights.bin", "pytorch_model.bin", "model.gguf"}) {
    const TestFolder folder;
    write_tensor(folder / name, "w");
    folder.write("config.json", "{}");
    for (const char* other :
         {"training_args.bin", "optimizer.pth", "rng_state.pth", "rng_state_0.pth", "rng_state_11.pth"})
      folder.write(other, "not weights");
    EXPECT_EQ(only_tensor(folder.path()), "w") << name;
  }
}

// Each name, once there, counts before those tried so far.
TEST(OpenWeights, PrefersTheUsualNames) {
  const TestFolder folder;
  for (const std::string name : {"other.gguf", "other.bin", "other.pth", "other.safetensors", "final.pth"}) {
    write_tensor(folder / name, name);
    EXPECT_EQ(only_tensor(folder.path()), name);
  }
  folder.write("pytorch_model.bin.index.json", R"({"weight_map":{"other.bin":"other.bin"}})");
  EXPECT_EQ(only_tensor(folder.path()), "other.bin");
  write_tensor(folder / "pytorch_model.bin", "torch");
  EXPECT_EQ(only_tensor(folder.path()), "torch");
  folder.write("model.safetensors.index.json", R"({"weight_map":{"other.gguf":"other.gguf"}})");
  EXPECT_EQ(only_tensor(folder.path()), "other.gguf");
  write_tensor(folder / "model.safetensors", "usual");
  EXPECT_EQ(only_tensor(folder.path()), "usual");
}

TEST(OpenWeights, RefusesFoldersWithNoneOrSeveral) {
  const TestFolder folder;
  expect_bad_input("no weights in the folder", [&] { open_weights(folder.path()); });
  expect_bad_input("it should hold model.safetensors", [&] { open_weights(folder.path()); });
  write_tensor(folder / "a.safetensors", "w");
  write_tensor(folder / "b.safetensors", "w");
  expect_bad_input("2 .safetensors files", [&] { open_weights(folder.path()); });
}

// A folder of two shards; `map` is the index's weight_map.
void write_shards(const TestFolder& folder, std::string_view map) {
  write_tensor(folder / "model-1.safetensors", "a");
  write_tensor(folder / "model-2.safetensors", "b");
  folder.write("model.safetensors.index.json",
               R"({"metadata":{"total_size":16},"weight_map":)" + std::string(map) + "}");
}

TEST(Shards, AreOneFile) {
  const TestFolder folder;
  write_shards(folder, R"({"a":"model-1.safetensors","b":"model-2.safetensors"})");
  const auto file = open_weights(folder.path());
  ASSERT_EQ(file->entries().size(), 2u);
  std::vector<float> values(2);
  read_f32(file->at("b"), values);
  EXPECT_EQ(values, kNumbers);
  file->release(file->at("b"));
  read_f32(file->at("b"), values);
  EXPECT_EQ(values, kNumbers);
  EXPECT_EQ(file->metadata()["total_size"], 16);
  EXPECT_EQ(open_weights(folder / "model.safetensors.index.json")->entries().size(), 2u);
}

TEST(Shards, MayBePyTorchFiles) {
  const TestFolder folder;
  folder.write("pytorch_model-1.bin", make_pth(pickle_dict({{"w", pickle_tensor()}})));
  folder.write("pytorch_model.bin.index.json", R"({"weight_map":{"w":"pytorch_model-1.bin"}})");
  EXPECT_EQ(only_tensor(folder.path()), "w");
}

TEST(Shards, MustBeThereAndHoldWhatTheIndexSays) {
  const TestFolder folder;
  write_shards(folder, R"({"a":"model-1.safetensors","b":"model-3.safetensors"})");
  expect_bad_input("shard 'model-3.safetensors' is missing", [&] { open_weights(folder.path()); });
  write_shards(folder, R"({"a":"model-1.safetensors","c":"model-2.safetensors"})");
  expect_bad_input("tensor 'c' is not in shard 'model-2.safetensors'", [&] { open_weights(folder.path()); });
  write_shards(folder, R"({"a":"model-2.safetensors","b":"model-1.safetensors"})");
  expect_bad_input("tensor 'a' is not in shard 'model-2.safetensors'", [&] { open_weights(folder.path()); });
}

TEST(Shards, MustNotShareATensor) {
  const TestFolder folder;
  write_shards(folder, R"({"a":"model-1.safetensors","b":"model-2.safetensors"})");
  write_tensor(folder / "model-2.safetensors", "a");
  expect_bad_input("a tensor name stands twice; tensor 'a'", [&] { open_weights(folder.path()); });
}

TEST(Shards, MustLieBesideTheIndex) {
  for (const std::string_view shard : {"../model-1.safetensors", "/etc/passwd", "a/../../b", "", ".",
                                       "sub/..", "a/", "..\\\\b", "a\\u0000b"}) {
    expect_bad_input("is not a file beside the index", [&] {
      parse_shard_index(R"({"weight_map":{"a":")" + std::string(shard) + "\"}}", "index.json");
    });
  }
  EXPECT_EQ(parse_shard_index(R"({"weight_map":{"a":"sub/x","b":"sub/x"}})", "index.json").shards.size(), 1u);
}

TEST(Shards, NeedAnIndexOfTheRightForm) {
  for (const std::string_view text : {"{}", "[]", "3", R"({"weight_map":[]})", R"({"weight_map":{}})"}) {
    expect_bad_input("no 'weight_map'", [&] { parse_shard_index(text, "index.json"); });
  }
  expect_bad_input("shard 3 of tensor 'a'",
                   [] { parse_shard_index(R"({"weight_map":{"a":3}})", "index.json"); });
  expect_bad_input("stands twice",
                   [] { parse_shard_index(R"({"weight_map":{"a":"x","a":"y"}})", "index.json"); });
}

TEST(TensorFile, NamesTheNearestTensors) {
  const auto file = open_weights("tests/data/gguf_quants.gguf");
  EXPECT_EQ(file->find("absent"), nullptr);
  EXPECT_EQ(file->find("q4_k")->name, "q4_k");
  expect_bad_input("no tensor 'q4_kk'; tests/data/gguf_quants.gguf; the nearest names in it are 'q4_k'",
                   [&] { file->at("q4_kk"); });
  expect_bad_input("it has 13 tensors; check the name", [&] { file->at(std::string(100000, 'x')); });
}

TEST(TensorEntry, KnowsWhenItIsContiguous) {
  const auto contiguous = [](std::vector<int64_t> shape, std::vector<int64_t> strides) {
    return TensorEntry{"", DType::kF32, std::move(shape), std::move(strides), {}}.is_contiguous();
  };
  EXPECT_TRUE(contiguous({2, 3}, {}));
  EXPECT_TRUE(contiguous({2, 3}, {3, 1}));
  EXPECT_TRUE(contiguous({2, 1, 3}, {3, 77, 1}));
  EXPECT_TRUE(contiguous({}, {}));
  EXPECT_TRUE(contiguous({0, 3}, {9, 9}));
  EXPECT_FALSE(contiguous({2, 3}, {1, 2}));
  EXPECT_FALSE(contiguous({2, 3}, {4, 1}));
}

}  // namespace
}  // namespace openwork
