// Who may ask. A page of another site in the same browser may not: the Host must be one of ours (a name made to point
// here is refused), an Origin must be our own, and the browser must not call the request another site's. Where the
// server is reached from other machines a token is wanted too, in the address once, then in a cookie that no script
// reads.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace openwork::serve {

struct AccessRules {
  std::vector<std::string> hosts;  // names and addresses that are ours, in lower case
  bool any_address = false;        // bound to all addresses: every numeric one is ours
  int port = 0;
  std::string token = {};  // empty: none is wanted
};

// For a server bound to `host`, which `names` also stand for.
AccessRules make_access_rules(const std::string& host, int port, const std::vector<std::string>& names);

bool is_loopback(const std::string& host);  // 127.x.y.z, ::1, localhost

// What of a request says who asks; empty where it says nothing.
struct RequestOrigin {
  std::string host = {}, origin = {}, fetch_site = {};      // headers
  std::string cookie = {}, authorization = {}, token = {};  // headers; "token" of the address
  bool api = false;                                         // else the page and its files
};

// Why it is refused; nothing where it is not.
std::optional<std::string> refuse_access(const AccessRules& rules, const RequestOrigin& request);

// The Set-Cookie line that remembers the token.
std::string token_cookie(const std::string& token);

}  // namespace openwork::serve
