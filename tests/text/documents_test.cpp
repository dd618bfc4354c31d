// Documents come out of every kind of file as they went in, and each bad file is one line of error.
#include "text/documents.h"

#include <gmock/gmock.h>
#include <lzma.h>
#include <zstd.h>

#include "io/safetensors.h"
#include "text/prompt_file.h"
#include "text/text_files.h"
#include "text/token_shard.h"

namespace openwork {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;

std::string pack_xz(std::string_view text) {
  std::string out(lzma_stream_buffer_bound(text.size()), '\0');
  size_t size = 0;
  lzma_easy_buffer_encode(1, LZMA_CHECK_CRC64, nullptr, reinterpret_cast<const uint8_t*>(text.data()),
                          text.size(), reinterpret_cast<uint8_t*>(out.data()), &size, out.size());
  out.resize(size);
  return out;
}

std::string pack_zst(std::string_view text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 1));
  return out;
}

std::vector<std::string> documents_of(const std::vector<fs::path>& files) {
  std::vector<std::string> documents;
  for_each_document(files, [&](std::string_view text) {
    documents.emplace_back(text);
    return true;
  });
  return documents;
}

std::vector<TokenDocument> token_documents_of(const std::vector<fs::path>& files) {
  std::vector<TokenDocument> documents;
  for_each_token_document(files, &small_tokenizer(), 0, [&](TokenDocument&& document) {
    documents.push_back(std::move(document));
    return true;
  });
  return documents;
}

TEST(Documents, SplitsTextAtItsMarkerAndLeavesOutEmptyOnes) {
  const TestFolder folder;
  const auto file = folder.write("a.txt", "one\n<|endoftext|><|endoftext|>two <|endoftex<|endoftext|>");
  EXPECT_THAT(documents_of({file}), ElementsAre("one\n", "two <|endoftex"));
  EXPECT_THAT(documents_of({file, folder.write("b.txt", "three")}),
              ElementsAre("one\n", "two <|endoftex", "three"));
}

TEST(Documents, FindsMarkersWhereverReadingCutsThem) {
  const TestFolder folder;
  constexpr size_t kChunk = 1 << 18;
  for (size_t cut = 0; cut <= kDocumentEnd.size(); ++cut) {
    const std::string first(kChunk - cut, 'x');
    const auto file = folder.write("a.txt", first + std::string(kDocumentEnd) + "y");
    EXPECT_EQ(documents_of({file}), (std::vector<std::string>{first, "y"})) << cut;
  }
}

TEST(Documents, UnpacksXzAndZstOfAnyNumberOfPieces) {
  const TestFolder folder;
  std::string large;
  while (large.size() < 3'000'000) large += "line " + std::to_string(large.size()) + "\n";
  const std::string tail = "<|endoftext|>second";
  for (const auto& pack : {pack_xz, pack_zst}) {
    const auto file = folder.write("data", pack(large) + pack(tail));
    const auto documents = documents_of({file});
    ASSERT_EQ(documents.size(), 2u);
    EXPECT_TRUE(documents[0] == large);
    EXPECT_EQ(documents[1], "second");
  }
}

TEST(Documents, ReadsJsonLines) {
  const TestFolder folder;
  const std::string lines =
      "{\"text\": \"one\\n\"}\n\n{\"text\": \"\"}\r\n{\"id\": 2, \"text\": \"two <|endoftext|>\"}";
  const std::vector<std::string> expected = {"one\n", "two <|endoftext|>"};
  EXPECT_EQ(documents_of({folder.write("a.jsonl", lines)}), expected);
  EXPECT_EQ(documents_of({folder.write("by_content", lines)}), expected);
  EXPECT_EQ(documents_of({folder.write("a.jsonl.zst", pack_zst(lines))}), expected);
  // A frame that ends where the reader's buffer does, and one more behind it.
  for (const size_t size : {size_t{1} << 18, size_t{1} << 20}) {
    const std::string text(size, 'a'), more(10, 'b');
    EXPECT_EQ(documents_of({folder.write("full.txt.zst", pack_zst(text))}), std::vector<std::string>{text});
    EXPECT_EQ(documents_of({folder.write("two.txt.zst", pack_zst(text) + pack_zst(more))}),
              std::vector<std::string>{text + more});
  }
  const std::string skipped("\x50\x2a\x4d\x18\x04\0\0\0abcd", 12);  // as pzstd begins
  EXPECT_EQ(documents_of({folder.write("parallel.zst", skipped + pack_zst("one"))}),
            std::vector<std::string>{"one"});
  EXPECT_EQ(documents_of({folder.write("code.txt", "{ not JSON }\nx")}),
            (std::vector<std::string>{"{ not JSON }\nx"}));
}

TEST(Documents, StopsWhenAskedTo) {
  const TestFolder folder;
  const auto file = folder.write("a.txt", "1<|endoftext|>2<|endoftext|>3");
  int seen = 0;
  for_each_document({file, file}, [&](std::string_view) { return ++seen < 2; });
  EXPECT_EQ(seen, 2);
  seen = 0;
  for_each_token_document({file, file}, &small_tokenizer(), 0, [&](TokenDocument&&) { return ++seen < 2; });
  EXPECT_EQ(seen, 2);
}

TEST(Documents, RefusesBadFilesInOneLine) {
  const TestFolder folder;
  const auto refused = [&](const std::string& words, const std::string& name, const std::string& content) {
    expect_bad_input(words, [&] { documents_of({folder.write(name, content)}); });
    expect_bad_input(words, [&] { token_documents_of({folder / name}); });
  };
  const std::string text(100'000, 'x');
  refused("the file is empty", "empty", "");
  refused("xz file ends too early", "cut.xz", pack_xz(text).substr(0, 60));
  refused("zst file ends too early", "cut.zst", pack_zst(text).substr(0, 12));
  std::string damaged = pack_xz(text);
  damaged[30] ^= 0x55;
  refused("xz file is damaged", "damaged.xz", damaged);
  refused("xz file is damaged", "trailing.xz", pack_xz(text) + "rubbish, rubbish, rubbish");
  refused("zst file is damaged", "trailing.zst", pack_zst(text) + "rubbish!");
  refused("not valid UTF-8 at byte 20", "bad.txt", "1234567<|endoftext|>\xff");
  refused("line 2", "lines.jsonl", "{\"text\": \"a\"}\n[1]\n");
  refused("not a JSON object with a \"text\" string", "no_text", "{\"body\": \"a\"}\n");
  refused("not a JSON object with a \"text\" string", "number", "{\"text\": 5}\n");
  expect_bad_input("cannot open", [&] { documents_of({folder / "missing"}); });
  expect_bad_input("this is a folder", [&] { documents_of({folder.path()}); });
}

TEST(Documents, HashesTheSameEverywhere) {  // numbers from the definition, worked out in Python
  EXPECT_EQ(hash_document(""), 0xc3817c016ba4ff30ull);
  EXPECT_EQ(hash_document("a"), 0x5f29c2aadd9b8527ull);
  int held_out = 0;
  for (int i = 0; i < 100'000; ++i)
    held_out += is_held_out(hash_document("document " + std::to_string(i))) ? 1 : 0;
  EXPECT_NEAR(held_out, 400, 80);  // one in 250
}

TEST(TokenDocuments, AreTheDocumentsEncodedInOrderWithTheirEnds) {
  const TestFolder folder;
  std::string text;
  std::vector<std::string> expected;
  for (int i = 0; i < 3000; ++i) {
    expected.push_back("Document " + std::to_string(i) +
                       " says: " + std::string(static_cast<size_t>(i % 700) * 5, 'e'));
    text += expected.back() + std::string(kDocumentEnd);
  }
  const auto documents = token_documents_of({folder.write("a.txt.xz", pack_xz(text))});
  ASSERT_EQ(documents.size(), expected.size());
  for (size_t i = 0; i < documents.size(); ++i) {
    Ids ids = small_tokenizer().encode(expected[i]);
    ids.push_back(0);
    EXPECT_EQ(documents[i].tokens, ids);
    EXPECT_EQ(documents[i].bytes, expected[i].size());
    EXPECT_EQ(documents[i].hash, hash_document(expected[i]));
  }
}

TEST(TokenShards, GiveBackWhatWasWritten) {
  const TestFolder folder;
  const auto text = folder.write("a.txt", "First one.<|endoftext|>The second \xe2\x82\xac<|endoftext|>3");
  const auto documents = token_documents_of({text});
  write_token_shard(folder / "shard", documents, small_tokenizer(), 0);
  const auto read = token_documents_of({folder / "shard", text});
  ASSERT_EQ(read.size(), 6u);
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(read[i].tokens, documents[i % 3].tokens);
    EXPECT_EQ(read[i].bytes, documents[i % 3].bytes);
    EXPECT_EQ(read[i].hash, documents[i % 3].hash);
  }
  expect_bad_input("token shard, which holds no text", [&] { documents_of({folder / "shard"}); });
}

// A shard with any part changed.
struct RawShard {
  std::vector<int32_t> tokens = {5, 6, 0, 7, 0};
  std::vector<int64_t> starts = {0, 3}, bytes = {2, 1};
  std::map<std::string, std::string> metadata = {
      {"format", "openwork.tokens"}, {"version", "1"}, {"end_of_text", "0"}};

  fs::path write(const TestFolder& folder) const {
    const auto length = [](const auto& numbers) {
      return std::vector<int64_t>{static_cast<int64_t>(numbers.size())};
    };
    write_safetensors(folder / "shard",
                      {{"tokens", DType::kI32, length(tokens), bytes_of(tokens)},
                       {"document_starts", DType::kI64, length(starts), bytes_of(starts)},
                       {"document_bytes", DType::kI64, length(bytes), bytes_of(bytes)}},
                      metadata);
    return folder / "shard";
  }
};

TEST(TokenShards, ReadWideTokensWithoutHashes) {
  const TestFolder folder;
  const auto documents = token_documents_of({RawShard().write(folder)});
  ASSERT_EQ(documents.size(), 2u);
  EXPECT_THAT(documents[0].tokens, ElementsAre(5, 6, 0));
  EXPECT_THAT(documents[1].tokens, ElementsAre(7, 0));
  EXPECT_EQ(documents[0].bytes, 2u);
  EXPECT_NE(documents[0].hash, documents[1].hash);
}

TEST(TokenShards, RefuseWhatDoesNotAddUp) {
  const TestFolder folder;
  const auto refused = [&](const std::string& words, const std::function<void(RawShard&)>& change) {
    RawShard shard;
    change(shard);
    const auto path = shard.write(folder);
    expect_bad_input(words, [&] { token_documents_of({path}); });
  };
  refused("holds no tokens", [](RawShard& s) { s.metadata.clear(); });
  refused("version 2", [](RawShard& s) { s.metadata["version"] = "2"; });
  refused("end-of-text token is 9", [](RawShard& s) { s.metadata["end_of_text"] = "9"; });
  refused("end_of_text is not a number", [](RawShard& s) { s.metadata["end_of_text"] = "x"; });
  refused("the tokenizer has 600 tokens", [](RawShard& s) { s.tokens[1] = 600; });
  refused("the tokenizer has 600 tokens", [](RawShard& s) { s.tokens[1] = -1; });
  refused("does not end with", [](RawShard& s) { s.tokens[2] = 8; });
  refused("document 1 starts at token 9 of 5", [](RawShard& s) { s.starts[1] = 9; });
  refused("document 0 starts at token 1", [](RawShard& s) { s.starts[0] = 1; });
  refused("ends before it starts", [](RawShard& s) { s.starts = {0, 5, 3}, s.bytes = {1, 1, 1}; });
  refused("document_bytes has 1 numbers for 2", [](RawShard& s) { s.bytes.pop_back(); });
  refused("document 1 is said to have 18446744073709551615 bytes", [](RawShard& s) { s.bytes[1] = -1; });
}

TEST(TokenShards, OfAnotherTokenizerAreRefused) {
  const TestFolder folder;
  const auto refused = [&](const std::string& words, const std::function<void(RawShard&)>& change) {
    RawShard shard;
    change(shard);
    const auto path = shard.write(folder);
    expect_bad_input("made with another tokenizer (" + words, [&] { token_documents_of({path}); });
  };
  refused("of 601 tokens", [](RawShard& s) { s.metadata["vocabulary"] = "601"; });
  refused("its tokens are others", [](RawShard& s) { s.metadata["vocabulary_hash"] = "0123456789abcdef"; });
  refused("its documents have other lengths", [](RawShard& s) { s.bytes = {200, 100}; });
  RawShard same;
  same.metadata["vocabulary"] = "600";
  same.metadata["vocabulary_hash"] = hash_vocabulary(small_tokenizer());
  same.bytes = {200, 100};  // as a normaliser may have it: the hash is what counts
  EXPECT_EQ(token_documents_of({same.write(folder)}).size(), 2u);
}

TEST(TokenBlocks, CoverTheStreamEachWithItsNextToken) {
  const TestFolder folder;
  const auto file =
      folder.write("a.txt", "Hello there, world.<|endoftext|>Another \xe2\x82\xac document<|endoftext|>End.");
  Ids stream;
  for (const auto& document : token_documents_of({file}))
    stream.insert(stream.end(), document.tokens.begin(), document.tokens.end());
  const TokenBlocks blocks = read_blocks({file}, &small_tokenizer(), 0, 4, 0);
  EXPECT_EQ(blocks.count, (static_cast<int64_t>(stream.size()) - 1) / 4);
  ASSERT_EQ(blocks.tokens.size(), static_cast<size_t>(blocks.count * 4 + 1));
  EXPECT_TRUE(std::equal(blocks.tokens.begin(), blocks.tokens.end(), stream.begin()));
  EXPECT_EQ(blocks.document.front(), 0);
  EXPECT_EQ(blocks.document.size(), blocks.tokens.size());
  EXPECT_EQ(read_blocks({file}, &small_tokenizer(), 0, 4, 2).tokens.size(), 9u);
}

TEST(TokenBlocks, CountEveryByteOfEveryDocument) {
  const TestFolder folder;
  // NFC joins e and its accent, so the pieces have fewer bytes than the text; NFD has more.
  for (const char* form : {"NFC", "NFD", "NFKC"}) {
    const Tokenizer tokenizer =
        Tokenizer::from_json(changed_tokenizer({{"normalizer", {{"type", form}}}}), form);
    const auto file =
        folder.write("a.txt",
                     "cafe\xcc\x81 caf\xc3\xa9 "
                     "\xef\xac\x81<|endoftext|>\xc3\xa9\xc3\xa9<|endoftext|>plain<|endoftext|>last one");
    const TokenBlocks blocks = read_blocks({file}, &tokenizer, 0, 1, 0);
    std::map<int32_t, uint64_t> bytes;
    for (size_t i = 0; i < blocks.tokens.size(); ++i) {
      bytes[blocks.document[i]] += blocks.bytes[i];
      EXPECT_TRUE(blocks.tokens[i] != 0 || blocks.bytes[i] == 0);
    }
    EXPECT_EQ(bytes[0], 16u) << form;
    EXPECT_EQ(bytes[1], 4u) << form;
    EXPECT_EQ(bytes[2], 5u) << form;
  }
}

TEST(TokenBlocks, OfShardsNeedNoTokenizer) {
  const TestFolder folder;
  RawShard shard;
  shard.tokens = {5, 600, 8, 9, 3, 7, 3}, shard.starts = {0, 5}, shard.bytes = {10, 2};
  shard.metadata["end_of_text"] = "3";  // its own
  const TokenBlocks blocks = read_blocks({shard.write(folder)}, nullptr, 0, 2, 0);
  EXPECT_EQ(blocks.count, 3);
  EXPECT_THAT(blocks.tokens, ElementsAre(5, 600, 8, 9, 3, 7, 3));
  EXPECT_THAT(blocks.document, ElementsAre(0, 0, 0, 0, 0, 1, 1));
  EXPECT_THAT(blocks.bytes, ElementsAre(2, 3, 2, 3, 0, 2, 0));
  const auto text = folder.write("a.txt", "some text");
  expect_bad_input("a text, and the model has no tokenizer", [&] { read_blocks({text}, nullptr, 0, 2, 0); });
}

TEST(PromptFile, IsJsonLinesByItsOwnNameOrItsFirstLine) {
  const TestFolder folder;
  const std::vector<std::string> texts = {"{name} went to", "The dog"};
  EXPECT_EQ(read_prompt_file(folder.write("brace.txt", "{name} went to\nThe dog\n")), texts);
  std::filesystem::create_directories(folder / "of.jsonl.d");
  EXPECT_EQ(read_prompt_file(folder.write("of.jsonl.d/prompts.txt", "{name} went to\nThe dog")), texts);
  EXPECT_EQ(read_prompt_file(folder.write("lines", "{\"text\": \"The dog\"}")),
            std::vector<std::string>{"The dog"});
  expect_bad_input("not valid JSON", [&] { read_prompt_file(folder.write("bad.jsonl", "The dog")); });
}

TEST(PromptFile, ThatUnpacksToTooMuchIsRefused) {
  const TestFolder folder;
  const auto file = folder.write("prompts.zst", pack_zst(std::string(size_t{9} << 20, 'a')));
  expect_bad_input("it unpacks to more than 8388608 bytes", [&] { read_prompt_file(file); });
}

TEST(TokenBlocks, RefuseTooLittleText) {
  const TestFolder folder;
  const auto file = folder.write("a.txt", "short");
  expect_bad_input("fewer than one block of 512",
                   [&] { read_blocks({file}, &small_tokenizer(), 0, 512, 0); });
  expect_bad_input("context of 0", [&] { read_blocks({file}, &small_tokenizer(), 0, 0, 0); });
}

}  // namespace
}  // namespace openwork
