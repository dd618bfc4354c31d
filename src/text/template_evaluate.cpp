// Expressions of a template: names, items, slices, operators, with Python's meaning.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "text/template_interpreter.h"

namespace openwork::templates {
namespace {

using Kind = Expression::Kind;

constexpr int kDeepest = 400;  // evaluations within evaluations

int64_t floor_divide(int64_t a, int64_t b) {
  const int64_t whole = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? whole - 1 : whole;
}

struct Depth {
  explicit Depth(int& depth) : depth_(depth) { ++depth_; }
  ~Depth() { --depth_; }
  int& depth_;
};

}  // namespace

Value CallArguments::get(size_t place, std::string_view name) const {
  if (place < plain.size()) return plain[place];
  for (const auto& [key, value] : named) {
    if (key == name) return value;
  }
  return {};
}

Value Interpreter::make(TemplateJson json) {
  const Extent extent = measure(json);
  spend(extent.steps);
  if (json.is_string() && json.get_ref<const std::string&>().size() > kTemplateBytes)
    refuse(fmt::format("a text of more than {} bytes", kTemplateBytes));
  if (json.is_structured() && json.size() > kTemplateItems)
    refuse(fmt::format("a list of more than {} items", kTemplateItems));
  if (extent.depth > kTemplateDepth) refuse(fmt::format("values nested deeper than {}", kTemplateDepth));
  return Value(std::move(json));
}

Value Interpreter::evaluate(const Expression& expression) {
  const Depth depth(depth_);
  spend(1);
  line_ = expression.line;
  if (depth_ > kDeepest)
    refuse(fmt::format("an expression of more than {} steps within each other", kDeepest));
  return evaluate_kind(expression);
}

Value Interpreter::evaluate_kind(const Expression& expression) {
  const std::vector<ExpressionPtr>& items = expression.items;
  switch (expression.kind) {
    case Kind::kLiteral:
      return Value::view(expression.value);
    case Kind::kName:
      return look_up(expression.text);
    case Kind::kList: {
      TemplateJson list = TemplateJson::array();
      for (const ExpressionPtr& item : items) {
        const Value value = evaluate(*item);
        list.push_back(value.defined() ? value.json() : TemplateJson());
      }
      return make(std::move(list));
    }
    case Kind::kMapping: {
      TemplateJson mapping = TemplateJson::object();
      for (size_t n = 0; n + 1 < items.size(); n += 2) {
        const Value key = evaluate(*items[n]), value = evaluate(*items[n + 1]);
        mapping[key.to_text()] = value.defined() ? value.json() : TemplateJson();
      }
      return make(std::move(mapping));
    }
    case Kind::kAttribute: {
      if (items[0]->kind == Kind::kName && items[0]->text == "loop" &&
          (expression.text == "previtem" || expression.text == "nextitem"))
        return look_up("loop." + expression.text);
      return get_item(evaluate(*items[0]), Value(TemplateJson(expression.text)));
    }
    case Kind::kSubscript: {
      const Value of = evaluate(*items[0]);
      return get_item(of, evaluate(*items[1]));
    }
    case Kind::kSlice:
      return get_slice(expression);
    case Kind::kCall: {
      const CallArguments arguments = evaluate_arguments(expression.arguments);
      if (items[0]->kind == Kind::kName) return call_function(items[0]->text, arguments);
      if (items[0]->kind != Kind::kAttribute) refuse("a call of what is no function");
      return call_method(evaluate(*items[0]->items[0]), items[0]->text, arguments);
    }
    case Kind::kFilter: {
      const Value value = evaluate(*items[0]);
      return apply_filter(expression.text, value, evaluate_arguments(expression.arguments));
    }
    case Kind::kTest: {
      const Value value = evaluate(*items[0]);
      return Value(TemplateJson(apply_test(expression.text, value,
                                           evaluate_arguments(expression.arguments)) != expression.negated));
    }
    case Kind::kUnary: {
      const Value value = evaluate(*items[0]);
      if (expression.text == "not") return Value(TemplateJson(!value.is_true()));
      return expression.text == "-" ? calculate("-", Value(TemplateJson(0)), value) : value;
    }
    case Kind::kBinary: {
      const Value a = evaluate(*items[0]);
      if (expression.text == "and") return a.is_true() ? evaluate(*items[1]) : a;
      if (expression.text == "or") return a.is_true() ? a : evaluate(*items[1]);
      return combine(expression.text, a, evaluate(*items[1]));
    }
    case Kind::kChoice:
      if (evaluate(*items[1]).is_true()) return evaluate(*items[0]);
      return items[2] ? evaluate(*items[2]) : Value();
  }
  return {};
}

CallArguments Interpreter::evaluate_arguments(const Arguments& arguments) {
  CallArguments values;
  for (const ExpressionPtr& argument : arguments.plain) values.plain.push_back(evaluate(*argument));
  for (const auto& [name, argument] : arguments.named) values.named.emplace_back(name, evaluate(*argument));
  return values;
}

Value Interpreter::look_up(const std::string& name) const {
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    if (const auto at = scope->find(name); at != scope->end()) return at->second;
  }
  return {};
}

Value Interpreter::get_item(const Value& of, const Value& key) {
  if (!of.defined()) refuse(fmt::format("'{}' of what is not defined", printable(key.to_text(), 40)));
  if (of.is_mapping() && key.is_string()) {
    const auto at = of.json().find(key.text());
    return at == of.json().end() ? Value() : of.part(*at);
  }
  if (!key.is_integer()) return {};
  if (of.is_list()) {
    const auto size = static_cast<int64_t>(of.json().size());
    const int64_t n = key.integer() < 0 ? key.integer() + size : key.integer();
    return n < 0 || n >= size ? Value() : of.part(of.json()[static_cast<size_t>(n)]);
  }
  if (!of.is_string()) return {};
  const std::vector<std::string_view> characters = split_characters(of.text());
  spend(characters.size() / 64);
  const auto size = static_cast<int64_t>(characters.size());
  const int64_t n = key.integer() < 0 ? key.integer() + size : key.integer();
  return n < 0 || n >= size ? Value() : make(std::string(characters[static_cast<size_t>(n)]));
}

// Python's rules: negative bounds count from the end, what lies outside is cut off.
Value Interpreter::get_slice(const Expression& expression) {
  const Value of = evaluate(*expression.items[0]);
  if (!of.is_list() && !of.is_string()) refuse("a slice of what is neither list nor text");
  const std::vector<std::string_view> characters =
      of.is_string() ? split_characters(of.text()) : std::vector<std::string_view>();
  const auto size = static_cast<int64_t>(of.is_string() ? characters.size() : of.json().size());
  spend(static_cast<size_t>(size));
  const auto bound = [&](size_t item, int64_t otherwise) {
    const Value value = expression.items[item] ? evaluate(*expression.items[item]) : Value();
    if (!value.defined() || value.json().is_null()) return otherwise;
    if (!value.is_integer()) refuse("a slice whose bounds are no whole numbers");
    return value.integer();
  };
  const int64_t step = bound(3, 1);
  if (step == 0) refuse("a slice with step 0");
  const auto settle = [&](int64_t n) {
    if (n < 0) n = std::max<int64_t>(n + size, -1);
    return step > 0 ? std::clamp<int64_t>(n, 0, size) : std::clamp<int64_t>(n, -1, size - 1);
  };
  constexpr int64_t kNone = INT64_MIN;
  const int64_t from = bound(1, kNone), to = bound(2, kNone);
  const int64_t first = from == kNone ? (step > 0 ? 0 : size - 1) : settle(from);
  const int64_t end = to == kNone ? (step > 0 ? size : -1) : settle(to);
  std::string text;
  TemplateJson list = TemplateJson::array();
  const int64_t stride = std::clamp(step, -size - 1, size + 1);
  for (int64_t n = first; step > 0 ? n < end : n > end; n += stride) {
    if (of.is_string())
      text += characters[static_cast<size_t>(n)];
    else
      list.push_back(of.json()[static_cast<size_t>(n)]);
  }
  return of.is_string() ? make(std::move(text)) : make(std::move(list));
}

Value Interpreter::combine(const std::string& sign, const Value& a, const Value& b) {
  if (sign == "~") return make(a.to_text() + b.to_text());
  for (const Value* value : {&a, &b}) spend(value->defined() ? measure(value->json()).steps : 0);
  if (sign == "==") return Value(TemplateJson(a.equals(b)));
  if (sign == "!=") return Value(TemplateJson(!a.equals(b)));
  if (sign == "in" || sign == "not in") return Value(TemplateJson(contains(b, a) == (sign == "in")));
  if (sign == "+") return add(a, b);
  return sign[0] == '<' || sign[0] == '>' ? compare(sign, a, b) : calculate(sign, a, b);
}

Value Interpreter::add(const Value& a, const Value& b) {
  if (a.is_string() && b.is_string()) return make(a.text() + b.text());
  if (a.is_list() && b.is_list()) {
    TemplateJson joined = a.json();
    for (const TemplateJson& item : b.json()) joined.push_back(item);
    return make(std::move(joined));
  }
  return calculate("+", a, b);
}

Value Interpreter::calculate(const std::string& sign, const Value& a, const Value& b) {
  if (sign == "*" && a.is_string() && b.is_integer()) {
    const auto times = static_cast<size_t>(std::max<int64_t>(0, b.integer()));
    if (!a.text().empty() && times > kTemplateBytes / a.text().size())
      refuse(fmt::format("a text of more than {} bytes", kTemplateBytes));
    std::string text;
    for (size_t n = 0; n < times && !a.text().empty(); ++n) text += a.text();
    return make(std::move(text));
  }
  if (!a.is_number() || !b.is_number())
    refuse(fmt::format("'{}' of what are no numbers ('{}' and '{}')", sign, printable(a.to_text(), 30),
                       printable(b.to_text(), 30)));
  if ((sign == "/" || sign == "//" || sign == "%") && b.number() == 0) refuse("a division by 0");
  if (a.is_integer() && b.is_integer() && sign != "/" && sign != "**") {
    const int64_t x = a.integer(), y = b.integer();
    int64_t result = 0;
    const bool lowest = x == INT64_MIN && y == -1;
    const bool overflow = sign == "+"   ? __builtin_add_overflow(x, y, &result)
                          : sign == "-" ? __builtin_sub_overflow(x, y, &result)
                          : sign == "*" ? __builtin_mul_overflow(x, y, &result)
                                        : lowest;
    if (overflow) refuse("a number that is too large");
    if (sign == "//") result = floor_divide(x, y);
    if (sign == "%") result = x - y * floor_divide(x, y);
    return Value(TemplateJson(result));
  }
  const double x = a.number(), y = b.number();
  const double result = sign == "+"    ? x + y
                        : sign == "-"  ? x - y
                        : sign == "*"  ? x * y
                        : sign == "/"  ? x / y
                        : sign == "//" ? std::floor(x / y)
                        : sign == "%"  ? x - y * std::floor(x / y)
                                       : std::pow(x, y);
  const bool whole = sign == "**" && a.is_integer() && b.is_integer() && std::abs(result) < 1e15 && y >= 0;
  return whole ? Value(TemplateJson(static_cast<int64_t>(result))) : Value(TemplateJson(result));
}

Value Interpreter::compare(const std::string& sign, const Value& a, const Value& b) {
  const bool numbers = a.is_number() && b.is_number();
  if (!numbers && !(a.is_string() && b.is_string()))
    refuse(
        fmt::format("'{}' of '{}' and '{}'", sign, printable(a.to_text(), 30), printable(b.to_text(), 30)));
  const int order =
      numbers ? (a.number() < b.number() ? -1 : a.number() > b.number()) : a.text().compare(b.text());
  const bool result = sign == "<"    ? order < 0
                      : sign == ">"  ? order > 0
                      : sign == "<=" ? order <= 0
                                     : order >= 0;
  return Value(TemplateJson(result));
}

bool Interpreter::contains(const Value& list, const Value& item) {
  if (list.is_string()) {
    return item.is_string() && list.text().find(item.text()) != std::string::npos;
  }
  if (list.is_mapping()) return item.is_string() && list.json().contains(item.text());
  if (!list.is_list()) return false;
  return item.defined() &&
         std::find(list.json().begin(), list.json().end(), item.json()) != list.json().end();
}

}  // namespace openwork::templates
