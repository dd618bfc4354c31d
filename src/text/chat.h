// Conversations as a model was taught to read them: the chat template that came with it, and its end tokens.
//   const ChatTemplate chat = read_chat_template("smollm2/");
//   std::string prompt = chat.render({{"user", "Hello"}});        // ends where the assistant is to speak
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "text/template.h"
#include "text/tokenizer.h"

namespace openwork {

struct ChatMessage {
  std::string role;  // system, user, assistant
  std::string content;
};

class ChatTemplate {
 public:
  ChatTemplate(Template chat, std::string beginning, std::string end)
      : template_(std::move(chat)), beginning_(std::move(beginning)), end_(std::move(end)) {}

  // The conversation as text, special tokens written out, the assistant's turn opened.
  std::string render(const std::vector<ChatMessage>& messages) const;

 private:
  Template template_;
  std::string beginning_, end_;  // bos_token, eos_token
};

// A folder's chat_template.jinja or tokenizer_config.json, or a GGUF file's metadata. Fails where there is none.
ChatTemplate read_chat_template(const std::filesystem::path& model, const Tokenizer& tokenizer);

// Tokens that end a turn: the tokenizer's own end token, and those of generation_config.json or GGUF metadata.
std::vector<int64_t> read_end_tokens(const std::filesystem::path& model, const Tokenizer& tokenizer);

}  // namespace openwork
