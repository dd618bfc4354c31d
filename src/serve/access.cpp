#include "serve/access.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>

#include "serve/secret.h"

namespace openwork::serve {
namespace {

constexpr std::string_view kCookie = "openwork-token=";

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) { return std::tolower(c); });
  return out;
}

bool is_address(const std::string& host) {
  in6_addr unused;
  return inet_pton(AF_INET, host.c_str(), &unused) == 1 || inet_pton(AF_INET6, host.c_str(), &unused) == 1;
}

std::string machine_name() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? lower(name) : "";
}

// "name:80", "[::1]:80" or either without a port, cut in two; the port is -1 where there is none.
struct Authority {
  std::string host;
  int port = -1;
};
std::optional<Authority> split_authority(std::string_view text) {
  const size_t bracket = text.find(']');
  const size_t colon = text.find(':', bracket == std::string_view::npos ? 0 : bracket);
  Authority authority{lower(text.substr(0, colon)), -1};
  if (bracket != std::string_view::npos) {
    if (!text.starts_with('[')) return std::nullopt;
    authority.host = lower(text.substr(1, bracket - 1));
  }
  if (colon == std::string_view::npos) return authority;
  const std::string_view digits = text.substr(colon + 1);
  if (digits.empty() || digits.size() > 5 || digits.find_first_not_of("0123456789") != std::string_view::npos)
    return std::nullopt;
  authority.port = std::stoi(std::string(digits));
  return authority;
}

bool is_ours(const AccessRules& rules, std::string_view text) {
  const std::optional<Authority> authority = split_authority(text);
  if (!authority || (authority->port == -1 ? 80 : authority->port) != rules.port) return false;
  return std::find(rules.hosts.begin(), rules.hosts.end(), authority->host) != rules.hosts.end() ||
         (rules.any_address && is_address(authority->host));
}

bool has_token(const AccessRules& rules, const RequestOrigin& request) {
  constexpr std::string_view kBearer = "Bearer ";
  if (same_secret(request.token, rules.token)) return true;
  if (request.authorization.starts_with(kBearer) &&
      same_secret(std::string_view(request.authorization).substr(kBearer.size()), rules.token))
    return true;
  const size_t at = request.cookie.find(kCookie);
  if (at == std::string::npos) return false;
  const std::string_view rest = std::string_view(request.cookie).substr(at + kCookie.size());
  return same_secret(rest.substr(0, rest.find(';')), rules.token);
}

}  // namespace

bool is_loopback(const std::string& host) {
  in_addr address;
  if (inet_pton(AF_INET, host.c_str(), &address) == 1) return (ntohl(address.s_addr) >> 24) == 127;
  return host == "localhost" || host == "::1";
}

AccessRules make_access_rules(const std::string& host, int port, const std::vector<std::string>& names) {
  AccessRules rules{.hosts = {"127.0.0.1", "localhost", "::1", lower(host)}, .port = port};
  rules.any_address = host == "0.0.0.0" || host == "::";
  if (rules.any_address) rules.hosts.push_back(machine_name());
  for (const std::string& name : names) rules.hosts.push_back(lower(name));
  return rules;
}

std::optional<std::string> refuse_access(const AccessRules& rules, const RequestOrigin& request) {
  if (!is_ours(rules, request.host))
    return "another host's name; Host; open the address that openwork serve printed, or give --allow-host "
           "NAME";
  constexpr std::string_view kScheme = "http://";
  if (!request.origin.empty() && (!request.origin.starts_with(kScheme) ||
                                  !is_ours(rules, std::string_view(request.origin).substr(kScheme.size()))))
    return "a page of another site asks; Origin; open the page that openwork serve printed";
  if (request.api && !request.fetch_site.empty() && request.fetch_site != "same-origin" &&
      request.fetch_site != "none")
    return "a page of another site asks; Sec-Fetch-Site; open the page that openwork serve printed";
  if (!rules.token.empty() && !has_token(rules, request))
    return "no token; address; open the address that openwork serve printed, with its ?token=";
  return std::nullopt;
}

std::string token_cookie(const std::string& token) {
  return fmt::format("{}{}; Path=/; HttpOnly; SameSite=Strict", kCookie, token);
}

}  // namespace openwork::serve
