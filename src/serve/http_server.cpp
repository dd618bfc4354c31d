#include "serve/http_server.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "base/error.h"
#include "serve/access.h"
#include "serve/connection.h"
#include "serve/connection_threads.h"
#include "serve/job_events.h"
#include "serve/routes.h"
#include "serve/secret.h"

namespace openwork::serve {
namespace {

constexpr size_t kLongestPath = 256;
constexpr size_t kPiece = 64 << 10;            // of a body handed to the socket at a time
constexpr std::chrono::seconds kLastWords(3);  // of a server that stops

constexpr const char* kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src "
    "'self'; base-uri "
    "'none'; form-action 'none'; frame-ancestors 'none'";

// Whether the connection may be used again: not after a request that was refused or not understood, whose body may
// still lie in it.
thread_local bool keep_connection = true;

// What cannot be read safely, before a byte of the body is.
std::optional<Reply> refuse_form(const httplib::Request& request, size_t body_bytes) {
  if (request.path.size() > kLongestPath)
    return error_reply(404, "no such route; address; see docs/serve.md");
  if (request.has_header("Transfer-Encoding"))
    return error_reply(411, "a body of unknown length; request; send Content-Length");
  if (request.get_header_value_count("Content-Length") > 1 || request.get_header_value_count("Host") > 1)
    return error_reply(400, "a header that is there twice; request; send it once");
  const std::string length = request.get_header_value("Content-Length");
  if (length.size() > 18 || length.find_first_not_of("0123456789") != std::string::npos)
    return error_reply(400, "not a number of bytes; Content-Length; send the body's length");
  if (!length.empty() && std::stoull(length) > body_bytes)
    return error_reply(413, fmt::format("too large; body; send at most {} bytes", body_bytes));
  if (request.method != "POST") return std::nullopt;
  if (length.empty()) return error_reply(411, "no length; request; send Content-Length");
  const std::string type = request.get_header_value("Content-Type");
  if (type.substr(0, type.find(';')) != kJsonType || request.has_header("Content-Encoding"))
    return error_reply(415, "not JSON; Content-Type; send application/json, not compressed");
  return std::nullopt;
}

RequestOrigin read_origin(const httplib::Request& request) {
  return {.host = request.get_header_value("Host"),
          .origin = request.get_header_value("Origin"),
          .fetch_site = request.get_header_value("Sec-Fetch-Site"),
          .cookie = request.get_header_value("Cookie"),
          .authorization = request.get_header_value("Authorization"),
          .token = request.get_param_value("token"),
          .api = request.path.starts_with("/api/")};
}

ServiceRequest read_request(const httplib::Request& request) {
  return {.method = request.method,
          .path = request.path,
          .body = request.body,
          .from = request.get_param_value("from"),
          .point = request.get_param_value("point"),
          .have = request.get_header_value("If-None-Match"),
          .takes_gzip = request.get_header_value("Accept-Encoding").find("gzip") != std::string::npos};
}

// The body is handed on from where it lies: many clients may be sent one answer.
void write_body(const Answer& answer, httplib::Response& response) {
  if (answer.body->empty()) return response.set_content("", answer.type);
  response.set_content_provider(answer.body->size(), answer.type,
                                [body = answer.body](size_t offset, size_t length, httplib::DataSink& sink) {
                                  return sink.write(body->data() + offset, std::min(length, kPiece));
                                });
}

void write_events(const std::shared_ptr<Job>& job, httplib::Response& response) {
  response.set_chunked_content_provider(
      "text/event-stream", [events = std::make_shared<JobEvents>(job)](size_t, httplib::DataSink& sink) {
        const std::string text = events->next();
        if (!sink.is_writable() || !sink.write(text.data(), text.size())) return false;
        if (events->ended()) sink.done();
        return true;
      });
}

void write_reply(const Reply& reply, httplib::Response& response) {
  response.status = reply.status;
  response.set_header("Cache-Control", "no-store");
  for (const auto& [name, value] : reply.headers) {
    response.headers.erase(name);
    response.set_header(name, value);
  }
  reply.stream ? write_events(reply.stream, response) : write_body(reply.answer, response);
}

void write_refusal(const Reply& reply, httplib::Response& response) {
  keep_connection = false;
  write_reply(reply, response);
  response.set_header("Connection", "close");
}

httplib::Headers default_headers() {
  return {{"Content-Security-Policy", kPolicy},
          {"X-Content-Type-Options", "nosniff"},
          {"X-Frame-Options", "DENY"},
          {"Referrer-Policy", "no-referrer"},
          {"Cross-Origin-Opener-Policy", "same-origin"},
          {"Cross-Origin-Resource-Policy", "same-origin"}};
}

}  // namespace

// cpp-httplib reads requests and writes answers; connections are ours.
class Listener : public httplib::Server {
 public:
  Listener(const HttpLimits& limits, const std::atomic<bool>& stopping)
      : limits_(limits), stopping_(stopping) {
    new_task_queue = [this] { return new ConnectionThreads(limits_.connections); };
  }

  // Connections that wait to be taken in: the library's five are too few for a page and its files.
  void widen() { ::listen(svr_sock_, static_cast<int>(limits_.connections)); }

  // Lets what is being answered be answered; the library drops it when it stops.
  void finish_answers() const {
    const auto until = std::chrono::steady_clock::now() + kLastWords;
    while (answering_ > 0 && std::chrono::steady_clock::now() < until)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

 private:
  bool process_and_close_socket(socket_t socket) override {
    if (ConnectionThreads::is_refused()) {
      Connection::refuse(socket, 503, "too many connections");
      ::close(socket);
      return false;
    }
    Connection connection(socket, limits_, stopping_);
    for (int left = limits_.requests;
         left > 0 && connection.wait_for_request() && answer_one(connection, left == 1);)
      --left;
    return true;
  }

  // Whether there may be another.
  bool answer_one(Connection& connection, bool last) {
    keep_connection = true;
    bool closed = false;
    ++answering_;
    // A part of a file is never wanted, and many parts of it would be a flood.
    const bool answered =
        process_request(connection, last, closed, [](httplib::Request& request) { request.ranges.clear(); });
    --answering_;
    return answered && !closed && keep_connection;
  }

  const HttpLimits& limits_;
  const std::atomic<bool>& stopping_;
  std::atomic<int> answering_{0};
};

struct HttpServer::State {
  State(Handle handler, const HttpLimits& limited)
      : handle(std::move(handler)), limits(limited), listener(limits, stopping) {}

  Handle handle;
  HttpLimits limits;
  std::string host;
  AccessRules rules;
  std::atomic<bool> stopping{false};
  Listener listener;
  std::thread thread;

  void set_up();
  httplib::Server::HandlerResponse receive(const httplib::Request& request, httplib::Response& response);
  void answer(const httplib::Request& request, httplib::Response& response);
};

void HttpServer::State::set_up() {
  listener.set_default_headers(default_headers());
  listener.set_tcp_nodelay(true);
  // A port that another process listens on is refused: the library would share it (SO_REUSEPORT), and either would answer.
  listener.set_socket_options([](socket_t socket) {
    const int yes = 1;
    ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  });
  listener.set_payload_max_length(limits.body_bytes);
  listener.set_pre_routing_handler(
      [this](const auto& request, auto& response) { return receive(request, response); });
  // Only bodies are left to the library to read: every other request has been answered by then.
  listener.Post("/api/[a-z]+", [this](const auto& request, auto& response) { answer(request, response); });
  listener.set_exception_handler([](const auto&, auto& response, std::exception_ptr) {
    write_refusal(error_reply(500, "something went wrong; server; look at its output"), response);
  });
  listener.set_error_handler([](const auto&, auto& response) {
    if (response.body.empty() && !response.content_provider_)
      write_refusal(error_reply(response.status, "not understood; request; see docs/serve.md"), response);
  });
}

httplib::Server::HandlerResponse HttpServer::State::receive(const httplib::Request& request,
                                                            httplib::Response& response) {
  using Handled = httplib::Server::HandlerResponse;
  if (const std::optional<std::string> why = refuse_access(rules, read_origin(request))) {
    write_refusal(error_reply(403, *why), response);
    return Handled::Handled;
  }
  if (const std::optional<Reply> refusal = refuse_form(request, limits.body_bytes)) {
    write_refusal(*refusal, response);
    return Handled::Handled;
  }
  const FoundRoute found = find_route(request.method, request.path);
  if (found.route != nullptr && request.method == "POST")
    return Handled::Unhandled;                                        // its body is read first
  if (request.has_header("Content-Length")) keep_connection = false;  // and nobody else's
  answer(request, response);
  return Handled::Handled;
}

void HttpServer::State::answer(const httplib::Request& request, httplib::Response& response) {
  const Reply reply = handle(read_request(request));
  if (reply.status >= 404 && reply.status != 503 && request.method != "GET")
    return write_refusal(reply, response);
  write_reply(reply, response);
  if (!rules.token.empty() && request.path == "/" && request.has_param("token"))
    response.set_header("Set-Cookie", token_cookie(rules.token));
}

HttpServer::HttpServer(Handle handle, const HttpSettings& settings)
    : HttpServer(std::move(handle), settings, HttpLimits{}) {}

HttpServer::HttpServer(Handle handle, const HttpSettings& settings, const HttpLimits& limits)
    : state_(std::make_unique<State>(std::move(handle), limits)) {
  state_->host = settings.host;
  state_->set_up();
  int port = settings.port;
  if (port == 0) {
    port = state_->listener.bind_to_any_port(settings.host);
  } else if (!state_->listener.bind_to_port(settings.host, port)) {
    port = -1;
  }
  if (port <= 0) {
    fail_input(fmt::format("cannot listen on {} port {}", printable(settings.host, 100), settings.port),
               "--host, --port",
               "use an address of this machine and a port that is free; --port 0 takes any");
  }
  state_->listener.widen();
  state_->rules = make_access_rules(settings.host, port, settings.allow_hosts);
  if (!is_loopback(settings.host)) state_->rules.token = make_secret(16);
}

HttpServer::~HttpServer() {
  stop();
}

int HttpServer::port() const {
  return state_->rules.port;
}

const std::string& HttpServer::token() const {
  return state_->rules.token;
}

std::string HttpServer::address() const {
  const std::string& host = state_->host;
  const bool six = host.find(':') != std::string::npos;
  return fmt::format("http://{}{}{}:{}/{}{}", six ? "[" : "", host, six ? "]" : "", port(),
                     token().empty() ? "" : "?token=", token());
}

void HttpServer::start() {
  state_->thread = std::thread([this] { state_->listener.listen_after_bind(); });
  while (!state_->listener.is_running()) std::this_thread::yield();
}

bool HttpServer::running() const {
  return state_->listener.is_running();
}

void HttpServer::stop() {
  state_->stopping = true;
  state_->listener.finish_answers();
  state_->listener.stop();
  if (state_->thread.joinable()) state_->thread.join();
}

}  // namespace openwork::serve
