// What a model or any weights file holds, as the lines a person reads.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "io/tensor_file.h"

namespace openwork {

// `config` is describe_model's (report/model_description.h).
std::vector<std::string> format_model(const nlohmann::json& config, const TensorFile& file);
// Every tensor with its dtype and shape.
std::vector<std::string> format_tensors(const TensorFile& file);

}  // namespace openwork
