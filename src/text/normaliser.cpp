#include "text/normaliser.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"
#include "text/specification.h"

namespace openwork {
namespace {

using nlohmann::json;
constexpr int kDeepestSequence = 16;
constexpr size_t kLeastLimit = 1 << 20, kMostTimes = 16;  // of a normalised text: bytes, and times its own

const std::map<std::string_view, int> kUnicodeForms = {
    {"NFC", UTF8PROC_STABLE | UTF8PROC_COMPOSE},
    {"NFD", UTF8PROC_STABLE | UTF8PROC_DECOMPOSE},
    {"NFKC", UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT},
    {"NFKD", UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT},
};

// Characters (and whole blocks of them) newer than the tables of the tokenizers package's normaliser, which
// neither moves nor composes them.
using Range = std::pair<char32_t, char32_t>;
constexpr std::array<Range, 52> kLeftAlone = {{
    {0x7fd, 0x7fd},     {0x897, 0x89f},     {0x8ca, 0x8d3},     {0x9fe, 0x9fe},     {0xc3c, 0xc3c},
    {0xd3b, 0xd3c},     {0xeba, 0xeba},     {0xece, 0xece},     {0x1715, 0x1715},   {0x1abf, 0x1aff},
    {0x1df6, 0x1dfa},   {0x32ff, 0x32ff},   {0xa7f1, 0xa7f4},   {0xa82c, 0xa82c},   {0xab69, 0xab69},
    {0x105c0, 0x105ff}, {0x10780, 0x107bf}, {0x10d24, 0x10d27}, {0x10d40, 0x10d8f}, {0x10eab, 0x10eac},
    {0x10efa, 0x10eff}, {0x10f46, 0x10f50}, {0x10f82, 0x10f85}, {0x11070, 0x11070}, {0x1133b, 0x1133b},
    {0x11380, 0x113ff}, {0x1145e, 0x1145e}, {0x11839, 0x1183a}, {0x11938, 0x11938}, {0x1193d, 0x1193e},
    {0x11943, 0x11943}, {0x119e0, 0x119e0}, {0x11a34, 0x11a34}, {0x11a47, 0x11a47}, {0x11a99, 0x11a99},
    {0x11d42, 0x11d42}, {0x11d44, 0x11d45}, {0x11d97, 0x11d97}, {0x11f00, 0x11f5f}, {0x16100, 0x1613f},
    {0x16d40, 0x16d7f}, {0x16ff0, 0x16ff1}, {0x1cc00, 0x1cfff}, {0x1e030, 0x1e08f}, {0x1e130, 0x1e136},
    {0x1e2ae, 0x1e2ae}, {0x1e2ec, 0x1e2ef}, {0x1e4d0, 0x1e4ff}, {0x1e5d0, 0x1e5ff}, {0x1e6c0, 0x1e6ff},
    {0x1f16c, 0x1f16c}, {0x1fbf0, 0x1fbf9},
}};

bool is_left_alone(char32_t character) {
  return std::any_of(kLeftAlone.begin(), kLeftAlone.end(), [=](const Range& range) {
    return character >= range.first && character <= range.second;
  });
}

bool is_ascii(char byte) {
  return (static_cast<unsigned char>(byte) & 0x80) == 0;
}

void append_form(std::string_view text, int options, std::string& out) {
  if (text.empty()) return;
  utf8proc_uint8_t* result = nullptr;
  const auto length = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                   static_cast<utf8proc_ssize_t>(text.size()), &result,
                                   static_cast<utf8proc_option_t>(options));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owned(result, &std::free);
  if (length < 0) fail(utf8proc_errmsg(length), "Unicode normalisation", "try a shorter text");
  out.append(reinterpret_cast<const char*>(result), static_cast<size_t>(length));
}

// Where the characters of text[from, to) that are left alone cut it, the parts between are normalised.
void append_form_of_run(std::string_view text, size_t from, size_t to, int options, std::string& out) {
  size_t part = from;
  for (size_t at = from; at < to;) {
    const size_t start = at;
    if (!is_left_alone(next_code_point(text, at))) continue;
    append_form(text.substr(part, start - part), options, out);
    out.append(text.substr(start, at - start));
    part = at;
  }
  append_form(text.substr(part, to - part), options, out);
}

// ASCII stays as it is in every form, so only runs of other characters, each with the ASCII character before
// it (which may be composed with), go through utf8proc.
std::string to_unicode_form(std::string_view text, int options) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    size_t run = at;
    while (run < text.size() && is_ascii(text[run])) ++run;
    size_t end = run;
    while (end < text.size() && !is_ascii(text[end])) ++end;
    const size_t first = run < text.size() && run > at ? run - 1 : run;
    out.append(text.substr(at, first - at));
    if (run < text.size()) append_form_of_run(text, first, end, options, out);
    at = end;
  }
  return out;
}

// Capitals of Unicode 16 and 17, which utf8proc may not know: first, last, first small letter.
constexpr std::array<std::array<char32_t, 3>, 10> kLateCapitals = {{
    {0x1c89, 0x1c89, 0x1c8a},
    {0xa7cb, 0xa7cb, 0x264},
    {0xa7cc, 0xa7cc, 0xa7cd},
    {0xa7ce, 0xa7ce, 0xa7cf},
    {0xa7d2, 0xa7d2, 0xa7d3},
    {0xa7d4, 0xa7d4, 0xa7d5},
    {0xa7da, 0xa7da, 0xa7db},
    {0xa7dc, 0xa7dc, 0x19b},
    {0x10d50, 0x10d65, 0x10d70},
    {0x16ea0, 0x16eb8, 0x16ebb},
}};

char32_t lower_of(char32_t character) {
  for (const auto& [first, last, small] : kLateCapitals)
    if (character >= first && character <= last) return small + (character - first);
  return static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(character)));
}

std::string to_lower(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const char32_t character = next_code_point(text, at);
    if (character == 0x130) {  // the one character whose lower case is two: i and a dot above
      out += "i\xcc\x87";
    } else {
      append_utf8(out, lower_of(character));
    }
  }
  return out;
}

// Replacements of replacements could make a word as long as they like.
void check_growth(size_t size, size_t limit) {
  if (size <= limit) return;
  fail_input(fmt::format("its normalizer makes a text longer than {} bytes", limit), "tokenizer",
             "do not use this tokenizer, or give a shorter text");
}

std::string replace_matches(std::string_view text, const Pattern& pattern, const std::string& content,
                            MatchScratch& scratch, size_t limit) {
  std::string out;
  size_t copied = 0;
  pattern.for_each_match(text, scratch, [&](size_t start, size_t end) {
    out.append(text.substr(copied, start - copied));
    out += content;
    copied = end;
    check_growth(out.size(), limit);
  });
  out.append(text.substr(copied));
  return out;
}

}  // namespace

Normaliser::Normaliser(const json& specification, const std::string& where) {
  if (!specification.is_null()) add(specification, where, 0);
}

void Normaliser::add(const json& specification, const std::string& where, int depth) {
  const std::string type = read_type(specification, "normalizer", where);
  if (type == "Sequence") {
    if (depth >= kDeepestSequence)
      fail_input("normalizer sequences are nested too deep", where, "check the file");
    for (const json& part : read_list(specification, "normalizers", where)) add(part, where, depth + 1);
  } else if (const auto form = kUnicodeForms.find(type); form != kUnicodeForms.end()) {
    steps_.push_back({Kind::kUnicode, form->second, {}, {}});
  } else if (type == "Lowercase") {
    steps_.push_back({Kind::kLowercase, 0, {}, {}});
  } else if (type == "Prepend") {
    steps_.push_back({Kind::kPrepend, 0, read_text(specification, "prepend", where), {}});
  } else if (type == "Replace") {
    add_replace(specification, where);
  } else {
    fail_input(fmt::format("normalizer of type {} is not supported", printable(type)), where,
               "use a byte-level BPE tokenizer");
  }
}

void Normaliser::add_replace(const json& specification, const std::string& where) {
  Step step{Kind::kReplace, 0, read_text(specification, "content", where), {}};
  step.patterns.push_back(read_pattern(specification, where));
  steps_.push_back(std::move(step));
}

std::string Normaliser::apply_step(const Step& step, std::string_view text, MatchScratch& scratch,
                                   size_t limit) {
  switch (step.kind) {
    case Kind::kUnicode:
      return to_unicode_form(text, step.unicode_options);
    case Kind::kLowercase:
      return to_lower(text);
    case Kind::kPrepend:
      return text.empty() ? std::string() : step.content + std::string(text);
    case Kind::kReplace:
      return replace_matches(text, step.patterns.front(), step.content, scratch, limit);
  }
  return std::string(text);
}

std::string Normaliser::apply(std::string_view text, MatchScratch& scratch) const {
  const size_t limit = kLeastLimit + kMostTimes * text.size();
  std::string out(text);
  for (const Step& step : steps_) {
    out = apply_step(step, out, scratch, limit);
    check_growth(out.size(), limit);
  }
  return out;
}

}  // namespace openwork
