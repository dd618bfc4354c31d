// HTTP as the hub needs it, over libcurl: GET into memory, HEAD, and GET into a file that goes on where a
// broken one stopped. Redirects are followed here, not by libcurl, so that the token is sent only to the
// server (scheme, host and port) it was meant for, and so that a redirect's own headers can be read.
//   HttpClient client({.bearer_token = token});
//   HttpResponse answer = client.get("https://host/api/models/org/repo");
// Certificates are always checked. Proxies are the usual environment variables' (https_proxy, no_proxy),
// never for this machine's own addresses. Passwords are never read from a netrc file.
#pragma once
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "base/progress.h"

namespace openwork {

class HttpConnection;  // libcurl's handle, see http_connection.h
struct HttpExchange;

struct HttpOptions {
  std::string bearer_token;                   // sent to the first URL's server only; empty: none
  std::chrono::seconds connect_timeout{15};   // to reach the server
  std::chrono::seconds stall_timeout{60};     // without a single byte
  int attempts = 5;                           // in a row that bring nothing, before giving up
  std::chrono::milliseconds first_wait{500};  // before the second attempt; doubles, up to 16 s
  uint64_t body_limit = uint64_t{64} << 20;   // for answers held in memory
  std::string unreachable_advice = "check the network connection, then run the command again";
};

// Names in lower case; of several headers of a name the last one counts.
using HttpHeaders = std::map<std::string, std::string>;

struct HttpResponse {
  long status = 0;
  std::string url;      // the one that answered, after redirects
  HttpHeaders headers;  // and the redirects' own X-... headers, where the last answer has none of that name
  std::string body;     // get: all of it; otherwise what an answer that is no success said, shortened

  // The header's value, or "" when there is none.
  std::string header(std::string_view lower_case_name) const;
};

class HttpClient {
 public:
  explicit HttpClient(HttpOptions options = {});
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  // Each returns whatever status the server ends with; the caller judges it. A broken connection and the
  // statuses 408, 429, 500, 502, 503 and 504 are tried again first; a server that cannot be reached fails.
  HttpResponse get(const std::string& url);

  // Follows redirects on the same server only: one that points elsewhere is returned as it is, since its
  // headers describe the file. Servers that know no HEAD are asked by a GET that is cut off at the body.
  HttpResponse head(const std::string& url);

  // Appends to `file` what it still lacks (Range), or begins anew where the server offers no ranges. On
  // status 200 or 206 the file is whole. Progress, if given, counts in units of `progress_unit` bytes.
  HttpResponse download(const std::string& url, const std::filesystem::path& file,
                        Progress* progress = nullptr, uint64_t progress_unit = 1);

 private:
  struct Attempt;
  HttpExchange follow(const Attempt& attempt, std::string& url);  // `url` ends as the one that answered
  HttpResponse ask(const Attempt& attempt);

  HttpOptions options_;
  std::unique_ptr<HttpConnection> connection_;
};

// The URL without its query, which may hold a signature: what messages show.
std::string url_without_query(std::string_view url);

// Percent-encoded for a URL path; '/' is kept only where `keep_slashes`.
std::string encode_url(std::string_view text, bool keep_slashes);

// Same scheme, host and port.
bool is_same_server(const std::string& left, const std::string& right);

}  // namespace openwork
