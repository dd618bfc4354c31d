// Many clients of the real pair: all are answered, and memory stays as it is.
#include <gtest/gtest.h>
#include <httplib.h>

#include "serve/built_in_pair.h"
#include "serve/connection.h"
#include "serve/flood.h"
#include "serve/http_server.h"
#include "serve/model_backend.h"
#include "serve/service.h"

namespace openwork::serve {
namespace {

class ServedPair {
 public:
  ServedPair() : backend(open_pair()), service(backend, settings()), server(handle(), {.port = 0}) {
    service.warm_up();
    server.start();
  }
  ~ServedPair() {
    service.stop();
    server.stop();
  }
  int get(const std::string& path, int wanted = 200) const { return is(client().Get(path), wanted); }
  int post(const std::string& route, const nlohmann::json& body) const {
    return is(client().Post("/api/" + route, body.dump(), "application/json"), 200);
  }

 private:
  static ServiceSettings settings() {
    ServiceSettings settings;
    settings.cache_bytes = 1 << 20;  // full soon, so that what grows after it is a leak
    return settings;
  }
  Handle handle() {
    return [this](const ServiceRequest& request) { return service.handle(request); };
  }
  httplib::Client client() const {
    httplib::Client client("127.0.0.1", server.port());
    client.set_read_timeout(120);
    return client;
  }
  static int is(const httplib::Result& reply, int wanted) { return reply && reply->status == wanted ? 0 : 1; }

  ModelBackend backend;
  Service service;
  HttpServer server;
};

// What a visitor does: opens the page, types a prompt, looks at the heads, switches one off.
TEST(ModelFlood, SixtyFourClientsOfThePairAreAnsweredAndMemoryStaysFlat) {
  const ServedPair served;
  const int prompts = 4 * flood_seconds();
  flood([&](int client, int turn) {
    const std::string prompt = "The number " + std::to_string((client + 64 * turn) % prompts) + " is";
    int errors = served.get("/") + served.get("/assets/index.js") + served.get("/api/opening");
    errors += served.post("run", {{"prompt", prompt}});
    errors += served.post("patterns", {{"prompt", prompt}, {"model", "openwork-8m-sparse"}, {"cells", 96}});
    errors += served.post("switch", {{"prompt", prompt}, {"off", {{"openwork-8m", {"L5H6"}}}}});
    return errors;
  });
}

}  // namespace
}  // namespace openwork::serve
