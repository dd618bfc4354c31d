#include "shell/task_options.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/progress.h"
#include "shell/open.h"

namespace openwork {
namespace {

std::string sweep_path(const std::string& file, const CommonOptions& common) {
  if (!file.empty()) return file;
  return common.json.empty() || common.json == "-" ? "" : common.json + ".sweep";
}

}  // namespace

CLI::Validator task_name() {
  return CLI::Validator(
      [](std::string& name) {
        check_task_name(name);
        return std::string();
      },
      "");
}

void add_task_options(CLI::App& verb, TaskOptions& options) {
  verb.add_option("--task", options.task,
                  "copy, ioi, greater-than, docstring, opposite or a JSONL file of prompts")
      ->required()
      ->check(task_name())
      ->type_name("TASK");
  verb.add_option("--prompts", options.prompts,
                  "how many prompts to draw, or to take from the file (24; all of a file)")
      ->check(between(1, 1 << 20))
      ->type_name("N");
}

void add_sweep_option(CLI::App& verb, std::string& file) {
  verb.add_option("--sweep", file, "keep what is done in FILE until the end (default: beside --json FILE)")
      ->type_name("FILE");
}

TaskVocabulary open_vocabulary(const ModelConfig& config, const std::optional<Tokenizer>& tokenizer,
                               const CommonOptions& common) {
  std::vector<int64_t> beginning;
  if (tokenizer) beginning = beginning_tokens(*tokenizer, common);
  return make_vocabulary(config, tokenizer ? &*tokenizer : nullptr, std::move(beginning), common.bos != "no");
}

Task open_task(const std::string& model_name, const Transformer& model, const TaskOptions& options,
               const CommonOptions& common, uint64_t seed) {
  const std::optional<Tokenizer> tokenizer = find_tokenizer(model_name);
  return make_task(options.task, open_vocabulary(model.config(), tokenizer, common), options.prompts, seed);
}

KeptSweep::KeptSweep(const std::string& file, const CommonOptions& common, const nlohmann::json& key,
                     Ranks& ranks)
    : ranks_(ranks), sweep_(sweep_path(file, common), key, &ranks) {
  sweep_.stop_signal = [this] { return signals_.seen(); };
}

void KeptSweep::guard(const std::function<void()>& work) {
  try {
    work();
    ranks_.leave();
  } catch (const SweepStopped& stopped) {
    note("stopped; the same command continues from here");
    ranks_.leave();
    end_interrupted(stopped.signal);
  } catch (const Error& error) {
    // What was refused is refused again: its file would only stand in the way of the next command.
    if (error.kind() == Error::Kind::kInput) sweep_.finish();
    throw;
  }
}

}  // namespace openwork
