#include "report/captions.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string_view>

#include "base/number_text.h"
#include "base/token_marks.h"

namespace openwork {
namespace {

// A prompt as a title has it: spaces as spaces, everything else that would not show as marks.
std::string shorten(const std::string& text) {
  std::string out;
  for (size_t from = 0; from <= text.size() && out.size() < 140;) {
    const size_t to = std::min(text.find(' ', from), text.size());
    const std::string_view piece = std::string_view(text).substr(from, to - from);
    out += (from > 0 ? " " : "") + (piece.empty() ? std::string() : mark_token(piece, 60));
    from = to + 1;
    if (out.size() >= 140 && from <= text.size()) out += " …";
  }
  return out;
}

}  // namespace

std::string short_name(const std::string& model) {
  const std::filesystem::path path(model);
  if (!std::filesystem::exists(path)) return model;  // a built-in, a hub id or a pair
  const std::string last = path.filename().string();
  return last.empty() || last == "." ? path.parent_path().filename().string() : last;
}

std::vector<std::string> short_names(const std::vector<std::string>& models) {
  std::vector<std::string> names, last;
  for (const std::string& model : models) last.push_back(short_name(model));
  for (size_t n = 0; n < models.size(); ++n) {
    std::string name = std::count(last.begin(), last.end(), last[n]) > 1 ? models[n] : last[n];
    while (std::find(names.begin(), names.end(), name) != names.end()) name += "'";
    names.push_back(std::move(name));
  }
  return names;
}

std::string title_model(const std::string& name, bool gated) {
  return name + (gated ? " (gated)" : "");
}

std::string describe_protocol(const nlohmann::json& protocol) {
  std::string text = protocol.at("program").get<std::string>();
  const nlohmann::json models =
      protocol.contains("model") ? nlohmann::json::array({protocol["model"]}) : protocol.at("models");
  std::vector<std::string> names;
  for (const nlohmann::json& model : models) names.push_back(model.at("name"));
  names = short_names(names);
  for (size_t n = 0; n < models.size(); ++n) {
    // What tells an adapted model from its base.
    const nlohmann::json& own = models[n].contains("adapter") ? models[n].at("adapter") : models[n];
    text += fmt::format("; {} {}", names[n], own.at("sha256").get<std::string>().substr(0, 12));
  }
  return text + fmt::format("; {} {}, bos {}, seed {}.", protocol.at("device").get<std::string>(),
                            protocol.at("dtype").get<std::string>(), protocol.at("bos").get<std::string>(),
                            protocol.at("seed").get<uint64_t>());
}

std::string describe_prompts(const std::vector<std::string>& texts, size_t prompts, size_t tokens) {
  const std::string count = count_of(tokens, "token");
  if (prompts > 1) return fmt::format("mean of {} prompts of {}", prompts, count);
  return texts.empty() ? count : fmt::format("“{}” ({})", shorten(texts.front()), count);
}

std::string describe_lengths(const std::vector<int64_t>& prompt_tokens) {
  const auto [least, most] = std::minmax_element(prompt_tokens.begin(), prompt_tokens.end());
  return fmt::format("{} of {}{}", count_of(prompt_tokens.size(), "prompt"),
                     *least < *most ? fmt::format("{} to ", *least) : "", count_of(*most, "token"));
}

std::vector<std::string> mark_tokens(const std::vector<std::string>& pieces) {
  std::vector<std::string> marks;
  for (const std::string& piece : pieces) marks.push_back(mark_token(piece));
  return marks;
}

}  // namespace openwork
