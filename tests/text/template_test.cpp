// Templates render what Jinja renders (tests/data/text/chat_templates.json: made with jinja2 3.1 and the settings of
// transformers), and do no more than they may.
#include "text/template.h"

#include <gmock/gmock.h>

#include <ctime>
#include <fstream>

#include "base/error.h"

namespace openwork {
namespace {

using testing::HasSubstr;

std::string render(const std::string& text, const TemplateJson& variables = TemplateJson::object()) {
  return Template::parse(text, "test").render(variables);
}

// The error's one line; empty where there is none.
std::string refusal(const std::string& text, const TemplateJson& variables = TemplateJson::object()) {
  try {
    render(text, variables);
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), 2);
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    return error.what();
  }
  return "";
}

std::string repeat(const std::string& text, int times) {
  std::string out;
  for (int n = 0; n < times; ++n) out += text;
  return out;
}

TEST(Template, RendersWhatJinjaRenders) {
  std::ifstream file("tests/data/text/chat_templates.json");
  const TemplateJson cases = TemplateJson::parse(file);
  ASSERT_GT(cases.size(), 20u);
  for (const TemplateJson& one : cases) {
    const std::string text = one["template"], rendered = one["rendered"];
    EXPECT_EQ(render(text, one["variables"]), rendered) << one["name"] << "\n" << text;
  }
}

TEST(Template, CountsAndRaisesCharacters) {  // as jinja2 does
  const TemplateJson variables = {{"x", "Caf\u00e9 n\u00e9e? it's (two) d'or"}};
  EXPECT_EQ(render("{{ x.find('?') }}", variables), "8");
  EXPECT_EQ(render("{{ x[x.find('?')+1:] }}", variables), " it's (two) d'or");
  EXPECT_EQ(render("{{ x.find('!') }}", variables), "-1");
  EXPECT_EQ(render("{{ x|upper }}", variables), "CAF\u00c9 N\u00c9E? IT'S (TWO) D'OR");
  EXPECT_EQ(render("{{ x|title }}", variables), "Caf\u00e9 N\u00e9e? It's (Two) D'or");
  EXPECT_EQ(render("{{ x.title() }}", variables), "Caf\u00e9 N\u00e9e? It'S (Two) D'Or");
  EXPECT_EQ(render("{{ x.capitalize() }}", variables), "Caf\u00e9 n\u00e9e? it's (two) d'or");
}

TEST(Template, RaisesTheTemplatesOwnException) {
  EXPECT_THAT(refusal("{{ raise_exception('roles must\\nalternate') }}"),
              HasSubstr("the template says: roles must"));
}

TEST(Template, NamesWhatItDoesNotKnow) {
  EXPECT_THAT(refusal("a\n{% import 'x' %}"),
              HasSubstr("'import' is not known here; chat template of test, line 2"));
  EXPECT_THAT(refusal("{{ open('/etc/passwd') }}"), HasSubstr("the function 'open'"));
  EXPECT_THAT(refusal("{{ 'x'.format(1) }}"), HasSubstr("the method 'format'"));
  EXPECT_THAT(refusal("{{ ''.__class__.__mro__ }}"), HasSubstr("of what is not defined"));
  EXPECT_THAT(refusal("{{ 'x' | pprint }}"), HasSubstr("the filter 'pprint'"));
  EXPECT_THAT(refusal("{{ 1 is prime }}"), HasSubstr("the test 'prime'"));
}

TEST(Template, SaysWhatIsWrongWithIt) {
  EXPECT_THAT(refusal("{{ 1 +"), HasSubstr("without its end"));
  EXPECT_THAT(refusal("{{ 1 + }}"), HasSubstr("a value is missing"));
  EXPECT_THAT(refusal("{% if true %}"), HasSubstr("'endif' is missing"));
  EXPECT_THAT(refusal("{% endfor %}"), HasSubstr("'endfor' is not known here"));
  EXPECT_THAT(refusal("{{ 'abc }}"), HasSubstr("without its end"));
  EXPECT_THAT(refusal("{{ x.y }}"), HasSubstr("of what is not defined"));
  EXPECT_THAT(refusal("{{ 1 // 0 }}{{ 'x' }}"), HasSubstr("a division by 0"));
  EXPECT_THAT(refusal("{{ 9223372036854775807 + 1 }}"), HasSubstr("too large"));
  EXPECT_THAT(refusal("{{ 1 + 'x' }}"), HasSubstr("no numbers"));
  EXPECT_THAT(refusal("{{ @ }}"), HasSubstr("unexpected"));
}

TEST(Template, AHostileOneIsBounded) {
  const std::clock_t start = std::clock();
  for (const std::string& hostile : {
           std::string("{% for a in range(100000000000) %}{% endfor %}"),
           std::string("{% for a in range(1000000) %}{% for b in range(1000000) %}{% endfor %}{% endfor %}"),
           "{% set x = 'xxxxxxxxxx' %}" + repeat("{% set x = x ~ x %}", 60),
           "{% set x = [1] %}" + repeat("{% set x = x + x %}", 60),
           "{% set ns = namespace(x=[]) %}{% for i in range(1000) %}{% set ns.x = [ns.x] %}{% endfor %}" +
               std::string("{{ ns.x }}"),
           std::string("{{ 'x' * 1000000000000 }}"),
           std::string("{% set x = 'x' * 4000000 %}{% for i in range(1000000) %}{{ x == x }}{% endfor %}"),
           std::string(
               "{% set x = 'x' * 4000000 %}{% for i in range(1000000) %}{% set y = [x] %}{% endfor %}"),
           std::string("{% for i in range(1000000) %}0123456789012345678901234567890123456789{% endfor %}"),
           std::string("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}"),
           std::string("{% macro f(x) %}{{ f(x) }}{{ f(x) }}{% endmacro %}{{ f(1) }}"),
           "{{ " + repeat("(", 100000) + "1" + repeat(")", 100000) + " }}",
           "{{ " + repeat("[", 100000),
           "{{ " + repeat("not ", 3000) + "1 }}",
           "{{ " + repeat("-", 3000) + "1 }}",
           "{{ 1" + repeat(" + 1", 100000) + " }}",
           "{{ 1" + repeat(" + 1", 1500) + " }}",
           "{{ x" + repeat(".y", 3000) + " }}",
           "{{ x" + repeat(" | trim", 3000) + " }}",
           repeat("{% if 1 %}", 5000),
           repeat("{% for a in b %}", 5000),
       }) {
    EXPECT_FALSE(refusal(hostile).empty()) << hostile.substr(0, 60);
  }
  EXPECT_LT(std::clock() - start, 60 * CLOCKS_PER_SEC);  // of the processor: other work does not count
}

TEST(Template, WhatIsNeverReachedIsNeverWrong) {
  EXPECT_EQ(render("{% if tools is defined %}{{ tools.x.y.z | nonsense }}{% endif %}ok"), "ok");
}

}  // namespace
}  // namespace openwork
