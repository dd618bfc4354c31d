#include "transcode/train_transcoders.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/progress.h"
#include "io/safe_files.h"
#include "train/checkpoint.h"
#include "train/loop_end.h"
#include "train/metrics.h"
#include "train/run_clock.h"
#include "transcode/joint_pass.h"
#include "transcode/transcoder_config.h"

namespace openwork {
namespace {

constexpr int64_t kCalibrationTokens = 8192;
constexpr double kThresholdGain = 0.1;  // of the logarithm of features per token over k, per step
constexpr int kSettlingBatches = 16;    // that thresholds are settled on once the weights are final
constexpr double kBiasRise = 5e-3;      // of the threshold, per step, for dead features
constexpr double kBeta1 = 0.9, kBeta2 = 0.999, kEpsilon = 1e-8;

class TranscoderTraining {
 public:
  TranscoderTraining(const Transformer& model, Batches& batches, const TranscodeOptions& options)
      : model_(model),
        batches_(batches),
        options_(options),
        ranks_(*options.ranks),
        shape_{options.kind, model.config().layers, options.features, model.config().width, options.skip},
        sums_(make_pass_sums(shape_, model.device())),
        own_sums_(options.own_weight > 0 ? make_pass_sums(shape_, model.device()) : PassSums()),
        checkpoints_(options.folder / "checkpoints"),
        clock_(options.steps, options.minutes, ranks_) {
    const auto floats = at::TensorOptions().dtype(at::kFloat).device(model.device());
    const int64_t L = shape_.layers, F = shape_.features, D = shape_.width, numbers = shape_.numbers();
    masters_ = at::zeros({numbers}, floats), first_ = at::zeros({numbers}, floats);
    second_ = at::zeros({numbers}, floats), adam_steps_ = at::zeros({1}, floats);
    parts_ = split_parts(shape_, masters_);
    threshold_ = at::zeros({L}, floats), idle_ = at::zeros({L, F}, floats),
    totals_ = at::zeros({4, L}, floats);
    scales_ = {at::ones({L}, floats), at::ones({L}, floats), at::zeros({L, D}, floats), at::ones({L}, floats),
               at::ones({L}, floats)};
  }

  TranscodeResult run() {
    ranks_.run_first([&] {
      make_folder(options_.folder);
      if (options_.resume) checkpoints_.recover();
    });
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
    // A skip is fitted to them, which wants many more tokens than the width, however small a batch is.
    const int64_t wanted = std::max<int64_t>(1, kCalibrationTokens / batches_.context());
    const int64_t samples = options_.skip ? wanted : std::min(wanted, options_.batch);
    const MlpActivations activations = read_mlp_activations(model_, options_.input, read_ids(0, samples));
    scales_ = measure_scales(activations);
    const ScaledActivations scaled = scale_activations(activations, scales_);
    threshold_.copy_(options_.start != nullptr
                         ? unfold_scales(shape_, options_.start->layers, scales_, parts_)
                         : start_features(shape_, scaled, scales_, options_.k, options_.seed, parts_));
    for (const auto& [name, tensor] : saved_tensors()) ranks_.broadcast(tensor);
  }

  bool is_joint() const { return clock_.progress(step_) > 1 - options_.joint_share; }

  void run_step() {
    const double progress = clock_.progress(step_);
    double rate = options_.learning_rate * options_.schedule.learning_rate(progress);
    const int64_t part = options_.batch / ranks_.count();
    const Tensor ids = read_ids(step_ * options_.batch + ranks_.rank() * part, part);
    const Tensor dead = idle_ >= static_cast<double>(options_.dead_after);  // [L, F]
    sums_.flat.zero_();
    if (is_joint()) {
      if (joint_from_ < 0) begin_joint(progress);
      const double rise = options_.schedule.warmup;
      rate *= options_.joint_rate * (rise > 0 ? std::min(1.0, (progress - joint_from_) / rise) : 1);
      add_joint(ids, dead);
    } else {
      add_separate(parts_in_compute(), read_own(ids), dead, sums_);
    }
    ranks_.sum(sums_.flat);
    step_weights(rate, dead);
    step_thresholds();
    totals_.add_(
        at::stack({sums_.error, sums_.above, sums_.distance.expand_as(sums_.error), sums_.own_error}));
    ++step_;
    rate_ = rate;
  }

  // The weights as a pass takes them: a copy in the model's dtype.
  TranscoderParts parts_in_compute() const { return split_parts(shape_, masters_.to(model_.dtype())); }

  ScaledActivations read_own(const Tensor& ids) const {
    return scale_activations(read_mlp_activations(model_, options_.input, ids), scales_);
  }

  // Each layer by itself, on the model's own activations.
  void add_separate(const TranscoderParts& parts, const ScaledActivations& own, const Tensor& dead,
                    const PassSums& sums) {
    const int64_t stride = std::gcd(batches_.context(), int64_t{16});
    add_pass(shape_, parts, own, scales_, threshold_, dead,
             {options_.selection, options_.k, batch_tokens(), stride}, sums);
  }

  // What the moments know is of another loss.
  void begin_joint(double progress) {
    joint_from_ = progress;
    for (const Tensor& moment : {first_, second_, adam_steps_}) moment.zero_();
  }

  // All layers in the replaced model and, with own_weight, each by itself beside it: of that its gradients, while
  // features are counted in the replaced model.
  void add_joint(const Tensor& ids, const Tensor& dead) {
    const TranscoderParts parts = parts_in_compute();
    const bool beside = options_.own_weight > 0;
    if (beside) own_sums_.flat.zero_();
    for_each_part(ids, [&](const Tensor& some) {
      const ScaledActivations own = read_own(some);
      add_joint_pass(model_, options_.input, some, own, shape_, parts, scales_, threshold_,
                     {options_.output_weight, batch_tokens()}, sums_);
      if (beside) add_separate(parts, own, dead, own_sums_);
    });
    if (!beside) return;
    const auto gradients = [&](const PassSums& sums) { return sums.flat.narrow(0, 0, shape_.numbers()); };
    gradients(sums_).add_(gradients(own_sums_), options_.own_weight);
    sums_.own_error.add_(own_sums_.error);
  }

  // Samples few enough at a time for the way back through the model to be kept.
  template <typename Visit>
  void for_each_part(const Tensor& ids, Visit visit) {
    for (const Tensor& some : ids.split(choose_joint_samples(model_, shape_, batches_.context())))
      visit(some);
  }

  // With the weights as they are now: each layer's threshold on the inputs that the replaced layers give it.
  void settle_thresholds() {
    const TranscoderParts parts = parts_in_compute();
    const int64_t part = options_.batch / ranks_.count();
    for (int64_t n = 0; n < kSettlingBatches; ++n) {
      sums_.flat.zero_();
      for_each_part(read_ids((step_ + n) * options_.batch + ranks_.rank() * part, part),
                    [&](const Tensor& some) {
                      count_active(model_, options_.input, some, shape_, parts, scales_, threshold_, sums_);
                    });
      ranks_.sum(sums_.above);
      step_thresholds();
    }
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

  // Up where more than k features per token were above it, down where fewer were. Shared, all move as one: a
  // feature that is left out costs its value squared over the layer's variance, so that is what they compare.
  void step_thresholds() {
    const double wanted = static_cast<double>(options_.k * batch_tokens());
    const Tensor above = options_.share_k ? sums_.above.mean().expand_as(sums_.above) : sums_.above;
    const Tensor excess = (above / wanted).clamp(std::exp(-1.0), std::exp(1.0)).log();
    if (options_.share_k) {
      const Tensor deviation = scales_.variance.sqrt();
      threshold_.copy_((threshold_ / deviation).log().mean().exp() * deviation);
    }
    threshold_.mul_((excess * kThresholdGain).exp()).clamp_min_(1e-6);
  }

  void log(std::optional<MetricsLog>& metrics) {
    const auto steps = static_cast<double>(step_ - logged_);
    const Tensor totals = totals_.to(at::kCPU, at::kDouble) / steps;
    const Tensor explained = 1 - totals[0], active = totals[1] / static_cast<double>(batch_tokens());
    const double distance = totals[2][0].item<double>();
    result_.loss = totals[0].mean().item<double>();
    check_finite(std::isfinite(result_.loss));
    const double now = clock_.seconds(),
                 speed = steps * static_cast<double>(batch_tokens()) / (now - interval_start_);
    const double dead = dead_share();
    if (metrics) {
      nlohmann::json line = {{"step", step_},
                             {"tokens", step_ * batch_tokens()},
                             {"loss", result_.loss},
                             {"explained_variance", to_list(explained)},
                             {"active_features", to_list(active)},
                             {"dead_share", dead},
                             {"learning_rate", rate_},
                             {"tokens_per_second", speed},
                             {"seconds", now}};
      if (joint_from_ >= 0) line["distance"] = distance;
      if (joint_from_ >= 0 && options_.own_weight > 0)
        line["own_explained_variance"] = to_list(1 - totals[3]);
      metrics->write(line);
    }
    detail_ = fmt::format("explained variance {:.3f}, active {:.1f}, dead {:.1f} %, {:.0f} tokens/s",
                          1 - result_.loss, active.mean().item<double>(), 100 * dead, speed);
    if (joint_from_ >= 0) detail_ = fmt::format("replaced {:+.3f} nats, {}", distance, detail_);
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
                     {"skip", options_.skip},
                     {"share_k", options_.share_k},
                     {"joint_share", options_.joint_share},
                     {"joint_rate", options_.joint_rate},
                     {"output_weight", options_.output_weight},
                     {"warmup", options_.schedule.warmup},
                     {"decay", options_.schedule.decay},
                     {"dtype", c10::toString(model_.dtype())}});
    if (options_.own_weight > 0) identity["own_weight"] = options_.own_weight;  // older states have none
    return identity;
  }

  void save() {
    check_finite(masters_.sum().isfinite().item<bool>());
    if (!ranks_.is_first()) return;
    checkpoints_.save(step_, saved_tensors(),
                      {{"version", kStateVersion},
                       {"step", step_},
                       {"seconds", clock_.seconds()},
                       {"loss", result_.loss},
                       {"joint_from", joint_from_},
                       {"identity", identify()}});
  }

  bool restore() {
    const auto state = read_checkpoint(checkpoints_, ranks_, identify(), options_.folder, "transcode");
    if (!state) return false;
    step_ = logged_ = state->at("step");
    checkpoints_.read_tensors(step_, saved_tensors());
    clock_.add_before(state->at("seconds"));
    result_.loss = state->at("loss");
    joint_from_ = state->value("joint_from", -1.0);
    note(fmt::format("transcode: resumed at step {}", step_));
    return true;
  }

  TranscodeResult finish() {
    TranscodeResult result;
    result.training = describe_end(result_, clock_, step_, batch_tokens());
    if (result.training.signal != 0) return result;
    if (joint_from_ >= 0) settle_thresholds();
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
  PassSums sums_, own_sums_;  // the latter of steps that have both losses
  CheckpointFolder checkpoints_;
  RunClock clock_;
  Tensor masters_, first_, second_, adam_steps_;  // [numbers], [numbers], [numbers], [1]
  TranscoderParts parts_;                         // of the masters
  ActivationScales scales_;
  Tensor threshold_;  // [L]
  Tensor idle_;       // [L, F] tokens since a feature was active
  Tensor
      totals_;  // [4, L] since the last log: loss, features above the threshold, KL and own loss of joint steps
  LoopResult result_;
  int64_t step_ = 0, logged_ = 0;
  double joint_from_ = -1;  // the progress at which all layers began to train in place; -1: not yet
  double rate_ = 0, interval_start_ = 0;
  std::string detail_;
};

}  // namespace

static void check_start(const TranscodeOptions& options, const ModelConfig& config) {
  const Transcoders& start = *options.start;
  const bool fits = start.kind == options.kind && start.input == options.input &&
                    static_cast<int64_t>(start.layers.size()) == config.layers &&
                    start.layers.front().features() == options.features &&
                    (options.skip || !start.layers.front().skip.defined());
  if (fits) return;
  fail_input(fmt::format("it has {} layers of {} features, {}, {}{}", start.layers.size(),
                         start.layers.front().features(), kind_name(start.kind), input_name(start.input),
                         start.layers.front().skip.defined() ? ", skips" : ""),
             "--start", "give the --kind, --input, --features and --skip it was trained with");
}

void check_transcode_options(const TranscodeOptions& options, const ModelConfig& config) {
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
  if (options.skip && options.kind == TranscoderKind::kCrossLayer) {
    fail_input("a skip across layers", "--skip", "leave it out, or train --kind plt");
  }
  if (!(options.joint_share >= 0 && options.joint_share <= 1)) {
    fail_input(fmt::format("a share of {}", options.joint_share), "--joint-share", "give 0 to 1");
  }
  if (options.own_weight > 0 && options.joint_share == 0) {
    fail_input("a weight beside the replaced model's loss, and none of it", "--own-weight",
               "give --joint-share too");
  }
  check_schedule(options.schedule);
  if (options.start != nullptr) check_start(options, config);
}

TranscodeResult train_transcoders(const Transformer& model, Batches& batches, const TranscodeOptions& given) {
  const at::NoGradGuard no_grad;
  TranscodeOptions options = given;
  check_transcode_options(options, model.config());
  if (options.learning_rate <= 0)
    options.learning_rate = 0.03 / std::sqrt(static_cast<double>(options.features));
  return TranscoderTraining(model, batches, options).run();
}

}  // namespace openwork
