// What sparsify and pretrain share: the training options, the data, measuring on held-out blocks, the closing
// report. transcode shares the run's options and data.
#pragma once
#include <string>
#include <vector>

#include "shell/common.h"
#include "text/tokenizer.h"
#include "train/batches.h"
#include "train/sparsify.h"

namespace openwork {

struct TrainingOptions {
  CommonOptions common;
  RunOptions run;
  std::vector<std::string> data;
  std::string out, held_out, save_dtype = "fp32";
  int64_t context = 0, data_tokens = 0, held_out_blocks = 400;
  int64_t batch_tokens = 16384;  // 0: 65536 on a GPU, 16384 on the CPU
  std::vector<int64_t> lengths;  // of blocks, where they are mixed
  double learning_rate = 0;      // 0: the verb's own default
  bool memory_only = false;      // nothing is run: no folder is made, and no GPU is asked for
  CLI::App* verb = nullptr;
  std::unique_ptr<FolderLock> lock;  // on the run's folder: the first rank's, until the program ends
};

// Data, length, batch, learning rate, checkpoints: of every run; and all of sparsify and pretrain.
void add_run_options(CLI::App& verb, TrainingOptions& options);
void add_training_options(CLI::App& verb, TrainingOptions& options);

// Device, dtype (bf16 on a GPU unless said otherwise), batch, folder, command: what the options say, in
// options.run. `longest` is the model's context.
void settle_training_options(TrainingOptions& options, int64_t longest);

// Prepares the data, trains, prints and writes the report. A run that was interrupted leaves the program with
// 128 + signal.
void run_and_report(TrainingOptions& options, const Tokenizer& tokenizer, int32_t end_of_text,
                    int64_t vocabulary);

// The data as token shards in the run's folder: the first rank makes them, the others find them made.
PreparedData share_data(const TrainingOptions& options, const Tokenizer& tokenizer, int32_t end_of_text,
                        int64_t vocabulary);

// The protocol's record of the model: of a run that began with drawn weights its configuration alone.
nlohmann::json describe_run_model(const RunOptions& run);

// Ends the program with 128 + signal, saying how to go on.
[[noreturn]] void leave_interrupted(const RunOptions& run, int signal);

// The command as it was typed, from the process's own arguments.
std::string command_line();

}  // namespace openwork
