// One request and its answer over libcurl, redirects not followed; HttpClient (http.h) is built on it.
// The handle lives as long as the object, so that requests to one server share its connection.
#pragma once
#include <functional>
#include <string>
#include <string_view>

#include "io/http.h"

typedef void CURL;

namespace openwork {

struct HttpExchange;
// Takes the next piece of a 200 or 206 body; false ends the transfer.
using HttpSink = std::function<bool(const HttpExchange&, std::string_view)>;

struct HttpRequest {
  std::string url;
  bool head = false;        // ask for headers only
  bool with_token = false;  // send the bearer token
  std::string range;        // "1000-", or "" for everything
  HttpSink sink;            // may be empty: the body is thrown away
};

struct HttpExchange {
  long status = 0;
  HttpHeaders headers;
  std::string redirect_url;  // absolute; "" when the answer is no redirect
  std::string error_body;    // the first 4 KiB of a body that is no success
  bool stopped = false;      // the sink said so
  int curl_code = 0;         // CURLE_OK or what broke the exchange
  std::string curl_message;  // in words

  bool is_broken() const { return curl_code != 0 && !stopped; }
};

class HttpConnection {
 public:
  explicit HttpConnection(const HttpOptions& options);
  ~HttpConnection();
  HttpConnection(const HttpConnection&) = delete;
  HttpConnection& operator=(const HttpConnection&) = delete;

  HttpExchange send(const HttpRequest& request);

 private:
  void set_up(const HttpRequest& request);

  const HttpOptions& options_;
  CURL* handle_;
};

// Whether trying again may help: the connection broke, as against a name or certificate that is wrong.
// `reached` says that the server answered before, so that a failure to connect may pass.
bool is_worth_retrying(const HttpExchange& exchange, bool reached);

}  // namespace openwork
