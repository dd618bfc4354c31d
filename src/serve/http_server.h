// HTTP/1.1 around what answers (Service::handle): addresses, limits, who may ask, headers. docs/serve.md lists what is refused and why.
//   HttpServer server(handle, {.host = "127.0.0.1", .port = 0});
//   server.start();
//   print(server.address());   // http://127.0.0.1:41234/
//   ... server.stop();
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "serve/reply.h"

namespace openwork::serve {

struct HttpLimits;

struct HttpSettings {
  std::string host = "127.0.0.1";
  int port = 8765;                            // 0: any that is free
  std::vector<std::string> allow_hosts = {};  // names that this machine is also reached by
};

class HttpServer {
 public:
  // Binds; fails where it cannot. Where the host is not loopback a token is made.
  HttpServer(Handle handle, const HttpSettings& settings);
  HttpServer(Handle handle, const HttpSettings& settings, const HttpLimits& limits);
  ~HttpServer();  // stops

  int port() const;
  std::string address() const;  // with the token where one is wanted
  const std::string& token() const;

  void start();  // answers on threads of its own from now on
  bool running() const;
  void stop();  // takes no more connections, ends those that are open, waits for them

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace openwork::serve
