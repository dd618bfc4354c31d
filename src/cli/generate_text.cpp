#include "cli/generate_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>

#include "base/error.h"
#include "base/progress.h"
#include "cli/open.h"
#include "io/model_store.h"
#include "text/chat.h"
#include "text/text_stream.h"

namespace openwork {
namespace {

// Where a model's tokenizer and template are: an adapter's base has them.
std::filesystem::path chat_folder(const std::string& model_name) {
  return locate_model(model_name).path;
}

// One prompt's continuation as it grows.
struct Continuation {
  std::optional<TextStream> stream;  // none: the model has no tokenizer
  std::vector<int64_t> ids = {};
  std::string text = {}, ended = {};  // ended: "" while it goes on
};

// What is printed, and when: the first prompt not yet done is being shown.
class TextPrinter {
 public:
  TextPrinter(const CommonOptions& common, size_t prompts)
      : shows_(common.speaks && common.json != "-"), prompts_(prompts) {}

  void show(size_t n, const std::string& piece, bool done, const std::string& whole) {
    if (!shows_) return;
    if (prompts_ == 1) {
      print(piece + (done ? "\n" : ""));
      return;
    }
    if (!done) return;
    ready_.resize(prompts_);
    ready_[n] = fmt::format("[{}] {}\n", n + 1, whole);
    for (; next_ < prompts_ && !ready_[next_].empty(); ++next_) print(ready_[next_]);
  }

 private:
  static void print(const std::string& text) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  }

  bool shows_;
  size_t prompts_, next_ = 0;
  std::vector<std::string> ready_;
};

class GenerationClock {
 public:
  void made() {
    if (++tokens_ == 1) first_ = seconds();
  }
  void report(const TokenPrompts& prompts) const {
    size_t read = 0;
    for (const auto& ids : prompts.ids) read += ids.size();
    const double all = seconds();
    note(fmt::format("{} tokens in {:.2f} s: {:.1f} tokens/s; the first after {:.2f} s ({} prompt tokens)",
                     tokens_, all, static_cast<double>(tokens_) / std::max(all, 1e-9), first_, read));
  }

 private:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  int64_t tokens_ = 0;
  double first_ = 0;
};

}  // namespace

void add_text_options(CLI::App& verb, TextOptions& options) {
  verb.add_option("--generate", options.generate.tokens, "generate N tokens, shown as they are made")
      ->check(between(0, 1000000))
      ->type_name("N");
  verb.add_option("--temperature", options.generate.temperature, "0 takes the most likely token each time")
      ->type_name("X")
      ->check(between(0.0, 1000.0))
      ->capture_default_str();
  verb.add_option("--top-k", options.generate.top_k, "sample among the K most likely; 0: all")
      ->type_name("K")
      ->check(between(0, 1000000));
  verb.add_option("--top-p", options.generate.top_p,
                  "sample among the fewest most likely that have probability P together")
      ->type_name("P")
      ->check(between(0.0, 1.0));
  verb.add_option("--stop", options.stops, "end a text before this one; may be given several times")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("TEXT");
  verb.add_flag("--chat", options.chat, "the prompt is a message: write it with the model's chat template");
  verb.add_option("--system", options.system, "with --chat: the message that stands first")
      ->type_name("TEXT");
}

nlohmann::json describe_text_options(const TextOptions& options) {
  const GenerateOptions& generate = options.generate;
  nlohmann::json chat = options.chat ? nlohmann::json{{"system", options.system}} : nlohmann::json();
  if (generate.tokens == 0) return {{"chat", chat}};
  return {{"chat", chat},
          {"generate", generate.tokens},
          {"temperature", generate.temperature},
          {"top_k", generate.top_k},
          {"top_p", generate.top_p},
          {"stop", options.stops}};
}

TokenPrompts tokenise_chat(GivenPrompts given, const std::string& model_name, const ModelConfig& config,
                           const TextOptions& options) {
  if (given.texts.empty())
    fail_input("--chat with token ids", "command line", "give the message as text, or leave --chat out");
  Tokenizer tokenizer = open_tokenizer(model_name);
  const ChatTemplate chat = read_chat_template(chat_folder(model_name), tokenizer);
  for (std::string& text : given.texts) {
    std::vector<ChatMessage> messages;
    if (!options.system.empty()) messages.push_back({"system", options.system});
    messages.push_back({"user", text});
    text = chat.render(messages);
  }
  // The template writes what stands before a text.
  return encode_prompts(given, std::move(tokenizer), {}, config);
}

nlohmann::json generate_texts(const CommonOptions& common, const TextOptions& options,
                              const Transformer& model, const std::string& model_name,
                              const TokenPrompts& prompts) {
  std::vector<std::string> stops;
  std::copy_if(options.stops.begin(), options.stops.end(), std::back_inserter(stops),
               [](const std::string& text) { return !text.empty(); });
  if (!stops.empty() && !prompts.tokenizer)
    fail_input("--stop without a tokenizer", model_name,
               "leave --stop out, or give the model a tokenizer.json");
  std::vector<int64_t> ends;
  if (options.chat) ends = read_end_tokens(chat_folder(model_name), *prompts.tokenizer);
  std::vector<Continuation> made(prompts.ids.size());
  for (Continuation& one : made) {
    if (prompts.tokenizer) one.stream.emplace(*prompts.tokenizer, stops);
  }
  GenerateOptions settings = options.generate;
  settings.seed = common.seed;
  TextPrinter printer(common, made.size());
  GenerationClock clock;
  generate_all(model, prompts.ids, settings, [&](size_t n, int64_t token) {
    Continuation& one = made[n];
    clock.made();
    one.ids.push_back(token);
    const bool end = std::find(ends.begin(), ends.end(), token) != ends.end();
    std::string piece;
    if (!one.stream)
      piece = fmt::format("{}{}", one.text.empty() ? "" : " ", token);
    else if (!end)
      piece = one.stream->push(token);
    const bool full = static_cast<int64_t>(one.ids.size()) == settings.tokens;
    const bool stopped = one.stream && one.stream->stopped();
    if (one.stream && (end || full) && !stopped) piece += one.stream->finish();
    one.ended = one.stream && one.stream->stopped() ? "stop" : end ? "end" : full ? "length" : "";
    one.text += piece;
    printer.show(n, piece, !one.ended.empty(), one.text);
    return one.ended.empty();
  });
  clock.report(prompts);
  nlohmann::json result = nlohmann::json::array();
  for (const Continuation& one : made)
    result.push_back({{"ids", one.ids}, {"text", one.stream ? one.text : ""}, {"ended", one.ended}});
  return result;
}

}  // namespace openwork
