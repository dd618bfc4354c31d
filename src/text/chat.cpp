#include "text/chat.h"

#include "base/error.h"
#include "io/json.h"
#include "io/mapped_file.h"
#include "io/tensor_file.h"
#include "text/tokenizer_parts.h"

namespace openwork {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

json read_object(const fs::path& path) {
  if (!fs::exists(path)) return json::object();
  json value = read_json_file(path);
  return value.is_object() ? value : json::object();
}

// "chat_template": a text, or several with names, of which `default` counts.
std::string named_template(const json& config) {
  const json found = config.value("chat_template", json());
  if (found.is_string()) return found.get<std::string>();
  if (!found.is_array()) return "";
  for (const json& one : found) {
    if (one.is_object() && one.value("name", json()) == "default" &&
        one.value("template", json()).is_string())
      return one["template"].get<std::string>();
  }
  return "";
}

// "bos_token": a token's text, or an object with its content.
std::string token_text(const json& config, const char* name) {
  const json token = config.value(name, json());
  const json text = token.is_object() ? token.value("content", json()) : token;
  return text.is_string() ? text.get<std::string>() : "";
}

std::string piece_of(const json& metadata, const char* name, const Tokenizer& tokenizer) {
  const json id = metadata.value(name, json());
  return id.is_number_integer() ? tokenizer.piece(id.get<int32_t>()) : "";
}

ChatTemplate from_folder(const fs::path& folder, const Tokenizer& tokenizer) {
  const json config = read_object(folder / "tokenizer_config.json");
  std::string text, origin = "tokenizer_config.json";
  if (fs::exists(folder / "chat_template.jinja")) {
    origin = "chat_template.jinja";
    text = std::string(MappedFile(folder / origin).text());
  } else {
    text = named_template(config);
  }
  if (text.empty())
    fail_input("the model has no chat template", folder.string(),
               "leave --chat out, or use a model made for chat");
  std::string beginning = token_text(config, "bos_token"), end = token_text(config, "eos_token");
  if (beginning.empty() && tokenizer.beginning_id()) beginning = tokenizer.piece(*tokenizer.beginning_id());
  return {Template::parse(text, origin), beginning, end};
}

void add_ids(const json& config, const char* name, const Tokenizer& tokenizer, std::vector<int64_t>& ids) {
  const json found = config.value(name, json());
  for (const json& id : found.is_array() ? found : json::array({found})) {
    if (id.is_number_integer() && id >= 0 && id < tokenizer.size()) ids.push_back(id.get<int64_t>());
  }
}

}  // namespace

std::string ChatTemplate::render(const std::vector<ChatMessage>& messages) const {
  TemplateJson list = TemplateJson::array();
  for (const ChatMessage& message : messages)
    list.push_back(TemplateJson{{"role", message.role}, {"content", message.content}});
  return template_.render(
      {{"messages", list}, {"add_generation_prompt", true}, {"bos_token", beginning_}, {"eos_token", end_}});
}

ChatTemplate read_chat_template(const fs::path& model, const Tokenizer& tokenizer) {
  const fs::path gguf = find_tokenizer_gguf(model);
  if (gguf.empty()) return from_folder(fs::is_directory(model) ? model : model.parent_path(), tokenizer);
  const json metadata = open_weights(gguf)->metadata();
  const json text = metadata.value("tokenizer.chat_template", json());
  if (!text.is_string())
    fail_input("the model has no chat template", gguf.string(),
               "leave --chat out, or use a model made for chat");
  return {Template::parse(text.get<std::string>(), gguf.filename().string()),
          piece_of(metadata, "tokenizer.ggml.bos_token_id", tokenizer),
          piece_of(metadata, "tokenizer.ggml.eos_token_id", tokenizer)};
}

std::vector<int64_t> read_end_tokens(const fs::path& model, const Tokenizer& tokenizer) {
  std::vector<int64_t> ids;
  const fs::path gguf = find_tokenizer_gguf(model);
  if (!gguf.empty()) {
    const json metadata = open_weights(gguf)->metadata();
    for (const char* name : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id"})
      add_ids(metadata, name, tokenizer, ids);
    return ids;
  }
  const fs::path folder = fs::is_directory(model) ? model : model.parent_path();
  add_ids(read_object(folder / "generation_config.json"), "eos_token_id", tokenizer, ids);
  add_ids(read_object(folder / "config.json"), "eos_token_id", tokenizer, ids);
  const auto named = tokenizer.id_of(token_text(read_object(folder / "tokenizer_config.json"), "eos_token"));
  if (named) ids.push_back(*named);
  return ids;
}

}  // namespace openwork
