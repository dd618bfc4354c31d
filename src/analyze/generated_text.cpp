#include "analyze/generated_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "base/error.h"
#include "base/number_text.h"
#include "base/progress.h"
#include "text/chat.h"
#include "text/text_stream.h"

namespace openwork {
namespace {

class GenerationClock {
 public:
  void made() {
    if (++tokens_ == 1) first_ = seconds();
  }
  void report(const TokenPrompts& prompts) const {
    size_t read = 0;
    for (const auto& ids : prompts.ids) read += ids.size();
    const double all = seconds();
    note(fmt::format("{} in {:.2f} s: {:.1f} tokens/s; the first after {:.2f} s ({})",
                     count_of(tokens_, "token"), all, static_cast<double>(tokens_) / std::max(all, 1e-9),
                     first_, count_of(read, "prompt token")));
  }

 private:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  int64_t tokens_ = 0;
  double first_ = 0;
};

// One prompt's continuation as it grows.
class Continuation {
 public:
  Continuation(const std::optional<Tokenizer>& tokenizer, const std::vector<std::string>& stops) {
    if (tokenizer) stream_.emplace(*tokenizer, stops);
  }

  // Takes a token, the text's `most`th at the latest, and returns what it adds to the text.
  std::string push(int64_t token, bool is_end, int64_t most) {
    made_.ids.push_back(token);
    std::string piece;
    if (!stream_)
      piece = fmt::format("{}{}", made_.text.empty() ? "" : " ", token);
    else if (!is_end)
      piece = stream_->push(token);
    const bool full = static_cast<int64_t>(made_.ids.size()) == most;
    if (stream_ && (is_end || full) && !stream_->stopped()) piece += stream_->finish();
    made_.ended = stream_ && stream_->stopped() ? "stop" : is_end ? "end" : full ? "length" : "";
    made_.text += piece;
    return piece;
  }

  const GeneratedText& made() const { return made_; }

 private:
  std::optional<TextStream> stream_;  // none: the model has no tokenizer
  GeneratedText made_;
};

std::vector<std::string> list_stops(const TextSettings& settings, const TokenPrompts& prompts,
                                    const std::string& model_name) {
  std::vector<std::string> stops;
  std::copy_if(settings.stops.begin(), settings.stops.end(), std::back_inserter(stops),
               [](const std::string& text) { return !text.empty(); });
  if (!stops.empty() && !prompts.tokenizer)
    fail_input("--stop without a tokenizer", model_name,
               "leave --stop out, or give the model a tokenizer.json");
  return stops;
}

}  // namespace

TokenPrompts encode_chat(GivenPrompts given, const std::filesystem::path& folder, Tokenizer tokenizer,
                         const std::string& system, const ModelConfig& config) {
  const ChatTemplate chat = read_chat_template(folder, tokenizer);
  for (std::string& text : given.texts) {
    std::vector<ChatMessage> messages;
    if (!system.empty()) messages.push_back({"system", system});
    messages.push_back({"user", text});
    text = chat.render(messages);
  }
  // The template writes what stands before a text.
  return encode_prompts(given, std::move(tokenizer), {}, config);
}

std::vector<GeneratedText> generate_texts(const Transformer& model, const TokenPrompts& prompts,
                                          const TextSettings& settings, const std::vector<int64_t>& ends,
                                          const std::string& model_name, const WatchText& watch) {
  const std::vector<std::string> stops = list_stops(settings, prompts, model_name);
  std::vector<Continuation> continuations;
  for (size_t n = 0; n < prompts.ids.size(); ++n) continuations.emplace_back(prompts.tokenizer, stops);
  GenerationClock clock;
  generate_all(model, prompts.ids, settings.generate, [&](size_t n, int64_t token) {
    clock.made();
    const bool is_end = std::find(ends.begin(), ends.end(), token) != ends.end();
    const std::string piece = continuations[n].push(token, is_end, settings.generate.tokens);
    const GeneratedText& made = continuations[n].made();
    watch(n, piece, made);
    return made.ended.empty();
  });
  clock.report(prompts);
  std::vector<GeneratedText> texts;
  for (const Continuation& one : continuations) texts.push_back(one.made());
  return texts;
}

}  // namespace openwork
