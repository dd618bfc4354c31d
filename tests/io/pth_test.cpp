#include "io/pth.h"

#include "io/pth_builder.h"

namespace openwork {
namespace {

std::vector<float> read_all(const TensorEntry& entry) {
  std::vector<float> values(static_cast<size_t>(entry.element_count()));
  read_f32(entry, values);
  return values;
}

std::vector<std::string> names_of(const std::string& file) {
  std::vector<std::string> names;
  for (const TensorEntry& entry : parse_pth(as_span(file), "file").entries) names.push_back(entry.name);
  return names;
}

void expect_pth_refused(std::string_view words, const std::string& file) {
  expect_bad_input(words, [&] { parse_pth(as_span(file), "bad.pth"); });
  expect_bad_input("bad.pth", [&] { parse_pth(as_span(file), "bad.pth"); });
}

void expect_value_refused(std::string_view words, const std::string& value) {
  expect_pth_refused(words, make_pth(pickle_dict({{"w", pickle_tensor()}, {"x", value}})));
}

void expect_tensor_refused(std::string_view words, const TensorParts& parts) {
  expect_pth_refused(words, make_pth(pickle_dict({{"w", pickle_tensor(parts)}})));
}

TEST(Pth, ReadsAPublishedStateDict) {
  const auto file = open_weights("tests/data/sparse_gpt2_published/final.pth");
  EXPECT_EQ(file->entries().size(), 60u);
  EXPECT_EQ(file->at("embed.W_E").shape, (std::vector<int64_t>{128, 32}));
  EXPECT_EQ(file->at("embed.W_E").dtype, DType::kF32);
  int masks = 0;
  for (const TensorEntry& entry : file->entries()) masks += entry.dtype == DType::kBool;
  EXPECT_GT(masks, 0);
}

TEST(Pth, ReadsNumbersThroughStrides) {
  TensorParts turned;
  turned.shape = {3, 2};
  turned.strides = {1, 3};
  TensorParts part;
  part.shape = {2};
  part.strides = {3};
  part.offset = 2;
  const std::string file = make_pth(pickle_dict(
      {{"turned", pickle_tensor(turned)}, {"plain", pickle_tensor()}, {"part", pickle_tensor(part)}}));
  const auto entries = parse_pth(as_span(file), "file").entries;
  ASSERT_EQ(entries.size(), 3u);
  EXPECT_EQ(read_all(entries[0]), (std::vector<float>{2, 5}));
  EXPECT_EQ(read_all(entries[1]), (std::vector<float>{0, 1, 2, 3, 4, 5}));
  EXPECT_TRUE(entries[1].strides.empty());
  EXPECT_EQ(read_all(entries[2]), (std::vector<float>{0, 3, 1, 4, 2, 5}));
}

TEST(Pth, FlattensNestedDictsAndPassesOverPlainValues) {
  const std::string inner =
      pickle_dict({{"w", pickle_tensor()}, {"version", pickle_number(3)}, {"none", "N"}});
  const std::string list = "](" + pickle_tensor() + "G" + std::string(8, '\0') + pickle_tensor() + "e";
  const std::string numbered = "}(" + std::string("K\x05") + pickle_tensor() + "u";
  EXPECT_EQ(names_of(make_pth(pickle_dict({{"a", inner}, {"b", list}, {"c", numbered}, {"d", "\x88"}}))),
            (std::vector<std::string>{"a.w", "b.0", "b.2", "c.5"}));
}

TEST(Pth, UnwrapsTheDictThatTrainingProgramsKeepWeightsIn) {
  const std::string weights = pickle_dict({{"w", pickle_tensor()}});
  for (const std::string key : {"state_dict", "model", "model_state_dict"}) {
    const std::string optimiser = pickle_dict({{"moments", pickle_tensor()}});
    EXPECT_EQ(names_of(make_pth(pickle_dict({{"optimizer", optimiser}, {key, weights}, {"step", "K\x05"}}))),
              (std::vector<std::string>{"w"}));
  }
}

TEST(Pth, ReadsParametersAndOrderedDictsWithAttributes) {
  const std::string parameter = pickle_global("torch._utils", "_rebuild_parameter") + "(" + pickle_tensor() +
                                "\x88" + pickle_global("collections", "OrderedDict") + ")R" + "tR";
  const std::string ordered = pickle_global("collections", "OrderedDict") + ")R" + "(" + pickle_text("w") +
                              parameter + "u" +
                              pickle_dict({{"_metadata", pickle_dict({{"version", "K\x01"}})}}) + "b";
  EXPECT_EQ(names_of(make_pth(ordered)), (std::vector<std::string>{"w"}));
}

TEST(Pth, ReadsTheMemoAndLaterProtocols) {
  const std::string framed = std::string("\x80\x04\x95", 3) + pack<uint64_t>(9) + "}\x94(\x8c\x01" + "a" +
                             pickle_tensor() + "q\x07\x8c\x01" + "bh\x07" + "u.";
  std::string floats(24, '\0');
  EXPECT_EQ(names_of(make_zip({{"m/data.pkl", framed}, {"m/data/0", floats}})),
            (std::vector<std::string>{"a", "b"}));
}

TEST(Pth, ReadsZip64) {
  const std::string value = finish_pickle(pickle_dict({{"w", pickle_tensor()}}));
  EXPECT_EQ(names_of(make_zip({{"m/data.pkl", value}, {"m/data/0", std::string(24, '\0')}}, true)),
            (std::vector<std::string>{"w"}));
}

TEST(Pth, ReadsEveryStorageType) {
  const std::pair<std::string, DType> types[] = {
      {"DoubleStorage", DType::kF64},    {"FloatStorage", DType::kF32}, {"HalfStorage", DType::kF16},
      {"BFloat16Storage", DType::kBF16}, {"LongStorage", DType::kI64},  {"IntStorage", DType::kI32},
      {"ShortStorage", DType::kI16},     {"CharStorage", DType::kI8},   {"ByteStorage", DType::kU8},
      {"BoolStorage", DType::kBool}};
  for (const auto& [name, dtype] : types) {
    TensorParts parts;
    parts.type = name;
    parts.count = 3;
    parts.shape = {3};
    parts.strides = {1};
    const std::string file = make_pth(pickle_dict({{"w", pickle_tensor(parts)}}));
    EXPECT_EQ(parse_pth(as_span(file), "file").entries[0].dtype, dtype);
  }
}

TEST(Pth, RefusesAnythingButTensorsByName) {
  const std::string words = "a pickle with anything but tensors in it ('";
  const auto call = [](std::string_view module, std::string_view name) {
    return pickle_global(module, name) + "(" + pickle_text("touch file") + "tR";
  };
  expect_value_refused(words + "os.system')", call("os", "system"));
  expect_value_refused(words + "builtins.eval')", call("builtins", "eval"));
  expect_value_refused(words + "torch.storage._load_from_bytes')", call("torch.storage", "_load_from_bytes"));
  expect_value_refused(words + "torch.storage.UntypedStorage')", call("torch.storage", "UntypedStorage"));
  expect_value_refused(words + "torch.ComplexFloatStorage')", call("torch", "ComplexFloatStorage"));
  expect_value_refused(words + "posix.system')", pickle_text("posix") + pickle_text("system") + "\x93");
  expect_value_refused("(opcode 0x69)", "(ios\nsystem\n");
  expect_value_refused("(opcode 0x81)", pickle_global("collections", "OrderedDict") + ")\x81");
  expect_value_refused("(opcode 0x42)", "B" + pack<uint32_t>(1) + "x");
}

TEST(Pth, RefusesCallsThatMakeNoTensor) {
  const std::string ordered = pickle_global("collections", "OrderedDict");
  expect_value_refused("an OrderedDict with arguments", ordered + "(K\x01tR");
  expect_value_refused("a storage type called", pickle_global("torch", "FloatStorage") + ")R");
  expect_value_refused("not a tensor", pickle_global("torch._utils", "_rebuild_tensor_v2") + ")R");
  expect_value_refused("not a parameter", pickle_global("torch._utils", "_rebuild_parameter") + ")R");
  expect_value_refused("a call of what cannot be called", "K\x01)R");
  expect_value_refused("a persistent id that is no storage", "(" + pickle_text("storage") + "tQ");
  expect_value_refused(
      "a persistent id that is no storage",
      "(" + pickle_text("storage") + ordered + pickle_text("0") + pickle_text("cpu") + "K\x06tQ");
}

TEST(Pth, RefusesDamagedPickles) {
  for (const std::string& pickle :
       {std::string("\x80\x02"), std::string("\x80\x02."), std::string("\x80\x02u."),
        std::string("\x80\x02}s."), std::string("\x80\x02}(K\x01u."), std::string("\x80\x02h\x05."),
        std::string("\x80\x02(t"), std::string("\x80\x02X\xff\xff\xff\xff"),
        std::string("\x80\x02"
                    "cos"),
        std::string("\x80\x02]}s."), std::string("\x80\x02(}(.")}) {
    const std::string file = make_zip({{"m/data.pkl", pickle}});
    EXPECT_THROW(parse_pth(as_span(file), "file"), Error) << testing::PrintToString(pickle);
  }
  expect_pth_refused("pickle protocol 9", make_zip({{"m/data.pkl", "\x80\x09."}}));
  expect_pth_refused("not UTF-8", make_pth(pickle_dict({{"\xff", "N"}})));
  expect_pth_refused("no dict of tensors", make_pth(pickle_tensor()));
  expect_value_refused("an integer of 9 bytes", std::string("\x8a\x09", 2) + std::string(9, '\x01'));
  expect_pth_refused("a dict key that is neither", make_pth("}(N" + pickle_tensor() + "u"));
  expect_pth_refused("a tensor name stands twice",
                     make_pth(pickle_dict({{"w", pickle_tensor()}, {"w", pickle_tensor()}})));
}

TEST(Pth, RefusesTensorsThatReachOutsideTheirStorage) {
  const auto with = [](const std::function<void(TensorParts&)>& spoil) {
    TensorParts parts;
    spoil(parts);
    return parts;
  };
  expect_tensor_refused("does not fit its storage of 6", with([](auto& p) { p.offset = 1; }));
  expect_tensor_refused("does not fit its storage of 6", with([](auto& p) { p.offset = -1; }));
  expect_tensor_refused("does not fit its storage of 6", with([](auto& p) { p.offset = INT64_MAX; }));
  expect_tensor_refused("does not fit its storage of 6", with([](auto& p) { p.shape = {3, 3}; }));
  expect_tensor_refused("does not fit its storage of 6", with([](auto& p) { p.strides = {4, 1}; }));
  expect_tensor_refused("are negative or too large", with([](auto& p) { p.strides = {-3, 1}; }));
  expect_tensor_refused("are negative or too large", with([](auto& p) {
                          p.strides = {INT64_MAX, INT64_MAX};
                        }));
  expect_tensor_refused("is negative or too large", with([](auto& p) { p.shape = {-2, 3}; }));
  expect_tensor_refused("shape and strides disagree", with([](auto& p) { p.strides = {1}; }));
  expect_tensor_refused("a storage of 7 F32 values in 24 bytes", with([](auto& p) { p.count = 7; }));
  expect_tensor_refused("a storage of 9223372036854775807", with([](auto& p) { p.count = INT64_MAX; }));
  expect_tensor_refused("no member 'm/data/9'", with([](auto& p) { p.key = "9"; }));
  // Strides of 0 would let a few bytes claim any amount of memory.
  expect_tensor_refused("does not fit its storage of 6", with([](auto& p) {
                          p.shape = {1ll << 40};
                          p.strides = {0};
                        }));
}

TEST(Pth, RefusesADictThatHoldsItselfOrDoublesAtEveryLevel) {
  expect_pth_refused("nested too deep or too often", make_pth("}q\x01(" + pickle_text("a") + "h\x01u"));
  std::string doubling = "}(" + pickle_text("w") + pickle_tensor() + "u" + std::string{'q', 0};
  for (char level = 1; level < 30; ++level) {
    const std::string below{'h', static_cast<char>(level - 1)};
    doubling += "}(" + pickle_text("a") + below + pickle_text("b") + below + "u" + std::string{'q', level};
  }
  // All levels lie on the stack; the last one is the root.
  expect_pth_refused("nested too deep or too often", make_pth(doubling));
}

TEST(Pth, RefusesOtherZipFiles) {
  expect_pth_refused("a zip file without data.pkl", make_zip({{"a.txt", "x"}}));
  expect_pth_refused("byte order 'big'",
                     make_zip({{"m/data.pkl", finish_pickle("}")}, {"m/byteorder", "big"}}));
  expect_pth_refused("member 'm/data.pkl' is compressed", make_zip({{"m/data.pkl", finish_pickle("}"), 8}}));
  expect_pth_refused("is encrypted", make_zip({{"m/data.pkl", finish_pickle("}"), 0, 1}}));
  expect_pth_refused("stands twice", make_zip({{"m/data.pkl", "x"}, {"m/data.pkl", "y"}}));
}

TEST(Pth, RefusesDamagedZipFiles) {
  const std::string good = make_pth(pickle_dict({{"w", pickle_tensor()}}));
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_THROW(parse_pth(as_span(good).first(size), "file"), Error) << size;
  }
  expect_pth_refused("no directory at its end", "PK\3\4 and nothing else that a zip file would have");
  std::string outside = good;
  outside.replace(outside.size() - 6, 4, pack<uint32_t>(0x7fffffff));
  expect_pth_refused("its directory lies outside it", outside);
}

}  // namespace
}  // namespace openwork
