#include "text/unicode_sets.h"

#include <fmt/format.h>

#include <array>
#include <utility>

namespace openwork {
namespace {

constexpr std::string_view kSpaces =
    R"(\t-\r\x20\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";
constexpr std::string_view kNonSpaces =
    R"(\x00-\x08\x0e-\x1f\x21-\x{84}\x{86}-\x{9f}\x{a1}-\x{167f}\x{1681}-\x{1fff}\x{200b}-\x{2027})"
    R"(\x{202a}-\x{202e}\x{2030}-\x{205e}\x{2060}-\x{2fff}\x{3001}-\x{10ffff})";

// Characters of Unicode 15.0, 15.1 and 16.0, which the Unicode 14 tables of PCRE2 10.40 to 10.42 do not have.
using Addition = std::pair<std::string_view, std::string_view>;
constexpr std::string_view kUpper = R"(\x{1c89}\x{a7cb}\x{a7cc}\x{a7da}\x{a7dc}\x{10d50}-\x{10d65})";
constexpr std::string_view kLower = R"(\x{1c8a}\x{a7cd}\x{a7db}\x{10d70}-\x{10d85}\x{1df25}-\x{1df2a})";
constexpr std::string_view kModifier =
    R"(\x{10d4e}\x{10d6f}\x{16d40}-\x{16d42}\x{16d6b}\x{16d6c}\x{1e030}-\x{1e06d}\x{1e4eb})";
constexpr std::string_view kOther =
    R"(\x{105c0}-\x{105f3}\x{10d4a}-\x{10d4d}\x{10d4f}\x{10ec2}-\x{10ec4}\x{1123f}\x{11240}\x{11380}-\x{11389})"
    R"(\x{1138b}\x{1138e}\x{11390}-\x{113b5}\x{113b7}\x{113d1}\x{113d3}\x{11bc0}-\x{11be0}\x{11f02})"
    R"(\x{11f04}-\x{11f10}\x{11f12}-\x{11f33}\x{1342f}\x{13441}-\x{13446}\x{13460}-\x{143fa}\x{16100}-\x{1611d})"
    R"(\x{16d43}-\x{16d6a}\x{18cff}\x{1b132}\x{1b155}\x{1e4d0}-\x{1e4ea}\x{1e5d0}-\x{1e5ed}\x{1e5f0}\x{2b739})"
    R"(\x{2ebf0}-\x{2ee5d}\x{31350}-\x{323af})";
constexpr std::string_view kLetters =  // the four above as one, in as few ranges as they make
    R"(\x{1c89}\x{1c8a}\x{a7cb}-\x{a7cd}\x{a7da}-\x{a7dc}\x{105c0}-\x{105f3}\x{10d4a}-\x{10d65}\x{10d6f}-\x{10d85})"
    R"(\x{10ec2}-\x{10ec4}\x{1123f}\x{11240}\x{11380}-\x{11389}\x{1138b}\x{1138e}\x{11390}-\x{113b5}\x{113b7})"
    R"(\x{113d1}\x{113d3}\x{11bc0}-\x{11be0}\x{11f02}\x{11f04}-\x{11f10}\x{11f12}-\x{11f33}\x{1342f})"
    R"(\x{13441}-\x{13446}\x{13460}-\x{143fa}\x{16100}-\x{1611d}\x{16d40}-\x{16d6c}\x{18cff}\x{1b132}\x{1b155})"
    R"(\x{1df25}-\x{1df2a}\x{1e030}-\x{1e06d}\x{1e4d0}-\x{1e4eb}\x{1e5d0}-\x{1e5ed}\x{1e5f0}\x{2b739})"
    R"(\x{2ebf0}-\x{2ee5d}\x{31350}-\x{323af})";
constexpr std::string_view kDigits =
    R"(\x{10d40}-\x{10d49}\x{116d0}-\x{116e3}\x{11bf0}-\x{11bf9}\x{11f50}-\x{11f59}\x{16130}-\x{16139})"
    R"(\x{16d70}-\x{16d79}\x{1ccf0}-\x{1ccf9}\x{1e4f0}-\x{1e4f9}\x{1e5f1}-\x{1e5fa})";
constexpr std::string_view kOtherNumbers = R"(\x{1d2c0}-\x{1d2d3})";
constexpr std::string_view kMarks =
    R"(\x{897}\x{cf3}\x{ece}\x{10d69}-\x{10d6d}\x{10efc}-\x{10eff}\x{11241}\x{113b8}-\x{113c0}\x{113c2}\x{113c5})"
    R"(\x{113c7}-\x{113ca}\x{113cc}-\x{113d0}\x{113d2}\x{113e1}\x{113e2}\x{11f00}\x{11f01}\x{11f03})"
    R"(\x{11f34}-\x{11f3a}\x{11f3e}-\x{11f42}\x{11f5a}\x{13440}\x{13447}-\x{13455}\x{1611e}-\x{1612f}\x{1e08f})"
    R"(\x{1e4ec}-\x{1e4ef}\x{1e5ee}\x{1e5ef})";
constexpr std::string_view kPunctuation =
    R"(\x{1b4e}\x{1b4f}\x{1b7f}\x{10d6e}\x{113d4}\x{113d5}\x{113d7}\x{113d8}\x{11b00}-\x{11b09}\x{11be1})"
    R"(\x{11f43}-\x{11f4f}\x{16d6d}-\x{16d6f}\x{1e5ff})";
constexpr std::string_view kSymbols =
    R"(\x{2427}-\x{2429}\x{2ffc}-\x{2fff}\x{31e4}\x{31e5}\x{31ef}\x{10d8e}\x{10d8f}\x{1cc00}-\x{1ccef})"
    R"(\x{1cd00}-\x{1ceb3}\x{1f6dc}\x{1f774}-\x{1f776}\x{1f77b}-\x{1f77f}\x{1f7d9}\x{1f8b2}-\x{1f8bb}\x{1f8c0})"
    R"(\x{1f8c1}\x{1fa75}-\x{1fa77}\x{1fa87}-\x{1fa89}\x{1fa8f}\x{1faad}-\x{1faaf}\x{1fabb}-\x{1fabf}\x{1fac6})"
    R"(\x{1face}\x{1facf}\x{1fada}-\x{1fadc}\x{1fadf}\x{1fae8}\x{1fae9}\x{1faf7}\x{1faf8}\x{1fbcb}-\x{1fbef})";
constexpr std::string_view kHan = R"(\x{2b739}\x{2ebf0}-\x{2ee5d}\x{31350}-\x{323af})";
constexpr std::array<Addition, 12> kAdditions = {{
    {"L", kLetters},
    {"Lu", kUpper},
    {"Ll", kLower},
    {"Lm", kModifier},
    {"Lo", kOther},
    {"M", kMarks},
    {"Nd", kDigits},
    {"No", kOtherNumbers},
    {"P", kPunctuation},
    {"S", kSymbols},
    {"Han", kHan},
    {"Alphabetic", kLetters},
}};

std::string_view additions_of(std::string_view property) {
  for (const auto& [name, members] : kAdditions)
    if (name == property) return members;
  return {};
}

}  // namespace

std::string space_members() {
  return std::string(kSpaces);
}
std::string non_space_members() {
  return std::string(kNonSpaces);
}

std::string property_members(std::string_view property) {
  std::string members = fmt::format("\\p{{{}}}{}", property, additions_of(property));
  if (property == "N") members += fmt::format("{}{}", kDigits, kOtherNumbers);
  return members;
}

std::string numeric_members() {
  return property_members("N") + R"(\x{11de0}-\x{11de9}\x{16ff4}-\x{16ff6})";
}

std::string word_members() {
  return property_members("Alphabetic") + property_members("M") + property_members("Nd") + "\\p{Pc}";
}

std::string lone_word_members() {
  return word_members() + R"(\x{b2}\x{b3}\x{b9}\x{bc}-\x{be})";
}
std::string rust_word_members() {
  return word_members() + "\\p{Join_Control}";
}

}  // namespace openwork
