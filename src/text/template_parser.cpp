// Tokens to a tree, by recursive descent in Jinja's order of operators:
//   x if y else z; or; and; not; in, is, comparisons; ~; + -; * / // %; unary + -; **; . [] () |
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "text/template_tree.h"

namespace openwork::templates {

using Kind = Expression::Kind;

struct ExpressionParser::Deeper {
  explicit Deeper(ExpressionParser& parser) : parser_(parser) {
    if (++parser_.depth_ > kTemplateDepth)
      parser_.refuse(fmt::format("nested deeper than {}", kTemplateDepth));
  }
  ~Deeper() { --parser_.depth_; }
  ExpressionParser& parser_;
};

namespace {

ExpressionPtr join_two(Kind kind, std::string text, ExpressionPtr a, ExpressionPtr b, int line) {
  auto joined = std::make_unique<Expression>();
  joined->kind = kind, joined->text = std::move(text), joined->line = line;
  joined->items.push_back(std::move(a));
  if (b) joined->items.push_back(std::move(b));
  return joined;
}

// Signs that join two values, loosest first; a level is read left to right.
const std::vector<std::vector<std::string>> kLevels = {{"~"}, {"+", "-"}, {"*", "/", "//", "%"}};

}  // namespace

void ExpressionParser::refuse(const std::string& what) const {
  refuse_template(what, origin_, peek().line);
}

bool ExpressionParser::next_is(std::string_view text) const {
  return (peek().kind == Token::Kind::kName || peek().kind == Token::Kind::kSign) && peek().text == text;
}

bool ExpressionParser::accept(std::string_view text) {
  if (!next_is(text)) return false;
  ++at_;
  return true;
}

void ExpressionParser::expect(std::string_view text) {
  if (!accept(text)) refuse(fmt::format("'{}' is missing before '{}'", text, printable(peek().text, 40)));
}

std::string ExpressionParser::take_name() {
  if (peek().kind != Token::Kind::kName)
    refuse(fmt::format("a name is missing before '{}'", printable(peek().text, 40)));
  return tokens_[at_++].text;
}

void ExpressionParser::expect_end() {
  if (peek().kind != Token::Kind::kEnd) refuse(fmt::format("unexpected '{}'", printable(peek().text, 40)));
}

ExpressionPtr ExpressionParser::make(Kind kind, std::string text) const {
  auto made = std::make_unique<Expression>();
  made->kind = kind, made->text = std::move(text), made->line = peek().line;
  return made;
}

ExpressionPtr ExpressionParser::parse() {
  const Deeper deeper(*this);
  ExpressionPtr value = parse_or();
  while (accept("if")) {
    ExpressionPtr condition = parse_or();
    ExpressionPtr choice = join_two(Kind::kChoice, "", std::move(value), std::move(condition), peek().line);
    choice->items.push_back(accept("else") ? parse() : nullptr);
    value = std::move(choice);
  }
  return value;
}

ExpressionPtr ExpressionParser::parse_no_choice() {
  const Deeper deeper(*this);
  return parse_or();
}

ExpressionPtr ExpressionParser::parse_tuple() {
  ExpressionPtr first = parse();
  if (!next_is(",")) return first;
  ExpressionPtr list = make(Kind::kList);
  list->items.push_back(std::move(first));
  while (accept(",")) {
    if (peek().kind == Token::Kind::kEnd || next_is(")")) break;
    list->items.push_back(parse());
  }
  return list;
}

ExpressionPtr ExpressionParser::parse_or() {
  ExpressionPtr value = parse_and();
  while (accept("or")) value = join_two(Kind::kBinary, "or", std::move(value), parse_and(), peek().line);
  return value;
}

ExpressionPtr ExpressionParser::parse_and() {
  ExpressionPtr value = parse_not();
  while (accept("and")) value = join_two(Kind::kBinary, "and", std::move(value), parse_not(), peek().line);
  return value;
}

ExpressionPtr ExpressionParser::parse_not() {
  const Deeper deeper(*this);
  if (accept("not")) return join_two(Kind::kUnary, "not", parse_not(), nullptr, peek().line);
  return parse_comparison();
}

ExpressionPtr ExpressionParser::parse_comparison() {
  ExpressionPtr value = parse_chain(0);
  for (;;) {
    std::string sign;
    for (const char* known : {"==", "!=", "<=", ">=", "<", ">", "in"}) {
      if (accept(known)) {
        sign = known;
        break;
      }
    }
    if (sign.empty() && next_is("not") && tokens_[at_ + 1].text == "in") at_ += 2, sign = "not in";
    if (sign.empty()) return value;
    value = join_two(Kind::kBinary, sign, std::move(value), parse_chain(0), peek().line);
  }
}

ExpressionPtr ExpressionParser::parse_chain(int level) {
  if (level == static_cast<int>(kLevels.size())) return parse_unary();
  ExpressionPtr value = parse_chain(level + 1);
  for (;;) {
    const std::vector<std::string>& signs = kLevels[static_cast<size_t>(level)];
    const auto sign =
        std::find_if(signs.begin(), signs.end(), [&](const std::string& s) { return next_is(s); });
    if (sign == signs.end()) return value;
    ++at_;
    value = join_two(Kind::kBinary, *sign, std::move(value), parse_chain(level + 1), peek().line);
  }
}

ExpressionPtr ExpressionParser::parse_unary() {
  const Deeper deeper(*this);
  for (const char* sign : {"-", "+"}) {
    if (accept(sign)) return join_two(Kind::kUnary, sign, parse_unary(), nullptr, peek().line);
  }
  ExpressionPtr value = parse_postfix();
  if (accept("**")) return join_two(Kind::kBinary, "**", std::move(value), parse_unary(), peek().line);
  return value;
}

ExpressionPtr ExpressionParser::parse_postfix() {
  ExpressionPtr value = parse_primary();
  // Each step wraps what stands before it: a chain is as deep a tree as it is long.
  for (int steps = 0;; ++steps) {
    if (steps > kTemplateDepth) refuse(fmt::format("a chain of more than {} steps", kTemplateDepth));
    if (accept(".")) {
      const std::string name = take_name();
      value = join_two(Kind::kAttribute, name, std::move(value), nullptr, peek().line);
    } else if (accept("[")) {
      value = parse_subscript(std::move(value));
    } else if (accept("(")) {
      value = join_two(Kind::kCall, "", std::move(value), nullptr, peek().line);
      value->arguments = parse_arguments();
    } else if (accept("|")) {
      const std::string name = take_name();
      value = join_two(Kind::kFilter, name, std::move(value), nullptr, peek().line);
      if (accept("(")) value->arguments = parse_arguments();
    } else if (accept("is")) {
      value = parse_test(std::move(value));
    } else {
      return value;
    }
  }
}

ExpressionPtr ExpressionParser::parse_subscript(ExpressionPtr of) {
  ExpressionPtr parts[3];
  int count = 0;
  bool slice = false;
  while (!next_is("]")) {
    if (accept(":")) {
      slice = true;
      if (++count > 2) refuse("a slice of more than three parts");
    } else {
      parts[count] = parse();
    }
  }
  expect("]");
  if (!slice && !parts[0]) refuse("an empty subscript");
  if (!slice) return join_two(Kind::kSubscript, "", std::move(of), std::move(parts[0]), peek().line);
  ExpressionPtr cut = join_two(Kind::kSlice, "", std::move(of), nullptr, peek().line);
  for (ExpressionPtr& part : parts) cut->items.push_back(std::move(part));
  return cut;
}

ExpressionPtr ExpressionParser::parse_test(ExpressionPtr of) {
  const bool negated = accept("not");
  const std::string name = next_is("==") ? (accept("=="), "eq") : take_name();
  ExpressionPtr test = join_two(Kind::kTest, name, std::move(of), nullptr, peek().line);
  test->negated = negated;
  const bool word = peek().kind == Token::Kind::kName && !next_is("and") && !next_is("or") &&
                    !next_is("else") && !next_is("if") && !next_is("is") && !next_is("not") && !next_is("in");
  if (accept("("))
    test->arguments = parse_arguments();
  else if (peek().kind == Token::Kind::kString || peek().kind == Token::Kind::kNumber || word)
    test->arguments.plain.push_back(parse_primary());  // `x is divisibleby 2`
  return test;
}

Arguments ExpressionParser::parse_arguments() {
  Arguments arguments;
  while (!accept(")")) {
    if (peek().kind == Token::Kind::kName && tokens_[at_ + 1].text == "=" &&
        tokens_[at_ + 1].kind == Token::Kind::kSign) {
      const std::string name = take_name();
      expect("=");
      arguments.named.emplace_back(name, parse());
    } else {
      arguments.plain.push_back(parse());
    }
    if (!next_is(")")) expect(",");
  }
  return arguments;
}

ExpressionPtr ExpressionParser::parse_primary() {
  const Deeper deeper(*this);
  if (next_is("(") || next_is("[")) return parse_bracketed();
  if (next_is("{")) return parse_mapping();
  const Token token = peek();
  ExpressionPtr value = make(Kind::kLiteral);
  if (token.kind == Token::Kind::kEnd || token.kind == Token::Kind::kSign)
    refuse(fmt::format("a value is missing before '{}'", printable(token.text, 40)));
  ++at_;
  if (token.kind == Token::Kind::kString) {
    std::string text = token.text;
    while (peek().kind == Token::Kind::kString) text += tokens_[at_++].text;
    value->value = std::move(text);
  } else if (token.kind == Token::Kind::kNumber) {
    int64_t whole = 0;
    const char* end = token.text.data() + token.text.size();
    const auto [stop, error] = std::from_chars(token.text.data(), end, whole);
    if (error == std::errc() && stop == end)
      value->value = whole;
    else if (token.text.find('.') != std::string::npos)
      value->value = std::stod(token.text);
    else
      refuse(fmt::format("the number {} is too large", printable(token.text, 40)));
  } else if (token.text == "true" || token.text == "True") {
    value->value = true;
  } else if (token.text == "false" || token.text == "False") {
    value->value = false;
  } else if (token.text != "none" && token.text != "None") {
    value->kind = Kind::kName, value->text = token.text;
  }
  return value;
}

// A list, a tuple (a list too), or one expression in brackets.
ExpressionPtr ExpressionParser::parse_bracketed() {
  const bool round = accept("(");
  if (!round) expect("[");
  const char* end = round ? ")" : "]";
  ExpressionPtr list = make(Kind::kList);
  bool comma = false;
  while (!next_is(end)) {
    list->items.push_back(parse());
    if (next_is(end)) break;
    expect(",");
    comma = true;
  }
  expect(end);
  if (round && !comma && list->items.size() == 1) return std::move(list->items.front());
  return list;
}

ExpressionPtr ExpressionParser::parse_mapping() {
  expect("{");
  ExpressionPtr mapping = make(Kind::kMapping);
  while (!accept("}")) {
    mapping->items.push_back(parse());
    expect(":");
    mapping->items.push_back(parse());
    if (!next_is("}")) expect(",");
  }
  return mapping;
}

}  // namespace openwork::templates
