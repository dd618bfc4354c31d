#include "base/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <utility>

namespace openwork {
namespace {

using Clock = std::chrono::steady_clock;
std::atomic<bool> quiet_flag{false};

std::string duration_text(double seconds) {
  if (seconds < 60) return fmt::format("{:.0f} s", seconds);
  const int whole = static_cast<int>(seconds);
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole / 60 % 60);
}

}  // namespace

void set_quiet(bool quiet) {
  quiet_flag = quiet;
}
bool is_quiet() {
  return quiet_flag;
}

void note(std::string_view line) {
  if (!is_quiet()) fmt::print(stderr, "{}\n", line);
}

std::optional<double> seconds_left(double seconds, uint64_t done, uint64_t skipped, uint64_t total) {
  if (done <= skipped || done > total) return std::nullopt;
  return seconds * static_cast<double>(total - done) / static_cast<double>(done - skipped);
}

Progress::Progress(std::string name, uint64_t total, std::string unit)
    : name_(std::move(name)),
      unit_(std::move(unit)),
      total_(total),
      terminal_(isatty(STDERR_FILENO) == 1),
      start_(Clock::now()),
      last_draw_(start_) {}

Progress::~Progress() {
  if (drawn_) draw(true);
}

void Progress::set(uint64_t done, std::string_view detail) {
  done_ = done;
  detail_ = detail;
  const auto interval = terminal_ ? std::chrono::milliseconds(100) : std::chrono::milliseconds(10000);
  if (is_quiet() || Clock::now() - last_draw_ < interval) return;
  draw(false);
}

void Progress::draw(bool last) {
  last_draw_ = Clock::now();
  drawn_ = true;
  const double seconds = std::chrono::duration<double>(last_draw_ - start_).count();
  std::string line = fmt::format("{}: {}", name_, done_);
  if (total_ > 0) {
    const double share = static_cast<double>(done_) / static_cast<double>(total_);
    line += fmt::format(" / {}{} ({:.0f} %)", total_, unit_, 100 * share);
    const auto left = seconds_left(seconds, done_, skipped_, total_);
    if (!last && left) line += ", " + duration_text(*left) + " left";
  } else {
    line += unit_;
  }
  if (!detail_.empty()) line += ", " + detail_;
  if (terminal_) {
    fmt::print(stderr, "\r\033[K{}{}", line, last ? "\n" : "");
    std::fflush(stderr);
  } else {
    fmt::print(stderr, "{}\n", line);
  }
}

}  // namespace openwork
