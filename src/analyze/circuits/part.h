// The parts of a model that ablation replaces, and their names: heads `L5H1` (at z), a head's query, key or
// value `L5H1<q>`, MLPs `m3`, single attention edges `L5H1:8<-5` (the term A_ij v_j).
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/head_place.h"
#include "model/config.h"

namespace openwork {

struct Part {
  enum class Kind { kHead, kQuery, kKey, kValue, kMlp, kEdge };
  Kind kind = Kind::kHead;
  int32_t layer = 0, head = 0;
  int32_t query = 0, key = 0;  // of an attention edge
  auto operator<=>(const Part&) const = default;

  HeadPlace place() const { return {layer, head}; }  // the head it belongs to; of an MLP head 0
};

inline Part head_part(int64_t layer, int64_t head) {
  return {Part::Kind::kHead, static_cast<int32_t>(layer), static_cast<int32_t>(head)};
}
inline Part head_part(const HeadPlace& place) {
  return head_part(place.layer, place.head);
}
inline Part mlp_part(int64_t layer) {
  return {Part::Kind::kMlp, static_cast<int32_t>(layer)};
}

// Every head, every head's query, ..., every MLP, layer by layer; kEdge is none of them.
std::vector<Part> list_parts(const ModelConfig& config, Part::Kind kind);
std::vector<HeadPlace> all_heads(const ModelConfig& config);

// Names and back; parsing refuses names that are none, layers, heads and positions that the model or the
// prompts have not. Keys and values belong to a whole group of heads where heads share them.
std::string to_string(const Part& part);
Part parse_part(const std::string& name, const ModelConfig& config, int64_t tokens);

}  // namespace openwork
