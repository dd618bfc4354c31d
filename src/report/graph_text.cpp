#include "report/graph_text.h"

#include <fmt/format.h>

#include <cmath>
#include <iterator>

#include "base/error.h"
#include "report/graph_format.h"

namespace openwork {
namespace {

using Json = nlohmann::json;

double check_finite(double number, const std::string& key) {
  if (!std::isfinite(number))
    fail_input(fmt::format("a number of the graph is not finite ({})", printable(key, 60)), "graph",
               "check the weights of the model that was traced");
  return number;
}

// `key` is the name that the value, or the list it is in, has.
void check_numbers(const Json& value, const std::string& key) {
  if (value.is_number_float()) check_finite(value.get<double>(), key);
  if (value.is_array())
    for (const Json& part : value) check_numbers(part, key);
  if (value.is_object())
    for (const auto& [name, part] : value.items()) check_numbers(part, name);
}

// Bytes of a token need not be UTF-8; they are shown with replacement characters rather than refused.
std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void add_value(std::string& text, const std::string& key, const Json& value) {
  check_numbers(value, key);
  text += dump(value);
}

void add_heads(std::string& text, const Json& heads) {
  text += '[';
  for (const Json& each : heads) {
    const HeadShare share = read_head_share(each);
    fmt::format_to(std::back_inserter(text), "{}[{},{},{:.6g}]", text.back() == '[' ? "" : ",",
                   share.head.layer, share.head.head, check_finite(share.weight, "heads"));
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
      fmt::format_to(std::back_inserter(text), "{}",
                     static_cast<float>(check_finite(value.get<float>(), key)));
    else if (key == "other_heads" && value.is_number())
      fmt::format_to(std::back_inserter(text), "{:.6g}", check_finite(value.get<double>(), key));
    else
      add_value(text, key, value);
  }
  text += '}';
}

}  // namespace

std::string graph_text(const Json& graph) {
  std::string text = "{";
  for (const auto& [key, value] : graph.items()) {
    text += fmt::format("{}{}:", text.size() == 1 ? "" : ",", dump(key));
    if (key != "links") {
      add_value(text, key, value);
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
