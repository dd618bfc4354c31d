// The options of `sparsify` beyond those that every training run has.
#pragma once
#include <string>
#include <vector>

#include "cli/training.h"

namespace openwork {

struct SparsifyOptions {
  TrainingOptions training;
  std::string gate = "idle", start = "pretrained", target = "base", head_form = "log", head_over = "sample",
              teacher = "base";
  MultiplierOptions multiplier;
  LoraOptions lora;
  double lora_alpha = 0;
  bool full = false;
  std::vector<std::string> of_gates;  // options that a run without gates has no use for
};

void add_gate_options(CLI::App& verb, SparsifyOptions& options);
void add_target_options(CLI::App& verb,
                        SparsifyOptions& options);                // where to end, how to get there, its form
void add_form_options(CLI::App& verb, SparsifyOptions& options);  // what is trained, and how it is saved

}  // namespace openwork
