#include "transcode/transcoder_header.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/utf8.h"

namespace openwork {
namespace {

constexpr const char* kPerLayerKind = "transcoder_set";
constexpr const char* kCrossLayerKind = "cross_layer_transcoder";

struct HookName {
  std::string_view hook;
  bool residual;
};
// The first of each kind of input is the one written: mlp.hook_in is the normed stream with the norm's weight in it,
// whatever the norm, while ln2.hook_normalized of an RMS norm is without it in TransformerLens.
constexpr std::array kInputHooks = {HookName{"mlp.hook_in", false}, HookName{"ln2.hook_normalized", false},
                                    HookName{"hook_resid_mid", true}, HookName{"hook_mlp_in", true},
                                    HookName{"hook_resid_pre", true}};

std::string_view trim(std::string_view text) {
  constexpr std::string_view kSpaces = " \t\r";
  const size_t begin = text.find_first_not_of(kSpaces);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpaces) - begin + 1);
}

// A value without its quotes or the comment after it.
std::string read_value(std::string_view text, const std::string& where) {
  text = trim(text);
  if (text.empty() || text.front() == '#') return "";
  if (text.front() == '"' || text.front() == '\'') {
    const size_t end = text.find(text.front(), 1);
    if (end == std::string_view::npos) fail_input("a quote that does not end", where, "close it");
    return std::string(text.substr(1, end - 1));
  }
  if (text.find_first_of("[{&*|>") == 0) {
    fail_input(fmt::format("'{}' is more of YAML than is read here", printable(text, 60)), where,
               "write plain `key: value` lines");
  }
  const size_t comment = text.find(" #");
  const std::string_view plain = trim(text.substr(0, comment));
  return plain == "null" || plain == "~" ? "" : std::string(plain);
}

std::string single(const FlatYaml& yaml, const std::string& key) {
  const auto found = yaml.find(key);
  return found == yaml.end() || found->second.empty() ? "" : found->second.front();
}

std::string required(const FlatYaml& yaml, const std::string& key, const std::string& origin) {
  const std::string value = single(yaml, key);
  if (value.empty())
    fail_input(fmt::format("no {}", key), origin, "add it as circuit-tracer's config.yaml has it");
  return value;
}

bool is_cross_layer(const std::string& kind, const std::string& origin) {
  if (kind == kPerLayerKind || kind == kCrossLayerKind) return kind == kCrossLayerKind;
  fail_input(fmt::format("model_kind '{}'", printable(kind, 60)), origin,
             fmt::format("{} and {} are read", kPerLayerKind, kCrossLayerKind));
}

bool is_residual(const std::string& hook, const std::string& origin) {
  for (const HookName& known : kInputHooks) {
    if (known.hook == hook) return known.residual;
  }
  fail_input(fmt::format("feature_input_hook '{}'", printable(hook, 60)), origin,
             "hook_resid_mid, mlp.hook_in and ln2.hook_normalized are read");
}

}  // namespace

FlatYaml parse_flat_yaml(std::string_view text, const std::string& origin) {
  if (find_invalid_utf8(text) != std::string_view::npos) {
    fail_input("the text is not UTF-8", origin, "write it as UTF-8");
  }
  FlatYaml yaml;
  std::vector<std::string>* last = nullptr;
  for (size_t number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view raw = text.substr(0, end), line = trim(raw);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty() || line.front() == '#' || line == "---") continue;
    const std::string where = fmt::format("{}, line {}", origin, number);
    if (last != nullptr && line.starts_with("- ")) {
      last->push_back(read_value(line.substr(2), where));
      continue;
    }
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos || raw.front() == ' ' || raw.front() == '\t') {
      fail_input(fmt::format("'{}' is not `key: value`", printable(line, 60)), where, "write one per line");
    }
    last = &yaml[std::string(trim(line.substr(0, colon)))];
    last->clear();
    if (std::string value = read_value(line.substr(colon + 1), where); !value.empty()) {
      last->push_back(std::move(value));
    }
  }
  return yaml;
}

TranscoderHeader read_transcoder_header(std::string_view text, const std::string& origin) {
  const FlatYaml yaml = parse_flat_yaml(text, origin);
  if (yaml.contains("transcoders")) {
    fail_input("a list of transcoder files elsewhere", origin,
               "bring them into the folder as layer_N.safetensors");
  }
  TranscoderHeader header;
  header.cross_layer = is_cross_layer(required(yaml, "model_kind", origin), origin);
  header.reads_residual = is_residual(required(yaml, "feature_input_hook", origin), origin);
  const std::string output = required(yaml, "feature_output_hook", origin);
  if (output != "hook_mlp_out" && output != "mlp.hook_out") {
    fail_input(fmt::format("feature_output_hook '{}'", printable(output, 60)), origin,
               "hook_mlp_out and mlp.hook_out are read");
  }
  header.model = single(yaml, "model_name");
  header.model_sha256 = single(yaml, "model_sha256");
  header.scan = single(yaml, "scan");
  return header;
}

std::string write_transcoder_header(const TranscoderHeader& header) {
  const auto quote = [](const std::string& text) { return nlohmann::json(text).dump(); };
  std::string_view hook;
  for (const HookName& known : kInputHooks) {
    if (known.residual == header.reads_residual && hook.empty()) hook = known.hook;
  }
  std::string text = fmt::format(
      "model_name: {}\nmodel_kind: {}\nfeature_input_hook: {}\nfeature_output_hook: hook_mlp_out\nscan: {}\n",
      quote(header.model), header.cross_layer ? kCrossLayerKind : kPerLayerKind, hook, quote(header.scan));
  if (!header.model_sha256.empty()) text += fmt::format("model_sha256: {}\n", header.model_sha256);
  return text;
}

}  // namespace openwork
