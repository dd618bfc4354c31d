// Where replacing MLPs by transcoders begins to cost, as a picture: the loss above the model's with layers 0 to l
// replaced and with each alone, beside what is not explained of each layer.
#pragma once
#include <string>

#include "draw/figure.h"
#include "transcode/measure_transcoders.h"

namespace openwork {

// The curves must have been measured.
draw::Figure draw_replacement(const TranscoderQuality& quality, const std::string& title);

}  // namespace openwork
