// What writes into the residual stream of a traced prompt. Every source is a column of the effect matrix:
//   features by layer, token and number (without transcoders: MLPs by layer and token)
//   errors by layer and token (with transcoders) | embeddings by token | biases by layer and token
// A source writes at one token, at one or more places of the stream: attention's constants between the two
// blocks of a layer, MLP outputs and what stands in for them after it, cross-layer features after several.
#pragma once
#include <vector>

#include "analyze/trace/frozen_run.h"
#include "analyze/trace/trace_records.h"

namespace openwork {

// Places of the stream: where embeddings enter; behind a layer's attention; behind its MLP.
enum class StreamPoint { kStart, kMiddle, kOutput };

// Sources of neighbouring columns that write at the same place, in order of their tokens.
struct SourcePiece {
  int64_t first = 0;             // column
  Tensor table;                  // [rows, D]
  Tensor pick;                   // [m]: each source's row of the table; undefined: row n is source n's
  Tensor factor;                 // [m, 1]: times which the row is written; undefined: 1
  Tensor positions;              // [m]
  std::vector<int64_t> offsets;  // [T + 1]: sources at token s are [offsets[s], offsets[s + 1])

  int64_t count() const { return offsets.back(); }
  Tensor first_rows(int64_t most) const;        // what the first `most` sources write: [most, D]
  Tensor rows_of(const Tensor& sources) const;  // what these write, counted from `first`: [n, D]
};

class TraceSources {
 public:
  // Finds the active features; `transcoders` may be null. Both must outlive this.
  TraceSources(const FrozenRun& run, const Transcoders* transcoders);

  int64_t columns() const { return static_cast<int64_t>(nodes_.size()); }
  int64_t attributable() const { return first_source_only_; }  // features or MLPs: columns [0, this)
  const std::vector<TraceNode>& nodes() const { return nodes_; }
  const TraceNode& node(int64_t column) const { return nodes_[static_cast<size_t>(column)]; }
  int64_t bias_column(int64_t layer,
                      int64_t position) const;  // layer: up to the number of layers, for logits

  std::vector<SourcePiece> pieces_at(StreamPoint point, int64_t layer) const;

  // The column that a name (L3F512@7, M3@7, E3@7, T@7, B3@7) means; fails where there is none.
  int64_t find(const std::string& name) const;

 private:
  struct Active {  // features of one layer
    int64_t first = 0;
    Tensor features, positions, values;  // [m], [m], [m, 1]
    std::vector<int64_t> offsets;        // [T + 1]
  };
  void find_features();
  void add_by_token(TraceNodeKind kind, int64_t first_layer, int64_t layers);
  SourcePiece piece_by_token(int64_t first, Tensor table) const;

  const FrozenRun& run_;
  const Transcoders* transcoders_;
  std::vector<Active> active_;
  std::vector<Tensor> errors_;            // per layer [T, D]
  std::vector<Tensor> output_constants_;  // per layer [D]; undefined where nothing is
  std::vector<TraceNode> nodes_;
  int64_t first_source_only_ = 0, first_error_ = 0, first_embedding_ = 0, first_bias_ = 0;
  Tensor tokens_;                  // 0, 1, ..., T - 1
  std::vector<int64_t> by_token_;  // offsets of pieces with one source per token
};

}  // namespace openwork
