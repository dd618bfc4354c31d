#include "serve/access.h"

#include <gtest/gtest.h>

#include "serve/secret.h"

namespace openwork::serve {
namespace {

AccessRules local() {
  return make_access_rules("127.0.0.1", 8765, {});
}

bool allowed(const AccessRules& rules, const RequestOrigin& request) {
  return !refuse_access(rules, request).has_value();
}

TEST(Access, TakesEveryNameOfThisMachineAtItsPortAndNoOther) {
  for (const char* host : {"127.0.0.1:8765", "localhost:8765", "LOCALHOST:8765", "[::1]:8765"})
    EXPECT_TRUE(allowed(local(), {.host = host})) << host;
  for (const char* host :
       {"", "evil.example", "evil.example:8765", "127.0.0.1", "127.0.0.1:80", "127.0.0.1:8765x",
        "127.0.0.1:", "[::1:8765", "::1]:8765", "127.0.0.1.evil.example:8765", "10.0.0.1:8765",
        "localhost:8765@evil.example", "127.0.0.1:999999"})
    EXPECT_FALSE(allowed(local(), {.host = host})) << host;
}

TEST(Access, RefusesPagesOfOtherSites) {
  const std::string host = "127.0.0.1:8765";
  EXPECT_TRUE(allowed(local(), {.host = host, .origin = "http://127.0.0.1:8765"}));
  EXPECT_TRUE(allowed(local(), {.host = host, .origin = "http://localhost:8765"}));
  for (const char* origin :
       {"http://evil.example", "null", "https://127.0.0.1:8765", "http://127.0.0.1:3000", "file://"})
    EXPECT_FALSE(allowed(local(), {.host = host, .origin = origin})) << origin;
  EXPECT_FALSE(allowed(local(), {.host = host, .fetch_site = "cross-site", .api = true}));
  EXPECT_FALSE(allowed(local(), {.host = host, .fetch_site = "same-site", .api = true}));
  EXPECT_TRUE(allowed(local(), {.host = host, .fetch_site = "same-origin", .api = true}));
  EXPECT_TRUE(
      allowed(local(), {.host = host, .fetch_site = "cross-site"}));  // a link to the page was followed
}

TEST(Access, WantsTheTokenInOneOfItsThreePlaces) {
  AccessRules rules = make_access_rules("0.0.0.0", 8765, {"Box.Lan"});
  rules.token = make_secret(16);
  const std::string host = "192.168.1.5:8765";
  EXPECT_EQ(rules.token.size(), 32u);
  EXPECT_FALSE(allowed(rules, {.host = host}));
  EXPECT_TRUE(allowed(rules, {.host = host, .token = rules.token}));
  EXPECT_TRUE(allowed(rules, {.host = "box.lan:8765", .authorization = "Bearer " + rules.token}));
  EXPECT_TRUE(allowed(rules, {.host = host, .cookie = "a=b; openwork-token=" + rules.token + "; c=d"}));
  EXPECT_FALSE(allowed(rules, {.host = host, .cookie = "openwork-token=" + rules.token.substr(1)}));
  EXPECT_FALSE(allowed(rules, {.host = host, .token = rules.token + "0"}));
  EXPECT_FALSE(allowed(rules, {.host = "evil.example:8765", .token = rules.token}));
}

TEST(Access, KnowsLoopbackAddresses) {
  for (const char* host : {"127.0.0.1", "127.9.9.9", "::1", "localhost"})
    EXPECT_TRUE(is_loopback(host)) << host;
  for (const char* host : {"0.0.0.0", "::", "10.0.0.1", "box.lan", "", "127.evil"})
    EXPECT_FALSE(is_loopback(host)) << host;
}

TEST(Access, SecretsDifferAndAreComparedWhole) {
  EXPECT_NE(make_secret(16), make_secret(16));
  EXPECT_TRUE(same_secret("abc", "abc"));
  EXPECT_FALSE(same_secret("ab", "abc"));
  EXPECT_FALSE(same_secret("abcd", "abc"));
  EXPECT_FALSE(same_secret("", "abc"));
}

}  // namespace
}  // namespace openwork::serve
