// The graph of a model as attribution sees it, named as in MIB: sources (input, heads, MLPs) write to the
// residual stream, destinations (each head's query, key and value, MLPs, logits) read it, and an edge joins a
// source to a destination after it: `a9.h9->a11.h10<q>`. A model of 12 layers with 12 heads has 158 nodes and
// 32,491 edges. Sources are numbered as they come: input, the heads of layer 0, its MLP, the heads of layer
// 1, ... So those that a destination can see are always the first few.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/head_place.h"
#include "model/config.h"
#include "model/head_rows.h"  // HeadInput

namespace openwork {

struct GraphEdge {
  int64_t source = 0, destination = 0;
  auto operator<=>(const GraphEdge&) const = default;
};

// What an edge joins.
struct GraphNode {
  enum class Kind { kInput, kHead, kMlp, kLogits };
  Kind kind = Kind::kInput;
  HeadPlace place = {};  // of a head; an MLP's layer
  auto operator<=>(const GraphNode&) const = default;
};
std::string to_string(const GraphNode& node);  // input, L5H1, m3, logits
char input_name(HeadInput input);              // q, k, v

class EdgeGraph {
 public:
  explicit EdgeGraph(const ModelConfig& config);

  int64_t layers() const { return layers_; }
  int64_t heads() const { return heads_; }
  int64_t width() const { return width_; }
  bool parallel() const { return parallel_; }  // attention and MLP read the same stream

  int64_t sources() const { return 1 + layers_ * (heads_ + 1); }
  int64_t destinations() const { return layers_ * (3 * heads_ + 1) + 1; }
  int64_t head_source(int64_t layer, int64_t head) const { return 1 + layer * (heads_ + 1) + head; }
  int64_t mlp_source(int64_t layer) const { return head_source(layer, heads_); }
  int64_t head_destination(int64_t layer, HeadInput input, int64_t head) const {
    return layer * (3 * heads_ + 1) + static_cast<int64_t>(input) * heads_ + head;
  }
  int64_t mlp_destination(int64_t layer) const { return layer * (3 * heads_ + 1) + 3 * heads_; }
  int64_t logits() const { return destinations() - 1; }

  int64_t layer_of(int64_t destination) const { return destination / (3 * heads_ + 1); }
  int64_t slot_of(int64_t destination) const {
    return destination % (3 * heads_ + 1);
  }  // 0 .. 3H: q, k, v, MLP
  int64_t visible_sources(int64_t destination) const;

  GraphNode source_node(int64_t source) const;
  GraphNode destination_node(int64_t destination) const;
  std::optional<HeadInput> input_of(int64_t destination) const;  // which input of a head it is

  std::vector<GraphEdge> edges() const;  // by destination, then source
  std::vector<std::string> node_names() const;
  std::string source_name(int64_t source) const;            // input, a5.h1, m3
  std::string destination_name(int64_t destination) const;  // a5.h1<q>, m3, logits
  std::string edge_name(const GraphEdge& edge) const;
  GraphEdge parse_edge(const std::string& name) const;  // refuses names of no edge

 private:
  int64_t layers_, heads_, width_;
  bool parallel_;
};

}  // namespace openwork
