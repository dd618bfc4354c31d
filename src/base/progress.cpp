#include "base/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <utility>

#include "base/progress_line.h"

namespace openwork {
namespace {

using Clock = std::chrono::steady_clock;
std::atomic<bool> quiet_flag{false};
std::atomic<bool> bar_shown{false};  // a terminal's line holds an unfinished bar
ProgressWatcher watcher_now;         // of the process's host; set while no work runs

std::string duration_text(double seconds) {
  if (seconds < 60) return fmt::format("{:.0f} s", seconds);
  const int whole = static_cast<int>(seconds);
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole / 60 % 60);
}

// " 20 / 50 blocks (40 %), 3 s left, loss 3.281", what stands behind the name and the bar.
std::string describe_state(const ProgressState& state, std::optional<double> seconds_left) {
  std::string text = fmt::format(" {}", state.done);
  if (state.total > 0) {
    const double share = static_cast<double>(state.done) / static_cast<double>(state.total);
    text += fmt::format(" / {}{} ({:.0f} %)", state.total, state.unit, 100 * share);
    if (seconds_left) text += ", " + duration_text(*seconds_left) + " left";
  } else {
    text += state.unit;
  }
  if (!state.detail.empty()) text += fmt::format(", {}", state.detail);
  return text;
}

// The first `columns` characters.
std::string cut(const std::string& text, size_t columns) {
  size_t characters = 0, at = 0;
  for (; at < text.size(); ++at) {
    const bool begins = (static_cast<unsigned char>(text[at]) & 0xC0) != 0x80;
    if (begins && characters++ == columns) break;
  }
  return text.substr(0, at);
}

}  // namespace

void set_quiet(bool quiet) {
  quiet_flag = quiet;
}
bool is_quiet() {
  return quiet_flag;
}

void watch_progress(ProgressWatcher watcher) {
  watcher_now = std::move(watcher);
}

void note(std::string_view line) {
  if (is_quiet()) return;
  clear_progress_line();
  fmt::print(stderr, "{}\n", line);
}

std::string progress_line(const ProgressState& state, std::optional<double> seconds_left, size_t columns) {
  constexpr size_t kCells = 20, kBar = kCells + 3;  // with its brackets and a space
  const std::string text = describe_state(state, seconds_left);
  if (state.total == 0 || state.name.size() + kBar + text.size() > std::max(columns, size_t{60}))
    return cut(fmt::format("{}:{}", state.name, text), columns);
  const size_t full = std::min(kCells, static_cast<size_t>(state.done * kCells / state.total));
  return cut(
      fmt::format("{} [{}{}]{}", state.name, std::string(full, '#'), std::string(kCells - full, '-'), text),
      columns);
}

size_t terminal_columns() {
  winsize size{};
  const bool said = ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return said ? size.ws_col : 80;
}

void clear_progress_line() {
  if (!bar_shown.exchange(false)) return;
  fmt::print(stderr, "\r\033[K");
  std::fflush(stderr);
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
  if (watcher_now) {
    try {
      watcher_now(state(true));
    } catch (...) {  // the work is over: there is nothing left to end
    }
    return;
  }
  if (drawn_) draw(true);
}

void Progress::set(uint64_t done, std::string_view detail) {
  done_ = done;
  detail_ = detail;
  if (watcher_now) {
    if (Clock::now() - last_draw_ < std::chrono::milliseconds(50)) return;
    last_draw_ = Clock::now();
    return watcher_now(state(false));
  }
  const auto interval = terminal_ ? std::chrono::milliseconds(100) : std::chrono::milliseconds(10000);
  if (is_quiet() || Clock::now() - last_draw_ < interval) return;
  draw(false);
}

ProgressState Progress::state(bool finished) const {
  return {name_, unit_, detail_, done_, total_, finished};
}

void Progress::draw(bool last) {
  last_draw_ = Clock::now();
  drawn_ = true;
  const double seconds = std::chrono::duration<double>(last_draw_ - start_).count();
  const auto left = last ? std::nullopt : seconds_left(seconds, done_, skipped_, total_);
  if (!terminal_) {
    fmt::print(stderr, "{}:{}\n", name_, describe_state(state(false), left));
    return;
  }
  // A terminal wraps what fills its last column.
  fmt::print(stderr, "\r\033[K{}{}", progress_line(state(false), left, terminal_columns() - 1),
             last ? "\n" : "");
  std::fflush(stderr);
  bar_shown = !last;
}

}  // namespace openwork
