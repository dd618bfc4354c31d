// Text that appears token by token, and conversations written by a model's own template.
#include "text/text_stream.h"

#include <gmock/gmock.h>

#include <fstream>

#include "base/error.h"
#include "base/utf8.h"
#include "text/chat.h"
#include "text/text_files.h"

namespace openwork {
namespace {

using testing::HasSubstr;

const Tokenizer& shipped() {
  static const Tokenizer tokenizer = Tokenizer::from_file("models/openwork-8m");
  return tokenizer;
}

// All that comes out, each piece checked to be whole characters.
std::string stream_all(const std::vector<int32_t>& ids, const std::vector<std::string>& stops = {}) {
  TextStream stream(shipped(), stops);
  std::string out;
  for (const int32_t id : ids) {
    const std::string piece = stream.push(id);
    EXPECT_EQ(find_invalid_utf8(piece), std::string::npos);
    out += piece;
    if (stream.stopped()) return out;
  }
  return out + stream.finish();
}

TEST(TextStream, GivesWhatDecodeGivesInWholeCharacters) {
  for (const char* text : {"Hello world", "naïve 東京 🙂🙂 ok", "", "\n\n", "ÿ"}) {
    EXPECT_EQ(stream_all(shipped().encode(text)), text);
  }
}

TEST(TextStream, HoldsBackACharacterUntilItIsWhole) {
  const std::vector<int32_t> ids = shipped().encode("🙂");
  ASSERT_GT(ids.size(), 1u);
  TextStream stream(shipped());
  for (size_t n = 0; n + 1 < ids.size(); ++n) EXPECT_EQ(stream.push(ids[n]), "");
  EXPECT_EQ(stream.push(ids.back()), "🙂");
}

TEST(TextStream, AnyTokensGiveWhatDecodeGives) {
  uint64_t state = 1;
  for (int run = 0; run < 300; ++run) {
    std::vector<int32_t> ids;
    for (int n = 0; n < 12; ++n) {
      state = state * 6364136223846793005ull + 1442695040888963407ull;
      ids.push_back(
          static_cast<int32_t>((state >> 33) % (run % 2 ? 300 : 8192)));  // single bytes, mostly, or any
    }
    EXPECT_EQ(stream_all(ids), shipped().decode(ids));
  }
}

TEST(TextStream, EndsBeforeTheFirstStopText) {
  const std::vector<int32_t> ids = shipped().encode("One two three. Four five.\n\nSix");
  EXPECT_EQ(stream_all(ids, {"\n\n"}), "One two three. Four five.");
  EXPECT_EQ(stream_all(ids, {"\n\n", "hree"}), "One two t");
  EXPECT_EQ(stream_all(ids, {"nothing of the kind"}), "One two three. Four five.\n\nSix");
  EXPECT_EQ(stream_all(ids, {"Six seven"}), "One two three. Four five.\n\nSix");  // begun, never finished
}

TEST(TextStream, HoldsBackWhatMayBecomeAStopText) {
  TextStream stream(shipped(), {"wo th"});
  std::string shown;
  for (const int32_t id : shipped().encode("One two")) shown += stream.push(id);
  EXPECT_EQ(shown, "One t");
}

// A folder with the shipped tokenizer and what else a test puts there.
class ChatFolder {
 public:
  ChatFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "openwork-chat-XXXXXX").string();
    path = mkdtemp(pattern.data());
    std::filesystem::copy_file("models/openwork-8m/tokenizer.json", path / "tokenizer.json");
  }
  ~ChatFolder() { std::filesystem::remove_all(path); }
  void write(const char* name, const std::string& text) const { std::ofstream(path / name) << text; }
  std::string render() const {
    return read_chat_template(path, shipped()).render({{"system", "Be brief."}, {"user", "Hi"}});
  }
  std::filesystem::path path;
};

TEST(Chat, ReadsTheTemplateOfTheTokenizersConfiguration) {
  const ChatFolder folder;
  folder.write("tokenizer_config.json",
               R"({"bos_token": {"content": "<s>"}, "eos_token": "</s>", "chat_template":
                  "{{ bos_token }}{% for m in messages %}[{{ m.role }}] {{ m.content }}{{ eos_token }}{% endfor %}{% if add_generation_prompt %}>{% endif %}"})");
  EXPECT_EQ(folder.render(), "<s>[system] Be brief.</s>[user] Hi</s>>");
}

TEST(Chat, TakesTheDefaultOfSeveralAndAFileOfItsOwnBeforeAll) {
  const ChatFolder folder;
  folder.write("tokenizer_config.json", R"({"chat_template": [{"name": "tool_use", "template": "tools"},
                                            {"name": "default", "template": "default {{ messages[1].content }}"}]})");
  EXPECT_EQ(folder.render(), "default Hi");
  folder.write("chat_template.jinja", "of its own\n");
  EXPECT_EQ(folder.render(), "of its own");
}

TEST(Chat, AMissingTemplateIsOneLine) {
  const ChatFolder folder;
  EXPECT_THROW(
      try { folder.render(); } catch (const Error& error) {
        EXPECT_THAT(error.what(), HasSubstr("no chat template"));
        throw;
      },
      Error);
}

TEST(Chat, EndTokensComeFromEveryConfiguration) {
  const ChatFolder folder;
  folder.write("config.json", R"({"eos_token_id": 5})");
  folder.write("generation_config.json", R"({"eos_token_id": [7, 9, 999999]})");
  EXPECT_THAT(read_end_tokens(folder.path, shipped()), testing::UnorderedElementsAre(7, 9, 5));
}

}  // namespace
}  // namespace openwork
