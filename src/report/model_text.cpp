#include "report/model_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "base/error.h"

namespace openwork {

std::vector<std::string> format_model(const nlohmann::json& config, const TensorFile& file) {
  std::vector<std::string> lines;
  const auto add = [&](std::string_view key, const std::string& value) {
    lines.push_back(fmt::format("{:<14}{}", key, value));
  };
  std::map<std::string, int64_t> numbers_by_dtype;
  int64_t total = 0;
  uint64_t bytes = 0;
  for (const TensorEntry& entry : file.entries()) {
    numbers_by_dtype[std::string(dtype_name(entry.dtype))] += entry.element_count();
    total += entry.element_count();
    bytes += entry.bytes.size();
  }
  std::string dtypes;
  for (const auto& [name, count] : numbers_by_dtype)
    dtypes += fmt::format("{}{} {}", dtypes.empty() ? "" : ", ", count, name);
  for (const auto& [key, value] : config.items())
    add(key, value.is_string() ? value.get<std::string>() : value.dump());
  add("tensors", fmt::format("{}", file.entries().size()));
  add("numbers", fmt::format("{} ({})", total, dtypes));
  add("bytes", fmt::format("{} ({:.1f} MB)", bytes, static_cast<double>(bytes) / 1e6));
  return lines;
}

std::vector<std::string> format_tensors(const TensorFile& file) {
  size_t widest = 0;
  for (const TensorEntry& entry : file.entries()) widest = std::max(widest, entry.name.size());
  std::vector<std::string> lines;
  for (const TensorEntry& entry : file.entries())
    lines.push_back(fmt::format("{:<{}}  {:<5} [{}]", printable(entry.name), widest, dtype_name(entry.dtype),
                                fmt::join(entry.shape, ", ")));
  return lines;
}

}  // namespace openwork
