// The metrics of a training run, read while it trains: whole lines of DIR/metrics.jsonl from a byte on, and
// DIR/result.json once the run has ended. A `sparsify --frontier` run has such files in DIR/point-1 .. point-N, a point
// after the other, and DIR/report.json at its end; one with a dense control, which is trained first, has its log in
// DIR/control. No other file is read; of the report only that it is there.
#pragma once
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>

namespace openwork::serve {

class TrainingLog {
 public:
  explicit TrainingLog(std::filesystem::path folder);  // fails where it is no folder

  std::string name() const;  // the folder's own

  // {"name", "point", "points", "frontier", "control", "ended", "from", "next", "lines": [..], "result"}: of point
  // `point`, 0 meaning the folder itself. "points" counts the point folders there are; "frontier" has {"folder",
  // "held_out_loss", "kept_edges", "open_heads"} of each that is measured; "control" is the control's last line, or
  // null. A last line that is not ended yet is left for the next time, a piece of a long log at a time. Where the file
  // is shorter than `from` (the run began anew), from its start.
  nlohmann::json read(uint64_t from, uint64_t point = 0) const;

 private:
  std::filesystem::path folder_of(uint64_t point) const;
  uint64_t count_points() const;
  nlohmann::json list_frontier(uint64_t points) const;

  std::filesystem::path folder_;
};

}  // namespace openwork::serve
