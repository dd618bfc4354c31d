// A model with what tracing it needs: its transcoders, what their features are about, its tokenizer.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "analyze/trace/trace_records.h"
#include "model/transformer.h"
#include "text/tokenizer.h"
#include "transcode/described_features.h"
#include "transcode/transcoder.h"

namespace openwork {

// Which transcoders a trace was made with.
struct TranscoderFiles {
  std::string path;  // the folder's own name
  std::string sha256, kind, scan;
  int64_t features = 0;  // per layer
};

struct TracedModel {
  std::string name;   // as it was asked for
  std::string title;  // as figures and tables call it
  Transformer model;
  std::optional<Transcoders> transcoders;    // absent: MLPs are nodes
  std::optional<TranscoderFiles> files;      // of the transcoders
  std::optional<Descriptions> descriptions;  // what features are about, where the folder says
  std::optional<Tokenizer> tokenizer;
  std::vector<int64_t> beginning;  // tokens that stand before each text
  bool copy_begins = true;  // whether prompts of random tokens have a beginning too (not with --bos no)

  std::string text_of(int64_t id) const;  // a token's, or its number where there is no tokenizer
  int64_t count_beginning(const std::vector<int64_t>& ids) const;  // how many of them stand before the text
};

// The folders of transcoders, one per model; empty: MLPs are nodes. `given` has one per model (`none`: MLPs)
// or is empty: then each model's own transcoders/, where all of the models have one. A folder that is none, or whose
// descriptions are broken, is refused here, before any model is opened.
std::vector<FeatureFolder> choose_transcoders(const std::vector<std::string>& given,
                                              const std::vector<std::string>& models);

// The model with the transcoders and descriptions of a folder, or without where it is none. Fails
// where they are of another model. Tokenizer and beginning are the caller's to give.
TracedModel attach_transcoders(Transformer model, const std::string& name, const std::string& title,
                               FeatureFolder folder = {});

// What is known of a feature; null where nothing is, and for nodes of other kinds.
const FeatureDescription* find_description(const TracedModel& traced, const TraceNode& node);

// A token's text; of a feature, the token that most of its contexts peak at.
std::string label_node(const TracedModel& traced, const TraceNode& node);

// The tokens that a feature speaks for, as far as they are known, the strongest first.
std::vector<std::string> list_words(const TracedModel& traced, const TraceNode& node);

}  // namespace openwork
