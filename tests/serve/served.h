// A server on a port of its own for a test, and plain ways to ask it.
#pragma once
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <httplib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>

#include "serve/connection.h"
#include "serve/echo_backend.h"
#include "serve/http_server.h"
#include "serve/service.h"

namespace openwork::serve {

class Served {
 public:
  explicit Served(HttpLimits limits = {}, ServiceSettings settings = {}, HttpSettings http = {.port = 0})
      : service(backend, std::move(settings)),
        server([this](const ServiceRequest& request) { return service.handle(request); }, http, limits) {
    server.start();
  }
  ~Served() {
    service.stop();
    server.stop();
  }

  httplib::Client client() const {
    httplib::Client client("127.0.0.1", server.port());
    client.set_read_timeout(20);
    return client;
  }
  httplib::Result post(const std::string& route, const std::string& body) const {
    return client().Post("/api/" + route, body, "application/json");
  }
  std::string start_trace(const std::string& prompt) const {
    const auto reply = post("trace", nlohmann::json{{"prompt", prompt}}.dump());
    return reply && reply->status == 202 ? nlohmann::json::parse(reply->body)["job"].get<std::string>() : "";
  }

  EchoBackend backend;
  Service service;
  HttpServer server;
};

// A connection by hand, for requests that no library would send.
class RawClient {
 public:
  explicit RawClient(int port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
    connected_ = ::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
    timeval wait{10, 0};
    setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
    setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof wait);
  }
  ~RawClient() { ::close(socket_); }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  bool connected() const { return connected_; }
  bool send(const std::string& bytes) {
    size_t sent = 0;
    while (sent < bytes.size()) {
      const ssize_t n = ::send(socket_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      if (n <= 0) return false;
      sent += static_cast<size_t>(n);
    }
    return true;
  }
  void end() { ::shutdown(socket_, SHUT_WR); }
  std::string receive(size_t most = SIZE_MAX) {  // to the end, or so many bytes
    std::string text;
    char piece[4096];
    while (text.size() < most) {
      const ssize_t n = ::recv(socket_, piece, sizeof piece, 0);
      if (n <= 0) break;
      text.append(piece, static_cast<size_t>(n));
    }
    return text;
  }

 private:
  int socket_;
  bool connected_ = false;
};

// The status of an answer as it came over the wire; 0 where there is none.
inline int status_of(const std::string& answer) {
  return answer.starts_with("HTTP/1.1 ") && answer.size() > 12 ? std::atoi(answer.c_str() + 9) : 0;
}

inline std::string host_line(const Served& served) {
  return "Host: 127.0.0.1:" + std::to_string(served.server.port()) + "\r\n";
}

}  // namespace openwork::serve
