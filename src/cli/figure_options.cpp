#include "cli/figure_options.h"

#include <fmt/format.h>

#include <filesystem>

#include "base/error.h"
#include "draw/figure.h"
#include "draw/token_marks.h"
#include "io/atomic_file.h"

namespace openwork {
namespace {

// A prompt as a title has it: spaces as spaces, everything else that would not show as marks.
std::string shorten(const std::string& text) {
  std::string out;
  for (size_t from = 0; from <= text.size() && out.size() < 140;) {
    const size_t to = std::min(text.find(' ', from), text.size());
    const std::string_view piece = std::string_view(text).substr(from, to - from);
    out += (from > 0 ? " " : "") + (piece.empty() ? std::string() : draw::mark_token(piece, 60));
    from = to + 1;
    if (out.size() >= 140 && from <= text.size()) out += " …";
  }
  return out;
}

}  // namespace

void add_figure_file(CLI::App& verb, FigureFile& file) {
  verb.add_option("--out", file.out, "the figure: .svg, .pdf or .png")
      ->type_name("FILE")
      ->capture_default_str();
  verb.add_option("--dpi", file.dpi, "pixels per inch of a .png")
      ->type_name("N")
      ->check(between(10.0, 2400.0))
      ->capture_default_str();
}

void add_figure_options(CLI::App& verb, FigureOptions& options, const std::string& out) {
  options.out = out;
  verb.add_option("MODEL... PROMPT", options.words, "one or more models, then the text")
      ->type_name("")
      ->required()
      ->expected(1, 64);
  add_prompt_source_options(verb, options.source);
  add_figure_file(verb, options);
}

void check_figure_output(const FigureFile& file) {
  draw::format_of(file.out);
  const AtomicFile probe(file.out);  // gone again at once: it was not committed
}

Prompts open_prompts(const GivenPrompts& given, const std::string& model, const ModelConfig& config,
                     const CommonOptions& common) {
  TokenPrompts made = tokenise_prompts(given, model, config, common);
  return {std::move(made.ids), std::move(made.tokenizer)};
}

std::vector<std::string> mark_tokens(const Prompts& prompts) {
  std::vector<std::string> marks;
  if (prompts.ids.size() != 1) return marks;  // of several prompts, no position has one token
  for (const int64_t id : prompts.ids.front()) {
    const bool known = prompts.tokenizer && id < prompts.tokenizer->size();
    marks.push_back(known ? draw::mark_token(prompts.tokenizer->piece(static_cast<int32_t>(id)))
                          : fmt::format("{}", id));
  }
  return marks;
}

std::string short_name(const std::string& model) {
  const std::filesystem::path path(model);
  if (!std::filesystem::exists(path)) return model;  // a built-in, a hub id or a pair
  const std::string last = path.filename().string();
  return last.empty() || last == "." ? path.parent_path().filename().string() : last;
}

std::string describe_protocol(const nlohmann::json& protocol) {
  std::string text = protocol["program"].get<std::string>();
  for (const nlohmann::json& model : protocol["models"]) {
    const nlohmann::json& own = model.contains("adapter") ? model["adapter"] : model;  // what tells it from its base
    text += fmt::format("; {} {}", short_name(model["name"].get<std::string>()),
                        own["sha256"].get<std::string>().substr(0, 12));
  }
  return text + fmt::format("; {} {}, bos {}, seed {}.", protocol["device"].get<std::string>(),
                            protocol["dtype"].get<std::string>(), protocol["bos"].get<std::string>(),
                            protocol["seed"].get<uint64_t>());
}

std::string describe_prompts(const GivenPrompts& given, const Prompts& prompts) {
  const size_t tokens = prompts.ids.front().size();
  if (prompts.ids.size() > 1)
    return fmt::format("mean of {} prompts of {} tokens", prompts.ids.size(), tokens);
  const std::string count = fmt::format("{} token{}", tokens, tokens == 1 ? "" : "s");
  return given.texts.empty() ? count : fmt::format("“{}” ({})", shorten(given.texts.front()), count);
}

}  // namespace openwork
