#include "serve/training_log.h"

#include <fmt/format.h>

#include <fstream>

#include "base/error.h"
#include "io/json.h"

namespace openwork::serve {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kPiece = 4 << 20;            // bytes read for one answer
constexpr uintmax_t kLargestResult = 16 << 20;  // a result.json beyond this is not ours
constexpr uint64_t kMostPoints = 1000;          // of a frontier

// Up to `kPiece` bytes from there on, cut behind the last line break.
std::string read_lines(const fs::path& path, uint64_t from) {
  std::ifstream file(path, std::ios::binary);
  file.seekg(static_cast<std::streamoff>(from));
  std::string text(kPiece, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(std::max<std::streamsize>(0, file.gcount())));
  text.resize(text.rfind('\n') + 1);  // npos + 1 is 0
  return text;
}

nlohmann::json parse_lines(const std::string& text) {
  nlohmann::json lines = nlohmann::json::array();
  for (size_t start = 0; start < text.size();) {
    const size_t end = text.find('\n', start);
    const std::string_view line = std::string_view(text).substr(start, end - start);
    if (!line.empty()) lines.push_back(parse_json(line, "metrics.jsonl"));
    start = end + 1;
  }
  return lines;
}

// The last whole line of a log; null where there is none. Its tail is read alone: lines are far shorter than that.
nlohmann::json read_last_line(const fs::path& path) {
  constexpr uintmax_t kTail = 64 << 10;
  std::error_code missing;
  const uintmax_t size = fs::file_size(path, missing);
  if (missing) return nullptr;
  std::string text = read_lines(path, size > kTail ? size - kTail : 0);
  if (text.size() < 2) return nullptr;
  text.pop_back();
  const nlohmann::json lines = parse_lines(text.substr(text.rfind('\n') + 1) + "\n");
  return lines.empty() ? nlohmann::json() : lines.back();
}

// Null where it is not there.
nlohmann::json read_record(const fs::path& path) {
  std::error_code missing;
  const uintmax_t size = fs::file_size(path, missing);
  if (missing || size > kLargestResult) return nullptr;
  return read_json_file(path);
}

// Of a point of a frontier, or of a control; null while that run has not ended.
nlohmann::json read_result(const fs::path& folder) {
  return read_record(folder / "result.json");
}

// What the report of a run has of its model; null while there is none, and of a report that stands from before the run
// was resumed.
nlohmann::json read_reported(const fs::path& folder) {
  const nlohmann::json report = read_record(folder / "report.json");
  if (!report.is_object()) return nullptr;
  const nlohmann::json last = read_last_line(folder / "metrics.jsonl");
  for (const char* model : {"trained", "sparse", "control"}) {
    const nlohmann::json found = report.value(model, nlohmann::json());
    if (!found.is_object()) continue;
    const nlohmann::json steps = found.value("/training/steps"_json_pointer, nlohmann::json());
    const bool resumed = steps.is_number() && last.is_object() && last.value("step", 0.0) > steps;
    return resumed ? nlohmann::json() : found;
  }
  return nullptr;
}

}  // namespace

TrainingLog::TrainingLog(fs::path folder) : folder_(std::move(folder)) {
  if (!fs::is_directory(folder_))
    fail_input("no such folder", folder_.string(), "give --run a sparsify or pretrain folder");
}

std::string TrainingLog::name() const {
  const fs::path plain = fs::weakly_canonical(folder_);
  return plain.filename().string();
}

fs::path TrainingLog::folder_of(uint64_t point) const {
  return point == 0 ? folder_ : folder_ / fmt::format("point-{}", point);
}

uint64_t TrainingLog::count_points() const {
  uint64_t points = 0;
  std::error_code missing;
  while (points < kMostPoints && fs::is_directory(folder_of(points + 1), missing)) ++points;
  return points;
}

nlohmann::json TrainingLog::list_frontier(uint64_t points) const {
  nlohmann::json frontier = nlohmann::json::array();
  for (uint64_t point = 1; point <= points; ++point) {
    const nlohmann::json result = read_result(folder_of(point));
    if (!result.is_object()) continue;
    frontier.push_back({{"folder", folder_of(point).filename().string()},
                        {"held_out_loss", result.value("nats_per_token", nlohmann::json())},
                        {"kept_edges", result.value("kept_edges", nlohmann::json())},
                        {"open_heads", result.value("open_heads", nlohmann::json())}});
  }
  return frontier;
}

nlohmann::json TrainingLog::read(uint64_t from, uint64_t point) const {
  const uint64_t points = count_points();
  if (point > points)
    fail_input(fmt::format("no point {}", point), name(), fmt::format("give 0 to {}", points));
  const fs::path folder = folder_of(point), metrics = folder / "metrics.jsonl";
  std::error_code missing;
  const uintmax_t size = fs::file_size(metrics, missing);
  if (missing || from > size) from = 0;
  const std::string text = missing ? "" : read_lines(metrics, from);
  nlohmann::json result = read_result(folder);
  if (result.is_null() && points == 0) result = read_reported(folder);
  const bool ended = points > 0 ? fs::exists(folder_ / "report.json", missing) : !result.is_null();
  return {{"name", name()},
          {"point", point},
          {"points", points},
          {"frontier", list_frontier(points)},
          {"control", read_last_line(folder_ / "control" / "metrics.jsonl")},
          {"ended", ended},
          {"from", from},
          {"next", from + text.size()},
          {"lines", parse_lines(text)},
          {"result", std::move(result)}};
}

}  // namespace openwork::serve
