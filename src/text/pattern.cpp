#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/pattern.h"

#include <fmt/format.h>
#include <pcre2.h>

#include <array>

#include "base/error.h"
#include "base/utf8.h"
#include "text/pattern_syntax.h"

namespace openwork {
namespace {

constexpr uint32_t kExpression =
    PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C;  // Ruby's ^ is every line's
constexpr size_t kFirstStack = 32 * 1024;
constexpr size_t kLargestStack = 8 * 1024 * 1024;

std::string pcre2_message(int code) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(code, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

}  // namespace

struct MatchScratch::Parts {
  pcre2_match_data* data = pcre2_match_data_create(1, nullptr);
  pcre2_match_context* context = pcre2_match_context_create(nullptr);
  pcre2_jit_stack* stack = pcre2_jit_stack_create(kFirstStack, kLargestStack, nullptr);

  Parts() {
    if (data == nullptr || context == nullptr || stack == nullptr)
      fail("out of memory", "regular expressions", "close other programs");
    pcre2_jit_stack_assign(context, nullptr, stack);
  }
  ~Parts() {
    pcre2_match_data_free(data);
    pcre2_match_context_free(context);
    pcre2_jit_stack_free(stack);
  }
};

MatchScratch::MatchScratch() : parts_(std::make_unique<Parts>()) {}
MatchScratch::~MatchScratch() = default;

struct Pattern::Compiled {
  std::string expression, where;
  pcre2_code* code = nullptr;
  bool just_in_time = false;

  ~Compiled() { pcre2_code_free(code); }

  void compile(uint32_t options) {
    using Context = std::unique_ptr<pcre2_compile_context, decltype(&pcre2_compile_context_free)>;
    const Context context(pcre2_compile_context_create(nullptr), &pcre2_compile_context_free);
    pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);  // '.' stops at \n alone, as in Ruby
    int error = 0;
    PCRE2_SIZE at = 0;
    code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(expression.data()), expression.size(),
                         options | PCRE2_UTF, &error, &at, context.get());
    if (code == nullptr)
      fail_input(fmt::format("regular expression {}: {}", printable(expression), pcre2_message(error)), where,
                 "check the pattern");
    just_in_time = pcre2_jit_compile(code, PCRE2_JIT_COMPLETE) == 0;
  }
};

Pattern::Pattern(std::unique_ptr<Compiled> compiled) : compiled_(std::move(compiled)) {}
Pattern::Pattern(Pattern&&) noexcept = default;
Pattern& Pattern::operator=(Pattern&&) noexcept = default;
Pattern::~Pattern() = default;

Pattern::Pattern(std::string_view expression, const std::string& where)
    : compiled_(std::make_unique<Compiled>(Compiled{translate_pattern(expression, where), where})) {
  compiled_->compile(kExpression);
}

Pattern Pattern::literal(std::string_view text, const std::string& where) {
  auto compiled = std::make_unique<Compiled>(Compiled{std::string(text), where});
  compiled->compile(PCRE2_LITERAL);
  return Pattern(std::move(compiled));
}

Pattern Pattern::native(const std::string& expression, const std::string& where) {
  auto compiled = std::make_unique<Compiled>(Compiled{expression, where});
  compiled->compile(kExpression);
  return Pattern(std::move(compiled));
}

bool Pattern::find(std::string_view text, size_t from, MatchScratch& scratch, size_t& start,
                   size_t& end) const {
  const MatchScratch::Parts& parts = *scratch.parts_;
  const auto subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  const int found = compiled_->just_in_time ? pcre2_jit_match(compiled_->code, subject, text.size(), from, 0,
                                                              parts.data, parts.context)
                                            : pcre2_match(compiled_->code, subject, text.size(), from,
                                                          PCRE2_NO_UTF_CHECK, parts.data, parts.context);
  if (found == PCRE2_ERROR_NOMATCH) return false;
  if (found < 0)
    fail_input(fmt::format("regular expression {} could not be run: {}", printable(compiled_->expression),
                           pcre2_message(found)),
               compiled_->where, "use a simpler pattern or a shorter text");
  const PCRE2_SIZE* offsets = pcre2_get_ovector_pointer(parts.data);
  start = offsets[0];
  end = offsets[1];
  return true;
}

size_t Pattern::next_character(std::string_view text, size_t at) {
  const size_t length = utf8_length_at(text, at);
  return at + (length == 0 ? 1 : length);
}

}  // namespace openwork
