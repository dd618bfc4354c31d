// libopenwork.so's door for the program: every verb, with torch behind it. cli/host.h is the one for other programs.
#include <ATen/Parallel.h>
#include <c10/util/Exception.h>

#include "base/parallel.h"
#include "cli/verbs.h"

namespace openwork {
namespace {

// A torch error's own message is the first of many lines; the rest is a stack trace.
std::optional<std::string> explain_torch_error(const std::exception& error) {
  const auto* torch = dynamic_cast<const c10::Error*>(&error);
  if (!torch) return std::nullopt;
  return std::string(torch->what_without_backtrace());
}

}  // namespace

Verbs all_verbs() {
  return {{"models", add_models_verb},     {"fetch", add_fetch_verb},
          {"inspect", add_inspect_verb},   {"run", add_run_verb},
          {"tokenize", add_tokenize_verb}, {"eval", add_eval_verb},
          {"pretrain", add_pretrain_verb}, {"sparsify", add_sparsify_verb},
          {"prune", add_prune_verb},       {"transcode", add_transcode_verb},
          {"heads", add_heads_verb},       {"scatter", add_scatter_verb},
          {"ablate", add_ablate_verb},     {"circuit", add_circuit_verb},
          {"trace", add_trace_verb},       {"stats", add_stats_verb},
          {"compare", add_compare_verb},   {"serve", add_serve_verb},
          {"bench", add_bench_verb},       {"completion", add_completion_verb},
          {"features", add_features_verb}};
}

}  // namespace openwork

extern "C" __attribute__((visibility("default"))) int openwork_main(int argc, char** argv) {
  using namespace openwork;
  on_thread_count([](int count) { at::set_num_threads(count); });
  return run_program(argc, argv, program_help(), all_verbs(), explain_torch_error);
}
