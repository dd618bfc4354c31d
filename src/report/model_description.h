// What a model or any weights file holds, as JSON, and its tensors as a file of plain numbers.
#pragma once
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "io/model_store.h"
#include "io/tensor_file.h"

namespace openwork {

// A model's configuration with its gates; {"note"} says why a lone weights file has none, and null stands for
// a folder without a configuration: any weights file may be described.
nlohmann::json describe_model(const LocatedModel& located);

nlohmann::json describe_tensors(const TensorFile& file);   // [{"name", "dtype", "shape", "bytes"}, ...]
nlohmann::json describe_metadata(const TensorFile& file);  // without lists: vocabularies stay in the file

// Writes all tensors as F32, dequantised, to a safetensors file.
void export_tensors(const std::shared_ptr<const TensorFile>& file, const std::string& path);

}  // namespace openwork
