// One or more models' heads as a figure of causal heat maps, as JSON, and as the line under each block.
#pragma once
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "analyze/heads/model_heads.h"
#include "draw/head_grid.h"

namespace openwork {

// How the figure looks; what is in it the records say.
struct HeadsLook {
  bool needed = false;       // the heads are those that the task needs, and the words say so
  bool sample = false;       // a large model has 16 heads in a row
  bool whole_layers = true;  // rows of whole layers; else the block is about square
  int64_t columns = 0;       // heads in a row; 0: what fits
  draw::Shade shade = draw::Shade::kSquareRoot;
  bool shared_scale = true;
  double scale_high = 0;   // value of the darkest blue; 0: the largest cell
  std::string frame_name;  // what red frames mean
};

draw::HeadGrid make_head_grid(const std::vector<ModelHeads>& models, const HeadsLook& look,
                              const draw::Caption& caption);

// "Attention heads", or the share of the task that the heads are needed for.
std::string title_heads(const ModelHeads& model, bool needed);

// What red frames mean: the watched cell's edge in the heads where it is strongest, or each model's strongest
// moves. Empty where nothing is framed.
std::string describe_frames(size_t frames, const std::optional<TokenPair>& watched,
                            const std::vector<std::string>& pieces);

// "39 of 64 heads; 25 blank, left out": the line under a block.
std::string describe_heads(const ModelHeads& model, bool needed);

nlohmann::json to_json(const ModelHeads& model);  // patterns left out

}  // namespace openwork
