#include "report/graph_text.h"

#include <fmt/format.h>

#include <iterator>

namespace openwork {
namespace {

using Json = nlohmann::json;

// Bytes of a token need not be UTF-8; they are shown with replacement characters rather than refused.
std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void add_heads(std::string& text, const Json& heads) {
  text += '[';
  for (const Json& share : heads) {
    const bool listed = share.is_array();
    fmt::format_to(std::back_inserter(text), "{}[{},{},{:.6g}]", text.back() == '[' ? "" : ",",
                   (listed ? share.at(0) : share.at("layer")).get<int64_t>(),
                   (listed ? share.at(1) : share.at("head")).get<int64_t>(),
                   (listed ? share.at(2) : share.at("weight")).get<double>());
  }
  text += ']';
}

void add_link(std::string& text, const Json& link) {
  text += '{';
  for (const auto& [key, value] : link.items()) {
    text += fmt::format("{}{}:", text.back() == '{' ? "" : ",", dump(key));
    if (key == "heads")
      add_heads(text, value);
    else if (key == "weight" && value.is_number())
      fmt::format_to(std::back_inserter(text), "{}", value.get<float>());
    else if (key == "other_heads" && value.is_number())
      fmt::format_to(std::back_inserter(text), "{:.6g}", value.get<double>());
    else
      text += dump(value);
  }
  text += '}';
}

}  // namespace

std::string graph_text(const Json& graph) {
  std::string text = "{";
  for (const auto& [key, value] : graph.items()) {
    text += fmt::format("{}{}:", text.size() == 1 ? "" : ",", dump(key));
    if (key != "links") {
      text += dump(value);
      continue;
    }
    text += '[';
    for (size_t n = 0; n < value.size(); ++n) {
      if (n > 0) text += ',';
      add_link(text, value[n]);
    }
    text += ']';
  }
  return text + "}\n";
}

}  // namespace openwork
