#include "model/kept_heads.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>

#include "base/error.h"

namespace openwork {
namespace {

using Heads = std::vector<int64_t>;

// How a parameter is cut into heads: along `axis` lie `parts` pieces, each of all its heads, `rows` rows a head.
struct HeadAxis {
  int64_t axis = 0, parts = 1, rows = 1;
  bool queries = true;  // the heads are query heads, or key/value heads
};

// Nothing where a parameter has no heads, or is stored whole for the norms of q and k.
std::optional<HeadAxis> find_head_axis(const ParameterSpec& spec, const ModelConfig& config) {
  const int64_t d = config.head_size, out = !spec.bias && config.transposed_linear ? 1 : 0;
  switch (spec.role) {
    case Role::kQuery:
      return config.qk_norm ? std::nullopt : std::optional(HeadAxis{out, 1, d, true});
    case Role::kKey:
      return config.qk_norm ? std::nullopt : std::optional(HeadAxis{out, 1, d, false});
    case Role::kValue:
      return HeadAxis{out, 1, d, false};
    case Role::kQkv:
      return config.qkv_layout == QkvLayout::kFusedBlocks ? HeadAxis{out, 3, d, true}
                                                          : HeadAxis{out, 1, 3 * d, true};
    case Role::kAttentionOutput:
      return spec.bias ? std::nullopt : std::optional(HeadAxis{config.transposed_linear ? 0 : 1, 1, d, true});
    case Role::kGateBias:
    case Role::kGateIdle:
      return HeadAxis{};
    default:
      return std::nullopt;
  }
}

// What stands for a parameter of a head that is not there. (Norms of q and k: those of a layer without heads.)
double absent_value(Role role) {
  if (role == Role::kGateBias) return kClosedGateBias;
  return role == Role::kQueryNorm || role == Role::kKeyNorm ? 1 : 0;
}

Tensor move_parameter(const Tensor& tensor, const HeadAxis& cut, const Heads& from, const Heads& to,
                      double absent) {
  if (from == to) return tensor;
  Heads source, target;  // positions in `from` and in `to` of the heads that both have
  for (size_t n = 0; n < to.size(); ++n) {
    const auto it = std::lower_bound(from.begin(), from.end(), to[n]);
    if (it == from.end() || *it != to[n]) continue;
    source.push_back(it - from.begin());
    target.push_back(static_cast<int64_t>(n));
  }
  const auto positions = [&](const Heads& heads) { return at::tensor(heads, at::kLong).to(tensor.device()); };
  const Tensor rows = tensor.movedim(cut.axis, 0);  // [parts * heads * rows, ...]
  std::vector<int64_t> shape = rows.sizes().vec();
  shape.erase(shape.begin());
  shape.insert(shape.begin(), {cut.parts, static_cast<int64_t>(from.size()), cut.rows});
  const Tensor taken = rows.reshape(shape).index_select(1, positions(source));
  shape[1] = static_cast<int64_t>(to.size());
  const Tensor placed = at::full(shape, absent, tensor.options()).index_copy(1, positions(target), taken);
  return placed.flatten(0, 2).movedim(0, cut.axis).contiguous();
}

}  // namespace

NamedTensors move_heads(const ModelConfig& from, const NamedTensors& parameters, const ModelConfig& to) {
  const std::map<std::string, Tensor> own(parameters.begin(), parameters.end());
  const Tensor& any = parameters.front().second;
  NamedTensors moved;
  for (const ParameterSpec& spec : list_parameters(architecture_named(to.architecture, "model"), to)) {
    const auto it = own.find(spec.name);
    if (it == own.end()) {  // of a layer that had no heads
      moved.emplace_back(spec.name,
                         at::full(spec.shape, absent_value(spec.role),
                                  is_gate(spec.role) ? any.options().dtype(at::kFloat) : any.options()));
      continue;
    }
    const std::optional<HeadAxis> cut = find_head_axis(spec, to);
    const auto list = cut && cut->queries ? kept_queries : kept_key_values;
    moved.emplace_back(spec.name, cut ? move_parameter(it->second, *cut, list(from, spec.layer),
                                                       list(to, spec.layer), absent_value(spec.role))
                                      : it->second);
  }
  return moved;
}

PrunedHeads index_heads(const ModelConfig& config, int64_t layer, const at::Device& device) {
  const Heads queries = kept_queries(config, layer), key_values = kept_key_values(config, layer);
  Heads reads;  // which of the stored key/value heads each stored query head reads
  for (const int64_t head : queries) {
    reads.push_back(std::lower_bound(key_values.begin(), key_values.end(), head / config.group_size()) -
                    key_values.begin());
  }
  bool even = !queries.empty() && queries.size() % key_values.size() == 0;
  for (size_t n = 0; even && n < reads.size(); ++n)
    even = reads[n] == static_cast<int64_t>(n / (queries.size() / key_values.size()));
  const auto index = [&](const Heads& heads) { return at::tensor(heads, at::kLong).to(device); };
  PrunedHeads pruned;
  pruned.queries = index(queries), pruned.key_values = index(key_values);
  if (!even && !queries.empty()) pruned.key_of_query = index(reads);
  return pruned;
}

Tensor mark_heads(const ModelConfig& config, int64_t layer, const at::Device& device) {
  std::vector<float> marks(static_cast<size_t>(config.heads), 0.0f);
  for (const int64_t head : kept_queries(config, layer)) marks[static_cast<size_t>(head)] = 1;
  return at::tensor(marks).to(device);
}

}  // namespace openwork
