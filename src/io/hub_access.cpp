#include "io/hub_access.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "io/places.h"

namespace openwork {
namespace {

constexpr const char* kPublicHub = "https://huggingface.co";

}  // namespace

std::string hub_endpoint() {
  std::string endpoint = environment_value("HF_ENDPOINT");
  if (endpoint.empty()) return kPublicHub;
  while (endpoint.ends_with('/')) endpoint.pop_back();
  if (!endpoint.starts_with("http://") && !endpoint.starts_with("https://")) {
    fail_input(fmt::format("'{}' is no web address", printable(endpoint)), "HF_ENDPOINT",
               "give it as https://HOST, or unset it");
  }
  return endpoint;
}

std::string hub_token() {
  const std::string token = environment_value("HF_TOKEN");
  const bool is_plain = std::all_of(token.begin(), token.end(), [](char c) { return c > 0x20 && c < 0x7f; });
  if (!is_plain)
    fail_input("the token has spaces or odd characters", "HF_TOKEN", "set it again, or unset it");
  return token;
}

void refuse_when_offline() {
  const std::string value = environment_value("HF_HUB_OFFLINE");
  if (value == "1" || value == "true" || value == "TRUE" || value == "yes" || value == "on") {
    fail_input("fetching is switched off", "HF_HUB_OFFLINE=" + value,
               "unset HF_HUB_OFFLINE to use the network");
  }
}

void explain_refusal(const HttpResponse& response, const std::string& what, const std::string& revision) {
  const bool has_token = !environment_value("HF_TOKEN").empty();
  const std::string where = url_without_query(response.url);
  const std::string error_code = response.header("x-error-code");
  switch (response.status) {
    case 401:
      fail_input(fmt::format("the hub does not show '{}' {} (status 401)", what,
                             has_token ? "to the holder of this token" : "without a token"),
                 where,
                 "check the name; for a private or gated model set HF_TOKEN to a token that may read it");
    case 403:
      fail_input(fmt::format("'{}' is gated or not yours to read (status 403)", what), where,
                 "ask for access on the model's page, then set HF_TOKEN to that account's token");
    case 404:
      if (error_code == "RevisionNotFound") {
        fail_input(fmt::format("no revision '{}'", revision), where, "check what follows the @");
      }
      fail_input(fmt::format("the hub has no '{}' (status 404)", what), where,
                 "check the name and the revision; a private model needs HF_TOKEN");
    default:
      fail(fmt::format("the hub answered with status {} for '{}'", response.status, what), where,
           "run the command again later");
  }
}

}  // namespace openwork
