#include "train/metrics.h"

#include "base/error.h"
#include "io/atomic_file.h"

namespace openwork {
namespace {

std::string lines_up_to(const std::filesystem::path& path, int64_t step) {
  std::ifstream file(path);
  std::string kept, line;
  while (std::getline(file, line)) {
    const nlohmann::json json = nlohmann::json::parse(line, nullptr, false);
    if (json.is_object() && json.value("step", int64_t{-1}) <= step) kept += line + "\n";
  }
  return kept;
}

}  // namespace

MetricsLog::MetricsLog(std::filesystem::path path, int64_t resumed_at) : path_(std::move(path)) {
  write_text_file(path_, resumed_at > 0 ? lines_up_to(path_, resumed_at) : "");
  file_.open(path_, std::ios::app);
}

void MetricsLog::write(const nlohmann::json& line) {
  file_ << line.dump() << "\n" << std::flush;
  if (!file_) fail("the line could not be written", path_.string(), "check the disk");
}

}  // namespace openwork
