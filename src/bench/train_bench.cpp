#include "bench/train_bench.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <set>

#include "base/error.h"
#include "bench/measure.h"
#include "model/architecture.h"
#include "train/loss.h"
#include "train/optimiser.h"
#include "train/profile.h"
#include "train/recorded_passes.h"
#include "train/sparsify.h"
#include "train/weights.h"

namespace openwork {
namespace {

enum class Way { kDense, kSampled, kHard, kWrittenOut };

// The shapes people know, as their config.json says them.
const std::map<std::string, nlohmann::json>& shapes() {
  static const std::map<std::string, nlohmann::json> known = {{"openwork-8m",
                                                               {{"model_type", "gpt2"},
                                                                {"n_layer", 8},
                                                                {"n_head", 8},
                                                                {"n_embd", 256},
                                                                {"n_positions", 1024},
                                                                {"vocab_size", 8192}}},
                                                              {"gpt2",
                                                               {{"model_type", "gpt2"},
                                                                {"n_layer", 12},
                                                                {"n_head", 12},
                                                                {"n_embd", 768},
                                                                {"n_positions", 1024},
                                                                {"vocab_size", 50257}}},
                                                              {"smollm2-135m",
                                                               {{"model_type", "llama"},
                                                                {"num_hidden_layers", 30},
                                                                {"num_attention_heads", 9},
                                                                {"num_key_value_heads", 3},
                                                                {"hidden_size", 576},
                                                                {"intermediate_size", 1536},
                                                                {"max_position_embeddings", 8192},
                                                                {"vocab_size", 49152},
                                                                {"rope_theta", 100000.0},
                                                                {"tie_word_embeddings", true},
                                                                {"hidden_act", "silu"},
                                                                {"rms_norm_eps", 1e-5}}},
                                                              {"olmo-7b",
                                                               {{"model_type", "olmo"},
                                                                {"num_hidden_layers", 32},
                                                                {"num_attention_heads", 32},
                                                                {"num_key_value_heads", 32},
                                                                {"hidden_size", 4096},
                                                                {"intermediate_size", 11008},
                                                                {"max_position_embeddings", 2048},
                                                                {"vocab_size", 50304},
                                                                {"rope_theta", 10000.0},
                                                                {"tie_word_embeddings", false},
                                                                {"hidden_act", "silu"}}}};
  return known;
}

ModelConfig find_shape(const std::string& name) {
  const auto it = shapes().find(name);
  if (it == shapes().end()) {
    fail_input(fmt::format("unknown shape '{}'", printable(name, 60)), "bench train",
               fmt::format("use one of {}", fmt::join(train_bench_shapes(), ", ")));
  }
  return read_model_config(it->second, name);
}

// Weights drawn where they are used: seven billion numbers take a while on one core.
NamedTensors draw_weights(const ModelConfig& config, const TrainBenchOptions& options) {
  const at::NoGradGuard no_grad;
  NamedTensors parameters;
  for (const ParameterSpec& spec :
       list_parameters(architecture_named(config.architecture, "model"), config)) {
    const auto kind =
        at::TensorOptions().device(options.device).dtype(options.lora ? options.dtype : at::kFloat);
    const bool vector = spec.shape.size() == 1 && !spec.bias;
    Tensor tensor = vector ? at::ones(spec.shape, kind) : at::empty(spec.shape, kind).normal_(0, 0.02);
    if (spec.bias) tensor.zero_();
    if (spec.role == Role::kGateBias)
      tensor = at::full(spec.shape, default_gate_bias(config.gate), kind.dtype(at::kFloat));
    if (spec.role == Role::kGateIdle) tensor = at::full(spec.shape, kDefaultIdle, kind.dtype(at::kFloat));
    parameters.emplace_back(spec.name, tensor);
  }
  return parameters;
}

std::optional<LoraOptions> lora_options(const TrainBenchOptions& options) {
  if (!options.lora) return {};
  return LoraOptions{
      .rank = *options.lora, .alpha = static_cast<double>(*options.lora), .full = options.lora_full};
}

// Floating-point operations of a token's forward and backward pass. LoRA needs no gradients of the weights, but
// of those that are trained whole.
double useful_operations(const ModelConfig& config, const TrainBenchOptions& options) {
  double weights = config.tied ? static_cast<double>(config.vocabulary * config.width) : 0, whole = 0;
  std::set<std::string> full;
  if (const auto lora = lora_options(options)) {
    const std::vector<std::string> names = find_full_parameters(config, *lora);
    full.insert(names.begin(), names.end());
  }
  for (const ParameterSpec& spec :
       list_parameters(architecture_named(config.architecture, "model"), config)) {
    if (spec.shape.size() != 2 || spec.role == Role::kEmbedding || spec.role == Role::kPositions) continue;
    const auto numbers = static_cast<double>(spec.shape[0] * spec.shape[1]);
    weights += numbers;
    if (full.contains(spec.name)) whole += numbers;
  }
  const double attention =
      static_cast<double>(config.layers * config.heads * config.head_size * options.context);
  return (options.lora ? 4 : 6) * weights + 2 * whole + 6 * attention;
}

class StepBench {
 public:
  StepBench(ModelConfig config, const TrainBenchOptions& options, Way way)
      : options_(options),
        way_(way),
        samples_(way == Way::kWrittenOut ? std::max<int64_t>(1, options.samples / 8) : options.samples),
        weights_(config, draw_weights(config, options), weight_options(options)),
        optimiser_(weights_, {}),
        passes_(way == Way::kWrittenOut ? nullptr : pass_recorder(weights_.options()), config.layers) {
    const auto numbers = at::TensorOptions().dtype(at::kLong).device(options.device);
    tokens_ = at::randint(config.vocabulary, {samples_, options.context + 1}, numbers);
    lambda_ = at::ones({}, at::TensorOptions().dtype(at::kDouble).device(options.device));
    if (way == Way::kWrittenOut) {
      for (int64_t layer = 0; layer < config.layers; ++layer)
        taps_.read({Site::kPattern, layer}, [](const Tensor&) {});
    }
  }

  TrainBenchRow measure() {
    TrainBenchRow row;
    row.samples = samples_;
    step();
    // Of the step that is recorded, where passes are: those that are played take no memory of their own.
    row.peak_megabytes = peak_megabytes([&] { step(); }, options_.device);
    const double seconds = seconds_of([&] { step(); }, options_.device, options_.steps);
    if (!options_.profile.empty()) write_profile();
    const double tokens = static_cast<double>(samples_ * options_.context);
    row.tokens_per_second = tokens / seconds;
    row.teraflops = useful_operations(weights_.config(), options_) * tokens / seconds / 1e12;
    return row;
  }

 private:
  static WeightOptions weight_options(const TrainBenchOptions& options) {
    WeightOptions result;
    result.device = options.device, result.dtype = options.dtype, result.seed = options.seed;
    result.learn_bias = true;
    result.lora = lora_options(options);
    return result;
  }

  // The steps people compare: dense, and with sampled idle gates.
  void write_profile() {
    const bool idle = way_ == Way::kSampled && weights_.config().gate == GateKind::kIdle;
    if (!idle && way_ != Way::kDense) return;
    profile_to(options_.profile / (idle ? "idle.json" : "dense.json"),
               [&] { step(), synchronise(options_.device); });
  }

  void step() {
    weights_.zero_gradients();
    GateDraw draw;
    if (way_ == Way::kSampled) draw.seed = ++seed_;
    const Transformer& model = weights_.pass_model();
    const bool written_out = way_ == Way::kWrittenOut;
    passes_.run({tokens_, draw, lambda_}, [&](const PassInputs& given) {
      PassLoss loss = compute_pass_loss(model, nullptr, given, {}, written_out ? &taps_ : nullptr);
      loss.loss.backward();
      return loss;
    });
    weights_.collect_gradients();
    optimiser_.step({1e-4, 1e-4, 1e-4, 0});
    weights_.refresh();
  }

  const TrainBenchOptions& options_;
  Way way_;
  int64_t samples_, seed_ = 0;
  TrainedWeights weights_;
  AdamW optimiser_;
  RecordedPasses passes_;
  Tensor tokens_, lambda_;
  Taps taps_;
};

struct WayEntry {
  Way way;
  GateKind gate;
  const char* name;
};
constexpr WayEntry kWays[] = {{Way::kDense, GateKind::kNone, "dense"},
                              {Way::kSampled, GateKind::kScore, "gated, score, sampled"},
                              {Way::kSampled, GateKind::kLogprob, "gated, logprob, sampled"},
                              {Way::kSampled, GateKind::kIdle, "gated, idle, sampled"},
                              {Way::kHard, GateKind::kIdle, "gated, idle, hard"},
                              {Way::kWrittenOut, GateKind::kIdle, "attention written out, idle, hard"}};

}  // namespace

std::vector<std::string> train_bench_shapes() {
  std::vector<std::string> names;
  for (const auto& [name, config] : shapes()) names.push_back(name);
  return names;
}

std::vector<TrainBenchRow> bench_training(const TrainBenchOptions& options,
                                          const std::function<void(const TrainBenchRow&)>& done) {
  ModelConfig config = find_shape(options.shape);
  if (options.context > config.context) {
    fail_input(
        fmt::format("{} tokens, but {}'s context is {}", options.context, options.shape, config.context),
        "--context", "choose a shorter one");
  }
  std::vector<TrainBenchRow> rows;
  for (const WayEntry& entry : kWays) {
    config.gate = entry.gate;
    TrainBenchRow row = StepBench(config, options, entry.way).measure();
    row.way = entry.name;
    row.ratio = rows.empty() ? 1 : rows.front().tokens_per_second / row.tokens_per_second;
    rows.push_back(row);
    done(row);
  }
  return rows;
}

}  // namespace openwork
