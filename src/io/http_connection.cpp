// libcurl's easy interface with the options openwork wants: checked certificates, http and https only, time
// limits, no netrc, no proxy for this machine's own addresses.
#include "io/http_connection.h"

#include <curl/curl.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <exception>
#include <memory>

#include "base/error.h"

namespace openwork {
namespace {

constexpr size_t kErrorBodyLimit = 4096;

struct Transfer {
  CURL* handle;
  const HttpRequest& request;
  HttpExchange& exchange;
  std::exception_ptr thrown;  // by the sink: must not pass through libcurl, which is C
};

std::string lower_case(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) { return std::tolower(c); });
  return out;
}

std::string_view trim(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

size_t take_header(char* data, size_t size, size_t count, void* user) {
  HttpExchange& exchange = static_cast<Transfer*>(user)->exchange;
  const std::string_view line(data, size * count);
  if (line.starts_with("HTTP/")) exchange.headers.clear();  // an answer of 1xx went before
  const size_t colon = line.find(':');
  if (colon != std::string_view::npos) {
    exchange.headers[lower_case(trim(line.substr(0, colon)))] = trim(line.substr(colon + 1));
  }
  return size * count;
}

size_t take_body(char* data, size_t size, size_t count, void* user) {
  auto& [handle, request, exchange, thrown] = *static_cast<Transfer*>(user);
  const std::string_view piece(data, size * count);
  curl_easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &exchange.status);
  try {
    if (exchange.status != 200 && exchange.status != 206) {
      exchange.error_body += piece.substr(0, kErrorBodyLimit - exchange.error_body.size());
    } else if (request.sink && !request.sink(exchange, piece)) {
      exchange.stopped = true;
      return 0;
    }
  } catch (...) {
    thrown = std::current_exception();
    return 0;
  }
  return piece.size();
}

bool is_own_address(const std::string& url) {
  const std::unique_ptr<CURLU, void (*)(CURLU*)> parts(curl_url(), curl_url_cleanup);
  char* text = nullptr;
  if (curl_url_set(parts.get(), CURLUPART_URL, url.c_str(), 0) != CURLUE_OK ||
      curl_url_get(parts.get(), CURLUPART_HOST, &text, 0) != CURLUE_OK) {
    return false;
  }
  const std::string host = lower_case(text);
  curl_free(text);
  return host == "localhost" || host == "[::1]" || host.starts_with("127.");
}

void start_libcurl_once() {
  static const CURLcode started = curl_global_init(CURL_GLOBAL_DEFAULT);
  if (started != CURLE_OK) fail("libcurl does not start", "http", "check the libcurl installation");
}

}  // namespace

HttpConnection::HttpConnection(const HttpOptions& options) : options_(options) {
  start_libcurl_once();
  handle_ = curl_easy_init();
  if (handle_ == nullptr) fail("libcurl does not start", "http", "check the libcurl installation");
}

HttpConnection::~HttpConnection() {
  curl_easy_cleanup(handle_);
}

void HttpConnection::set_up(const HttpRequest& request) {
  curl_easy_reset(handle_);  // keeps open connections
  curl_easy_setopt(handle_, CURLOPT_URL, request.url.c_str());
  curl_easy_setopt(handle_, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(handle_, CURLOPT_FOLLOWLOCATION, 0L);
  curl_easy_setopt(handle_, CURLOPT_NETRC, static_cast<long>(CURL_NETRC_IGNORED));
  curl_easy_setopt(handle_, CURLOPT_SSL_VERIFYPEER, 1L);
  curl_easy_setopt(handle_, CURLOPT_SSL_VERIFYHOST, 2L);
  curl_easy_setopt(handle_, CURLOPT_NOSIGNAL, 1L);  // time limits must not use SIGALRM in a threaded program
  curl_easy_setopt(handle_, CURLOPT_USERAGENT, "openwork");
  curl_easy_setopt(handle_, CURLOPT_CONNECTTIMEOUT, static_cast<long>(options_.connect_timeout.count()));
  curl_easy_setopt(handle_, CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl_easy_setopt(handle_, CURLOPT_LOW_SPEED_TIME, static_cast<long>(options_.stall_timeout.count()));
  if (request.head) curl_easy_setopt(handle_, CURLOPT_NOBODY, 1L);
  if (!request.range.empty()) curl_easy_setopt(handle_, CURLOPT_RANGE, request.range.c_str());
  if (is_own_address(request.url)) curl_easy_setopt(handle_, CURLOPT_PROXY, "");
  // libcurl itself reads neither; the curl program and Python's clients do, so people expect it.
  for (const char* name : {"CURL_CA_BUNDLE", "SSL_CERT_FILE"}) {
    const char* file = std::getenv(name);
    if (file != nullptr && *file != '\0') {
      curl_easy_setopt(handle_, CURLOPT_CAINFO, file);
      break;
    }
  }
}

HttpExchange HttpConnection::send(const HttpRequest& request) {
  HttpExchange exchange;
  Transfer transfer{handle_, request, exchange, nullptr};
  set_up(request);
  std::unique_ptr<curl_slist, void (*)(curl_slist*)> extra(nullptr, curl_slist_free_all);
  if (request.with_token && !options_.bearer_token.empty()) {
    extra.reset(curl_slist_append(nullptr, ("Authorization: Bearer " + options_.bearer_token).c_str()));
    curl_easy_setopt(handle_, CURLOPT_HTTPHEADER, extra.get());
  }
  char message[CURL_ERROR_SIZE] = "";
  curl_easy_setopt(handle_, CURLOPT_ERRORBUFFER, message);
  curl_easy_setopt(handle_, CURLOPT_HEADERFUNCTION, take_header);
  curl_easy_setopt(handle_, CURLOPT_HEADERDATA, &transfer);
  curl_easy_setopt(handle_, CURLOPT_WRITEFUNCTION, take_body);
  curl_easy_setopt(handle_, CURLOPT_WRITEDATA, &transfer);

  exchange.curl_code = curl_easy_perform(handle_);
  if (transfer.thrown) std::rethrow_exception(transfer.thrown);
  exchange.curl_message =
      *message != '\0' ? message : curl_easy_strerror(static_cast<CURLcode>(exchange.curl_code));
  curl_easy_getinfo(handle_, CURLINFO_RESPONSE_CODE, &exchange.status);
  const char* target = nullptr;
  curl_easy_getinfo(handle_, CURLINFO_REDIRECT_URL, &target);  // made absolute by libcurl
  if (target != nullptr) exchange.redirect_url = target;
  curl_easy_setopt(handle_, CURLOPT_ERRORBUFFER, nullptr);
  return exchange;
}

bool is_worth_retrying(const HttpExchange& exchange, bool reached) {
  if (!exchange.is_broken()) {
    static constexpr long kPassing[] = {408, 429, 500, 502, 503, 504};
    return std::find(std::begin(kPassing), std::end(kPassing), exchange.status) != std::end(kPassing);
  }
  switch (exchange.curl_code) {
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_CONNECT:
      return reached;
    case CURLE_PARTIAL_FILE:
    case CURLE_GOT_NOTHING:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM:
      return true;
    default:
      return false;
  }
}

}  // namespace openwork
