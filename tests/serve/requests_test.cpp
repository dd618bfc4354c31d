#include "serve/requests.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "serve/binary_tensor.h"
#include "serve/routes.h"

namespace openwork::serve {
namespace {

using testing::HasSubstr;

std::string refusal(const std::string& route, const std::string& body) {
  try {
    parse_request(route, body);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Error::Kind::kInput);
    return error.what();
  }
  return "";
}

TEST(ServeRequests, FillInDefaultsSoThatEqualQuestionsHaveEqualKeys) {
  const ParsedRequest plain = parse_request("run", R"({"prompt": "a"})");
  const ParsedRequest full = parse_request("run", R"({"top": 20, "models": null, "prompt": "a"})");
  EXPECT_EQ(plain.key, full.key);
  EXPECT_EQ(std::get<RunRequest>(plain.request).top, 20);
  EXPECT_NE(plain.key, parse_request("run", R"({"prompt": "b"})").key);
  EXPECT_NE(plain.key, parse_request("run", R"({"prompt": "a", "top": 3})").key);
  EXPECT_NE(parse_request("trace", R"({"prompt": "a"})").key, plain.key);
}

TEST(ServeRequests, SayWhatIsWrongAndWhatIsWanted) {
  EXPECT_THAT(refusal("run", "{}"), HasSubstr("\"prompt\" of the request; give a text"));
  EXPECT_THAT(refusal("run", R"({"prompt": 5})"), HasSubstr("give a text"));
  EXPECT_THAT(refusal("run", R"({"prompt": "a", "top": 0})"), HasSubstr("from 1 to 200"));
  EXPECT_THAT(refusal("run", R"({"prompt": "a", "top": 1e3})"), HasSubstr("whole number"));
  EXPECT_THAT(refusal("run", R"({"prompt": "a", "top": 18446744073709551615})"), HasSubstr("whole number"));
  EXPECT_THAT(refusal("run", R"({"prompt": "a", "tip": 1})"), HasSubstr("unknown key \"tip\""));
  EXPECT_THAT(refusal("patterns", R"({"prompt": "a", "model": "m", "format": "f64"})"), HasSubstr("u8, f32"));
  EXPECT_THAT(refusal("switch", R"({"prompt": "a", "off": ["L0H0"]})"), HasSubstr("off"));
  EXPECT_THAT(refusal("switch", R"({"prompt": "a", "off": {"m": [1]}})"), HasSubstr("off"));
  EXPECT_THAT(refusal("circuit", "{}"), HasSubstr("prompt"));
  EXPECT_THAT(refusal("circuit", R"({"prompt": "a", "task": "copy"})"), HasSubstr("not both"));
  EXPECT_THAT(refusal("circuit", R"({"prompt": "a", "ablation": "mean"})"), HasSubstr("zero"));
  EXPECT_THAT(refusal("circuit", R"({"task": "copy", "threshold": 2})"), HasSubstr("threshold"));
  EXPECT_THAT(refusal("scatter", R"({"prompt": "a", "heads": "L0H0"})"), HasSubstr("list"));
  EXPECT_THAT(refusal("run", R"({"prompt": "a", "models": []})"),
              HasSubstr("\"models\" of the request; name at least one, or leave it out"));
  EXPECT_THAT(refusal("patterns", R"({"prompt": "a", "model": "m", "cells": 0})"), HasSubstr("from 1 to"));
  EXPECT_THAT(refusal("run", R"({"prompt": )"), testing::EndsWith("; request; send one JSON object"));
}

TEST(ServeRequests, RefuseWhatIsNotStrictJson) {
  for (const std::string& body :
       {std::string(), std::string("{"), std::string("[]"), std::string("null"), std::string("\"a\""),
        std::string("{\"prompt\": \"\xff\"}"), std::string(R"({"prompt": "a", "prompt": "b"})"),
        std::string(R"({"prompt": "a"} x)"), std::string(200000, '['), std::string(R"({"prompt": NaN})")})
    EXPECT_NE(refusal("run", body), "") << body.substr(0, 40);
  EXPECT_NE(refusal("run", R"({"prompt": ")" + std::string(300 << 10, 'a') + "\"}"), "");
}

TEST(ServeRequests, TakeAPositionAsNumberOrWord) {
  const auto trace = [](const std::string& from) {
    return std::get<TraceRequest>(parse_request("trace", R"({"prompt": "a", "from": )" + from + "}").request)
        .from;
  };
  EXPECT_EQ(trace("3"), "3");
  EXPECT_EQ(trace("\"king\""), "king");
  EXPECT_EQ(trace("null"), std::nullopt);
  EXPECT_NE(refusal("trace", R"({"prompt": "a", "from": -1})"), "");
}

TEST(ServeRequests, AreReadOnEveryRouteThatTakesOne) {
  for (const Route& route : kRoutes) {
    const bool posted = std::string_view(route.method) == "POST";
    EXPECT_EQ(takes_requests(request_name(route)), posted) << route.path;
  }
}

TEST(ServeRoutes, AreFoundByMethodAndWholePath) {
  EXPECT_EQ(find_route("GET", "/api/jobs/ab12/events").part, "ab12");
  EXPECT_EQ(find_route("HEAD", "/").route->kind, RouteKind::kPage);
  EXPECT_EQ(find_route("GET", "/assets/index.js").part, "index.js");
  EXPECT_TRUE(find_route("PUT", "/api/run").path_known);
  EXPECT_EQ(find_route("PUT", "/api/run").route, nullptr);
  for (const char* path : {"/api", "/api/", "/api/run/", "/api/jobs/", "/api/jobs//events", "/assets/",
                           "/assets/a/b", "/assets/../index.html", "//", "", "/index.html"})
    EXPECT_FALSE(find_route("GET", path).path_known) << path;
}

TEST(BinaryTensor, IsReadBackAndItsDataIsAligned) {
  const nlohmann::json header = {{"dtype", "u8"}, {"shape", {1, 5}}, {"model", "caf\xc3\xa9"}};
  const std::string bytes = pack_tensor(header, "12345");
  const UnpackedTensor tensor = unpack_tensor(bytes);
  EXPECT_EQ(tensor.header, header);
  EXPECT_EQ(tensor.data, "12345");
  EXPECT_EQ((bytes.size() - 5) % 8, 0u);
  EXPECT_THROW(unpack_tensor(bytes.substr(0, 20)), Error);
  EXPECT_THROW(unpack_tensor("OWT2"), Error);
}

}  // namespace
}  // namespace openwork::serve
