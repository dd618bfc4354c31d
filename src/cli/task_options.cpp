#include "cli/task_options.h"

#include <fmt/format.h>

#include <sstream>

#include "base/error.h"
#include "base/progress.h"
#include "cli/open.h"
#include "io/sha256.h"

namespace openwork {
namespace {

std::string sweep_path(const std::string& file, const CommonOptions& common) {
  if (!file.empty()) return file;
  return common.json.empty() || common.json == "-" ? "" : common.json + ".sweep";
}

}  // namespace

void add_task_options(CLI::App& verb, TaskOptions& options) {
  verb.add_option("--task", options.task,
                  "copy, ioi, greater-than, docstring, opposite or a JSONL file of prompts")
      ->required()
      ->type_name("TASK");
  verb.add_option("--prompts", options.prompts,
                  "how many prompts to draw, or to take from the file (24; all of a file)")
      ->check(between(1, 1 << 20))
      ->type_name("N");
}

Task open_task(const std::string& model_name, const Transformer& model, const TaskOptions& options,
               const CommonOptions& common, uint64_t seed) {
  const ModelConfig& config = model.config();
  TaskVocabulary vocabulary;
  vocabulary.size = config.vocabulary;
  vocabulary.context = config.context;
  std::optional<Tokenizer> tokenizer;
  try {
    tokenizer = open_tokenizer(model_name);
  } catch (const Error&) {
    tokenizer.reset();  // copy and files of ids need none; others say so themselves
  }
  int64_t begin = config.beginning_token.value_or(0);
  if (tokenizer) {
    vocabulary.tokenizer = &*tokenizer;
    vocabulary.beginning = beginning_tokens(*tokenizer, common);
    if (tokenizer->end_of_text_id()) begin = *tokenizer->end_of_text_id();
    if (tokenizer->beginning_id()) begin = *tokenizer->beginning_id();
  }
  vocabulary.begin_token = begin;
  vocabulary.copy_begins = common.bos != "no";
  return make_task(options.task, vocabulary, options.prompts, seed);
}

nlohmann::json describe_task(const Task& task) {
  const bool drawn = is_built_in_task(task.name);
  nlohmann::json description = {
      {"task", drawn ? task.name : std::filesystem::path(task.name).filename().string()},
      {"prompts", task.prompts.size()},
      {"tokens", task.length()},
      {"metric", metric_name(task.metric)}};
  if (drawn) {
    description["task_seed"] = task.seed;
  } else {
    description["task_sha256"] = sha256_of_file(task.name);
  }
  return description;
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
    std::exit(128 + stopped.signal);
  } catch (const Error& error) {
    // What was refused is refused again: its file would only stand in the way of the next command.
    if (error.kind() == Error::Kind::kInput) sweep_.finish();
    throw;
  }
}

std::vector<std::string> split_names(const std::string& text) {
  std::vector<std::string> names;
  std::stringstream stream(text);
  for (std::string name; std::getline(stream, name, ',');) {
    if (!name.empty()) names.push_back(name);
  }
  return names;
}

}  // namespace openwork
