// Post-training a model to few attention edges, from its name to the closing report (docs/method.md, 2), and
// pretraining, which is the same run without a base, gates or constraint. The run's folder OUT:
//   data/            the tokenised documents (batches.h)
//   base.json        the base on the held-out blocks, so that a resumed run need not measure it again
//   control/         the dense control: its checkpoints, metrics, weights and result.json
//   point-1/ ...     the points of a frontier (frontier.h), each like the control; OUT is the last of them
//   checkpoints/     the newest two of the run (checkpoint.h);  metrics.jsonl a line per interval
//   config.json, model.safetensors (or adapter_config.json, adapter_model.safetensors), tokenizer.json   the
//   result report.json, report.md
#pragma once
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "io/safe_files.h"
#include "train/report.h"
#include "train/starting_point.h"
#include "train/weights.h"

namespace openwork {

enum class DenseModel { kBase, kControl };  // those that a gated one is held against
const char* dense_model_name(DenseModel model);
DenseModel parse_dense_model(const std::string& name, const std::string& where);

struct RunOptions {
  std::string verb = "sparsify", model, command;
  std::string data;                       // a hash of the training data: a resumed run must have the same
  std::filesystem::path model_path, out;  // model_path: what load_model opens
  std::filesystem::path tokenizer_path;   // what copy_tokenizer takes
  std::optional<std::filesystem::path> adapter;  // merged into the base first
  bool random = false;                           // draw the weights from the seed; config.json alone is read
  GateKind gate = GateKind::kIdle;               // kNone: pretrain, or the control alone
  std::optional<double> gate_bias, gate_bias_end;  // start and end; the kind's default, and the start
  std::optional<double> gate_idle, gate_idle_end;  // likewise the score of the idle key
  // The held-out loss to end at, gates hard: target_loss, or the base's or the control's plus `tolerance`.
  DenseModel target = DenseModel::kBase;
  std::optional<double> target_loss;
  double tolerance = 0;
  std::optional<double> target_slack;      // above it while the rate is high; 0.03, or 0 beside a control
  bool target_from_control = false;        // the control's training loss at the same step instead
  bool control = false;                    // train one: the last two, a frontier and a teacher want it
  int64_t frontier = 0;                    // points; 0: one run
  DenseModel teacher = DenseModel::kBase;  // whose predictions are distilled
  std::optional<double> compact;  // megabytes: save a compact difference to the base (model/delta.h) instead
  WeightOptions weights;
  int64_t held_out_blocks = 0;  // that are measured: a finished part of the run must have the same
  LoopOptions loop;             // its folder, name, identity and target are set here
  at::ScalarType save_dtype = at::kFloat;
};

// Measures a model on the held-out blocks: all of them, or those few that are measured on the way of a run.
enum class HeldOutPart { kAll, kOnTheWay };
using Evaluate =
    std::function<Evaluation(const Transformer& model, const std::string& name, HeldOutPart part)>;

// Fails where OUT already holds a run or a model and `loop.resume` is off.
void check_run_folder(const RunOptions& options);
// Makes OUT where it is not there, holds it for this process as long as the lock lives, and checks it.
std::unique_ptr<FolderLock> make_run_folder(const RunOptions& options);

// Trains, saves, opens what was saved and measures that. A report with a signal in it is of a run that was
// interrupted after a checkpoint and holds no measurement.
RunReport run_training(const RunOptions& options, Batches& batches, const Evaluate& evaluate);

}  // namespace openwork
