#include "transcode/transcoder_config.h"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/utf8.h"
#include "io/mapped_file.h"

namespace openwork {
namespace {

constexpr const char* kPerLayerKind = "transcoder_set";
constexpr const char* kCrossLayerKind = "cross_layer_transcoder";

struct HookName {
  std::string_view hook;
  TranscoderInput input;
};
// The first of each input is the one written: mlp.hook_in is the normed stream with the norm's weight in it,
// whatever the norm, while ln2.hook_normalized of an RMS norm is without it in TransformerLens.
constexpr std::array kInputHooks = {HookName{"mlp.hook_in", TranscoderInput::kNormed},
                                    HookName{"ln2.hook_normalized", TranscoderInput::kNormed},
                                    HookName{"hook_resid_mid", TranscoderInput::kResidual},
                                    HookName{"hook_mlp_in", TranscoderInput::kResidual},
                                    HookName{"hook_resid_pre", TranscoderInput::kResidual}};

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

TranscoderKind parse_kind(const std::string& name, const std::string& origin) {
  if (name == kPerLayerKind) return TranscoderKind::kPerLayer;
  if (name == kCrossLayerKind) return TranscoderKind::kCrossLayer;
  fail_input(fmt::format("model_kind '{}'", printable(name, 60)), origin,
             fmt::format("{} and {} are read", kPerLayerKind, kCrossLayerKind));
}

TranscoderInput parse_input(const std::string& hook, const std::string& origin) {
  for (const HookName& known : kInputHooks) {
    if (known.hook == hook) return known.input;
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

Transcoders read_transcoder_config(const std::filesystem::path& file) {
  const std::string origin = file.string();
  const FlatYaml yaml = parse_flat_yaml(MappedFile(file).text(), origin);
  if (yaml.contains("transcoders")) {
    fail_input("a list of transcoder files elsewhere", origin,
               "bring them into the folder as layer_N.safetensors");
  }
  Transcoders transcoders;
  transcoders.kind = parse_kind(required(yaml, "model_kind", origin), origin);
  transcoders.input = parse_input(required(yaml, "feature_input_hook", origin), origin);
  const std::string output = required(yaml, "feature_output_hook", origin);
  if (output != "hook_mlp_out" && output != "mlp.hook_out") {
    fail_input(fmt::format("feature_output_hook '{}'", printable(output, 60)), origin,
               "hook_mlp_out and mlp.hook_out are read");
  }
  transcoders.model = single(yaml, "model_name");
  transcoders.model_sha256 = single(yaml, "model_sha256");
  transcoders.scan = single(yaml, "scan");
  return transcoders;
}

std::string write_transcoder_config(const Transcoders& transcoders) {
  const auto quote = [](const std::string& text) { return nlohmann::json(text).dump(); };
  std::string_view hook;
  for (const HookName& known : kInputHooks) {
    if (known.input == transcoders.input && hook.empty()) hook = known.hook;
  }
  std::string text = fmt::format(
      "model_name: {}\nmodel_kind: {}\nfeature_input_hook: {}\nfeature_output_hook: hook_mlp_out\nscan: {}\n",
      quote(transcoders.model),
      transcoders.kind == TranscoderKind::kPerLayer ? kPerLayerKind : kCrossLayerKind, hook,
      quote(transcoders.scan));
  if (!transcoders.model_sha256.empty()) text += fmt::format("model_sha256: {}\n", transcoders.model_sha256);
  return text;
}

const char* kind_name(TranscoderKind kind) {
  return kind == TranscoderKind::kPerLayer ? "plt" : "clt";
}

const char* input_name(TranscoderInput input) {
  return input == TranscoderInput::kResidual ? "residual" : "normed";
}

}  // namespace openwork
