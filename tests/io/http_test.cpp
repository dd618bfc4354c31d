// The HTTP client where the hub's own tests (hub_test.cpp) do not reach: certificates, redirects, limits.
#include "io/http.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>

#include <fstream>
#include <thread>

#include "base/error.h"
#include "flow/scoped_environment.h"
#include "flow/test_certificate.h"
#include "io/safe_files.h"

namespace openwork {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

// Runs a server on a port of its own for as long as it lives.
class RunningServer {
 public:
  explicit RunningServer(httplib::Server& server) : server_(server) {
    server_.set_keep_alive_timeout(1);
    port_ = server_.bind_to_any_port("127.0.0.1");
    thread_ = std::thread([this] { server_.listen_after_bind(); });
    while (!server_.is_running()) std::this_thread::yield();
  }
  ~RunningServer() {
    server_.stop();
    thread_.join();
  }
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

 private:
  httplib::Server& server_;
  int port_ = 0;
  std::thread thread_;
};

std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

class Tls : public testing::Test {
 protected:
  Tls()
      : folder_(fs::temp_directory_path(), "openwork-test"),
        certificate_(make_test_certificate(folder_.path())),
        server_(certificate_.certificate.c_str(), certificate_.key.c_str()) {
    server_.Get("/hello", [](const auto&, auto& response) { response.set_content("hello", "text/plain"); });
    server_.Get("/down",
                [](const auto&, auto& response) { response.set_redirect("http://127.0.0.1:9/hello"); });
  }

  TemporaryFolder folder_;
  TestCertificate certificate_;
  httplib::SSLServer server_;
};

TEST_F(Tls, RefusesACertificateNobodyVouchesFor) {
  const RunningServer running(server_);
  const ScopedEnvironment bundle("CURL_CA_BUNDLE", std::nullopt), file("SSL_CERT_FILE", std::nullopt);
  HttpClient client;
  EXPECT_THAT(error_of([&] { client.get("https://" + running.address() + "/hello"); }),
              HasSubstr("certificate"));
}

TEST_F(Tls, TakesTheCertificatesTheEnvironmentNames) {
  const RunningServer running(server_);
  const ScopedEnvironment bundle("CURL_CA_BUNDLE", certificate_.certificate.string());
  HttpClient client;
  EXPECT_EQ(client.get("https://" + running.address() + "/hello").body, "hello");
}

TEST_F(Tls, RefusesARedirectThatGivesUpEncryption) {
  const RunningServer running(server_);
  const ScopedEnvironment bundle("CURL_CA_BUNDLE", certificate_.certificate.string());
  HttpClient client;
  EXPECT_THAT(error_of([&] { client.get("https://" + running.address() + "/down"); }),
              HasSubstr("unencrypted"));
}

class Http : public testing::Test {
 protected:
  Http() : folder_(fs::temp_directory_path(), "openwork-test") {
    server_.Get("/loop", [](const auto&, auto& response) { response.set_redirect("/loop"); });
    server_.Get("/file", [](const auto&, auto& response) { response.set_redirect("file:///etc/hostname"); });
    server_.Get("/long", [](const auto&, auto& response) {
      response.set_content(std::string(5000, 'x'), "text/plain");
    });
    server_.Get("/empty", [](const auto&, auto& response) { response.set_content("", "text/plain"); });
    server_.Get("/wrong-range", [](const auto&, auto& response) {
      response.status = 206;
      response.set_header("Content-Range", "bytes 7-9/10");
      response.set_content("789", "text/plain");
    });
    options_.first_wait = std::chrono::milliseconds(1);
  }

  TemporaryFolder folder_;
  HttpOptions options_;
  httplib::Server server_;
};

TEST_F(Http, StopsAfterTooManyRedirects) {
  const RunningServer running(server_);
  HttpClient client(options_);
  EXPECT_THAT(error_of([&] { client.get("http://" + running.address() + "/loop"); }),
              HasSubstr("too many redirects"));
}

TEST_F(Http, OpensNothingButWebAddresses) {
  const RunningServer running(server_);
  HttpClient client(options_);
  EXPECT_THAT(error_of([&] { client.get("http://" + running.address() + "/file"); }),
              HasSubstr("cannot reach"));
  EXPECT_THAT(error_of([&] { client.get("file:///etc/hostname"); }), HasSubstr("cannot reach"));
}

TEST_F(Http, HoldsNoMoreInMemoryThanAllowed) {
  const RunningServer running(server_);
  options_.body_limit = 4999;
  HttpClient client(options_);
  EXPECT_THAT(error_of([&] { client.get("http://" + running.address() + "/long"); }),
              HasSubstr("longer than 4999"));
}

TEST_F(Http, DownloadsAnEmptyFile) {
  const RunningServer running(server_);
  HttpClient client(options_);
  EXPECT_EQ(client.download("http://" + running.address() + "/empty", folder_.path() / "f").status, 200);
  EXPECT_EQ(fs::file_size(folder_.path() / "f"), 0u);
}

TEST_F(Http, NeverJoinsBytesThatDoNotFollowOn) {
  const RunningServer running(server_);
  std::ofstream(folder_.path() / "f") << "01234";
  options_.attempts = 2;
  HttpClient client(options_);
  EXPECT_THAT(error_of([&] {
                client.download("http://" + running.address() + "/wrong-range", folder_.path() / "f");
              }),
              HasSubstr("do not fit together"));
}

TEST_F(Http, GoesPastTheProxyForThisMachinesOwnAddresses) {
  const RunningServer running(server_);
  const ScopedEnvironment proxy("http_proxy", "http://127.0.0.1:9");
  HttpClient client(options_);
  EXPECT_EQ(client.get("http://" + running.address() + "/long").body.size(), 5000u);
}

TEST(HttpAddress, ComparesServersBySchemeHostAndPort) {
  EXPECT_TRUE(is_same_server("https://Host/a", "https://host:443/b?c"));
  EXPECT_FALSE(is_same_server("https://host/a", "http://host/a"));
  EXPECT_FALSE(is_same_server("http://host:1/a", "http://host:2/a"));
  EXPECT_FALSE(is_same_server("https://host/a", "https://host.example/a"));
  EXPECT_FALSE(is_same_server("nonsense", "nonsense"));
}

TEST(HttpAddress, EncodesNames) {
  EXPECT_EQ(encode_url("refs/pr/1", false), "refs%2Fpr%2F1");
  EXPECT_EQ(encode_url("a b/c#?%.bin", true), "a%20b/c%23%3F%25.bin");
}

TEST(HttpAddress, HidesTheSignedPart) {
  EXPECT_EQ(url_without_query("http://h/a?sig=1"), "http://h/a");
}

}  // namespace
}  // namespace openwork
