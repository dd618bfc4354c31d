// Redirects, retries and resumed downloads on top of single exchanges (http_connection.h).
#include "io/http.h"

#include <curl/curl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <functional>
#include <optional>
#include <thread>
#include <utility>

#include "base/error.h"
#include "io/growing_file.h"
#include "io/http_connection.h"

namespace openwork {
namespace {

constexpr int kMostRedirects = 10;
constexpr std::chrono::milliseconds kLongestWait{16000};
constexpr std::chrono::seconds kLongestAskedWait{60};  // of a server's Retry-After

std::string header_of(const HttpHeaders& headers, std::string_view name) {
  const auto found = headers.find(std::string(name));
  return found == headers.end() ? "" : found->second;
}

}  // namespace

std::string HttpResponse::header(std::string_view name) const {
  return header_of(headers, name);
}

// One thing asked for until it is answered: how to ask each time, and whether the last time brought anything.
struct HttpClient::Attempt {
  std::string url;
  bool head = false;
  bool leave_server = true;                 // follow redirects to other servers
  std::function<std::string()> range = {};  // asked before each exchange
  HttpSink sink = {};
  std::function<uint64_t()> progress = {};                // grows when an exchange brought something
  std::function<bool(HttpExchange&)> is_acceptable = {};  // called on whole answers; false: ask again
};

HttpClient::HttpClient(HttpOptions options)
    : options_(std::move(options)), connection_(std::make_unique<HttpConnection>(options_)) {}

HttpClient::~HttpClient() = default;

HttpExchange HttpClient::follow(const Attempt& attempt, std::string& url) {
  HttpHeaders headers;
  for (int hop = 0; hop <= kMostRedirects; ++hop) {
    const bool at_home = is_same_server(url, attempt.url);
    HttpExchange exchange = connection_->send({.url = url,
                                               .head = attempt.head,
                                               .with_token = at_home,
                                               .range = attempt.range ? attempt.range() : "",
                                               .sink = attempt.sink});
    exchange.headers.merge(headers);  // adds those the answer itself does not have
    const std::string target = exchange.redirect_url;
    if (exchange.is_broken() || target.empty()) return exchange;
    if (!attempt.leave_server && !is_same_server(target, attempt.url)) return exchange;
    if (url.starts_with("https:") && !target.starts_with("https:")) {
      fail("the server redirects to an unencrypted address", url_without_query(target),
           "check the server's address");
    }
    headers = std::move(exchange.headers);
    std::erase_if(headers, [](const auto& header) { return !header.first.starts_with("x-"); });
    url = target;
  }
  fail("too many redirects", url_without_query(attempt.url), "check the server's address");
}

HttpResponse HttpClient::ask(const Attempt& attempt) {
  std::chrono::milliseconds wait = options_.first_wait;
  bool reached = false;
  for (int fruitless = 1;; ++fruitless) {
    const uint64_t before = attempt.progress ? attempt.progress() : 0;
    std::string url = attempt.url;
    HttpExchange exchange = follow(attempt, url);
    const bool whole = !exchange.is_broken() && !is_worth_retrying(exchange, reached);
    if (whole && (!attempt.is_acceptable || attempt.is_acceptable(exchange))) {
      return {exchange.status, std::move(url), std::move(exchange.headers), std::move(exchange.error_body)};
    }
    if (attempt.progress && attempt.progress() > before) {
      fruitless = 0;
      wait = options_.first_wait;
      reached = true;
    }
    if (exchange.is_broken() && (fruitless >= options_.attempts || !is_worth_retrying(exchange, reached))) {
      fail(fmt::format("cannot reach the server: {}", exchange.curl_message), url_without_query(url),
           options_.unreachable_advice);
    }
    if (whole && fruitless >= options_.attempts) {
      fail("the server's answers do not fit together", url_without_query(url), "run the command again later");
    }
    if (fruitless >= options_.attempts) {
      return {exchange.status, std::move(url), std::move(exchange.headers), std::move(exchange.error_body)};
    }
    reached = reached || exchange.status != 0;
    const auto asked = parse_number(header_of(exchange.headers, "retry-after")).value_or(0);
    const std::chrono::milliseconds asked_wait =
        std::chrono::seconds(std::min<uint64_t>(asked, kLongestAskedWait.count()));
    std::this_thread::sleep_for(std::max(wait, asked_wait));
    wait = std::min(wait * 2, kLongestWait);
  }
}

HttpResponse HttpClient::get(const std::string& url) {
  std::string body;
  bool too_long = false;
  HttpResponse response = ask({.url = url,
                               .range = [&] { return body.clear(), std::string(); },
                               .sink =
                                   [&](const HttpExchange&, std::string_view piece) {
                                     too_long = body.size() + piece.size() > options_.body_limit;
                                     if (!too_long) body += piece;
                                     return !too_long;
                                   }});
  if (too_long) {
    fail(fmt::format("the answer is longer than {} bytes", options_.body_limit), url_without_query(url),
         "check the server's address");
  }
  if (response.status == 200) response.body = std::move(body);
  return response;
}

HttpResponse HttpClient::head(const std::string& url) {
  HttpResponse response = ask({.url = url, .head = true, .leave_server = false});
  if (response.status != 405 && response.status != 501) return response;
  return ask({.url = url, .leave_server = false, .sink = [](const HttpExchange&, std::string_view) {
                return false;
              }});
}

HttpResponse HttpClient::download(const std::string& url, const std::filesystem::path& path,
                                  Progress* progress, uint64_t progress_unit) {
  GrowingFile file(path);
  bool begun = false;
  const auto range = [&]() -> std::string {
    begun = false;
    return file.size() == 0 ? "" : fmt::format("{}-", file.size());
  };
  const auto sink = [&](const HttpExchange& exchange, std::string_view piece) {
    if (!begun && !file.begin(exchange.status, header_of(exchange.headers, "content-range"))) return false;
    begun = true;
    file.append(piece);
    if (progress != nullptr) progress->set(file.size() / progress_unit);
    return true;
  };
  const auto is_acceptable = [&](HttpExchange& exchange) {
    if (exchange.status == 416 && file.size() > 0) {  // nothing follows: it is whole, or not ours at all
      const bool whole =
          parse_content_range(header_of(exchange.headers, "content-range")).total == file.size();
      if (!whole) file.empty();
      exchange.status = 206;
      return whole;
    }
    if (exchange.status != 200 && exchange.status != 206) return true;  // the caller judges
    if (exchange.stopped ||
        (!begun && !file.begin(exchange.status, header_of(exchange.headers, "content-range")))) {
      file.empty();
      return false;
    }
    return true;
  };
  return ask({.url = url,
              .range = range,
              .sink = sink,
              .progress = [&] { return file.size(); },
              .is_acceptable = is_acceptable});
}

std::string url_without_query(std::string_view url) {
  return std::string(url.substr(0, url.find_first_of("?#")));
}

std::string encode_url(std::string_view text, bool keep_slashes) {
  std::string out;
  for (const unsigned char c : text) {
    const bool plain = std::isalnum(c) != 0 || (c != 0 && std::strchr("-._~", c) != nullptr);
    out += plain || (keep_slashes && c == '/') ? std::string(1, static_cast<char>(c))
                                               : fmt::format("%{:02X}", c);
  }
  return out;
}

bool is_same_server(const std::string& left, const std::string& right) {
  const auto server_of = [](const std::string& url) -> std::string {
    const std::unique_ptr<CURLU, void (*)(CURLU*)> parts(curl_url(), curl_url_cleanup);
    std::string server;
    if (curl_url_set(parts.get(), CURLUPART_URL, url.c_str(), 0) != CURLUE_OK) return "";
    for (const CURLUPart part : {CURLUPART_SCHEME, CURLUPART_HOST, CURLUPART_PORT}) {
      char* text = nullptr;
      if (curl_url_get(parts.get(), part, &text, CURLU_DEFAULT_PORT) != CURLUE_OK) return "";
      server += fmt::format("{} ", text);
      curl_free(text);
    }
    std::transform(server.begin(), server.end(), server.begin(),
                   [](unsigned char c) { return std::tolower(c); });
    return server;
  };
  const std::string server = server_of(left);
  return !server.empty() && server == server_of(right);
}

}  // namespace openwork
