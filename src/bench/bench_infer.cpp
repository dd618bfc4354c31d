// openwork bench infer: a dense model, its sparse twin and the twin without the heads that never open, on the same
// text in one run: prompts of 128 tokens to the context, and generation behind a short and a long prompt. The three
// take turns, so that other load on the machine meets all of them; ratios are to the dense model's time.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/median.h"
#include "bench/benches.h"
#include "bench/measure.h"
#include "model/kept_heads.h"
#include "model/prune.h"
#include "text/documents.h"
#include "text/prompt_file.h"

namespace openwork {
namespace {

constexpr int64_t kShortest = 128, kNewTokens = 64;
constexpr double kPatience = 120;  // seconds for the rounds of one work

struct Contestant {
  std::string role;  // dense, sparse, pruned
  Transformer model;
};

// `count` tokens of the text given, or of the program's sample prompts, over and over.
Tensor read_prompt_text(const BenchSettings& settings, const ModelConfig& config, int64_t count) {
  const Tokenizer tokenizer = settings.open_tokenizer();
  std::vector<int64_t> tokens;
  if (!settings.data.empty()) {
    const int32_t end =
        tokenizer.end_of_text_id().value_or(static_cast<int32_t>(config.end_token.value_or(0)));
    const TokenBlocks blocks = read_blocks({settings.data}, &tokenizer, end, count, 1);
    tokens.assign(blocks.tokens.begin(), blocks.tokens.begin() + count);
  }
  std::string joined;
  for (const std::string& prompt : sample_prompts()) joined += prompt + "\n";
  const std::vector<int32_t> samples = tokenizer.encode(joined);
  while (static_cast<int64_t>(tokens.size()) < count)
    tokens.insert(tokens.end(), samples.begin(), samples.end());
  tokens.resize(static_cast<size_t>(count));
  if (*std::max_element(tokens.begin(), tokens.end()) >= config.vocabulary)
    fail_input("the tokenizer has ids that the model has not", settings.model,
               "use a model with its own tokenizer");
  return at::tensor(tokens, at::kLong).unsqueeze(0).to(settings.device);  // [1, count]
}

// The model without the heads that open no gate on this text.
Transformer remove_closed(const Transformer& model, const Tensor& ids) {
  GateTotals totals;
  ForwardOptions options;
  options.gate_totals = &totals, options.last_only = true;
  model.forward(ids, options);
  std::vector<std::vector<int64_t>> kept(totals.active.size());
  for (size_t layer = 0; layer < kept.size(); ++layer) {
    const Tensor open = totals.active[layer].sum(0).cpu();  // [H]
    for (const int64_t head : kept_queries(model.config(), static_cast<int64_t>(layer)))
      if (open[head].item<int64_t>() > 0) kept[layer].push_back(head);
  }
  return prune_heads(model, kept);
}

std::vector<Contestant> open_contestants(const BenchSettings& settings, const Tensor& ids) {
  std::vector<Contestant> all;
  all.push_back({"dense", settings.open_named(settings.model)});
  all.push_back({"sparse", settings.open_named(settings.sparse)});
  const Transformer& sparse = all.back().model;
  if (sparse.config().gate == GateKind::kNone)
    fail_input("the model has no gates", settings.sparse, "name a gated model with --sparse");
  all.push_back({"pruned", settings.pruned.empty() ? remove_closed(sparse, ids)
                                                   : settings.open_named(settings.pruned)});
  for (const Contestant& one : all) {
    const ModelConfig &own = one.model.config(), &first = all.front().model.config();
    if (own.layers == first.layers && own.heads == first.heads && own.vocabulary == first.vocabulary)
      continue;
    fail_input(fmt::format("the {} model is of another shape", one.role), "bench infer",
               "name twins of one model: --model, --sparse, --pruned");
  }
  return all;
}

double weight_megabytes(const Transformer& model) {
  double bytes = 0;
  for (const auto& [name, tensor] : model.parameters()) bytes += static_cast<double>(tensor.nbytes());
  return bytes / 1048576;
}

// A prompt's pass to the logits of its last token.
void process_prompt(const Transformer& model, const Tensor& ids) {
  ForwardOptions options;
  options.last_only = true;
  model.forward(ids, options);
}

// The most likely token, `count` times, behind a cache that holds the prompt; what follows the prompt, [1, count].
Tensor continue_prompt(const Transformer& model, KeyValueCache& cache, const Tensor& last, int64_t count) {
  ForwardOptions options;
  options.cache = &cache, options.last_only = true;
  Tensor token = last;  // [1, 1]
  std::vector<Tensor> made;
  for (int64_t step = 0; step < count; ++step) {
    token = model.forward(token, options).argmax(-1);
    made.push_back(token);
  }
  return at::cat(made, 1);
}

// Of the keys a cache holds at the end (positions times key/value heads), the share that some token from position
// `prompt` on read through an open gate.
double share_of_keys_read(const Transformer& model, const Tensor& text, int64_t prompt) {
  const ModelConfig& config = model.config();
  const int64_t count = text.size(1);
  double read = 0, held = 0;
  Taps gates;
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    held += static_cast<double>(kept_key_values(config, layer).size()) * static_cast<double>(count);
    gates.read({Site::kGate, layer}, [&](const Tensor& z) {  // [1, H, rows, T]
      const Tensor opened = z[0].gt(0).any(1);               // [H, T]
      read += opened.view({config.kv_heads, config.group_size(), -1}).any(1).sum().item<double>();
    });
  }
  // The prompt fills a cache, and only the rows behind it are written out: T x T numbers per head would not fit.
  const Taps all_heads;
  KeyValueCache cache(config.layers, count);
  ForwardOptions options;
  options.taps = &all_heads, options.cache = &cache, options.last_only = true;
  if (prompt > 0) model.forward(text.narrow(1, 0, prompt), options);
  options.taps = &gates;
  model.forward(text.narrow(1, prompt, count - prompt), options);
  return held == 0 ? 0 : read / held;
}

class InferBench {
 public:
  explicit InferBench(const BenchSettings& settings) : settings_(settings) {
    const Transformer shape = settings.open_named(settings.model);
    longest_ = std::min(settings.longest, shape.config().context);
    ids_ = read_prompt_text(settings, shape.config(), longest_);
    models_ = open_contestants(settings, ids_);
    for (const Contestant& one : models_)
      process_prompt(one.model, ids_.narrow(1, 0, 1));  // what is made once
  }

  nlohmann::json run() {
    settings_.say(fmt::format("{:<20} {:<8} {:>10} {:>12} {:>9} {:>8} {:>9}", "work", "model", "ms",
                              "tokens/s", "x dense", "MB", "keys read"));
    for (int64_t tokens = kShortest; tokens <= longest_; tokens *= 2) prompt_rows(tokens);
    generation_rows(std::min(kShortest, longest_ / 2));
    if (longest_ - kNewTokens > kShortest) generation_rows(longest_ - kNewTokens);
    nlohmann::json files = nlohmann::json::object();
    files["dense"] = settings_.describe_named(settings_.model),
    files["sparse"] = settings_.describe_named(settings_.sparse);
    if (!settings_.pruned.empty()) files["pruned"] = settings_.describe_named(settings_.pruned);
    return {
        {"rows", rows_},
        {"models", describe_models()},
        {"protocol",
         {{"models", files},
          {"text", settings_.data.empty() ? "sample prompts" : settings_.data},
          {"pruned_by", settings_.pruned.empty() ? "heads that open no gate on the text" : "its own folder"},
          {"repeats", settings_.repeats},
          {"device", settings_.device.str()}}}};
  }

 private:
  nlohmann::json describe_models() const {
    nlohmann::json list = nlohmann::json::array();
    for (const Contestant& one : models_) {
      list.push_back({{"model", one.role},
                      {"heads", count_kept_heads(one.model.config())},
                      {"weights_mb", weight_megabytes(one.model)}});
    }
    return list;
  }

  void prompt_rows(int64_t tokens) {
    const Tensor ids = ids_.narrow(1, 0, tokens);
    measure(fmt::format("prompt {}", tokens), tokens,
            [&](const Transformer& model) { return [&model, ids] { process_prompt(model, ids); }; });
  }

  void generation_rows(int64_t prompt) {
    const int64_t made = std::min(kNewTokens, longest_ - prompt);
    if (made < 1) return;
    const Tensor ids = ids_.narrow(1, 0, prompt);
    keys_read_.clear();
    std::vector<KeyValueCache> caches;
    for (const Contestant& one : models_) {
      const Transformer& model = one.model;
      KeyValueCache cache(model.config().layers, prompt + made);
      ForwardOptions options;
      options.cache = &cache, options.last_only = true;
      if (prompt > 1) model.forward(ids.narrow(1, 0, prompt - 1), options);
      caches.push_back(cache);  // shares its memory: what follows is written over at every repetition
      const Tensor text =
          at::cat({ids, continue_prompt(model, cache, ids.narrow(1, prompt - 1, 1), made)}, 1);
      if (model.config().gate != GateKind::kNone)
        keys_read_[one.role] = share_of_keys_read(model, text.narrow(1, 0, prompt + made - 1), prompt - 1);
    }
    measure(fmt::format("generate behind {}", prompt), made, [&](const Transformer& model) {
      return [&model, ids, prompt, made, held = caches[find(model)]] {
        KeyValueCache cache = held;
        continue_prompt(model, cache, ids.narrow(1, prompt - 1, 1), made);
      };
    });
    keys_read_.clear();
  }

  size_t find(const Transformer& model) const {
    size_t index = 0;
    while (&models_[index].model != &model) ++index;
    return index;
  }

  // `make` gives the work of a model; times are medians of `repeats` rounds in which the models take turns, or of
  // as many as begin within kPatience.
  template <typename Make>
  void measure(const std::string& work, int64_t tokens, const Make& make) {
    std::vector<std::function<void()>> works;
    std::vector<std::vector<double>> seconds(models_.size());
    std::vector<double> megabytes;
    for (const Contestant& one : models_) {
      works.push_back(make(one.model));
      megabytes.push_back(peak_megabytes(works.back(), settings_.device) + weight_megabytes(one.model));
    }
    double spent = 0;
    for (int round = 0; round < settings_.repeats && spent < kPatience; ++round) {
      for (size_t n = 0; n < works.size(); ++n) {
        seconds[n].push_back(seconds_of(works[n], settings_.device, 1));
        spent += seconds[n].back();
      }
    }
    for (size_t n = 0; n < works.size(); ++n) {
      std::vector<double> ratios;
      for (size_t round = 0; round < seconds[n].size(); ++round)
        ratios.push_back(seconds[n][round] / seconds[0][round]);
      add_row(work, models_[n].role, tokens, seconds[n].size(), median(seconds[n]), median(ratios),
              megabytes[n]);
    }
  }

  void add_row(const std::string& work, const std::string& model, int64_t tokens, size_t rounds,
               double seconds, double ratio, double megabytes) {
    const double speed = static_cast<double>(tokens) / seconds;
    const auto read = keys_read_.find(model);
    const bool known = read != keys_read_.end();
    settings_.say(fmt::format("{:<20} {:<8} {:>10.2f} {:>12.1f} {:>9.3f} {:>8.1f} {:>9}", work, model,
                              1e3 * seconds, speed, ratio, megabytes,
                              known ? fmt::format("{:.2f} %", 100 * read->second) : ""));
    rows_.push_back({{"work", work},
                     {"model", model},
                     {"tokens", tokens},
                     {"rounds", rounds},
                     {"seconds", seconds},
                     {"tokens_per_second", speed},
                     {"ratio_to_dense", ratio},
                     {"megabytes", megabytes},
                     {"keys_read", known ? nlohmann::json(read->second) : nlohmann::json()}});
  }

  const BenchSettings& settings_;
  int64_t longest_ = 0;
  Tensor ids_;  // [1, longest]
  std::vector<Contestant> models_;
  std::map<std::string, double> keys_read_;
  nlohmann::json rows_ = nlohmann::json::array();
};

}  // namespace

nlohmann::json bench_infer(const BenchSettings& settings) {
  const at::NoGradGuard no_grad;
  return InferBench(settings).run();
}

}  // namespace openwork
