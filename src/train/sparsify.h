// Post-training a model to few attention edges, from its name to the closing report (METHOD 2), and
// pretraining, which is the same run without a base, gates or constraint. The run's folder OUT:
//   data/            the tokenised documents (batches.h)
//   base.json        the base on the held-out blocks, so that a resumed run need not measure it again
//   control/         the dense control: its checkpoints, metrics, weights and result.json
//   checkpoints/     the newest two of the run (checkpoint.h);  metrics.jsonl a line per interval
//   config.json, model.safetensors (or adapter_config.json, adapter_model.safetensors), tokenizer.json   the
//   result report.json, report.md
#pragma once
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "train/report.h"
#include "train/weights.h"

namespace openwork {

struct RunOptions {
  std::string verb = "sparsify", model, command;
  std::filesystem::path model_path, out;         // model_path: what load_model opens
  std::filesystem::path tokenizer_path;          // what copy_tokenizer takes
  std::optional<std::filesystem::path> adapter;  // merged into the base first
  bool random = false;                           // draw the weights from the seed; config.json alone is read
  GateKind gate = GateKind::kLogprob;            // kNone: pretrain
  std::optional<double> gate_bias, gate_bias_end;  // start and end; the kind's default, and the start
  std::optional<double> target_loss;               // else the base's loss plus
  double tolerance = 0;
  bool target_from_control = false;  // the control's training loss at the same step instead; wants `control`
  bool control = false;
  std::optional<double> compact;  // megabytes: save a compact difference to the base (model/delta.h) instead
  WeightOptions weights;
  LoopOptions loop;  // its folder, name, identity and target are set here
  at::ScalarType save_dtype = at::kFloat;
};

// Measures a model on the held-out blocks.
using Evaluate = std::function<Evaluation(const Transformer& model, const std::string& name)>;

// Fails where OUT already holds a run or a model and `loop.resume` is off.
void check_run_folder(const RunOptions& options);

// Trains, saves, opens what was saved and measures that. A report with a signal in it is of a run that was
// interrupted after a checkpoint and holds no measurement.
RunReport run_training(const RunOptions& options, Batches& batches, const Evaluate& evaluate);

// The model with gates of a kind on every head: those it has where it has that kind and no bias is given.
struct StartingPoint {
  ModelConfig config;
  NamedTensors parameters;
};
StartingPoint put_gates(const Transformer& base, GateKind gate, std::optional<double> bias);
StartingPoint remove_gates(const Transformer& base);

// Where a bias starts when nobody says: 5 for logprob (an edge is open when P > exp(-5)), 4 for score.
double default_gate_bias(GateKind gate);

}  // namespace openwork
