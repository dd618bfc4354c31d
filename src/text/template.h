// Chat templates: the part of Jinja that the templates of tokenizer_config.json and GGUF files are written in,
// with the settings transformers renders them with (trim_blocks, lstrip_blocks).
//   const Template chat = Template::parse(text, "tokenizer_config.json");
//   std::string prompt = chat.render({{"messages", messages}, {"add_generation_prompt", true}});
// Statements: for (else, over lists, mappings and strings, with `if`), if, set (also of blocks and of a namespace's
// fields), macro, generation; expressions with filters, tests, slices and the usual methods of strings, lists and mappings;
// namespace, range, dict and raise_exception. Imports and calls of anything else are refused by name.
// A template comes out of somebody's file, so all it may do is bounded: nesting, steps, and the sizes of what it
// makes. Nothing is executed, nothing is read.
#pragma once
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace openwork {

// Keeps the order of keys, as tojson shows them.
using TemplateJson = nlohmann::ordered_json;

inline constexpr int kTemplateDepth = 64;             // of expressions and blocks
inline constexpr int64_t kTemplateSteps = 2'000'000;  // evaluations
inline constexpr size_t kTemplateBytes = 4u << 20;    // of any text, and of what is rendered
inline constexpr size_t kTemplateItems = 1u << 20;    // of any list

namespace templates {
struct Block;
}

class Template {
 public:
  // Fails on what is not understood, naming origin and line.
  static Template parse(std::string_view text, const std::string& origin);

  // Fails where the template raises an exception, uses what is not there, or does too much.
  std::string render(const TemplateJson& variables) const;

  Template(Template&&) noexcept;
  Template& operator=(Template&&) noexcept;
  ~Template();

 private:
  Template(std::string origin, std::unique_ptr<templates::Block> block);
  std::string origin_;
  std::unique_ptr<templates::Block> block_;
};

}  // namespace openwork
