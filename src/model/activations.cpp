#include "model/activations.h"

#include <fmt/ostream.h>

#include <array>
#include <charconv>
#include <string_view>

#include "base/error.h"

namespace openwork {
namespace {

struct SiteName {
  Site site;
  bool in_layer;
  std::string_view name;  // after "blocks.N." for those of a layer
};

constexpr std::array kSiteNames = {
    SiteName{Site::kEmbed, false, "hook_embed"},
    SiteName{Site::kPositions, false, "hook_pos_embed"},
    SiteName{Site::kResidPre, true, "hook_resid_pre"},
    SiteName{Site::kNorm1Scale, true, "ln1.hook_scale"},
    SiteName{Site::kNorm1Normalized, true, "ln1.hook_normalized"},
    SiteName{Site::kQuery, true, "attn.hook_q"},
    SiteName{Site::kKey, true, "attn.hook_k"},
    SiteName{Site::kValue, true, "attn.hook_v"},
    SiteName{Site::kRotatedQuery, true, "attn.hook_rot_q"},
    SiteName{Site::kRotatedKey, true, "attn.hook_rot_k"},
    SiteName{Site::kScores, true, "attn.hook_attn_scores"},
    SiteName{Site::kGate, true, "attn.hook_gate"},
    SiteName{Site::kPattern, true, "attn.hook_pattern"},
    SiteName{Site::kZ, true, "attn.hook_z"},
    SiteName{Site::kResult, true, "attn.hook_result"},
    SiteName{Site::kAttentionOut, true, "hook_attn_out"},
    SiteName{Site::kResidMid, true, "hook_resid_mid"},
    SiteName{Site::kNorm2Scale, true, "ln2.hook_scale"},
    SiteName{Site::kNorm2Normalized, true, "ln2.hook_normalized"},
    SiteName{Site::kMlpPre, true, "mlp.hook_pre"},
    SiteName{Site::kMlpPreLinear, true, "mlp.hook_pre_linear"},
    SiteName{Site::kMlpPost, true, "mlp.hook_post"},
    SiteName{Site::kMlpOut, true, "hook_mlp_out"},
    SiteName{Site::kResidPost, true, "hook_resid_post"},
    SiteName{Site::kFinalScale, false, "ln_final.hook_scale"},
    SiteName{Site::kFinalNormalized, false, "ln_final.hook_normalized"},
};

[[noreturn]] void refuse_name(const std::string& name, int64_t layers) {
  fail_input(
      fmt::format("unknown activation '{}'", printable(name)), "activation names",
      fmt::format("use names like blocks.0.attn.hook_pattern, blocks.{}.hook_resid_post, hook_embed or "
                  "ln_final.hook_normalized",
                  layers - 1));
}

// "blocks.N.rest" -> N and rest; false where it has another form.
bool split_layer(std::string_view name, int64_t& layer, std::string_view& rest) {
  constexpr std::string_view kPrefix = "blocks.";
  if (!name.starts_with(kPrefix)) return false;
  name.remove_prefix(kPrefix.size());
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), layer);
  if (error != std::errc() || end == name.data() + name.size() || *end != '.') return false;
  rest = name.substr(static_cast<size_t>(end - name.data()) + 1);
  return true;
}

}  // namespace

ActivationName parse_activation_name(const std::string& name, int64_t layers) {
  int64_t layer = -1;
  std::string_view rest = name;
  const bool in_layer = split_layer(name, layer, rest);
  if (in_layer && (layer < 0 || layer >= layers)) refuse_name(name, layers);
  for (const SiteName& known : kSiteNames) {
    if (known.in_layer == in_layer && known.name == rest) return {known.site, in_layer ? layer : -1};
  }
  refuse_name(name, layers);
}

std::string to_string(const ActivationName& name) {
  for (const SiteName& known : kSiteNames) {
    if (known.site != name.site) continue;
    return known.in_layer ? fmt::format("blocks.{}.{}", name.layer, known.name) : std::string(known.name);
  }
  return "";
}

void Taps::read(ActivationName name, Reader reader) {
  replace(name, [reader = std::move(reader)](const Tensor& activation) {
    reader(activation);
    return activation;
  });
}

void Taps::replace(ActivationName name, Replacer replacer) {
  taps_[name].push_back(std::move(replacer));
}

Tensor Taps::pass(Site site, int64_t layer, Tensor activation) const {
  const auto it = taps_.find({site, layer});
  if (it == taps_.end()) return activation;
  for (const Replacer& replacer : it->second) {
    Tensor replaced = replacer(activation);
    if (!replaced.sizes().equals(activation.sizes())) {
      fail_input(fmt::format("a replacement has shape {}, wanted {}", fmt::streamed(replaced.sizes()),
                             fmt::streamed(activation.sizes())),
                 to_string({site, layer}), "keep the activation's shape");
    }
    activation = std::move(replaced);
  }
  return activation;
}

}  // namespace openwork
