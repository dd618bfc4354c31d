// What ablate, circuit and bench circuit share: the options that name a task, making it for a model, and the
// sweep that outlives an interruption.
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "analyze/circuits/sweep.h"
#include "analyze/circuits/task.h"
#include "model/transformer.h"
#include "shell/common.h"
#include "text/tokenizer.h"
#include "train/stop.h"

namespace openwork {

struct TaskOptions {
  std::string task;
  int64_t prompts = 0;  // 0: 24 drawn, or all of a file
};

// Of an option that names a task: refuses what is none.
CLI::Validator task_name();

void add_task_options(CLI::App& verb, TaskOptions& options);
void add_sweep_option(CLI::App& verb, std::string& file);  // --sweep, where a KeptSweep is kept

// What tasks are made of: the model's tokens. Copying and files of ids need no tokenizer; others say so themselves. The
// tokenizer must outlive what is returned.
TaskVocabulary open_vocabulary(const ModelConfig& config, const std::optional<Tokenizer>& tokenizer,
                               const CommonOptions& common);

// The task with this model's tokens.
Task open_task(const std::string& model_name, const Transformer& model, const TaskOptions& options,
               const CommonOptions& common, uint64_t seed);

// A sweep kept in `file`, or beside the JSON output, shared over ranks, that ends at SIGINT or SIGTERM to any
// of them.
class KeptSweep {
 public:
  KeptSweep(const std::string& file, const CommonOptions& common, const nlohmann::json& key, Ranks& ranks);
  Sweep& sweep() { return sweep_; }
  // Runs `work` and leaves the ranks; a sweep that was stopped leaves the program with 128 + signal, one that
  // was refused leaves no file.
  void guard(const std::function<void()>& work);

 private:
  Ranks& ranks_;
  StopSignals signals_;
  Sweep sweep_;
};

}  // namespace openwork
