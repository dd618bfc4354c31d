#include <random>

#include "io/safetensors.h"
#include "io/test_files.h"

namespace openwork {
namespace {

TEST(SafetensorsWriter, WritesWhatTheReaderReads) {
  const TestFolder folder;
  const std::vector<float> weight = {1, 2, 3, 4, 5, 6};
  const std::vector<int8_t> flags = {-1, 1};
  write_safetensors(
      folder / "out.safetensors",
      {{"flags", DType::kI8, {2}, bytes_of(flags)}, {"weight", DType::kF32, {2, 3}, bytes_of(weight)}},
      {{"format", "pt"}, {"quote", "\"\\\n"}});
  const auto file = open_weights(folder / "out.safetensors");
  std::vector<float> numbers(6), small(2);
  read_f32(file->at("weight"), numbers);
  read_f32(file->at("flags"), small);
  EXPECT_EQ(numbers, weight);
  EXPECT_EQ(small, (std::vector<float>{-1, 1}));
  EXPECT_EQ(file->metadata()["quote"], "\"\\\n");
  EXPECT_EQ(folder.file_count(), 1u);
}

TEST(SafetensorsWriter, WritesTheReferencesBytes) {
  const TestFolder folder;
  const std::vector<uint16_t> half = {0x3c00};
  const std::vector<float> zero = {0}, one = {1};
  write_safetensors(folder / "out", {{"a", DType::kF16, {1}, bytes_of(half)},
                                     {"z", DType::kF32, {}, bytes_of(one)},
                                     {"b", DType::kF32, {1}, bytes_of(zero)}});
  const std::string header = R"({"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                             R"("z":{"dtype":"F32","shape":[],"data_offsets":[4,8]},)"
                             R"("a":{"dtype":"F16","shape":[1],"data_offsets":[8,10]}})";
  const std::string padded = header + std::string((8 - header.size() % 8) % 8, ' ');
  EXPECT_EQ(read_whole(folder / "out"),
            pack<uint64_t>(padded.size()) + padded + pack(0.0f) + pack(1.0f) + pack<uint16_t>(0x3c00));
}

TEST(SafetensorsWriter, AsksProducersForTheirBytesInPieces) {
  const TestFolder folder;
  const std::string bytes = "0123456789abcdef";
  int calls = 0;
  OutputTensor lazy{"lazy", DType::kF32, {4}};
  lazy.produce = [&](const ByteSink& sink) {
    ++calls;
    sink(as_span(bytes).first(5));
    sink(as_span(bytes).subspan(5));
  };
  write_safetensors(folder / "out", {lazy});
  EXPECT_EQ(calls, 1);
  EXPECT_TRUE(read_whole(folder / "out").ends_with(bytes));
}

TEST(SafetensorsWriter, RefusesAProducerThatGivesTheWrongNumberOfBytes) {
  const TestFolder folder;
  for (const size_t size : {3, 5}) {
    OutputTensor lazy{"lazy", DType::kU8, {4}};
    lazy.produce = [&](const ByteSink& sink) { sink(as_span(std::string(size, 'x'))); };
    expect_failure(Error::Kind::kFailure, "bytes produced where 4 are needed",
                   [&] { write_safetensors(folder / "out", {lazy}); });
  }
  EXPECT_EQ(folder.file_count(), 0u);
}

TEST(SafetensorsWriter, LeavesNothingWhenAProducerFails) {
  const TestFolder folder;
  folder.write("out", "old");
  OutputTensor lazy{"lazy", DType::kU8, {4}};
  lazy.produce = [](const ByteSink&) { fail("no such luck", "here", "try again"); };
  expect_failure(Error::Kind::kFailure, "no such luck", [&] { write_safetensors(folder / "out", {lazy}); });
  EXPECT_EQ(read_whole(folder / "out"), "old");
  EXPECT_EQ(folder.file_count(), 1u);
}

TEST(SafetensorsWriter, RefusesWhatTheFormatCannotHold) {
  const TestFolder folder;
  const std::string block(18, 'x');
  const auto write = [&](OutputTensor tensor) { write_safetensors(folder / "out", {std::move(tensor)}); };
  expect_bad_input("safetensors has no dtype Q4_0", [&] {
    write({"a", DType::kQ4_0, {32}, as_span(block)});
  });
  expect_bad_input("cannot hold this tensor name", [&] {
    write({"__metadata__", DType::kU8, {18}, as_span(block)});
  });
  expect_bad_input("cannot hold this tensor name", [&] {
    write({"\xff", DType::kU8, {18}, as_span(block)});
  });
  expect_bad_input("two tensors of one name", [&] {
    write_safetensors(folder / "out",
                      {{"a", DType::kU8, {18}, as_span(block)}, {"a", DType::kI16, {9}, as_span(block)}});
  });
  expect_failure(Error::Kind::kFailure, "18 bytes given where 17 are needed", [&] {
    write({"a", DType::kU8, {17}, as_span(block)});
  });
  expect_bad_input("is not UTF-8", [&] { write_safetensors(folder / "out", {}, {{"a", "\xff"}}); });
  EXPECT_EQ(folder.file_count(), 0u);
}

// A file of random tensors, as a property: what is written is what is read, and every tensor is aligned.
void check_round_trip(std::mt19937& random, const TestFolder& folder) {
  const auto pick = [&](int below) { return static_cast<int>(random() % static_cast<unsigned>(below)); };
  std::vector<OutputTensor> tensors;
  std::vector<std::string> contents;
  for (int i = pick(12); i >= 0; --i) {
    OutputTensor tensor;
    tensor.name = "layer." + std::to_string(i) + (pick(2) ? ".weight\t\"é" : ".bias");
    tensor.dtype = static_cast<DType>(pick(13));
    for (int rank = pick(5); rank > 0; --rank) tensor.shape.push_back(pick(6));
    std::string content(
        dtype_bytes(tensor.dtype, static_cast<uint64_t>(
                                      TensorEntry{"", tensor.dtype, tensor.shape, {}, {}}.element_count())),
        '\0');
    for (char& byte : content) byte = static_cast<char>(random());
    contents.push_back(std::move(content));
    tensors.push_back(std::move(tensor));
  }
  for (size_t i = 0; i < tensors.size(); ++i) tensors[i].bytes = as_span(contents[i]);
  write_safetensors(folder / "round", tensors);
  const auto file = open_weights(folder / "round");
  ASSERT_EQ(file->entries().size(), tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    const TensorEntry& entry = file->at(tensors[i].name);
    EXPECT_EQ(entry.dtype, tensors[i].dtype);
    EXPECT_EQ(entry.shape, tensors[i].shape);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(entry.bytes.data()) % dtype_bytes(entry.dtype, 1), 0u);
    std::string bytes(contents[i].size(), '\0');
    read_bytes(entry, std::as_writable_bytes(std::span(bytes)));
    EXPECT_EQ(bytes, contents[i]);
  }
}

TEST(SafetensorsWriter, RoundTripsRandomFiles) {
  const TestFolder folder;
  std::mt19937 random(7);
  for (int i = 0; i < 50; ++i) check_round_trip(random, folder);
}

}  // namespace
}  // namespace openwork
