// The table of verbs. Each add_*_verb adds one verb's subcommand with its options, help and examples, and lives in a file
// of its own.
#pragma once
#include <CLI/CLI.hpp>
#include <string>

#include "shell/program.h"

namespace openwork {

// The verbs' names and summaries (cli/verb_table.cpp), and whether one has that name.
const ProgramHelp& program_help();
bool is_verb(const std::string& word);

// The subcommand of a verb, with its summary; the verb's own file then adds its options to it.
CLI::App* add_verb(CLI::App& app, const std::string& name);

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
Verbs all_verbs();

}  // namespace openwork
