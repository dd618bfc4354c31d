// metrics.jsonl: one JSON object per interval, in the order of steps. A resumed run first drops the lines
// after its checkpoint (and a last line that a kill cut short), so that every step is told once.
#pragma once
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

namespace openwork {

class MetricsLog {
 public:
  MetricsLog(std::filesystem::path path, int64_t resumed_at);
  void write(const nlohmann::json& line);

 private:
  std::filesystem::path path_;
  std::ofstream file_;
};

}  // namespace openwork
