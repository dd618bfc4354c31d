#include "transcode/train_transcoders.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/progress.h"
#include "train/checkpoint.h"
#include "train/loop_end.h"
#include "train/metrics.h"
#include "train/run_clock.h"
#include "transcode/transcoder_config.h"

namespace openwork {
namespace {

namespace fs = std::filesystem;
constexpr int64_t kCalibrationTokens = 8192;
constexpr double kThresholdGain = 0.1;  // of the logarithm of features per token over k, per step
constexpr double kBiasRise = 5e-3;      // of the threshold, per step, for dead features
constexpr double kBeta1 = 0.9, kBeta2 = 0.999, kEpsilon = 1e-8;

class TranscoderTraining {
 public:
  TranscoderTraining(const Transformer& model, Batches& batches, const TranscodeOptions& options)
      : model_(model),
        batches_(batches),
        options_(options),
        ranks_(*options.ranks),
        shape_{options.kind, model.config().layers, options.features, model.config().width},
        sums_(make_pass_sums(shape_, model.device())),
        checkpoints_(options.folder / "checkpoints"),
        clock_(options.steps, options.minutes, ranks_) {
    const auto floats = at::TensorOptions().dtype(at::kFloat).device(model.device());
    const int64_t L = shape_.layers, F = shape_.features, D = shape_.width, numbers = shape_.numbers();
    masters_ = at::zeros({numbers}, floats), first_ = at::zeros({numbers}, floats);
    second_ = at::zeros({numbers}, floats), adam_steps_ = at::zeros({1}, floats);
    parts_ = split_parts(shape_, masters_);
    threshold_ = at::zeros({L}, floats), idle_ = at::zeros({L, F}, floats),
    totals_ = at::zeros({2, L}, floats);
    scales_ = {at::ones({L}, floats), at::ones({L}, floats), at::zeros({L, D}, floats), at::ones({L}, floats),
               at::ones({L}, floats)};
  }

  TranscodeResult run() {
    ranks_.run_first([&] { fs::create_directories(options_.folder); });
    if (!options_.resume || !restore()) start();
    std::optional<MetricsLog> metrics;
    if (ranks_.is_first()) metrics.emplace(options_.folder / "metrics.jsonl", step_);
    Progress bar("transcode", clock_.total(), clock_.unit());
    clock_.start();
    bar.skip(clock_.done(step_));
    interval_start_ = clock_.seconds();
    while (!clock_.is_over(step_)) {
      const Ranks::Wait wait_for_news = clock_.start_news();
      run_step();
      if (step_ % options_.log_every == 0) log(metrics);
      if (options_.checkpoint_every > 0 && step_ % options_.checkpoint_every == 0) save();
      clock_.take_news(wait_for_news);
      bar.set(clock_.done(step_), detail_);
    }
    if (logged_ < step_) log(metrics);
    save();
    ranks_.barrier();
    return finish();
  }

 private:
  int64_t batch_tokens() const { return options_.batch * batches_.context(); }

  Tensor read_ids(int64_t first, int64_t count) {
    return batches_.read(first, count).narrow(1, 0, batches_.context()).to(model_.device());
  }

  // Scales and first features, from samples that every rank reads for itself.
  void start() {
    const int64_t samples = std::clamp<int64_t>(kCalibrationTokens / batches_.context(), 1, options_.batch);
    const MlpActivations activations = read_mlp_activations(model_, options_.input, read_ids(0, samples));
    scales_ = measure_scales(activations);
    const ScaledActivations scaled = scale_activations(activations, scales_);
    threshold_.copy_(start_features(shape_, scaled, scales_, options_.k, options_.seed, parts_));
    for (const auto& [name, tensor] : saved_tensors()) ranks_.broadcast(tensor);
  }

  void run_step() {
    const double rate = options_.learning_rate * options_.schedule.learning_rate(clock_.progress(step_));
    const int64_t part = options_.batch / ranks_.count();
    const Tensor ids = read_ids(step_ * options_.batch + ranks_.rank() * part, part);
    const ScaledActivations activations =
        scale_activations(read_mlp_activations(model_, options_.input, ids), scales_);
    const Tensor dead = idle_ >= static_cast<double>(options_.dead_after);  // [L, F]
    sums_.flat.zero_();
    const int64_t stride = std::gcd(batches_.context(), int64_t{16});
    add_pass(shape_, split_parts(shape_, masters_.to(model_.dtype())), activations, scales_, threshold_, dead,
             {options_.selection, options_.k, batch_tokens(), stride}, sums_);
    ranks_.sum(sums_.flat);
    step_weights(rate, dead);
    step_thresholds();
    totals_.add_(at::stack({sums_.error, sums_.above}));
    ++step_;
    rate_ = rate;
  }

  void step_weights(double rate, const Tensor& dead) {
    adam_steps_ += 1;
    const Tensor gradients = sums_.flat.narrow(0, 0, shape_.numbers());
    at::_fused_adamw_({masters_}, {gradients}, {first_}, {second_}, {}, {adam_steps_.select(0, 0)}, rate,
                      kBeta1, kBeta2, /*weight_decay=*/0, kEpsilon, /*amsgrad=*/false, /*maximize=*/false);
    normalise_decoders(shape_, parts_.decoder);
    parts_.encoder_bias.add_(dead * (kBiasRise * threshold_).unsqueeze(1));
    idle_ = at::where(sums_.fired > 0, at::zeros({}, idle_.options()),
                      idle_ + static_cast<double>(batch_tokens()));
  }

  // Up where more than k features per token were above it, down where fewer were.
  void step_thresholds() {
    const double wanted = static_cast<double>(options_.k * batch_tokens());
    const Tensor excess = (sums_.above / wanted).clamp(std::exp(-1.0), std::exp(1.0)).log();
    threshold_.mul_((excess * kThresholdGain).exp()).clamp_min_(1e-6);
  }

  void log(std::optional<MetricsLog>& metrics) {
    const auto steps = static_cast<double>(step_ - logged_);
    const Tensor totals = totals_.to(at::kCPU, at::kDouble) / steps;
    const Tensor explained = 1 - totals[0], active = totals[1] / static_cast<double>(batch_tokens());
    result_.loss = totals[0].mean().item<double>();
    check_finite(std::isfinite(result_.loss));
    const double now = clock_.seconds(),
                 speed = steps * static_cast<double>(batch_tokens()) / (now - interval_start_);
    const double dead = dead_share();
    if (metrics) {
      metrics->write({{"step", step_},
                      {"tokens", step_ * batch_tokens()},
                      {"loss", result_.loss},
                      {"explained_variance", to_list(explained)},
                      {"active_features", to_list(active)},
                      {"dead_share", dead},
                      {"learning_rate", rate_},
                      {"tokens_per_second", speed},
                      {"seconds", now}});
    }
    detail_ = fmt::format("explained variance {:.3f}, active {:.1f}, dead {:.1f} %, {:.0f} tokens/s",
                          1 - result_.loss, active.mean().item<double>(), 100 * dead, speed);
    totals_.zero_();
    logged_ = step_;
    interval_start_ = now;
  }

  static std::vector<double> to_list(const Tensor& numbers) {
    return {numbers.data_ptr<double>(), numbers.data_ptr<double>() + numbers.numel()};
  }

  double dead_share() const {
    return (idle_ >= static_cast<double>(options_.dead_after)).to(at::kFloat).mean().item<double>();
  }

  void check_finite(bool finite) const {
    if (finite) return;
    fail(fmt::format("the loss is not finite by step {}", step_), options_.folder.string(), "lower --lr");
  }

  NamedTensors saved_tensors() const {
    return {{"masters", masters_},
            {"first_moment", first_},
            {"second_moment", second_},
            {"optimiser_steps", adam_steps_},
            {"threshold", threshold_},
            {"idle", idle_},
            {"scales.input", scales_.input},
            {"scales.output", scales_.output},
            {"scales.mean", scales_.mean},
            {"scales.energy", scales_.energy},
            {"scales.variance", scales_.variance}};
  }

  nlohmann::json identify() const {
    nlohmann::json identity = options_.identity;
    identity.update({{"kind", kind_name(options_.kind)},
                     {"input", input_name(options_.input)},
                     {"features", options_.features},
                     {"k", options_.k},
                     {"selection", static_cast<int>(options_.selection)},
                     {"dead_after", options_.dead_after},
                     {"context", batches_.context()},
                     {"blocks", batches_.blocks()},
                     {"batch", options_.batch},
                     {"seed", options_.seed},
                     {"learning_rate", options_.learning_rate},
                     {"dtype", c10::toString(model_.dtype())}});
    return identity;
  }

  void save() {
    check_finite(masters_.sum().isfinite().item<bool>());
    if (!ranks_.is_first()) return;
    checkpoints_.save(step_, saved_tensors(),
                      {{"version", 1},
                       {"step", step_},
                       {"seconds", clock_.seconds()},
                       {"loss", result_.loss},
                       {"identity", identify()}});
  }

  bool restore() {
    const auto state = read_checkpoint(checkpoints_, ranks_, identify(), options_.folder, "transcode");
    if (!state) return false;
    step_ = logged_ = state->at("step");
    checkpoints_.read_tensors(step_, saved_tensors());
    clock_.add_before(state->at("seconds"));
    result_.loss = state->at("loss");
    note(fmt::format("transcode: resumed at step {}", step_));
    return true;
  }

  TranscodeResult finish() {
    TranscodeResult result;
    result.training = describe_end(result_, clock_, step_, batch_tokens());
    if (result.training.signal != 0) return result;
    result.transcoders.kind = options_.kind;
    result.transcoders.input = options_.input;
    result.transcoders.layers = fold_scales(shape_, parts_, threshold_, scales_);
    return result;
  }

  const Transformer& model_;
  Batches& batches_;
  const TranscodeOptions& options_;
  Ranks& ranks_;
  TranscoderShape shape_;
  PassSums sums_;
  CheckpointFolder checkpoints_;
  RunClock clock_;
  Tensor masters_, first_, second_, adam_steps_;  // [numbers], [numbers], [numbers], [1]
  TranscoderParts parts_;                         // of the masters
  ActivationScales scales_;
  Tensor threshold_;  // [L]
  Tensor idle_;       // [L, F] tokens since a feature was active
  Tensor totals_;     // [2, L] since the last log: loss, features above the threshold
  LoopResult result_;
  int64_t step_ = 0, logged_ = 0;
  double rate_ = 0, interval_start_ = 0;
  std::string detail_;
};

}  // namespace

void check_transcode_options(const TranscodeOptions& options) {
  if ((options.steps > 0) == (options.minutes > 0)) {
    fail_input("the length of the run is not clear", "--steps and --minutes", "give one of the two");
  }
  if (options.features < 1 || options.k < 1 || options.k > options.features) {
    fail_input(fmt::format("{} of {} features per token", options.k, options.features), "--k and --features",
               "let --k be at least 1 and at most --features");
  }
  if (options.batch < 1 || options.batch % options.ranks->count() != 0) {
    fail_input(fmt::format("a batch of {} samples cannot be shared by {} ranks", options.batch,
                           options.ranks->count()),
               "--batch-tokens", "make --batch-tokens / --context a multiple of the ranks");
  }
  check_schedule(options.schedule);
}

TranscodeResult train_transcoders(const Transformer& model, Batches& batches, const TranscodeOptions& given) {
  const at::NoGradGuard no_grad;
  TranscodeOptions options = given;
  check_transcode_options(options);
  if (options.learning_rate <= 0)
    options.learning_rate = 0.03 / std::sqrt(static_cast<double>(options.features));
  return TranscoderTraining(model, batches, options).run();
}

}  // namespace openwork
