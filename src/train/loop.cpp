#include "train/loop.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/philox.h"
#include "base/progress.h"
#include "io/safe_files.h"
#include "train/evaluation.h"
#include "train/gradient_exchange.h"
#include "train/loop_end.h"
#include "train/metrics.h"
#include "train/recorded_passes.h"
#include "train/run_clock.h"
#include "train/runaway.h"
#include "train/sharded_checkpoint.h"
#include "train/totals.h"
#include "train/weight_exchange.h"

namespace openwork {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

class Loop {
 public:
  Loop(TrainedWeights& weights, Batches& batches, const Transformer* dense, const LoopOptions& options)
      : weights_(weights),
        batches_(batches),
        dense_(dense),
        options_(options),
        ranks_(*options.ranks),
        exchange_(weights, ranks_),
        passes_(pass_recorder(weights.options()), weights.config().layers),
        optimiser_(weights, options.adamw, options.ranks.get()),
        checkpoints_(options.folder / "checkpoints"),
        lengths_(options.lengths, batches.context()),
        totals_(weights),
        measurements_(options.measurements),
        clock_(options.steps, options.minutes, ranks_) {
    const at::Device device = weights.options().device;
    if (options.multiplier) multiplier_.emplace(*options.multiplier, device);
    // Before the first step every head counts as wholly open: the gentlest slope.
    if (options.loss.head_over_batch && weights.config().gate != GateKind::kNone)
      head_means_ = at::ones({weights.config().layers, weights.config().heads},
                             at::TensorOptions().dtype(at::kDouble).device(device));
    if (options.schedule.head_penalty_end)
      head_penalty_ = at::zeros({}, at::TensorOptions().dtype(at::kDouble).device(device));
  }

  LoopResult run() {
    ranks_.run_first([&] {
      make_folder(options_.folder);
      if (options_.resume) checkpoints_.recover();
    });
    if (options_.resume) {
      check_noise();
      restore();
    }
    if (weights_.plan().gates() > 0) ranks_.broadcast(weights_.gates_of(weights_.masters()));
    share_weights(weights_, ranks_);
    std::optional<MetricsLog> metrics;
    if (ranks_.is_first()) {
      metrics.emplace(options_.folder / "metrics.jsonl", step_);
      runaway_.remember(options_.folder / "metrics.jsonl");
    }
    Progress bar(options_.name, clock_.total(), clock_.unit());
    interval_start_ = Clock::now();
    clock_.start();
    bar.skip(clock_.done(step_));
    while (!clock_.is_over(step_)) {
      const Ranks::Wait wait_for_news = clock_.start_news();
      run_step();
      if (is_due_to_measure()) measure();
      if (step_ % options_.log_every == 0) log(metrics);
      if (options_.checkpoint_every > 0 && step_ % options_.checkpoint_every == 0) save();
      clock_.take_news(wait_for_news);
      bar.set(clock_.done(step_), detail_);
    }
    if (totals_.steps() > 0) log(metrics);
    if (options_.held_out_target) result_.gap = measurements_.gap();
    save();
    ranks_.barrier();
    return describe_end(result_, clock_, step_, options_.batch * batches_.context());
  }

 private:
  void run_step() {
    const double now = clock_.progress(step_), rate = options_.schedule.learning_rate(now);
    move_gates(now);
    weights_.round_to_base(options_.schedule.rounded_share(now));
    weights_.zero_gradients();
    const Tensor cross_entropy = run_passes(now);
    rate_ = options_.learning_rate * rate;
    const double bias_rate = weights_.options().learn_bias ? options_.bias_rate * rate : 0,
                 idle_rate = weights_.options().learn_idle ? options_.idle_rate * rate : 0;
    const Tensor norm = optimiser_.step({rate_, rate_, bias_rate, idle_rate});
    share_weights(weights_, ranks_);
    target_ = choose_target(now);
    // As the noise goes, the loss that counts is the one of hard gates.
    if (multiplier_ && (hard_ || !options_.schedule.is_annealing(now)))
      multiplier_->update(cross_entropy, target_);
    totals_.add_step(cross_entropy, norm);
    hard_steps_ += hard_ ? 1 : 0;
    ++step_;
  }

  // The training loss that the multiplier holds the run to.
  double choose_target(double now) const {
    const Schedule& schedule = options_.schedule;
    if (options_.held_out_target)
      return schedule.target(options_.held_out_target->at(now), now) + measurements_.gap();
    const double target = schedule.target(options_.target, now);
    return options_.target_curve.empty() ? target
                                         : target + options_.target_curve.at(static_cast<double>(step_));
  }

  // The mean cross-entropy of the whole batch; its gradients are left in the weights' flat buffer, this rank's.
  Tensor run_passes(double now) {
    const int64_t part = options_.batch / ranks_.count(), rows = part / options_.accumulate;
    hard_ = options_.schedule.hard_gates(now, step_);
    if (head_penalty_.defined())
      head_penalty_.fill_(options_.schedule.head_penalty(options_.loss.head_penalty, now));
    StepSums sums = start_sums();
    for (int64_t pass = 0; pass < options_.accumulate; ++pass) {
      const int64_t first = ranks_.rank() * part + pass * rows;
      const Tensor tokens = to_device(batches_.read(step_ * options_.batch + first, rows));
      const std::vector<LengthCall> calls = lengths_.calls(first, rows);
      for (size_t n = 0; n < calls.size(); ++n)
        run_call(calls[n], tokens, now, pass + 1 == options_.accumulate && n + 1 == calls.size(), sums);
    }
    ranks_.sum_in_order(sums.cross_entropy);
    if (head_means_.defined()) {
      ranks_.sum_in_order(sums.head_penalty);
      head_means_.copy_(sums.head_penalty);
    }
    return sums.cross_entropy.squeeze(0);
  }

  // The host does not wait for a copy from pinned memory.
  Tensor to_device(const Tensor& tokens) const {
    const at::Device& device = weights_.options().device;
    return device.is_cuda() ? tokens.pin_memory().to(device, /*non_blocking=*/true) : tokens.to(device);
  }

  struct StepSums {
    Tensor cross_entropy;  // [1] float64
    Tensor slopes;         // [layers, heads] float32: of this step; undefined unless taken over the batch
    Tensor head_penalty;   // [layers, heads] float64: for the next step
  };

  StepSums start_sums() const {
    StepSums sums;
    sums.cross_entropy =
        at::zeros({1}, at::TensorOptions().dtype(at::kDouble).device(weights_.options().device));
    if (!head_means_.defined()) return sums;
    sums.slopes = head_slope(head_means_, options_.loss.head_form, options_.loss.head_knee).to(at::kFloat);
    sums.head_penalty = at::zeros_like(head_means_);
    return sums;
  }

  // One length of one pass, forward and backward; `last` of the rank's step.
  void run_call(const LengthCall& call, const Tensor& rows, double now, bool last, StepSums& sums) {
    const double share =
        static_cast<double>(call.rows) / static_cast<double>(options_.batch);  // of the tokens
    const Transformer& model = weights_.pass_model();
    exchange_.begin(last);
    const PassInputs inputs{lengths_.cut(rows, call), draw_of(call, now),
                            multiplier_ ? multiplier_->lambda() : Tensor(), sums.slopes, head_penalty_};
    const PassLoss loss = passes_.run(inputs, [&](const PassInputs& given) {
      LossOptions terms = options_.loss;
      if (!given.draw.seed) terms.penalty_weight = 0;  // nothing would hold against it (schedule.h)
      const PassLoss made = compute_pass_loss(model, dense_, given, terms);
      (made.loss * share).backward();
      return made;
    });
    exchange_.finish();
    sums.cross_entropy.add_(loss.cross_entropy.to(at::kDouble), share);
    if (sums.head_penalty.defined()) sums.head_penalty.add_(loss.head_penalty.to(at::kDouble), share);
    totals_.add_pass(loss.penalty, loss.distance, loss.active, share);
  }

  GateDraw draw_of(const LengthCall& call, double now) const {
    GateDraw draw;
    draw.first = call.first;
    draw.sharpness = options_.schedule.gate_sharpness(now);
    if (hard_) return draw;
    uint64_t seed = mix_seed(mix_seed(options_.seed, 0x6761746573), static_cast<uint64_t>(step_));
    if (lengths_.is_mixed()) seed = mix_seed(seed, static_cast<uint64_t>(call.length));
    draw.seed = static_cast<int64_t>(seed);
    return draw;
  }

  void move_gates(double now) {
    const auto move = [&](Segment segment, double& before, double shift) {
      if (shift != before) weights_.shift(segment, shift - before);
      before = shift;
    };
    move(Segment::kGateBias, shift_, options_.schedule.gate_bias_shift(now));
    move(Segment::kGateIdle, idle_shift_, options_.schedule.gate_idle_shift(now));
  }

  void log(std::optional<MetricsLog>& metrics) {
    const Totals::Reading reading = totals_.read(ranks_);
    check_finite(std::isfinite(reading.cross_entropy + reading.norm));
    const double elapsed = std::chrono::duration<double>(Clock::now() - interval_start_).count();
    const double speed = static_cast<double>(reading.steps * options_.batch * batches_.context()) / elapsed;
    result_.loss = reading.cross_entropy;
    nlohmann::json line = {{"step", step_},
                           {"tokens", step_ * options_.batch * batches_.context()},
                           {"loss", result_.loss},
                           {"learning_rate", rate_},
                           {"gradient_norm", reading.norm},
                           {"tokens_per_second", speed},
                           {"seconds", clock_.seconds()}};
    detail_ = fmt::format("loss {:.4f}", result_.loss);
    if (weights_.config().gate != GateKind::kNone) log_gates(line, reading);
    if (options_.loss.distill > 0 && dense_) line["distance"] = reading.distance;
    line.update(measurements_.take_line());
    if (const auto warning = runaway_.watch(reading.norm, step_)) note(*warning);
    detail_ += fmt::format(", {:.0f} tokens/s", speed);
    if (metrics) metrics->write(line);
    interval_start_ = Clock::now();
  }

  void log_gates(nlohmann::json& line, const Totals::Reading& totals) {
    const double pairs = static_cast<double>(totals.steps) * lengths_.pairs(options_.batch);  // of one head
    const double kept = totals.active.mean().item<double>() / pairs;
    const int64_t open = (totals.active / pairs > kOpenShare).sum().item<int64_t>();
    line.update({{"penalty", totals.penalty},
                 {"kept_edges", kept},
                 {"open_heads", open},
                 {"hard_steps",
                  static_cast<double>(std::exchange(hard_steps_, 0)) / static_cast<double>(totals.steps)},
                 {"gate_bias", mean_of(Segment::kGateBias)},
                 {"sharpness", options_.schedule.gate_sharpness(clock_.progress(step_ - 1))}});
    if (weights_.config().gate == GateKind::kIdle) line["gate_idle"] = mean_of(Segment::kGateIdle);
    if (multiplier_) {
      const Multiplier::Reading reading = multiplier_->read();
      result_.lambda = reading.lambda;
      result_.target = target_;
      line.update({{"lambda", reading.lambda}, {"average_loss", reading.average}, {"target", target_}});
      if (const auto warning = multiplier_->warn(reading, target_)) note(*warning);
      detail_ += fmt::format(" (target {:.4f}), lambda {:.3g}", target_, reading.lambda);
    }
    detail_ += fmt::format(", kept edges {:.2f} %, open heads {}", 100 * kept, open);
  }

  // Once in each share of the run; its end is measured by whoever has the result.
  bool is_due_to_measure() {
    return options_.measure && !clock_.finished(step_) && measurements_.is_due(clock_.progress(step_));
  }

  void measure() {
    const at::NoGradGuard no_grad;
    const HeldOutPoint point = options_.measure(weights_.pass_model());
    std::optional<double> training_loss;  // none yet where annealing began before any hard step
    if (options_.held_out_target && multiplier_) {
      const Multiplier::Reading reading = multiplier_->read();
      if (reading.updated) training_loss = reading.average;
    }
    measurements_.take(point, training_loss, step_ * options_.batch * batches_.context());
  }

  double mean_of(Segment segment) const {
    std::vector<Tensor> numbers;
    for (const TrainedTensor& tensor : weights_.tensors()) {
      if (tensor.segment == segment) numbers.push_back(weights_.master(tensor));
    }
    return at::cat(numbers).mean().item<double>();
  }

  void check_finite(bool finite) const {
    if (finite) return;
    const auto saved = checkpoints_.latest();
    fail(fmt::format("the loss or its gradient is not finite by step {}", step_), options_.folder.string(),
         saved ? fmt::format("lower --lr and --resume: step {} is saved", *saved) : "lower --lr");
  }

  RunTensors saved_tensors() const {
    RunTensors tensors = {{{"masters", weights_.masters()},
                           {"first_moment", optimiser_.first_moment()},
                           {"second_moment", optimiser_.second_moment()}},
                          {{"optimiser_steps", optimiser_.steps()}}};
    if (multiplier_) tensors.small.emplace_back("multiplier", multiplier_->state());
    if (head_means_.defined()) tensors.small.emplace_back("head_means", head_means_);
    return tensors;
  }

  void save() {
    check_finite(totals_.is_finite());  // never a checkpoint of a run that has gone wrong
    const nlohmann::json state = {{"version", kStateVersion},
                                  {"noise", kGateNoise},
                                  {"step", step_},
                                  {"seconds", clock_.seconds()},
                                  {"gate_bias_shift", shift_},
                                  {"gate_idle_shift", idle_shift_},
                                  {"measurements", measurements_.state()},
                                  {"result", {result_.loss, result_.lambda, result_.target}},
                                  {"identity", options_.identity},
                                  {"layout", describe_layout(weights_)}};
    save_checkpoint(checkpoints_, step_, saved_tensors(), state, weights_, ranks_);
  }

  void restore() {
    const auto found =
        read_checkpoint(checkpoints_, ranks_, options_.identity, options_.folder, options_.name);
    if (!found) return;
    const nlohmann::json& state = *found;
    if (state.value("layout", nlohmann::json()) != describe_layout(weights_)) {
      fail_input("the checkpoint is of another model", options_.folder.string(),
                 "resume with the options of the run, or choose another --out");
    }
    step_ = state.at("step");
    read_checkpoint_tensors(checkpoints_, step_, saved_tensors(), weights_);
    clock_.add_before(state.at("seconds"));
    shift_ = state.at("gate_bias_shift"), idle_shift_ = state.value("gate_idle_shift", 0.0);
    if (state.contains("measurements")) measurements_.restore(state.at("measurements"));
    const nlohmann::json& result = state.at("result");
    result_.loss = result.at(0), result_.lambda = result.at(1), result_.target = result.at(2);
    note(fmt::format("{}: resumed at step {}", options_.name, step_));
  }

  // Sampled gates of another version are other gates, and the run would not end where it was going.
  void check_noise() const {
    const auto latest = checkpoints_.latest();
    if (!latest || weights_.config().gate == GateKind::kNone) return;
    const int saved = checkpoints_.read_state(*latest).value("noise", 1);
    if (saved == kGateNoise) return;
    fail_input(
        fmt::format("the checkpoint has gate noise {}, but this program draws noise {}", saved, kGateNoise),
        options_.folder.string(), "finish the run with the program that began it, or choose another --out");
  }

  TrainedWeights& weights_;
  Batches& batches_;
  const Transformer* dense_;
  const LoopOptions& options_;
  Ranks& ranks_;
  GradientExchange exchange_;
  RecordedPasses passes_;
  AdamW optimiser_;
  std::optional<Multiplier> multiplier_;
  CheckpointFolder checkpoints_;
  LengthPlan lengths_;
  Totals totals_;
  RunawayWatch runaway_;
  Measurements measurements_;
  Tensor head_penalty_;  // 0-dimensional: the step's weight, where it moves
  Tensor head_means_;    // [layers, heads] float64: of the step before; undefined unless it counts
  RunClock clock_;
  LoopResult result_;
  int64_t step_ = 0;
  double shift_ = 0, idle_shift_ = 0, rate_ = 0, target_ = 0;
  bool hard_ = false;       // the step's gates
  int64_t hard_steps_ = 0;  // since the last line of metrics
  std::string detail_;
  Clock::time_point interval_start_ = Clock::now();
};

void check_shares(const TrainedWeights& weights, const Ranks& ranks) {
  const WeightOptions& share = weights.options();
  if (share.rank == ranks.rank() && share.ranks == ranks.count()) return;
  fail(fmt::format("the weights are those of rank {} of {}, the run's of rank {} of {}", share.rank,
                   share.ranks, ranks.rank(), ranks.count()),
       "train", "this is a defect: please report it");
}

}  // namespace

void check_batch(const LoopOptions& options) {
  const int64_t ranks = options.ranks->count(), parts = ranks * options.accumulate;
  if (options.batch >= 1 && options.accumulate >= 1 && options.batch % parts == 0) return;
  if (ranks == 1) {
    fail_input(
        fmt::format("a batch of {} samples cannot be cut into {} passes", options.batch, options.accumulate),
        "--accumulate", "choose a divisor of the batch (--batch-tokens / --context)");
  }
  fail_input(fmt::format("a batch of {} samples cannot be shared by {} ranks in {} passes each",
                         options.batch, ranks, options.accumulate),
             "--batch-tokens", fmt::format("make --batch-tokens / --context a multiple of {}", parts));
}

LoopResult run_loop(TrainedWeights& weights, Batches& batches, const Transformer* dense,
                    const LoopOptions& options) {
  check_batch(options);
  if ((options.steps > 0) == (options.minutes > 0)) {
    fail_input("the length of the run is not clear", "--steps and --minutes", "give one of the two");
  }
  check_schedule(options.schedule);
  check_shares(weights, *options.ranks);
  return Loop(weights, batches, dense, options).run();
}

}  // namespace openwork
