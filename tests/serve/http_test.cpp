// The server as browsers, scripts and people of ill will see it.
#include <gmock/gmock.h>

#include <future>

#include "base/base64.h"
#include "serve/served.h"

namespace openwork::serve {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

std::string error_of(const httplib::Result& reply) {
  return nlohmann::json::parse(reply->body).at("error").get<std::string>();
}

TEST(Http, ServesThePageWithItsPolicyAndSendsItOnce) {
  const Served served;
  httplib::Client client = served.client();
  const auto page = client.Get("/");
  ASSERT_TRUE(page);
  EXPECT_EQ(page->status, 200);
  EXPECT_THAT(page->get_header_value("Content-Type"), HasSubstr("text/html"));
  EXPECT_THAT(page->get_header_value("Content-Security-Policy"), HasSubstr("default-src 'none'"));
  EXPECT_THAT(page->get_header_value("Content-Security-Policy"), testing::Not(HasSubstr("unsafe")));
  EXPECT_EQ(page->get_header_value("X-Content-Type-Options"), "nosniff");
  EXPECT_FALSE(page->has_header("Access-Control-Allow-Origin"));
  EXPECT_THAT(page->body, HasSubstr("<html"));
  const auto again = client.Get("/", {{"If-None-Match", page->get_header_value("ETag")}});
  EXPECT_EQ(again->status, 304);
  EXPECT_EQ(again->body, "");
  const auto packed = client.Get("/", {{"Accept-Encoding", "gzip"}});
  EXPECT_EQ(packed->get_header_value("Content-Encoding"), "gzip");
  EXPECT_EQ(packed->body, page->body);  // the client unpacks it
  EXPECT_EQ(client.Head("/")->body, "");
}

TEST(Http, APortThatIsTakenIsRefused) {
  const Served served;
  const auto answer = [](const ServiceRequest&) { return Reply{}; };
  EXPECT_THROW(HttpServer(answer, {.port = served.server.port()}), Error);
}

TEST(Http, NoPathLeavesTheProgram) {
  const Served served;
  for (const char* path : {"/../etc/passwd", "/assets/../../etc/passwd", "/assets/..%2f..%2fetc%2fpasswd",
                           "/assets/%2e%2e/index.html", "/assets/", "/assets/nothing.js", "/%00",
                           "/etc/passwd", "/assets//etc/passwd", "/api/models/..", "/.git/config"}) {
    RawClient client(served.server.port());
    client.send(std::string("GET ") + path + " HTTP/1.1\r\n" + host_line(served) +
                "Connection: close\r\n\r\n");
    EXPECT_EQ(status_of(client.receive()), 404) << path;
  }
}

TEST(Http, AnswersInJsonAndSaysWhatIsWrong) {
  const Served served;
  const auto models = served.client().Get("/api/models");
  const nlohmann::json json = nlohmann::json::parse(models->body);
  EXPECT_EQ(json["models"][0]["name"], "echo");
  EXPECT_EQ(json["embedded"], false);
  EXPECT_EQ(json["limits"]["prompt_tokens"], 512);
  EXPECT_TRUE(json["training"].is_null());
  EXPECT_EQ(models->get_header_value("Cache-Control"), "no-store");

  const auto said = served.post("run", R"({"prompt": "hello"})");
  EXPECT_EQ(said->status, 200);
  EXPECT_EQ(said->get_header_value("Content-Type"), "application/json");
  EXPECT_EQ(nlohmann::json::parse(said->body)["prompt"], "hello");

  const auto wrong = served.post("run", R"({"prompt": "wrong"})");
  EXPECT_EQ(wrong->status, 400);
  EXPECT_EQ(error_of(wrong), "a wrong prompt; prompt; say something else");
  EXPECT_EQ(served.post("run", R"({"prompt": "broken"})")->status, 500);
  EXPECT_EQ(served.post("run", "{}")->status, 400);
  EXPECT_EQ(served.post("nothing", "{}")->status, 404);
  EXPECT_EQ(served.client().Get("/api/run")->status, 405);
  EXPECT_EQ(served.client().Get("/api/training")->status, 404);
  EXPECT_EQ(served.client().Get("/api/jobs/0123")->status, 404);
  EXPECT_EQ(served.client().Put("/api/run", "{}", "application/json")->status, 405);
}

TEST(Http, TextWithMarkupStaysTextInAnswersAndErrors) {
  const Served served;
  const std::string markup = "<img src=x onerror=alert(1)></script>";
  const auto said = served.post("run", nlohmann::json{{"prompt", markup}}.dump());
  EXPECT_EQ(nlohmann::json::parse(said->body)["prompt"], markup);
  const auto refused = served.post("run", nlohmann::json{{"prompt", "a"}, {markup, 1}}.dump());
  EXPECT_EQ(refused->status, 400);
  EXPECT_EQ(refused->get_header_value("Content-Type"), "application/json");
  EXPECT_THAT(error_of(refused), HasSubstr("<img"));
}

TEST(Http, RefusesOtherHostsOriginsAndForms) {
  const Served served;
  httplib::Client client = served.client();
  EXPECT_EQ(client.Get("/api/models", {{"Host", "evil.example"}})->status, 403);
  EXPECT_EQ(client.Get("/", {{"Host", "evil.example"}})->status, 403);
  EXPECT_EQ(client.Get("/api/models", {{"Origin", "http://evil.example"}})->status, 403);
  EXPECT_EQ(client.Get("/api/models", {{"Sec-Fetch-Site", "cross-site"}})->status, 403);
  EXPECT_EQ(client.Post("/api/run", R"({"prompt": "a"})", "text/plain")->status, 415);
  EXPECT_EQ(client.Post("/api/run", "prompt=a", "application/x-www-form-urlencoded")->status, 415);
  EXPECT_EQ(client.Post("/api/run", {{"Content-Encoding", "gzip"}}, "x", "application/json")->status, 415);
  EXPECT_EQ(client.Post("/api/run", std::string(2 << 20, ' '), "application/json")->status, 413);
  EXPECT_EQ(client.Get("/api/models")->status, 200);
}

TEST(Http, IgnoresRangesInsteadOfAnsweringInManyParts) {
  const Served served;
  const auto reply = served.client().Get("/", {{"Range", "bytes=0-0,1-1,2-2"}});
  EXPECT_EQ(reply->status, 200);
  EXPECT_THAT(reply->body, HasSubstr("<html"));
}

TEST(Http, WantsTheTokenWhereOthersCanReachIt) {
  const Served served({}, {}, {.host = "0.0.0.0", .port = 0});
  httplib::Client client = served.client();
  EXPECT_THAT(served.server.address(), HasSubstr("/?token=" + served.server.token()));
  EXPECT_EQ(client.Get("/")->status, 403);
  EXPECT_EQ(client.Get("/api/models")->status, 403);
  const auto page = client.Get("/?token=" + served.server.token());
  EXPECT_EQ(page->status, 200);
  const std::string cookie = page->get_header_value("Set-Cookie");
  EXPECT_THAT(cookie, HasSubstr("HttpOnly; SameSite=Strict"));
  EXPECT_EQ(client.Get("/api/models", {{"Cookie", cookie.substr(0, cookie.find(';'))}})->status, 200);
  EXPECT_EQ(client.Get("/api/models", {{"Authorization", "Bearer " + served.server.token()}})->status, 200);
}

TEST(Http, ComputesTheSameAnswerOnce) {
  Served served;
  for (int n = 0; n < 5; ++n) EXPECT_EQ(served.post("run", R"({"prompt": "once"})")->status, 200);
  EXPECT_EQ(served.backend.answered, 1);
}

TEST(Http, ThePageOpensOnWhatIsComputedAlready) {
  Served served;
  served.service.warm_up();
  const std::string prompt = nlohmann::json{{"prompt", kBuiltInPrompt}}.dump();
  while (served.backend.answered < 6) std::this_thread::sleep_for(5ms);
  while (served.post("circuit", prompt)->status != 200)
    std::this_thread::sleep_for(5ms);     // the last is known
  EXPECT_EQ(served.backend.answered, 6);  // run, patterns, importance, statistics, trace, circuit
  EXPECT_EQ(served.post("run", prompt)->status, 200);
  EXPECT_EQ(served.post("importance", prompt)->status, 200);
  EXPECT_EQ(served.post("statistics", "{}")->status, 200);
  EXPECT_EQ(served.post("trace", prompt)->status, 200);
  EXPECT_EQ(served.backend.answered, 6);
}

TEST(Http, TheFirstViewIsOneAnswer) {
  const Served served;
  const auto reply = served.client().Get("/api/opening");
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->status, 200);
  const nlohmann::json opening = nlohmann::json::parse(reply->body);
  EXPECT_EQ(opening["api"], nlohmann::json::parse(served.client().Get("/api/models")->body));
  ASSERT_EQ(opening["answers"].size(), 2u);  // what heads are worth is not known yet
  EXPECT_EQ(opening["answers"][0]["route"], "/api/run");
  EXPECT_EQ(opening["answers"][0]["answer"]["prompt"], kBuiltInPrompt);
  const auto& patterns = opening["answers"][1];
  EXPECT_EQ(patterns["request"]["model"], "echo");
  const auto bytes = served.post("patterns", patterns["request"].dump());
  EXPECT_EQ(patterns["binary"], encode_base64(bytes->body));
  const std::string prompt = nlohmann::json{{"prompt", kBuiltInPrompt}}.dump();
  while (served.post("importance", prompt)->status != 200) std::this_thread::sleep_for(5ms);
  EXPECT_EQ(nlohmann::json::parse(served.client().Get("/api/opening")->body)["answers"].size(), 3u);
}

TEST(Http, LongWorkIsStreamedAndItsStreamEndsWithIt) {
  const Served served;
  const std::string job = served.start_trace("ten");
  std::string seen;
  const auto stream =
      served.client().Get("/api/jobs/" + job + "/events", [&](const char* bytes, size_t size) {
        seen.append(bytes, size);
        return true;
      });
  ASSERT_TRUE(stream);
  EXPECT_EQ(stream->get_header_value("Content-Type"), "text/event-stream");
  EXPECT_TRUE(seen.ends_with("event: result\ndata: {\"counted\":10}\n\n")) << seen;
  const auto again = served.post("trace", R"({"prompt": "ten"})");
  EXPECT_EQ(again->status, 200);
  EXPECT_EQ(nlohmann::json::parse(again->body)["result"]["counted"], 10);
  const std::string broken = served.start_trace("broken");
  EXPECT_THAT(served.client().Get("/api/jobs/" + broken + "/events")->body,
              HasSubstr("event: error\ndata: {\"error\":\"broken; backend; mend it\"}"));
}

TEST(Http, LongWorkIsCancelledAndLetsQuickWorkIn) {
  Served served;
  const std::string job = served.start_trace("forever");
  auto events = std::async(std::launch::async,
                           [&] { return served.client().Get("/api/jobs/" + job + "/events")->body; });
  for (int n = 0; n < 20; ++n)
    EXPECT_EQ(served.post("run", nlohmann::json{{"prompt", std::to_string(n)}}.dump())->status, 200);
  EXPECT_EQ(nlohmann::json::parse(served.client().Get("/api/jobs/" + job)->body)["state"], "running");
  EXPECT_EQ(served.client().Delete("/api/jobs/" + job)->status, 200);
  EXPECT_THAT(events.get(), testing::EndsWith("event: cancelled\ndata: {}\n\n"));
}

TEST(Http, RefusesWorkWhenItsLinesAreFull) {
  Served served({}, {.quick_waiting = 2, .long_waiting = 2});
  std::string first = served.start_trace("forever");
  while (nlohmann::json::parse(served.client().Get("/api/jobs/" + first)->body)["state"] != "running")
    std::this_thread::sleep_for(1ms);
  EXPECT_NE(served.start_trace("b"), "");
  EXPECT_NE(served.start_trace("c"), "");
  const auto refused = served.post("trace", R"({"prompt": "d"})");
  EXPECT_EQ(refused->status, 503);
  EXPECT_EQ(refused->get_header_value("Retry-After"), "1");
}

TEST(Http, GivesUpOnQuickWorkThatTakesTooLong) {
  const Served served({}, {.quick_longest = 50ms});
  EXPECT_EQ(served.post("run", R"({"prompt": "slow"})")->status, 503);
}

TEST(Http, KeepsAConnectionOverManyRequestsAndDropsItAfterARefusal) {
  const Served served;
  httplib::Client client = served.client();
  client.set_keep_alive(true);
  for (int n = 0; n < 50; ++n)
    EXPECT_EQ(client.Post("/api/run", R"({"prompt": "a"})", "application/json")->status, 200);

  RawClient raw(served.server.port());
  raw.send("POST /api/run HTTP/1.1\r\n" + host_line(served) +
           "Content-Type: text/plain\r\nContent-Length: 60\r\n\r\n" + "GET /api/models HTTP/1.1\r\n" +
           host_line(served) + "\r\n");
  const std::string answer = raw.receive();
  EXPECT_EQ(status_of(answer), 415);
  EXPECT_EQ(answer.find("HTTP/1.1", 1), std::string::npos) << "a body was taken for a request";
}

TEST(Http, StopsWithAnswersFinishedAndWorkCancelled) {
  auto served = std::make_unique<Served>();
  const std::string job = served->start_trace("forever");
  const int port = served->server.port();
  auto events = std::async(std::launch::async, [&served, job] {
    return served->client().Get("/api/jobs/" + job + "/events")->body;
  });
  auto slow =
      std::async(std::launch::async, [&served] { return served->post("run", R"({"prompt": "slow"})"); });
  std::this_thread::sleep_for(100ms);
  const auto begun = std::chrono::steady_clock::now();
  served->service.stop();
  served->server.stop();
  EXPECT_LT(std::chrono::steady_clock::now() - begun, 60s);
  EXPECT_THAT(events.get(), HasSubstr("event: cancelled"));
  const auto reply = slow.get();
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->status, 200);
  EXPECT_FALSE(RawClient(port).connected());
}

}  // namespace
}  // namespace openwork::serve
