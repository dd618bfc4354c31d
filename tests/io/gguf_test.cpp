#include "io/gguf.h"

#include "io/test_files.h"

namespace openwork {
namespace {

std::string text(std::string_view value) {
  return pack<uint64_t>(value.size()) + std::string(value);
}

std::string pair(std::string_view key, uint32_t type, std::string_view value) {
  return text(key) + pack(type) + std::string(value);
}

// Puts a GGUF file together; fields are spoilt one at a time by the tests.
struct GgufParts {
  std::string magic = "GGUF";
  uint32_t version = 3;
  std::vector<std::string> pairs, infos;
  std::string data;
  uint64_t alignment = 32;

  void add_tensor(std::string_view name, const std::vector<uint64_t>& sizes, uint32_t type, uint64_t offset) {
    std::string info = text(name) + pack(static_cast<uint32_t>(sizes.size()));
    for (const uint64_t size : sizes) info += pack(size);
    infos.push_back(info + pack(type) + pack(offset));
  }

  std::string make() const {
    std::string file = magic + pack(version) + pack<uint64_t>(infos.size()) + pack<uint64_t>(pairs.size());
    for (const std::string& part : pairs) file += part;
    for (const std::string& part : infos) file += part;
    file.resize((file.size() + alignment - 1) / alignment * alignment, '\0');
    return file + data;
  }
};

void expect_refused(std::string_view words, const std::string& file) {
  expect_bad_input(words, [&] { parse_gguf(as_span(file), "bad.gguf"); });
  expect_bad_input("bad.gguf", [&] { parse_gguf(as_span(file), "bad.gguf"); });
}

void expect_refused(std::string_view words, const GgufParts& parts) {
  expect_refused(words, parts.make());
}

// The parts of a file with one F32 tensor of the given sizes.
GgufParts one_tensor(const std::vector<uint64_t>& sizes, uint32_t type, uint64_t offset, size_t bytes) {
  GgufParts parts;
  parts.add_tensor("w", sizes, type, offset);
  parts.data = std::string(bytes, 'x');
  return parts;
}

TEST(Gguf, ReadsEveryKindOfMetadata) {
  GgufParts parts;
  parts.pairs = {pair("u8", 0, pack<uint8_t>(200)),
                 pair("i8", 1, pack<int8_t>(-3)),
                 pair("u16", 2, pack<uint16_t>(60000)),
                 pair("i16", 3, pack<int16_t>(-300)),
                 pair("u32", 4, pack<uint32_t>(1u << 31)),
                 pair("i32", 5, pack<int32_t>(-70000)),
                 pair("f32", 6, pack(0.5f)),
                 pair("bool", 7, pack<uint8_t>(1)),
                 pair("string", 8, text("naïve")),
                 pair("u64", 10, pack<uint64_t>(~0ull)),
                 pair("i64", 11, pack<int64_t>(-5)),
                 pair("f64", 12, pack(0.1)),
                 pair("strings", 9, pack<uint32_t>(8) + pack<uint64_t>(2) + text("a") + text("")),
                 pair("nested", 9,
                      pack<uint32_t>(9) + pack<uint64_t>(1) + pack<uint32_t>(5) + pack<uint64_t>(2) +
                          pack<int32_t>(1) + pack<int32_t>(-2))};
  for (const uint32_t version : {2, 3}) {
    parts.version = version;
    const std::string file = parts.make();
    EXPECT_EQ(parse_gguf(as_span(file), "file").metadata,
              nlohmann::json::parse(R"({"u8":200,"i8":-3,"u16":60000,"i16":-300,"u32":2147483648,"i32":-70000,
                "f32":0.5,"bool":true,"string":"naïve","u64":18446744073709551615,"i64":-5,"f64":0.1,
                "strings":["a",""],"nested":[[1,-2]]})"));
  }
}

TEST(Gguf, TurnsDimensionsRound) {
  GgufParts parts = one_tensor({4, 3, 2}, 0, 0, 96);
  parts.add_tensor("scalar", {}, 26, 96);
  parts.data += "....";
  const std::string file = parts.make();
  const auto entries = parse_gguf(as_span(file), "file").entries;
  EXPECT_EQ(entries[0].shape, std::vector<int64_t>());
  EXPECT_EQ(entries[0].dtype, DType::kI32);
  EXPECT_EQ(entries[1].shape, (std::vector<int64_t>{2, 3, 4}));
  EXPECT_EQ(entries[1].bytes.size(), 96u);
}

TEST(Gguf, FollowsTheFilesAlignment) {
  GgufParts parts = one_tensor({2}, 24, 8, 10);
  parts.alignment = 8;
  parts.pairs = {pair("general.alignment", 4, pack<uint32_t>(8))};
  parts.data = "--------hi";
  const std::string file = parts.make();
  const auto bytes = parse_gguf(as_span(file), "file").entries[0].bytes;
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()), "hi");
  for (const uint32_t wrong : {0u, 24u, 1u << 31}) {
    parts.pairs = {pair("general.alignment", 4, pack(wrong))};
    expect_refused("general.alignment", parts);
  }
  parts.pairs = {pair("general.alignment", 8, text("8"))};
  expect_refused("general.alignment", parts);
}

TEST(Gguf, RefusesOtherVersionsAndByteOrders) {
  GgufParts parts;
  parts.magic = "GGML";
  expect_refused("no GGUF magic number", parts);
  parts.magic = "GGUF";
  for (const uint32_t version : {0, 1, 4}) {
    parts.version = version;
    expect_refused("GGUF version " + std::to_string(version) + " is not supported", parts);
  }
  parts.version = 3u << 24;
  expect_refused("big-endian", parts);
}

TEST(Gguf, RefusesUnsupportedQuantisationsByName) {
  expect_refused("quantisation IQ2_XXS is not supported; tensor 'w' of", one_tensor({256}, 16, 0, 66));
  expect_refused("quantisation MXFP4 is not supported", one_tensor({32}, 39, 0, 17));
  expect_refused("quantisation number 4 is not supported", one_tensor({32}, 4, 0, 64));
  expect_refused("quantisation number 4000000000 is not supported", one_tensor({32}, 4000000000u, 0, 64));
}

TEST(Gguf, RefusesRowsThatAreNotWholeBlocks) {
  expect_refused("rows of 48 values are not whole Q4_0 blocks of 32", one_tensor({48, 2}, 2, 0, 54));
  expect_refused("not whole Q6_K blocks of 256", one_tensor({128, 2}, 14, 0, 210));
}

TEST(Gguf, RefusesTensorsOutsideTheFile) {
  expect_refused("run past the file's 15 bytes of data", one_tensor({4}, 0, 0, 15));
  expect_refused("run past the file's", one_tensor({4}, 0, 32, 47));
  expect_refused("run past the file's", one_tensor({4}, 0, 1ull << 63, 64));
  expect_refused("offset 4 is not a multiple", one_tensor({4}, 0, 4, 64));
  expect_refused("negative or too large", one_tensor({1ull << 63}, 0, 0, 64));
  expect_refused("negative or too large", one_tensor({1ull << 40, 1ull << 40}, 0, 0, 64));
  expect_refused("is too large", one_tensor({(1ull << 63) - 1}, 0, 0, 64));
  expect_refused("5 dimensions, more than 4", one_tensor({1, 1, 1, 1, 1}, 0, 0, 64));
}

TEST(Gguf, RefusesOverlapsAndNamesThatStandTwice) {
  GgufParts parts = one_tensor({16}, 0, 0, 128);
  parts.add_tensor("v", {8}, 0, 32);
  expect_refused("its data overlaps that of 'w'", parts);
  parts = one_tensor({8}, 0, 0, 128);
  parts.add_tensor("w", {8}, 0, 32);
  expect_refused("a tensor name stands twice", parts);
  parts.pairs = {pair("k", 0, "x"), pair("k", 0, "y")};
  expect_refused("the key 'k' stands twice", parts);
}

TEST(Gguf, RefusesLyingCountsWithoutBelievingThem) {
  const std::string head = "GGUF" + pack<uint32_t>(3);
  expect_refused("tensors, more than", head + pack<uint64_t>(~0ull) + pack<uint64_t>(0));
  expect_refused("a tensor name", head + pack<uint64_t>(1000000) + pack<uint64_t>(0));
  expect_refused("a metadata key", head + pack<uint64_t>(0) + pack<uint64_t>(~0ull));
  GgufParts parts;
  parts.pairs = {pair("k", 9, pack<uint32_t>(8) + pack<uint64_t>(~0ull >> 8))};
  expect_refused("values run past the end of the file", parts);
  parts.pairs = {pack<uint64_t>(~0ull)};
  expect_refused("a metadata key of 18446744073709551615 bytes", parts);
  parts.pairs = {pair("k", 8, pack<uint64_t>(1000000))};
  expect_refused("k of 1000000 bytes at byte", parts);
}

TEST(Gguf, RefusesOddMetadata) {
  GgufParts parts;
  parts.pairs = {pair("k", 13, "")};
  expect_refused("value type 13 is not known; key 'k' of", parts);
  parts.pairs = {pair("k", 8, text("\xff"))};
  expect_refused("is not UTF-8", parts);
  std::string deep;
  for (int i = 0; i < 6; ++i) deep += pack<uint32_t>(9) + pack<uint64_t>(1);
  parts.pairs = {pair("k", 9, deep)};
  expect_refused("nested too deep", parts);
  parts.pairs = {pair("split.count", 2, pack<uint16_t>(3))};
  expect_refused("one of 3 parts", parts);
}

TEST(Gguf, RefusesEveryTruncationOfARealFile) {
  const std::string file = read_whole("tests/data/gguf_quants.gguf");
  ASSERT_GT(file.size(), 1000u);
  // The last tensor's data may be followed by padding, which nobody misses.
  for (size_t size = 0; size < file.size() - 32; size += size < 1200 ? 1 : 499) {
    EXPECT_THROW(parse_gguf(as_span(file).first(size), "file"), Error) << size;
  }
}

}  // namespace
}  // namespace openwork
