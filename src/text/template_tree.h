// A template taken apart: what the parser hands to the interpreter. Inside of the room: others use template.h.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "text/template.h"

namespace openwork::templates {

struct Expression;
using ExpressionPtr = std::unique_ptr<Expression>;

// Arguments of a call, filter or test.
struct Arguments {
  std::vector<ExpressionPtr> plain;
  std::vector<std::pair<std::string, ExpressionPtr>> named;
};

struct Expression {
  enum class Kind {
    kLiteral,    // value
    kName,       // text
    kList,       // items
    kMapping,    // items: key, value, key, value, ...
    kAttribute,  // items[0].text
    kSubscript,  // items[0][items[1]]
    kSlice,      // items[0][items[1] : items[2] : items[3]], each of the last three perhaps null
    kCall,       // items[0](arguments); a method where items[0] is an attribute
    kFilter,     // items[0] | text(arguments)
    kTest,       // items[0] is text(arguments); negated: is not
    kUnary,      // text: "not", "-", "+"
    kBinary,     // items[0] text items[1]; "and", "or", "in", "not in", "~", comparisons, arithmetic
    kChoice,     // items[0] if items[1] else items[2] (perhaps null)
  };
  Kind kind = Kind::kLiteral;
  int line = 0;
  std::string text = {};
  TemplateJson value = {};
  std::vector<ExpressionPtr> items = {};
  Arguments arguments = {};
  bool negated = false;
};

struct Statement;

struct Block {
  std::vector<Statement> statements;
};

struct Statement {
  enum class Kind {
    kText,    // text
    kOutput,  // expression
    kSet,     // names = expression, or names[0].field = expression; without expression, the rendered body
    kIf,      // each of branches: condition (null for else) and body
    kFor,     // names in expression, where filter; branches[0] the body, branches[1] what stands for none
    kScope,   // branches[0], rendered as it stands ({% generation %})
    kMacro,   // text: its name; names: its parameters, with defaults; branches[0]
    kBreak,
    kContinue,
  };
  struct Branch {
    ExpressionPtr condition;
    Block body;
  };
  Kind kind = Kind::kText;
  int line = 0;
  std::string text = {};                // text, or the field of a namespace that is set
  std::vector<std::string> names = {};  // variables set
  ExpressionPtr expression = {}, filter = {};
  std::vector<ExpressionPtr> defaults = {};  // of a macro's parameters; null where there is none
  std::vector<Branch> branches = {};
};

// A piece of a template: text, or the inside of {{ }} or {% %}.
struct Piece {
  enum class Kind { kText, kOutput, kStatement };
  Kind kind = Kind::kText;
  std::string text;
  int line = 1;
};
// Comments gone, whitespace trimmed as trim_blocks, lstrip_blocks and the minus signs say.
std::vector<Piece> split_template(std::string_view text, const std::string& origin);

// A word, number, text or sign inside of {{ }} or {% %}.
struct Token {
  enum class Kind { kName, kNumber, kString, kSign, kEnd };
  Kind kind = Kind::kEnd;
  std::string text;
  int line = 1;
};
std::vector<Token> split_tokens(std::string_view text, int line, const std::string& origin);

// Reads expressions out of the tokens of one piece.
class ExpressionParser {
 public:
  ExpressionParser(std::vector<Token> tokens, std::string origin)
      : tokens_(std::move(tokens)), origin_(std::move(origin)) {}

  ExpressionPtr parse();            // with `x if y else z`
  ExpressionPtr parse_no_choice();  // what `for` walks over: its `if` is its own
  ExpressionPtr parse_tuple();      // `a, b` is a list
  const Token& peek() const { return tokens_[at_]; }
  bool accept(std::string_view text);  // a name or sign, taken where it comes next
  void expect(std::string_view text);
  std::string take_name();
  void expect_end();
  [[noreturn]] void refuse(const std::string& what) const;

 private:
  struct Deeper;
  ExpressionPtr parse_or();
  ExpressionPtr parse_and();
  ExpressionPtr parse_not();
  ExpressionPtr parse_comparison();
  ExpressionPtr parse_chain(int level);  // signs of a level, left to right
  ExpressionPtr parse_unary();
  ExpressionPtr parse_postfix();
  ExpressionPtr parse_primary();
  ExpressionPtr parse_subscript(ExpressionPtr of);
  ExpressionPtr parse_test(ExpressionPtr of);
  ExpressionPtr parse_bracketed();
  ExpressionPtr parse_mapping();
  Arguments parse_arguments();
  ExpressionPtr make(Expression::Kind kind, std::string text = "") const;
  bool next_is(std::string_view text) const;

  std::vector<Token> tokens_;
  std::string origin_;
  size_t at_ = 0;
  int depth_ = 0;
};

Block parse_block(std::string_view text, const std::string& origin);

[[noreturn]] void refuse_template(const std::string& what, const std::string& origin, int line);

}  // namespace openwork::templates
