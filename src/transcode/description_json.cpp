#include "transcode/description_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <limits>
#include <vector>

#include "base/error.h"
#include "io/json.h"
#include "text/byte_source.h"

namespace openwork {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

// What a file may unpack to: OPENWORK_UNPACK_LIMIT bytes where that is set.
size_t unpack_limit(const fs::path& file) {
  constexpr size_t kLeast = size_t{8} << 20, kMostTimes = 32;  // descriptions pack to about a tenth
  if (const char* const text = std::getenv("OPENWORK_UNPACK_LIMIT")) {
    size_t limit = 0;
    const char* const end = text + std::string_view(text).size();
    const auto [stop, error] = std::from_chars(text, end, limit);
    if (error == std::errc() && stop == end && limit > 0) return limit;
    fail_input(fmt::format("OPENWORK_UNPACK_LIMIT is '{}'", printable(text, 40)), "environment",
               "give a number of bytes");
  }
  std::error_code ignored;
  return std::max<size_t>(kLeast, kMostTimes * static_cast<size_t>(fs::file_size(file, ignored)));
}

std::string unpack(const fs::path& file) {
  const std::unique_ptr<ByteSource> source = open_byte_source(file);
  const size_t limit = unpack_limit(file);
  std::string text;
  std::vector<char> buffer(size_t{1} << 20);
  while (const size_t count = source->read(buffer.data(), buffer.size())) {
    text.append(buffer.data(), count);
    if (text.size() > limit)
      fail_input(fmt::format("it unpacks to more than {} bytes", limit), file.string(),
                 "do not use this file, or set OPENWORK_UNPACK_LIMIT to the bytes you allow");
  }
  return text;
}

// A list or object takes tens of bytes of memory for two of text. Descriptions open one for every 37 bytes, and none for
// less than 12, however empty they are.
void check_lists(std::string_view text, const fs::path& file) {
  const auto opens = [](char letter) { return letter == '[' || letter == '{'; };
  const auto lists = static_cast<size_t>(std::count_if(text.begin(), text.end(), opens));
  if (lists > 1000 + text.size() / 10)
    fail_input(fmt::format("{} lists in {} bytes are no descriptions of features", lists, text.size()),
               file.string(), "describe them again with openwork transcode");
}

// What is wrong with a part, in words; thrown up to the one line about the file.
struct WrongForm {
  std::string what;
};

void expect_form(bool holds, const char* what) {
  if (!holds) throw WrongForm{what};
}

const json& find_key(const json& object, const char* key) {
  expect_form(object.is_object(), "a value that is no object");
  const auto found = object.find(key);
  if (found == object.end()) throw WrongForm{fmt::format("no '{}'", key)};
  return *found;
}

void check_ids(const json& ids) {
  expect_form(ids.is_array(), "token ids that are no list");
  for (const json& id : ids) {
    expect_form(id.is_number_integer() && id >= 0 && id <= std::numeric_limits<int32_t>::max(),
                "a token id that is none");
  }
}

void check_context(const json& context) {
  const json &tokens = find_key(context, "tokens"), &activations = find_key(context, "activations"),
             &peak = find_key(context, "peak");
  check_ids(tokens);
  expect_form(activations.is_array() && activations.size() == tokens.size(),
              "activations that are not of their tokens");
  for (const json& value : activations) expect_form(value.is_number(), "an activation that is no number");
  expect_form(peak.is_number_integer() && peak >= 0 && peak < tokens.size(), "a peak outside its context");
}

void check_feature(const json& feature) {
  for (const char* key : {"max", "density"})
    expect_form(find_key(feature, key).is_number(), "a number that is none");
  for (const char* key : {"top", "bottom"}) check_ids(find_key(feature, key));
  expect_form(find_key(feature, "contexts").is_array(), "contexts that are no list");
  for (const json& context : feature["contexts"]) check_context(context);
}

void check_descriptions(const json& whole) {
  expect_form(find_key(whole, "version") == 1, "its version is not 1");
  for (const char* key : {"model", "model_sha256"})
    expect_form(find_key(whole, key).is_string(), "a name that is no text");
  expect_form(find_key(whole, "tokens").is_number_integer(), "tokens that are no number");
  expect_form(find_key(whole, "layers").is_array(), "layers that are no list");
  for (const json& layer : whole["layers"]) {
    expect_form(layer.is_array(), "a layer that is no list");
    for (const json& feature : layer) check_feature(feature);
  }
}

}  // namespace

json read_descriptions_json(const fs::path& file) {
  const std::string text = unpack(file);
  check_lists(text, file);
  json whole = parse_json(text, file.string());
  try {
    check_descriptions(whole);
  } catch (const WrongForm& wrong) {
    fail_input(fmt::format("these are no descriptions of features ({})", wrong.what), file.string(),
               "describe them again with openwork transcode");
  }
  return whole;
}

}  // namespace openwork
