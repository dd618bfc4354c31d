// openwork run --generate: text as people would have it.
#include <gmock/gmock.h>

#include "cli/command.h"

namespace openwork {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

// A model folder with a chat template of its own.
void write_chat_model(const ScratchFolder& scratch) {
  fs::create_directories(scratch / "chat");
  for (const char* name : {"config.json", "model.safetensors", "tokenizer.json"})
    fs::create_symlink(fs::absolute(fs::path("models/openwork-8m") / name),
                       scratch / ("chat/" + std::string(name)));
  std::ofstream(scratch / "chat/tokenizer_config.json") << R"({"chat_template":
    "{% for m in messages %}{{ m.role }}: {{ m.content | trim }}\n{% endfor %}{% if add_generation_prompt %}assistant:{% endif %}"})";
}

TEST(Generation, SeveralPromptsGetTheTokensEachGetsAlone) {
  const ScratchFolder scratch;
  const std::vector<std::string> prompts = {"Once upon a time", "The city of Paris is the capital of",
                                            "He said"};
  std::ofstream file(scratch / "prompts.txt");
  for (const std::string& prompt : prompts) file << prompt << "\n";
  file.close();
  const std::vector<std::string> options = {"--generate", "9", "--temperature", "0.8", "--top-p",  "0.9",
                                            "--seed",     "3", "--json",        "-",   "--device", "cpu"};
  std::vector<std::string> all = {"run", "openwork-8m", "--prompts", scratch / "prompts.txt"};
  all.insert(all.end(), options.begin(), options.end());
  const ProgramResult together = run_openwork(all);
  ASSERT_EQ(together.exit_code, 0) << together.err;
  for (size_t n = 0; n < prompts.size(); ++n) {
    std::vector<std::string> one = {"run", "openwork-8m", prompts[n]};
    one.insert(one.end(), options.begin(), options.end());
    EXPECT_EQ(run_openwork(one).json()["prompts"][0], together.json()["prompts"][n]);
  }
  EXPECT_THAT(together.err, HasSubstr("27 tokens in "));
  EXPECT_THAT(together.err, HasSubstr("tokens/s"));
}

TEST(Generation, PrintsWhatTheJsonSays) {
  const std::vector<std::string> command = {"run", "openwork-8m", "Once upon a time", "--generate", "20"};
  std::vector<std::string> with_json = command;
  with_json.insert(with_json.end(), {"--json", "-"});
  const nlohmann::json generated = run_openwork(with_json).json()["prompts"][0]["generated"];
  EXPECT_EQ(run_openwork(command).out, generated["text"].get<std::string>() + "\n");
  EXPECT_EQ(generated["ids"].size(), 20u);
  EXPECT_EQ(generated["ended"], "length");
}

TEST(Generation, EndsBeforeAStopText) {
  const std::vector<std::string> command = {
      "run", "openwork-8m", "Once upon a time", "--generate", "40", "--json", "-"};
  const std::string whole = run_openwork(command).json()["prompts"][0]["generated"]["text"];
  const size_t space = whole.find(' ', 20);
  ASSERT_NE(space, std::string::npos);
  const std::string stop = whole.substr(space - 3, 5);
  std::vector<std::string> stopped = command;
  stopped.insert(stopped.end(), {"--stop", "not in this text", "--stop", stop});
  const nlohmann::json cut = run_openwork(stopped).json()["prompts"][0]["generated"];
  EXPECT_EQ(cut["text"], whole.substr(0, whole.find(stop)));
  EXPECT_EQ(cut["ended"], "stop");
  EXPECT_LT(cut["ids"].size(), 40u);
}

TEST(Generation, AChatIsWrittenByTheModelsTemplate) {
  const ScratchFolder scratch;
  write_chat_model(scratch);
  const ProgramResult result = run_openwork({"run", scratch / "chat", "  Why? ", "--chat", "--system",
                                             "Be brief.", "--generate", "3", "--json", "-"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  std::string prompt;
  const nlohmann::json pieces = result.json()["prompts"][0]["pieces"];
  for (const nlohmann::json& piece : pieces) prompt += piece.get<std::string>();
  EXPECT_EQ(prompt, "system: Be brief.\nuser: Why?\nassistant:");
}

TEST(Generation, RefusesAChatWithoutTemplateOrText) {
  expect_refusal({"run", "openwork-8m", "Hello", "--chat", "--generate", "3"}, "no chat template");
  expect_refusal({"run", "openwork-8m", "--tokens", "1,2", "--chat", "--generate", "3"},
                 "--chat with token ids");
  expect_refusal({"run", "tests/data/llama", "--tokens", "1,2", "--stop", "x", "--generate", "3"},
                 "--stop without a tokenizer");
  expect_refusal({"run", "openwork-8m", "x", "--generate", "3", "--top-p", "1.5"}, "--top-p");
  expect_refusal({"run", "openwork-8m", "x", "--prompts", "sample", "--generate", "3"},
                 "a prompt, 'x', and --prompts together");
  const ScratchFolder scratch;
  write_chat_model(scratch);
  std::ofstream(scratch / "chat/tokenizer_config.json")
      << R"({"chat_template": "{% for i in range(10 ** 12) %}{% endfor %}"})";
  expect_refusal({"run", scratch / "chat", "Hello", "--chat", "--generate", "3"}, "a list of more than");
}

}  // namespace
}  // namespace openwork
