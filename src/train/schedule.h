// How a run changes as it goes, as functions of its progress p (the share of it that is done, 0 to 1):
//   learning rate    warm-up, stable, decay: rises linearly, stays, falls linearly to 0 over the last share
//   noise            gates are sampled until the last `noise_anneal` share; over its first nine tenths ever
//                    more steps have hard gates, in its last tenth all of them
//   gate bias        moves by bias_shift in all, linearly, and has arrived when the decay begins; so does the
//                    score of the idle key, by idle_shift
//   sharpness        the powers of two from `sharpness` to `sharpness_end`, an equal share of the run each
//   head penalty     its weight moves linearly to head_penalty_end over the first half of the run: heads that
//                    are to close do so while all is still in motion, and edges are then weighed alone
//   rounding         over the last `rounding` share the model computes with the weights its compact form will have;
//                    they come on linearly over the first `rounding_ramp` of it, or at once
//   target           target + slack while the learning rate is high; the slack goes as the rate falls
// Sampled gates keep about twice the edges of hard ones, so a run must end on hard ones. But a hard gate has no
// slope: only the penalty would move it, and it would close for good. So hard steps follow the loss alone,
// sampled steps between them open and close gates against the loss of the hard ones (loop.h), and the noise goes
// by the number of steps that have it.
#pragma once
#include <cstdint>
#include <optional>

namespace openwork {

struct Schedule {
  double warmup = 0.02;  // shares of the run
  double decay = 0.2;
  double noise_anneal = 0.3;
  double rounding = 0;       // where the result is saved compactly: the last share trains the rounded weights
  double rounding_ramp = 0;  // a share of the run, not of that share
  double bias_shift = 0;     // added to every gate bias by the end
  double idle_shift = 0;     // and to every idle score
  double sharpness = 1, sharpness_end = 1;      // 1, 2 or 4: what the kernels know
  std::optional<double> head_penalty_end = {};  // none: the weight stays
  double target_slack = 0;                      // nats allowed above the target at the full learning rate

  double learning_rate(double progress) const;           // as a share of the peak, 0 to 1
  bool hard_gates(double progress, int64_t step) const;  // of step `step`, at that progress
  bool is_annealing(double progress) const;              // within the share that turns the noise off
  double rounded_share(double progress) const;  // of the way from the weights to the rounded ones, 0 to 1
  double gate_bias_shift(double progress) const;
  double gate_idle_shift(double progress) const;
  double gate_sharpness(double progress) const;
  double head_penalty(double start, double progress) const;
  double target(double target, double progress) const;
};

// Fails naming the option where a share is outside [0, 1], warm-up and decay overlap or no kernel has a
// sharpness.
void check_schedule(const Schedule& schedule);

}  // namespace openwork
