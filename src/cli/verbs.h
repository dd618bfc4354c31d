// Each add_*_verb adds one verb's subcommand with its options, help and examples, and lives in a file of its own.
#pragma once
#include <CLI/CLI.hpp>
#include <map>
#include <string>

#include "cli/program.h"

namespace openwork {

void add_models_verb(CLI::App& app);
void add_fetch_verb(CLI::App& app);
void add_inspect_verb(CLI::App& app);
void add_run_verb(CLI::App& app);
void add_tokenize_verb(CLI::App& app);
void add_eval_verb(CLI::App& app);
void add_pretrain_verb(CLI::App& app);
void add_sparsify_verb(CLI::App& app);
void add_prune_verb(CLI::App& app);
void add_transcode_verb(CLI::App& app);
void add_features_verb(CLI::App& app);
void add_heads_verb(CLI::App& app);
void add_scatter_verb(CLI::App& app);
void add_ablate_verb(CLI::App& app);
void add_circuit_verb(CLI::App& app);
void add_trace_verb(CLI::App& app);
void add_stats_verb(CLI::App& app);
void add_compare_verb(CLI::App& app);
void add_serve_verb(CLI::App& app);
void add_bench_verb(CLI::App& app);
void add_completion_verb(CLI::App& app);

// All of them, by name (cli/library.cpp).
std::map<std::string, AddVerb> all_verbs();

}  // namespace openwork
