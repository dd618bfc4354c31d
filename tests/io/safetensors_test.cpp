#include "io/safetensors.h"

#include "io/test_files.h"

namespace openwork {
namespace {

std::string make_file(std::string_view header, std::string_view data) {
  return pack<uint64_t>(header.size()) + std::string(header) + std::string(data);
}

// One tensor 'a' with the given fields, over `bytes` bytes of data.
std::string make_tensor(std::string_view dtype, std::string_view shape, std::string_view offsets,
                        size_t bytes) {
  return make_file(R"({"a":{"dtype":")" + std::string(dtype) + R"(","shape":)" + std::string(shape) +
                       R"(,"data_offsets":)" + std::string(offsets) + "}}",
                   std::string(bytes, 'x'));
}

void expect_safetensors_refused(std::string_view words, const std::string& file) {
  expect_bad_input(words, [&] { parse_safetensors(as_span(file), "bad.safetensors"); });
  expect_bad_input("bad.safetensors", [&] { parse_safetensors(as_span(file), "bad.safetensors"); });
}

TEST(Safetensors, ListsTensorsAndMetadata) {
  const std::string file = make_file(R"({"__metadata__":{"format":"pt"},)"
                                     R"("w":{"dtype":"F16","shape":[2,3],"data_offsets":[4,16]},)"
                                     R"("b":{"dtype":"F32","shape":[],"data_offsets":[0,4]},)"
                                     R"("e":{"dtype":"I64","shape":[0,7],"data_offsets":[4,4]}}   )",
                                     "0123456789abcdef");
  const TensorListing listing = parse_safetensors(as_span(file), "file");
  ASSERT_EQ(listing.entries.size(), 3u);
  EXPECT_EQ(listing.entries[0].name, "b");
  EXPECT_EQ(listing.entries[0].element_count(), 1);
  EXPECT_EQ(listing.entries[1].name, "e");
  EXPECT_EQ(listing.entries[1].element_count(), 0);
  const TensorEntry& weight = listing.entries[2];
  EXPECT_EQ(weight.dtype, DType::kF16);
  EXPECT_EQ(weight.shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(weight.bytes.size(), 12u);
  EXPECT_EQ(static_cast<char>(weight.bytes[0]), '4');
  EXPECT_EQ(listing.metadata["format"], "pt");
}

TEST(Safetensors, AcceptsAFileWithoutTensors) {
  const std::string file = make_file("{}", "");
  EXPECT_TRUE(parse_safetensors(as_span(file), "file").entries.empty());
}

TEST(Safetensors, KnowsEveryPlainDtype) {
  for (const std::string_view name :
       {"F64", "F32", "F16", "BF16", "I64", "I32", "I16", "I8", "U8", "U16", "U32", "U64", "BOOL", "C64",
        "F8_E4M3", "F8_E5M2", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ"}) {
    const uint64_t size = dtype_bytes(*find_dtype(name), 3);
    const std::string file = make_tensor(name, "[3]", "[0," + std::to_string(size) + "]", size);
    EXPECT_EQ(dtype_name(parse_safetensors(as_span(file), "file").entries[0].dtype), name);
  }
}

TEST(Safetensors, ListsNumbersBelowAByteInWholeBytes) {
  for (const auto& [name, shape, size] : std::vector<std::tuple<std::string, std::string, uint64_t>>{
           {"F4", "[2,3]", 3}, {"F6_E2M3", "[4,1]", 3}, {"F6_E3M2", "[8]", 6}}) {
    const std::string file = make_tensor(name, shape, "[0," + std::to_string(size) + "]", size);
    EXPECT_EQ(parse_safetensors(as_span(file), "file").entries[0].bytes.size(), size) << name;
  }
  expect_safetensors_refused("not whole F4 blocks of 2", make_tensor("F4", "[3]", "[0,1]", 1));
}

TEST(Safetensors, RefusesToReadWhatIsOnlyListed) {
  const std::string file = make_tensor("F8_E4M3", "[4]", "[0,4]", 4);
  const TensorListing listing = parse_safetensors(as_span(file), "file");
  std::vector<float> numbers(4);
  expect_bad_input("tensor 'a' has dtype F8_E4M3", [&] { read_f32(listing.entries[0], numbers); });
}

TEST(Safetensors, RefusesLyingHeaderLengths) {
  expect_safetensors_refused("the header length of 8 bytes at byte 0 runs past the end", "abc");
  expect_safetensors_refused("the header length", "");
  expect_safetensors_refused("the header of 1000 bytes at byte 8 runs past the end",
                             pack<uint64_t>(1000) + "{}");
  expect_safetensors_refused("a header of 18446744073709551615 bytes, more than 100000000",
                             pack<uint64_t>(~0ull) + "{}");
  expect_safetensors_refused("a header of 100000001 bytes", pack<uint64_t>(100000001) + "{}");
  expect_safetensors_refused("the header is not a JSON object", make_file("", "{}"));
  expect_safetensors_refused("the header is not a JSON object", make_file("[1]", ""));
  expect_safetensors_refused("not valid JSON", make_file("{\"a\":", ""));
}

TEST(Safetensors, RefusesHeadersThatAreBombs) {
  expect_safetensors_refused("nested more than", make_file("{\"a\":" + std::string(1000000, '['), ""));
  expect_safetensors_refused("invalid UTF-8", make_file("{\"\xff\":1}", ""));
}

TEST(Safetensors, RefusesATensorTwice) {
  expect_safetensors_refused("the name 'a' stands twice",
                             make_file(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                                       R"("a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
                                       "xy"));
}

TEST(Safetensors, RefusesOverlappingTensors) {
  expect_safetensors_refused("tensors overlap",
                             make_file(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
                                       R"("b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}})",
                                       "012345"));
}

TEST(Safetensors, RefusesHolesAndTrailingBytes) {
  expect_safetensors_refused("a hole", make_tensor("U8", "[2]", "[1,3]", 3));
  expect_safetensors_refused("1 bytes after the last tensor", make_tensor("U8", "[2]", "[0,2]", 3));
  expect_safetensors_refused("4 bytes after the last tensor", make_file("{}", "1234"));
}

TEST(Safetensors, RefusesOffsetsOutsideTheData) {
  expect_safetensors_refused("data_offsets [0, 8] do not lie within", make_tensor("F32", "[2]", "[0,8]", 7));
  expect_safetensors_refused("data_offsets [4, 0]", make_tensor("F32", "[1]", "[4,0]", 4));
  expect_safetensors_refused("do not lie within", make_tensor("F32", "[1]", "[0,9223372036854775807]", 4));
  expect_safetensors_refused("'data_offsets' is not a list",
                             make_tensor("F32", "[1]", "[0,18446744073709551615]", 4));
  expect_safetensors_refused("'data_offsets' is not a list", make_tensor("F32", "[1]", "[-4,0]", 4));
  expect_safetensors_refused("do not lie within", make_tensor("F32", "[1]", "[0]", 4));
  expect_safetensors_refused("'data_offsets' is not a list", make_tensor("F32", "[1]", "\"0-4\"", 4));
}

TEST(Safetensors, RefusesSizesThatAreNotShapeTimesDtype) {
  expect_safetensors_refused("8 bytes where shape [3] of F32 takes 12",
                             make_tensor("F32", "[3]", "[0,8]", 8));
  expect_safetensors_refused("where shape [1] of U8 takes 1", make_tensor("U8", "[1]", "[0,2]", 2));
}

TEST(Safetensors, RefusesImpossibleShapes) {
  expect_safetensors_refused("'shape' is not a list", make_tensor("F32", "[-1]", "[0,4]", 4));
  expect_safetensors_refused("'shape' is not a list", make_tensor("F32", "[1.0]", "[0,4]", 4));
  expect_safetensors_refused("'shape' is not a list",
                             make_tensor("F32", "[18446744073709551615]", "[0,4]", 4));
  expect_safetensors_refused("negative or too large",
                             make_tensor("U8", "[4294967296,4294967296]", "[0,0]", 0));
  expect_safetensors_refused("negative or too large",
                             make_tensor("U8", "[9223372036854775807,3,0]", "[0,0]", 0));
  expect_safetensors_refused("is too large", make_tensor("F64", "[9223372036854775807]", "[0,4]", 4));
  std::string many = "1";
  for (int i = 0; i < 64; ++i) many += ",1";
  expect_safetensors_refused("at most 64", make_tensor("U8", "[" + many + "]", "[0,1]", 1));
}

TEST(Safetensors, RefusesUnknownDtypesByName) {
  expect_safetensors_refused("dtype 'F8_E3M4' is not known", make_tensor("F8_E3M4", "[1]", "[0,1]", 1));
  expect_safetensors_refused("dtype 'Q4_0' is not known", make_tensor("Q4_0", "[32]", "[0,18]", 18));
  expect_safetensors_refused("dtype '(none)' is not known",
                             make_file(R"({"a":{"shape":[],"data_offsets":[0,0]}})", ""));
}

TEST(Safetensors, RefusesMembersOfTheWrongKind) {
  expect_safetensors_refused("no JSON object", make_file(R"({"a":3})", ""));
  expect_safetensors_refused("'shape' is not a list",
                             make_file(R"({"a":{"dtype":"F32","data_offsets":[0,0]}})", ""));
  expect_safetensors_refused("'__metadata__' is not an object of strings",
                             make_file(R"({"__metadata__":{"a":1}})", ""));
  expect_safetensors_refused("'__metadata__' is not an object of strings",
                             make_file(R"({"__metadata__":[]})", ""));
}

TEST(Safetensors, RefusesEveryTruncationOfARealFile) {
  const std::string file = read_whole("tests/data/gguf_quants.safetensors");
  ASSERT_GT(file.size(), 1000u);
  EXPECT_EQ(parse_safetensors(as_span(file), "file").entries.size(), 13u);
  for (size_t size = 0; size < file.size(); size += size < 1400 ? 1 : 997) {
    EXPECT_THROW(parse_safetensors(as_span(file).first(size), "file"), Error) << size;
  }
}

}  // namespace
}  // namespace openwork
