// Statements of a template, run one after the other.
#include <fmt/format.h>

#include "base/error.h"
#include "text/template_interpreter.h"

namespace openwork {

using templates::Block;
using templates::Interpreter;

Template::Template(std::string origin, std::unique_ptr<Block> block)
    : origin_(std::move(origin)), block_(std::move(block)) {}
Template::Template(Template&&) noexcept = default;
Template& Template::operator=(Template&&) noexcept = default;
Template::~Template() = default;

Template Template::parse(std::string_view text, const std::string& origin) {
  return Template(origin, std::make_unique<Block>(templates::parse_block(text, origin)));
}

std::string Template::render(const TemplateJson& variables) const {
  return Interpreter(variables, origin_).render(*block_);
}

namespace templates {

Interpreter::Interpreter(const TemplateJson& variables, std::string origin)
    : origin_(std::move(origin)), scopes_(1) {
  for (auto it = variables.begin(); it != variables.end(); ++it) scopes_.front()[it.key()] = Value::view(*it);
}

void Interpreter::refuse(const std::string& what) const {
  refuse_template(what, origin_, line_);
}

void Interpreter::spend(size_t steps) {
  steps_ += static_cast<int64_t>(steps);
  if (steps_ > kTemplateSteps) refuse(fmt::format("it takes more than {} steps", kTemplateSteps));
}

std::string Interpreter::render(const Block& block) {
  std::string out;
  run(block, out);
  return out;
}

Interpreter::Flow Interpreter::run(const Block& block, std::string& out) {
  for (const Statement& statement : block.statements) {
    const Flow flow = run(statement, out);
    if (out.size() > kTemplateBytes) refuse(fmt::format("it renders more than {} bytes", kTemplateBytes));
    if (flow != Flow::kOn) return flow;
  }
  return Flow::kOn;
}

Interpreter::Flow Interpreter::run(const Statement& statement, std::string& out) {
  spend(1);
  line_ = statement.line;
  switch (statement.kind) {
    case Statement::Kind::kText:
      spend(statement.text.size() / 64);
      out += statement.text;
      return Flow::kOn;
    case Statement::Kind::kOutput: {
      const std::string text = evaluate(*statement.expression).to_text();
      spend(text.size() / 64);
      out += text;
      return Flow::kOn;
    }
    case Statement::Kind::kSet:
      run_set(statement);
      return Flow::kOn;
    case Statement::Kind::kIf:
      for (const Statement::Branch& branch : statement.branches) {
        if (!branch.condition || evaluate(*branch.condition).is_true()) return run(branch.body, out);
      }
      return Flow::kOn;
    case Statement::Kind::kFor:
      return run_for(statement, out);
    case Statement::Kind::kScope:
      return run(statement.branches.front().body, out);
    case Statement::Kind::kMacro:
      macros_[statement.text] = &statement;
      return Flow::kOn;
    case Statement::Kind::kBreak:
      return Flow::kBreak;
    case Statement::Kind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kOn;
}

// A macro sees its parameters and what stands outside of all loops.
Value Interpreter::call_macro(const Statement& macro, const CallArguments& arguments) {
  std::map<std::string, Value> own;
  for (size_t n = 0; n < macro.names.size(); ++n) {
    own[macro.names[n]] = arguments.get(n, macro.names[n]);
    if (!own[macro.names[n]].defined() && macro.defaults[n])
      own[macro.names[n]] = evaluate(*macro.defaults[n]);
  }
  std::vector<std::map<std::string, Value>> callers = std::move(scopes_);
  scopes_.clear();
  scopes_.push_back(std::move(callers.front()));
  scopes_.push_back(std::move(own));
  std::string out;
  run(macro.branches.front().body, out);
  callers.front() = std::move(scopes_.front());
  scopes_ = std::move(callers);
  return make(std::move(out));
}

void Interpreter::run_set(const Statement& statement) {
  Value value;
  if (statement.expression) {
    value = evaluate(*statement.expression);
  } else {
    std::string body;
    run(statement.branches.front().body, body);
    value = make(std::move(body));
  }
  if (statement.text.empty()) return assign(statement.names, value);
  // A field of a namespace, wherever that was made: the one thing that outlives a loop's turn.
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    const auto at = scope->find(statement.names.front());
    if (at == scope->end()) continue;
    if (!at->second.is_mapping()) break;
    TemplateJson changed = at->second.json();
    changed[statement.text] = value.defined() ? value.json() : TemplateJson();
    at->second = make(std::move(changed));
    return;
  }
  refuse(fmt::format("'{}' is no namespace", printable(statement.names.front(), 40)));
}

void Interpreter::assign(const std::vector<std::string>& names, const Value& value) {
  if (names.size() == 1) {
    scopes_.back()[names.front()] = value;
    return;
  }
  if (!value.is_list() || value.json().size() != names.size())
    refuse(fmt::format("{} names for a value that is no list of as many", names.size()));
  for (size_t n = 0; n < names.size(); ++n) scopes_.back()[names[n]] = value.part(value.json()[n]);
}

std::vector<Value> Interpreter::list_items(const Value& value) {
  std::vector<Value> items;
  if (value.is_list()) {
    for (const TemplateJson& item : value.json()) items.push_back(value.part(item));
  } else if (value.is_mapping()) {
    for (auto it = value.json().begin(); it != value.json().end(); ++it) items.push_back(make(it.key()));
  } else if (value.is_string()) {
    for (const std::string_view character : split_characters(value.text()))
      items.push_back(make(std::string(character)));
  } else if (value.defined()) {
    refuse(fmt::format("'{}' cannot be walked over", printable(value.to_text(), 40)));
  }
  spend(items.size());
  return items;
}

Interpreter::Flow Interpreter::run_for(const Statement& statement, std::string& out) {
  std::vector<Value> items = list_items(evaluate(*statement.expression));
  scopes_.emplace_back();
  if (statement.filter) {
    std::erase_if(items, [&](const Value& item) {
      assign(statement.names, item);
      return !evaluate(*statement.filter).is_true();
    });
  }
  for (size_t n = 0; n < items.size(); ++n) {
    scopes_.back().clear();  // each turn begins with nothing of its own
    assign(statement.names, items[n]);
    TemplateJson loop = {{"index0", n},
                         {"index", n + 1},
                         {"first", n == 0},
                         {"last", n + 1 == items.size()},
                         {"length", items.size()},
                         {"revindex", items.size() - n},
                         {"revindex0", items.size() - n - 1},
                         {"depth", scopes_.size() - 1}};
    // Neighbours are copied only where the template asks for them.
    if (n > 0) scopes_.back()["loop.previtem"] = items[n - 1];
    if (n + 1 < items.size()) scopes_.back()["loop.nextitem"] = items[n + 1];
    scopes_.back()["loop"] = Value(std::move(loop));
    if (run(statement.branches.front().body, out) == Flow::kBreak) break;
  }
  scopes_.pop_back();
  if (items.empty() && statement.branches.size() > 1) return run(statement.branches[1].body, out);
  return Flow::kOn;
}

}  // namespace templates
}  // namespace openwork
