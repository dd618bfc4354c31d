// Statements: the pieces of a template to a tree of blocks.
#include <fmt/format.h>

#include "base/error.h"
#include "text/template_tree.h"

namespace openwork::templates {
namespace {

class BlockParser {
 public:
  BlockParser(std::vector<Piece> pieces, std::string origin)
      : pieces_(std::move(pieces)), origin_(std::move(origin)) {}

  Block parse_whole() {
    Block block = parse_until({});
    return block;
  }

 private:
  ExpressionParser open(const Piece& piece) const {
    return ExpressionParser(split_tokens(piece.text, piece.line, origin_), origin_);
  }

  // Statements up to one whose first word is among `ends`, which is left in keyword_ and rest_.
  Block parse_until(const std::vector<std::string>& ends) {
    if (++depth_ > kTemplateDepth)
      refuse_template(fmt::format("blocks nested deeper than {}", kTemplateDepth), origin_, line());
    Block block;
    for (; at_ < pieces_.size();) {
      const Piece& piece = pieces_[at_++];
      if (piece.kind == Piece::Kind::kText) {
        Statement text;
        text.text = piece.text, text.line = piece.line;
        block.statements.push_back(std::move(text));
        continue;
      }
      ExpressionParser parser = open(piece);
      if (piece.kind == Piece::Kind::kOutput) {
        Statement output;
        output.kind = Statement::Kind::kOutput, output.line = piece.line;
        output.expression = parser.parse_tuple();
        parser.expect_end();
        block.statements.push_back(std::move(output));
        continue;
      }
      const std::string word = parser.take_name();
      for (const std::string& end : ends) {
        if (word != end) continue;
        ended_by_ = word, ended_at_ = at_ - 1;
        --depth_;
        return block;
      }
      block.statements.push_back(parse_statement(word, std::move(parser), piece.line));
    }
    if (!ends.empty())
      refuse_template(fmt::format("'{}' is missing at the end", ends.back()), origin_, line());
    --depth_;
    return block;
  }

  Statement parse_statement(const std::string& word, ExpressionParser parser, int line) {
    Statement statement;
    statement.line = line;
    if (word == "if") return parse_if(std::move(statement), std::move(parser));
    if (word == "for") return parse_for(std::move(statement), std::move(parser));
    if (word == "set") return parse_set(std::move(statement), std::move(parser));
    if (word == "macro") return parse_macro(std::move(statement), std::move(parser));
    if (word == "generation") {
      statement.kind = Statement::Kind::kScope;
      statement.branches.push_back({nullptr, parse_until({"endgeneration"})});
      return statement;
    }
    if (word != "break" && word != "continue")
      parser.refuse(fmt::format("the statement '{}' is not known here", printable(word, 40)));
    parser.expect_end();
    statement.kind = word == "break" ? Statement::Kind::kBreak : Statement::Kind::kContinue;
    return statement;
  }

  Statement parse_if(Statement statement, ExpressionParser parser) {
    statement.kind = Statement::Kind::kIf;
    ExpressionPtr condition = parser.parse();
    parser.expect_end();
    for (;;) {
      const bool last = condition == nullptr;
      Block body = parse_until(last ? std::vector<std::string>{"endif"}
                                    : std::vector<std::string>{"elif", "else", "endif"});
      statement.branches.push_back({std::move(condition), std::move(body)});
      if (ended_by_ == "endif") return statement;
      condition = nullptr;
      if (ended_by_ == "elif") {
        ExpressionParser next = open(pieces_[ended_at_]);
        next.take_name();
        condition = next.parse();
        next.expect_end();
      }
    }
  }

  Statement parse_for(Statement statement, ExpressionParser parser) {
    statement.kind = Statement::Kind::kFor;
    const bool bracketed = parser.accept("(");
    do statement.names.push_back(parser.take_name());
    while (parser.accept(","));
    if (bracketed) parser.expect(")");
    parser.expect("in");
    statement.expression = parser.parse_no_choice();
    if (parser.accept("if")) statement.filter = parser.parse();
    parser.expect_end();
    statement.branches.push_back({nullptr, parse_until({"else", "endfor"})});
    if (ended_by_ == "else") statement.branches.push_back({nullptr, parse_until({"endfor"})});
    return statement;
  }

  Statement parse_set(Statement statement, ExpressionParser parser) {
    statement.kind = Statement::Kind::kSet;
    do statement.names.push_back(parser.take_name());
    while (parser.accept(","));
    if (parser.accept(".")) statement.text = parser.take_name();
    if (parser.accept("=")) {
      statement.expression = parser.parse_tuple();
      parser.expect_end();
      return statement;
    }
    parser.expect_end();
    statement.branches.push_back({nullptr, parse_until({"endset"})});
    return statement;
  }

  Statement parse_macro(Statement statement, ExpressionParser parser) {
    statement.kind = Statement::Kind::kMacro;
    statement.text = parser.take_name();
    parser.expect("(");
    while (!parser.accept(")")) {
      statement.names.push_back(parser.take_name());
      statement.defaults.push_back(parser.accept("=") ? parser.parse() : nullptr);
      if (!parser.accept(",")) {
        parser.expect(")");
        break;
      }
    }
    parser.expect_end();
    statement.branches.push_back({nullptr, parse_until({"endmacro"})});
    return statement;
  }

  int line() const { return pieces_.empty() ? 1 : pieces_.back().line; }

  std::vector<Piece> pieces_;
  std::string origin_, ended_by_;
  size_t at_ = 0, ended_at_ = 0;
  int depth_ = 0;
};

}  // namespace

Block parse_block(std::string_view text, const std::string& origin) {
  return BlockParser(split_template(text, origin), origin).parse_whole();
}

}  // namespace openwork::templates
