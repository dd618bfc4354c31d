// openwork features: what a model's transcoder features are about, listed, searched, and written as public
// dashboards read them.
#include <fmt/format.h>

#include "analyze/trace/traced_model.h"
#include "base/error.h"
#include "base/number_text.h"
#include "cli/verbs.h"
#include "io/model_store.h"
#include "report/feature_report.h"
#include "shell/open.h"
#include "transcode/described_features.h"

namespace openwork {
namespace {

struct FeaturesOptions {
  CommonOptions common;
  std::string model, transcoder, out;
  FeatureQuery query;
  int64_t top = 20, contexts = 3;
};

DescribedFeatures open_features(const FeaturesOptions& options) {
  std::vector<std::string> given;
  if (!options.transcoder.empty()) given.push_back(options.transcoder);
  FeatureFolder folder = choose_transcoders(given, {options.model}).front();
  if (folder.path.empty()) {
    fail_input("no transcoders", options.model,
               "name their folder with --transcoder, or train some: openwork transcode");
  }
  return open_described(std::move(folder), read_config_of(options.model),
                        model_hash(locate_model(options.model)));
}

void run_features(const FeaturesOptions& options) {
  apply_common_options(options.common);
  const DescribedFeatures set = open_features(options);
  const Tokenizer tokenizer = open_tokenizer(options.model);
  const std::vector<FoundFeature> found =
      find_features(set.descriptions, group_features(set.transcoders), tokenizer, options.query);
  const size_t listed = std::min(found.size(), static_cast<size_t>(options.top));
  nlohmann::json features = nlohmann::json::array();
  for (size_t n = 0; n < listed; ++n) {
    const FeatureDescription& description = set.of(found[n].layer, found[n].feature);
    print_result(options.common, to_text(found[n], description, tokenizer, options.contexts));
    features.push_back(to_json(found[n], description, tokenizer));
  }
  print_result(options.common, fmt::format("{} of {} of features", listed, count_of(found.size(), "group")));
  if (!options.out.empty()) {
    const size_t files = write_found(options.out, found, set, tokenizer);
    print_result(options.common, fmt::format("wrote {} to {}", count_of(files, "file"), options.out));
  }
  nlohmann::json result = {
      {"model", options.model},         {"scan", set.transcoders.scan}, {"tokens", set.descriptions.tokens},
      {"search", options.query.search}, {"found", found.size()},        {"features", features}};
  result["protocol"] = make_protocol(options.common);
  result["protocol"]["model"] = describe_model_files(options.model);
  result["protocol"]["transcoders"] = {{"path", std::filesystem::path(set.folder).filename().string()},
                                       {"sha256", model_hash(set.folder)}};
  write_json_result(options.common, result);
}

}  // namespace

void add_features_verb(CLI::App& app) {
  auto options = std::make_shared<FeaturesOptions>();
  CLI::App* verb = add_verb(app, "features");
  verb->add_option("MODEL", options->model, "the model whose MLPs the features stand for")->required();
  verb->add_option("--transcoder", options->transcoder,
                   "the folder of transcoders (default: the model's own)")
      ->type_name("DIR");
  verb->add_option("--search", options->query.search,
                   "only features that are active on this text, or write it")
      ->check(CLI::Validator(
          [](std::string& text) {
            return text.empty() ? "the empty text is in every feature's: give at least a letter" : "";
          },
          ""))
      ->type_name("TEXT");
  verb->add_option("--layer", options->query.layer, "only of this layer")
      ->check(between<int64_t>(0, 1 << 20))
      ->type_name("N");
  verb->add_option("--top", options->top, "how many groups to list")
      ->check(between<int64_t>(0, int64_t{1} << 30))
      ->type_name("N")
      ->capture_default_str();
  verb->add_option("--contexts", options->contexts, "how many places to show of each")
      ->check(between<int64_t>(0, 1000))
      ->type_name("N")
      ->capture_default_str();
  verb->add_option("--out", options->out,
                   "write a JSON file for every feature found, as public dashboards read them (neuronpedia's "
                   "feature details)")
      ->type_name("DIR");
  add_common_options(*verb, options->common);
  verb->footer(
      "A feature is shown with how often it is on, the tokens that what it writes speaks for, and the places "
      "where "
      "it is most active.\n"
      "Near-duplicates of one layer are listed once, under the one found first.\n"
      "Examples:\n"
      "  openwork features openwork-8m --layer 3\n"
      "  openwork features openwork-8m --search large --top 5\n"
      "  openwork features smollm2-135m --transcoder smollm2-transcoders --out dashboard --json "
      "features.json");
  verb->callback([options] { run_features(*options); });
}

}  // namespace openwork
