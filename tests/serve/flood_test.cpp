// Many clients, slow clients, clients that say nonsense: the server answers the others all the same.
#include <gtest/gtest.h>

#include <fstream>
#include <random>
#include <thread>

#include "serve/flood.h"
#include "serve/served.h"

// A sanitizer keeps what was freed for a while, 256 MB of it unless told otherwise: less, so that memory that grows
// is the server's. Asked for by name, and by nobody in other builds.
extern "C" const char* __asan_default_options();
extern "C" const char* __asan_default_options() {
  return "quarantine_size_mb=8:thread_local_quarantine_size_kb=64";
}

namespace openwork::serve {
namespace {

using namespace std::chrono_literals;

// One client's turn: a prompt, patterns, a page, sometimes long work and its stream.
int count_errors(const Served& served, int client, int turn) {
  const std::string prompt = nlohmann::json{{"prompt", std::to_string(client * 7 + turn % 50)}}.dump();
  const auto is = [](const httplib::Result& reply, int status) {
    return reply && reply->status == status ? 0 : 1;
  };
  int errors = is(served.post("run", prompt), 200);
  errors += is(served.post("patterns", R"({"prompt": "a", "model": "echo", "cells": 100000})"), 200);
  errors += is(served.client().Get("/"), 200) + is(served.client().Get("/api/models"), 200);
  if (turn % 10 == 0) {
    const auto started = served.post("trace", R"({"prompt": "ten"})");
    errors += started && (started->status == 202 || started->status == 200) ? 0 : 1;
  }
  return errors;
}

TEST(Flood, SixtyFourClientsAreAnsweredAndMemoryStaysFlat) {
  const Served served;
  flood([&](int client, int turn) { return count_errors(served, client, turn); });
}

TEST(Flood, SlowClientsDoNotHoldTheOthers) {
  const Served served;
  // Some send a byte now and then, some ask for much and take nothing; none of them is at its limit yet.
  std::vector<std::unique_ptr<RawClient>> slow;
  for (int n = 0; n < 20; ++n) {
    slow.push_back(std::make_unique<RawClient>(served.server.port()));
    slow.back()->send("GET / HTTP/1.1\r\nX: ");
    slow.push_back(std::make_unique<RawClient>(served.server.port()));
    const std::string body = R"({"prompt": "a", "model": "echo", "cells": 1000000})";
    slow.back()->send("POST /api/patterns HTTP/1.1\r\n" + host_line(served) +
                      "Content-Type: application/json\r\n" +
                      "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
  }
  for (int n = 0; n < 50; ++n) {
    for (size_t client = 0; client < slow.size(); client += 2) slow[client]->send("x");
    const auto reply = served.post("run", nlohmann::json{{"prompt", std::to_string(n)}}.dump());
    ASSERT_TRUE(reply);
    EXPECT_EQ(reply->status, 200);
  }
}

TEST(Flood, AByteNowAndThenIsNoWayToStay) {
  HttpLimits limits;
  limits.request_time = 200ms;
  const Served served(limits);
  RawClient slow(served.server.port());
  slow.send("GET / HTTP/1.1\r\nX: ");
  EXPECT_EQ(status_of(slow.receive()), 408);
}

TEST(Flood, ConnectionsBeyondTheLimitAreToldSo) {
  HttpLimits limits;
  limits.connections = 4;
  limits.request_time = 60s;
  const Served served(limits);
  std::vector<std::unique_ptr<RawClient>> held;
  for (int n = 0; n < 4; ++n) {
    held.push_back(std::make_unique<RawClient>(served.server.port()));
    held.back()->send("GET ");
  }
  std::this_thread::sleep_for(50ms);
  RawClient one_more(served.server.port());
  EXPECT_EQ(status_of(one_more.receive()), 503);
  held.clear();
  int status = 503;
  for (int n = 0; n < 1000 && status == 503; ++n) {  // until the server has seen them go
    std::this_thread::sleep_for(10ms);
    if (const auto answer = served.client().Get("/")) status = answer->status;
  }
  EXPECT_EQ(status, 200);
}

TEST(Flood, TooLargeAHeadIsRefusedWithoutReadingItAll) {
  const Served served;
  RawClient one_line(served.server.port());
  one_line.send("GET /" + std::string(100000, 'a'));
  EXPECT_EQ(status_of(one_line.receive()), 431);
  RawClient many(served.server.port());
  std::string head = "GET / HTTP/1.1\r\n" + host_line(served);
  for (int n = 0; n < 20000; ++n) head += "a: b\r\n";
  many.send(head);
  EXPECT_EQ(status_of(many.receive()), 431);
}

// Requests that are nearly right: a good one with bytes changed, cut, doubled or strewn in.
class Mutator {
 public:
  explicit Mutator(uint32_t seed) : random_(seed) {}

  std::string spoil(std::string text) {
    for (uint32_t n = pick(4) + 1; n > 0 && !text.empty(); --n) {
      const size_t at = pick(static_cast<uint32_t>(text.size()));
      switch (pick(6)) {
        case 0:
          text[at] = static_cast<char>(pick(256));
          break;
        case 1:
          text.resize(at);
          break;
        case 2:
          text.insert(at, text.substr(at / 2, pick(40)));
          break;
        case 3:
          text.insert(at, kPieces[pick(kPieces.size())]);
          break;
        case 4:
          text.erase(at, pick(20));
          break;
        default:
          text.insert(at, std::string(pick(300), static_cast<char>(pick(256))));
      }
    }
    return text;
  }
  uint32_t pick(size_t below) { return static_cast<uint32_t>(random_() % below); }

 private:
  std::mt19937 random_;
  const std::vector<std::string> kPieces = {"\r\n",
                                            "\r\n\r\n",
                                            "\n",
                                            ":",
                                            " ",
                                            "Content-Length: 5\r\n",
                                            "%00",
                                            "%",
                                            "?a=b&&=",
                                            "[[[[[[[[[[",
                                            "\"",
                                            "Transfer-Encoding: chunked\r\n",
                                            "\\u0000",
                                            "\xff\xfe",
                                            "HTTP/9.9",
                                            "-1",
                                            "1e999",
                                            "Expect: 100-continue\r\n",
                                            "../../..",
                                            "{}",
                                            "null",
                                            "\x00\x01",
                                            "Range: bytes=0-,-1\r\n",
                                            "18446744073709551616"};
};

TEST(Flood, TenThousandMalformedRequestsBreakNothing) {
  HttpLimits limits;
  limits.request_time = 200ms;
  limits.idle_time = 200ms;
  const Served served(limits);
  std::vector<std::string> good = {"GET / HTTP/1.1\r\n" + host_line(served) + "\r\n",
                                   "GET /api/training?from=5 HTTP/1.1\r\n" + host_line(served) + "\r\n",
                                   "DELETE /api/jobs/0123 HTTP/1.1\r\n" + host_line(served) + "\r\n"};
  for (const Route& route : kRoutes) {
    if (std::string_view(route.method) != "POST") continue;
    const std::string body =
        R"({"prompt": "a", "model": "echo", "heads": ["L0H0"], "off": {"echo": ["L0H1"]}, "top": 5})";
    good.push_back(std::string("POST ") + route.path + " HTTP/1.1\r\n" + host_line(served) +
                   "Content-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) +
                   "\r\n\r\n" + body);
  }
  constexpr int kThreads = 8, kEach = 1250;
  std::atomic<int> answered{0}, failures{0};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      Mutator mutator(static_cast<uint32_t>(1000 + thread));
      for (int n = 0; n < kEach; ++n) {
        RawClient client(served.server.port());
        if (!client.connected()) ++failures;
        client.send(mutator.spoil(good[mutator.pick(good.size())]));
        client.end();
        const std::string answer = client.receive();
        const int status = status_of(answer);
        answered += status != 0;
        if (status == 500) ++failures;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
  EXPECT_GT(answered, 5000);
  EXPECT_EQ(served.post("run", R"({"prompt": "still here"})")->status, 200);
}

}  // namespace
}  // namespace openwork::serve
