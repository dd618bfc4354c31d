// Tokenizers give the ids that Hugging Face's tokenizers package gives (golden files made with its version
// 0.23).
#include "text/tokenizer.h"

#include <gmock/gmock.h>

#include <random>
#include <thread>

#include "base/utf8.h"
#include "text/text_files.h"
#include "text/tokenizer_files.h"
#include "text/tokenizer_parts.h"

namespace openwork {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::IsEmpty;

void expect_ids(const Tokenizer& tokenizer, const json& texts, const json& ids, const std::string& name) {
  ASSERT_EQ(texts.size(), ids.size());
  for (size_t i = 0; i < texts.size(); ++i)
    EXPECT_EQ(tokenizer.encode(texts[i].get<std::string>()), ids[i].get<Ids>())
        << name << ", text " << texts[i];
}

json small_metadata() {
  const json model = small_tokenizer_json()["model"];
  json tokens = json::array(), types = json::array(), merges = json::array();
  for (size_t i = 0; i < model["vocab"].size(); ++i) tokens.push_back(nullptr), types.push_back(1);
  for (const auto& [token, id] : model["vocab"].items()) tokens[id.get<size_t>()] = token;
  types[0] = 3;
  for (const json& merge : model["merges"])
    merges.push_back(merge[0].get<std::string>() + " " + merge[1].get<std::string>());
  return {{"tokenizer.ggml.model", "gpt2"},  {"tokenizer.ggml.pre", "gpt-2"},
          {"tokenizer.ggml.tokens", tokens}, {"tokenizer.ggml.token_type", types},
          {"tokenizer.ggml.merges", merges}, {"tokenizer.ggml.bos_token_id", 1},
          {"tokenizer.ggml.eos_token_id", 2}};
}

TEST(Tokenizer, GivesTheReferencesIdsForTheShippedModel) {
  const Tokenizer tokenizer = Tokenizer::from_file("models/openwork-8m");
  const json golden = read_json_file("tests/data/text/openwork_8m_tokens.json");
  expect_ids(tokenizer, golden["texts"], golden["ids"], "openwork-8m");
  EXPECT_EQ(tokenizer.size(), 8192);
  EXPECT_EQ(tokenizer.end_of_text_id(), 0);
  EXPECT_EQ(tokenizer.beginning_id(), 0);
  EXPECT_THAT(tokenizer.prefix(), IsEmpty());
}

TEST(Tokenizer, GivesTheReferencesIdsForEveryPartItKnows) {
  const json golden = read_json_file("tests/data/text/tokenizer_variants.json");
  ASSERT_GT(golden["variants"].size(), 30u);
  for (const json& variant : golden["variants"]) {
    const auto name = variant["name"].get<std::string>();
    const Tokenizer tokenizer = Tokenizer::from_json(changed_tokenizer(variant["changes"]), name);
    expect_ids(tokenizer, golden["texts"], variant["ids"], name);
  }
}

TEST(Tokenizer, GivesTheReferencesIdsForPublishedTokenizers) {
  const auto path = shared_file("fixtures/tokenizers.json");
  SKIP_WITHOUT_SHARED(path);
  const json golden = read_json_file(path);
  for (const auto& [name, ids] : golden["ids"].items()) {
    const auto file =
        name == "base-8m" ? shared_file("models/base-8m") : shared_file("tokenizers/" + name + ".json");
    expect_ids(Tokenizer::from_file(file), golden["texts"], ids, name);
  }
}

std::string random_text(std::mt19937& random) {
  std::string text;
  for (int i = 0, length = static_cast<int>(random() % 40); i < length; ++i) {
    const uint32_t kind = random() % 8;
    char32_t c = kind < 4 ? 0x20 + random() % 0x5f : kind < 6 ? random() % 0x3000 : random() % 0x110000;
    if (c >= 0xd800 && c < 0xe000) c = ' ';
    append_utf8(text, c);
    if (kind == 3) text += random() % 2 == 0 ? "  " : "<|endoftext|>";
  }
  return text;
}

TEST(Tokenizer, DecodesWhatItEncodes) {
  std::mt19937 random(1);
  const Tokenizer shipped = Tokenizer::from_file("models/openwork-8m");
  for (int i = 0; i < 2000; ++i) {
    const std::string text = random_text(random);
    EXPECT_EQ(shipped.decode(shipped.encode(text)), text);
    EXPECT_EQ(small_tokenizer().decode(small_tokenizer().encode(text)), text);
  }
}

TEST(Tokenizer, EncodesTextBetweenSpecialTokensAsIfAlone) {
  std::mt19937 random(2);
  const Tokenizer& tokenizer = small_tokenizer();
  for (int i = 0; i < 500; ++i) {
    const std::string left = random_text(random), right = random_text(random);
    Ids expected = tokenizer.encode(left);
    expected.push_back(*tokenizer.end_of_text_id());
    for (const int32_t id : tokenizer.encode(right)) expected.push_back(id);
    EXPECT_EQ(tokenizer.encode(left + "<|endoftext|>" + right), expected);
  }
}

TEST(Tokenizer, GivesTheSameIdsOnManyThreads) {
  std::mt19937 random(3);
  const Tokenizer& tokenizer = small_tokenizer();
  std::vector<std::string> texts;
  std::vector<Ids> expected;
  for (int i = 0; i < 300; ++i) expected.push_back(tokenizer.encode(texts.emplace_back(random_text(random))));
  std::vector<int> wrong(8);
  {
    std::vector<std::jthread> threads;
    for (size_t t = 0; t < wrong.size(); ++t)
      threads.emplace_back([&, t] {
        for (size_t i = 0; i < texts.size(); ++i)
          wrong[t] += tokenizer.encode(texts[i]) != expected[i] ? 1 : 0;
      });
  }
  EXPECT_THAT(wrong, testing::Each(0));
}

TEST(Tokenizer, TakesAHundredThousandEqualLettersInItsStride) {
  const std::string text(100'000, 'A');
  const Ids ids = small_tokenizer().encode(text);
  EXPECT_EQ(small_tokenizer().decode(ids), text);
}

TEST(Tokenizer, TakesAMillionSpacesInItsStride) {
  const std::string text = std::string(1'000'000, ' ') + "x";
  EXPECT_EQ(small_tokenizer().decode(small_tokenizer().encode(text)), text);
  json metadata = small_metadata();
  metadata["tokenizer.ggml.pre"] = "llama-bpe";  // its \s*[\r\n]+ looks for a line end all the way
  const Tokenizer llama = Tokenizer::from_gguf_metadata(metadata, "llama");
  EXPECT_EQ(llama.decode(llama.encode(text)), text);
}

TEST(Tokenizer, KeepsOrSkipsSpecialTokensWhenDecoding) {
  const Ids ids = small_tokenizer().encode("a<|endoftext|>b");
  EXPECT_EQ(small_tokenizer().decode(ids), "a<|endoftext|>b");
  EXPECT_EQ(small_tokenizer().decode(ids, true), "ab");
  EXPECT_TRUE(small_tokenizer().is_special(ids[1]));
  EXPECT_FALSE(small_tokenizer().is_special(ids[0]));
  EXPECT_FALSE(small_tokenizer().is_special(-1));
}

TEST(Tokenizer, GivesPiecesAsBytesAndDecodesBrokenOnesAsReplacementCharacters) {
  const Ids ids = small_tokenizer().encode("\xe2\x82\xac");  // the euro sign: three byte tokens
  ASSERT_EQ(ids.size(), 3u);
  EXPECT_EQ(small_tokenizer().piece(ids[0]), "\xe2");
  EXPECT_EQ(small_tokenizer().decode(Ids{ids[0], ids[1]}), "\xef\xbf\xbd");  // one character cut short
  EXPECT_EQ(small_tokenizer().decode(Ids{ids[1], ids[1]}), "\xef\xbf\xbd\xef\xbf\xbd");
  EXPECT_EQ(small_tokenizer().piece(100'000), "");
  EXPECT_EQ(small_tokenizer().piece(-5), "");
  EXPECT_EQ(small_tokenizer().decode(Ids{100'000, ids[0], ids[1], ids[2]}), "\xe2\x82\xac");
}

TEST(Tokenizer, FindsTokensByTheirWrittenForm) {
  EXPECT_EQ(small_tokenizer().id_of("<|endoftext|>"), 0);
  ASSERT_TRUE(small_tokenizer().id_of("\xc4\xa0the"));
  EXPECT_EQ(small_tokenizer().piece(*small_tokenizer().id_of("\xc4\xa0the")), " the");
  EXPECT_FALSE(small_tokenizer().id_of("no such token"));
}

TEST(Tokenizer, ReadsWhatItsTemplateAddsAroundAText) {
  const json processor = {
      {"type", "Sequence"},
      {"processors",
       {{{"type", "ByteLevel"}},
        {{"type", "TemplateProcessing"},
         {"single",
          {{{"SpecialToken", {{"id", "B"}, {"type_id", 0}}}},
           {{"Sequence", {{"id", "A"}, {"type_id", 0}}}},
           {{"SpecialToken", {{"id", "E"}, {"type_id", 0}}}}}},
         {"special_tokens", {{"B", {{"id", "B"}, {"ids", {7}}}}, {"E", {{"id", "E"}, {"ids", {8, 9}}}}}}}}}};
  const Tokenizer tokenizer =
      Tokenizer::from_json(changed_tokenizer({{"post_processor", processor}}), "template");
  EXPECT_THAT(tokenizer.prefix(), ElementsAre(7));
  EXPECT_THAT(tokenizer.suffix(), ElementsAre(8, 9));
  EXPECT_EQ(tokenizer.beginning_id(), 7);
  const Tokenizer roberta = Tokenizer::from_json(
      changed_tokenizer(
          {{"post_processor", {{"type", "RobertaProcessing"}, {"cls", {"<s>", 3}}, {"sep", {"</s>", 4}}}}}),
      "roberta");
  EXPECT_THAT(roberta.prefix(), ElementsAre(3));
  EXPECT_THAT(roberta.suffix(), ElementsAre(4));
}

TEST(Tokenizer, TakesBeginningAndEndFromTheFilesBesideIt) {
  const TestFolder folder;
  json tokenizer = small_tokenizer_json();
  tokenizer["model"]["vocab"].erase("<|endoftext|>");
  tokenizer["added_tokens"] = json::array();
  tokenizer["model"]["vocab"]["<end>"] = 0;
  folder.write("tokenizer.json", tokenizer.dump());
  folder.write("config.json", R"({"bos_token_id": 5, "eos_token_id": [6, 7]})");
  EXPECT_EQ(Tokenizer::from_file(folder.path()).beginning_id(), 5);
  EXPECT_EQ(Tokenizer::from_file(folder.path()).end_of_text_id(), 6);
  folder.write("tokenizer_config.json", R"({"eos_token": {"content": "<end>"}, "add_bos_token": true})");
  const Tokenizer read = Tokenizer::from_file(folder.path());
  EXPECT_EQ(read.end_of_text_id(), 0);
  EXPECT_THAT(read.prefix(), ElementsAre(5));
}

TEST(Tokenizer, ReadsGpt2sOldLayout) {
  const TestFolder folder;
  const json model = small_tokenizer_json()["model"];
  std::string merges = "#version: 0.2\n";
  for (const json& merge : model["merges"])
    merges += merge[0].get<std::string>() + " " + merge[1].get<std::string>() + "\n";
  folder.write("vocab.json", model["vocab"].dump());
  folder.write("merges.txt", merges);
  const Tokenizer tokenizer = Tokenizer::from_file(folder.path());
  const std::string text = "Hello there, it's 1889!<|endoftext|>\n";
  EXPECT_EQ(tokenizer.encode(text), small_tokenizer().encode(text));
}

TEST(Tokenizer, OfAWeightsFileIsTheOneBesideIt) {
  const TestFolder folder;
  folder.write("tokenizer.json", small_tokenizer_json().dump());
  const std::filesystem::path weights = folder.write("model.safetensors", "numbers");
  EXPECT_EQ(tokenizer_place(weights), folder.path());
  EXPECT_EQ(tokenizer_place(folder / "model.safetensors.index.json"), folder.path());
  copy_tokenizer(weights, folder / "copy");
  EXPECT_EQ(Tokenizer::from_file(folder / "copy").encode("Hello there"),
            small_tokenizer().encode("Hello there"));
}

TEST(Tokenizer, RefusesTextThatIsNotUtf8NamingTheByte) {
  expect_bad_input("not valid UTF-8 at byte 10", [] { small_tokenizer().encode("0123456789\xff"); });
  expect_bad_input("not valid UTF-8 at byte 0", [] { small_tokenizer().encode("\xed\xa0\x80"); });
}

void expect_refused(const std::string& words, const json& changes) {
  expect_bad_input(words, [&] { Tokenizer::from_json(changed_tokenizer(changes), "file.json"); });
}

TEST(Tokenizer, RefusesWhatItDoesNotKnowNamingIt) {
  expect_refused("normalizer of type BertNormalizer", {{"normalizer", {{"type", "BertNormalizer"}}}});
  expect_refused("pre_tokenizer of type Metaspace", {{"pre_tokenizer", {{"type", "Metaspace"}}}});
  expect_refused("not byte-level", {{"pre_tokenizer", nullptr}});
  expect_refused("not byte-level", {{"pre_tokenizer", {{"type", "Digits"}}}});
  expect_refused("post_processor of type Odd", {{"post_processor", {{"type", "Odd"}}}});
  expect_refused("decoder of type Metaspace", {{"decoder", {{"type", "Metaspace"}}}});
  expect_refused("model \"Unigram\"", {{"model", {{"type", "Unigram"}}}});
  expect_refused("dropout", {{"model", {{"dropout", 0.1}}}});
  expect_refused("end_of_word_suffix", {{"model", {{"end_of_word_suffix", "</w>"}}}});
  expect_refused("continuing_subword_prefix", {{"model", {{"continuing_subword_prefix", "##"}}}});
  expect_refused(
      "behaviour Sideways",
      {{"pre_tokenizer", {{"type", "Split"}, {"pattern", {{"String", "x"}}}, {"behavior", "Sideways"}}}});
  expect_refused("byte_fallback",
                 {{"model", {{"byte_fallback", true}, {"vocab", {{"a", 0}}}, {"merges", json::array()}}},
                  {"added_tokens", json::array()}});
}

TEST(Tokenizer, RefusesDamagedFiles) {
  expect_refused("\"unk_token\" is not in the vocabulary", {{"model", {{"unk_token", "nowhere"}}}});
  expect_refused("no \"vocab\"", {{"model", {{"vocab", nullptr}}}});
  expect_refused("\"merges\" is missing", {{"model", {{"merges", nullptr}}}});
  expect_refused("merge 0 is not two tokens", {{"model", {{"merges", {"a b c"}}}}});
  expect_refused("merge 0 needs token zz", {{"model", {{"merges", {"zz a"}}}}});
  expect_refused("has id -1", {{"model", {{"vocab", {{"a", -1}}}}}});
  expect_refused("has id 4000000000", {{"model", {{"vocab", {{"a", 4000000000u}}}}}});
  expect_refused("two tokens have id 0",
                 {{"model", {{"vocab", {{"a", 0}, {"b", 0}}}, {"merges", json::array()}}}});
  expect_refused("\"content\" is missing", {{"added_tokens", {{{"id", 1}}}}});
  expect_refused("\"added_tokens\" is missing or is not a list", {{"added_tokens", "none"}});
  expect_refused(
      "adds token 100000",
      {{"post_processor", {{"type", "RobertaProcessing"}, {"cls", {"<s>", 100000}}, {"sep", {"</s>", 4}}}}});
  expect_refused(
      "not a token's",
      {{"post_processor", {{"type", "BertProcessing"}, {"cls", {"<s>", 1ull << 40}}, {"sep", {"</s>", 4}}}}});
  expect_bad_input("must hold an object", [] { Tokenizer::from_json(json::array(), "file.json"); });
  expect_bad_input("no \"model\"", [] { Tokenizer::from_json(json::object(), "file.json"); });
  expect_bad_input("no such file", [] { Tokenizer::from_file("no/such/place"); });
  const TestFolder folder;
  expect_bad_input("no tokenizer.json", [&] { Tokenizer::from_file(folder.path()); });
  expect_bad_input("bad.json", [&] { Tokenizer::from_file(folder.write("bad.json", "{\"model\": ")); });
}

TEST(Tokenizer, RefusesSequencesNestedWithoutEnd) {
  json part = {{"type", "ByteLevel"}};
  for (int i = 0; i < 100; ++i) part = {{"type", "Sequence"}, {"pretokenizers", {part}}};
  expect_refused("nested too deep", {{"pre_tokenizer", part}});
}

TEST(TokenizerGguf, MeansWhatTheTokenizerFileSays) {
  const std::map<std::string, std::string> same = {{"gpt-2", "as it is"},
                                                   {"smollm", "SmolLM2: single digits"},
                                                   {"llama-bpe", "Llama 3: GPT-4 words, whole words first"},
                                                   {"olmo", "NFC"},
                                                   {"dbrx", "OLMo 2: GPT-4 words, removed and inverted"},
                                                   {"gpt-4o", "GPT-4o words"}};
  const json golden = read_json_file("tests/data/text/tokenizer_variants.json");
  json metadata = small_metadata();
  for (const auto& [pre, variant_name] : same) {
    metadata["tokenizer.ggml.pre"] = pre;
    const Tokenizer tokenizer = Tokenizer::from_gguf_metadata(metadata, pre);
    for (const json& variant : golden["variants"])
      if (variant["name"] == variant_name) expect_ids(tokenizer, golden["texts"], variant["ids"], pre);
  }
}

TEST(TokenizerGguf, EndsTextsWithTheTokenWrittenEndoftextWhateverItsEosSays) {
  json metadata = small_metadata();
  const Tokenizer tokenizer = Tokenizer::from_gguf_metadata(metadata, "gguf");
  EXPECT_EQ(tokenizer.end_of_text_id(), 0);
  EXPECT_EQ(tokenizer.beginning_id(), 1);
  EXPECT_THAT(tokenizer.prefix(), IsEmpty());
  metadata["tokenizer.ggml.add_bos_token"] = true;
  EXPECT_THAT(Tokenizer::from_gguf_metadata(metadata, "gguf").prefix(), ElementsAre(1));
  metadata["tokenizer.ggml.tokens"][0] = "<|other|>";
  EXPECT_EQ(Tokenizer::from_gguf_metadata(metadata, "gguf").end_of_text_id(), 2);
}

TEST(TokenizerGguf, SaysTheSameAsTheFilesItWasMadeFrom) {
  for (const json& adds : {json(true), json(false), json()}) {  // null: Llama's files do not say, and do
    json metadata = small_metadata();
    metadata.update({{"tokenizer.ggml.pre", "llama-bpe"}, {"tokenizer.chat_template", "{{ bos_token }}"}});
    metadata["tokenizer.ggml.add_bos_token"] = adds;
    const TestFolder folder;
    folder.write("tokenizer.json", tokenizer_json_of_gguf(metadata, "gguf").dump());
    const json config = tokenizer_config_of_gguf(metadata, "gguf");
    folder.write("tokenizer_config.json", config.dump());
    const Tokenizer gguf = Tokenizer::from_gguf_metadata(metadata, "gguf");
    const Tokenizer files = Tokenizer::from_file(folder.path());
    EXPECT_EQ(files.prefix(), gguf.prefix()) << adds;
    EXPECT_EQ(files.beginning_id(), gguf.beginning_id()) << adds;
    EXPECT_EQ(config["chat_template"], "{{ bos_token }}");
    EXPECT_EQ(config["eos_token"], metadata["tokenizer.ggml.tokens"][2]);
  }
}

TEST(TokenizerGguf, CutsCharactersNotBytesWhereNothingSaysHow) {
  json metadata = small_metadata();
  metadata.erase("tokenizer.ggml.pre");
  const Tokenizer tokenizer = Tokenizer::from_gguf_metadata(metadata, "gguf");
  // A byte of "\u043e" is written as a fraction in the byte alphabet: no number of the text.
  json merges = metadata["tokenizer.ggml.merges"];
  metadata["tokenizer.ggml.tokens"].push_back("\u00d0\u00be");
  metadata["tokenizer.ggml.token_type"].push_back(1);
  merges.insert(merges.begin(), "\u00d0 \u00be");
  metadata["tokenizer.ggml.merges"] = merges;
  const Tokenizer merged = Tokenizer::from_gguf_metadata(metadata, "gguf");
  EXPECT_EQ(tokenizer.encode("\u043e").size(), 2u);
  EXPECT_EQ(merged.encode("\u043e").size(), 1u);
}

TEST(TokenizerGguf, RefusesOtherModelsAndUnknownPreTokenisers) {
  const auto refused = [](const std::string& words, const char* key, const json& value) {
    json metadata = small_metadata();
    metadata[key] = value;
    expect_bad_input(words, [&] { Tokenizer::from_gguf_metadata(metadata, "m.gguf"); });
  };
  refused("tokenizer.ggml.model is \"llama\"", "tokenizer.ggml.model", "llama");
  refused("pre-tokeniser sideways", "tokenizer.ggml.pre", "sideways");
  refused("pre-tokeniser 5", "tokenizer.ggml.pre", 5);
  refused("tokenizer.ggml.tokens is missing", "tokenizer.ggml.tokens", nullptr);
  refused("token types for", "tokenizer.ggml.token_type", json::array({1, 1}));
  json untyped = small_metadata();
  untyped.erase("tokenizer.ggml.token_type");
  untyped["tokenizer.ggml.tokens"] = {"a", 5};
  expect_bad_input("token 1 is not text", [&] { Tokenizer::from_gguf_metadata(untyped, "m.gguf"); });
  refused("tokenizer.ggml.merges is missing", "tokenizer.ggml.merges", 3);
  expect_bad_input("tokenizer.ggml.model is null",
                   [] { Tokenizer::from_gguf_metadata(json::object(), "m.gguf"); });
}

}  // namespace
}  // namespace openwork
