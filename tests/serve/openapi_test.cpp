// docs/openapi.json and the table of routes say the same.
#include <gtest/gtest.h>

#include <set>

#include "io/json.h"
#include "serve/routes.h"

namespace openwork::serve {
namespace {

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

// Every {"$ref": "#/a/b"} below `node` points at something.
void check_references(const nlohmann::json& document, const nlohmann::json& node) {
  for (const auto& [key, value] : node.items()) {
    if (key == "$ref") {
      ASSERT_TRUE(value.get<std::string>().starts_with("#/")) << value;
      EXPECT_TRUE(document.contains(nlohmann::json::json_pointer(value.get<std::string>().substr(1))))
          << value;
    } else if (value.is_structured()) {
      check_references(document, value);
    }
  }
}

TEST(OpenApi, HasEveryRouteAndNoOther) {
  const nlohmann::json document = read_json_file("docs/openapi.json");
  EXPECT_EQ(document["openapi"], "3.1.0");
  std::set<std::string> described, served;
  for (const auto& [path, methods] : document["paths"].items()) {
    for (const auto& [method, operation] : methods.items()) {
      if (method == "parameters") continue;
      described.insert(method + " " + path);
      EXPECT_TRUE(operation.contains("summary")) << path;
      EXPECT_TRUE(operation.contains("operationId")) << path;
      EXPECT_FALSE(operation["responses"].empty()) << path;
      EXPECT_EQ(operation.contains("requestBody"), method == "post") << path;
    }
  }
  for (const Route& route : kRoutes) served.insert(lower(route.method) + " " + route.path);
  EXPECT_EQ(described, served);
}

TEST(OpenApi, RefersOnlyToWhatIsThere) {
  const nlohmann::json document = read_json_file("docs/openapi.json");
  check_references(document, document);
}

}  // namespace
}  // namespace openwork::serve
