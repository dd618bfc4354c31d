// Rendering a template's tree with variables, within bounds. Inside of the room: others use template.h.
#pragma once
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "text/template_tree.h"
#include "text/template_value.h"

namespace openwork::templates {

struct CallArguments {
  std::vector<Value> plain;
  std::vector<std::pair<std::string, Value>> named;

  // The argument of that place or name; undefined where there is none.
  Value get(size_t place, std::string_view name) const;
};

class Interpreter {
 public:
  Interpreter(const TemplateJson& variables, std::string origin);

  std::string render(const Block& block);

 private:
  enum class Flow { kOn, kBreak, kContinue };

  // template_run.cpp
  Flow run(const Block& block, std::string& out);
  Flow run(const Statement& statement, std::string& out);
  void run_set(const Statement& statement);
  Flow run_for(const Statement& statement, std::string& out);
  std::vector<Value> list_items(const Value& value);  // what `for` walks over
  void assign(const std::vector<std::string>& names, const Value& value);

  // template_evaluate.cpp
  Value evaluate(const Expression& expression);
  Value evaluate_kind(const Expression& expression);
  Value look_up(const std::string& name) const;
  Value get_item(const Value& of, const Value& key);
  Value get_slice(const Expression& expression);
  Value combine(const std::string& sign, const Value& a, const Value& b);
  Value add(const Value& a, const Value& b);
  Value calculate(const std::string& sign, const Value& a, const Value& b);
  Value compare(const std::string& sign, const Value& a, const Value& b);
  bool contains(const Value& list, const Value& item);
  CallArguments evaluate_arguments(const Arguments& arguments);

  // template_filters.cpp
  Value call_macro(const Statement& macro, const CallArguments& arguments);
  Value call_function(const std::string& name, const CallArguments& arguments);
  Value call_method(const Value& of, const std::string& name, const CallArguments& arguments);
  Value call_text_method(const std::string& text, const std::string& name, const CallArguments& arguments);
  Value apply_filter(const std::string& name, const Value& value, const CallArguments& arguments);
  Value apply_text_filter(const std::string& name, const Value& value, const CallArguments& arguments);
  Value apply_list_filter(const std::string& name, const Value& value, const CallArguments& arguments);
  bool apply_test(const std::string& name, const Value& value, const CallArguments& arguments);

  // What is made is paid for in steps, and refused where it is too large.
  Value make(TemplateJson json);
  void spend(size_t steps);
  [[noreturn]] void refuse(const std::string& what) const;

  std::string origin_;
  std::vector<std::map<std::string, Value>> scopes_;
  std::map<std::string, const Statement*> macros_;
  int64_t steps_ = 0;
  int depth_ = 0, line_ = 1;
};

}  // namespace openwork::templates
