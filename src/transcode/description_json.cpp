#include "transcode/description_json.h"

#include <fmt/format.h>

#include <limits>
#include <string>

#include "base/error.h"
#include "text/packed_text.h"

namespace openwork {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

// Descriptions open a list or object for every 37 bytes, and none for less than 12, however empty they are.
constexpr size_t kBytesOfList = 10;

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
  json whole = read_packed_json(file, kBytesOfList);
  try {
    check_descriptions(whole);
  } catch (const WrongForm& wrong) {
    fail_input(fmt::format("these are no descriptions of features ({})", wrong.what), file.string(),
               "describe them again with openwork transcode");
  }
  return whole;
}

}  // namespace openwork
