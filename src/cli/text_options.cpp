#include "cli/text_options.h"

#include <fmt/format.h>

#include <cstdio>

namespace openwork {
namespace {

void print_at_once(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

}  // namespace

void add_text_options(CLI::App& verb, TextSettings& settings) {
  verb.add_option("--generate", settings.generate.tokens, "generate N tokens, shown as they are made")
      ->check(between(0, 1000000))
      ->type_name("N");
  verb.add_option("--temperature", settings.generate.temperature, "0 takes the most likely token each time")
      ->type_name("X")
      ->check(between(0.0, 1000.0))
      ->capture_default_str();
  verb.add_option("--top-k", settings.generate.top_k, "sample among the K most likely; 0: all")
      ->type_name("K")
      ->check(between(0, 1000000));
  verb.add_option("--top-p", settings.generate.top_p,
                  "sample among the fewest most likely that have probability P together")
      ->type_name("P")
      ->check(between(0.0, 1.0));
  verb.add_option("--stop", settings.stops, "end a text before this one; may be given several times")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->check(CLI::Validator(
          [](std::string& text) {
            return text.empty() ? "every text has the empty one in it: give at least a letter" : "";
          },
          ""))
      ->type_name("TEXT");
  verb.add_flag("--chat", settings.chat, "the prompt is a message: write it with the model's chat template");
  verb.add_option("--system", settings.system, "with --chat: the message that stands first")
      ->type_name("TEXT");
}

TextPrinter::TextPrinter(const CommonOptions& common, size_t prompts)
    : shows_(common.speaks && common.json != "-"), prompts_(prompts) {}

void TextPrinter::show(size_t n, const std::string& piece, const GeneratedText& so_far) {
  if (!shows_) return;
  const bool done = !so_far.ended.empty();
  if (prompts_ == 1) return print_at_once(piece + (done ? "\n" : ""));
  if (!done) return;
  ready_.resize(prompts_);
  ready_[n] = fmt::format("[{}] {}\n", n + 1, so_far.text);
  for (; next_ < prompts_ && !ready_[next_].empty(); ++next_) print_at_once(ready_[next_]);
}

}  // namespace openwork
