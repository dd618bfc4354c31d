#include "serve/connection.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace openwork::serve {
namespace {

using namespace std::chrono_literals;
constexpr std::chrono::milliseconds kSlice = 50ms;    // how soon a wait notices that the server stops
constexpr std::chrono::milliseconds kLinger = 300ms;  // that a client has to take the last answer
constexpr std::chrono::milliseconds kLastWords = 2s;  // of a server that stops
constexpr size_t kLingerBytes = 2 << 20;

}  // namespace

Connection::Connection(socket_t socket, const HttpLimits& limits, const std::atomic<bool>& stopping)
    : socket_(socket), limits_(limits), stopping_(stopping) {}

// A socket closed with unread bytes in it resets the connection, and the client may lose the answer that says why.
Connection::~Connection() {
  ::shutdown(socket_, SHUT_WR);
  const Clock::time_point until = Clock::now() + (stopping_ ? 0ms : kLinger);
  for (size_t dropped = 0; dropped < kLingerBytes && wait(POLLIN, until);) {
    const ssize_t got = ::recv(socket_, buffer_.data(), buffer_.size(), MSG_DONTWAIT);
    if (got <= 0) break;
    dropped += static_cast<size_t>(got);
  }
  ::close(socket_);
}

void Connection::refuse(socket_t socket, int status, const char* reason) {
  const std::string body = fmt::format("{{\"error\":\"{}; connection; ask again in a moment\"}}", reason);
  const std::string text = fmt::format(
      "HTTP/1.1 {} {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nRetry-After: 1\r\n"
      "Connection: close\r\n\r\n{}",
      status, reason, body.size(), body);
  (void)!::send(socket, text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
}

bool Connection::wait(short events, Clock::time_point until) const {
  // Nothing more is read once the server stops; what is being said is said to its end.
  while (!stopping_ || events == POLLOUT) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now());
    if (left < 0ms) return false;
    pollfd entry{socket_, events, 0};
    const int ready = ::poll(&entry, 1, static_cast<int>(std::min(left + 1ms, kSlice).count()));
    if (ready > 0) return (entry.revents & (events | POLLHUP | POLLERR)) != 0;
    if (ready < 0 && errno != EINTR) return false;
  }
  return false;
}

bool Connection::fill(Clock::time_point until) {
  if (start_ < end_) return true;
  if (!wait(POLLIN, until)) return false;
  const ssize_t got = ::recv(socket_, buffer_.data(), buffer_.size(), MSG_DONTWAIT);
  if (got <= 0) return false;
  start_ = 0, end_ = static_cast<size_t>(got);
  return true;
}

bool Connection::wait_for_request() {
  if (!fill(Clock::now() + limits_.idle_time)) return false;
  phase_ = Phase::kHead;
  taken_ = 0, line_breaks_ = 0;
  deadline_ = Clock::now() + limits_.request_time;
  return true;
}

bool Connection::is_readable() const {
  return start_ < end_ || wait(POLLIN, Clock::now());
}

bool Connection::is_writable() const {
  // A client that has gone has sent its end: bytes of a next request mean that it is there.
  char byte;
  const ssize_t got = ::recv(socket_, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return got != 0 && wait(POLLOUT, Clock::now() + (stopping_ ? kLastWords : limits_.write_time));
}

void Connection::count(char byte) {
  ++taken_;
  if (phase_ == Phase::kBody) return;
  if (byte == '\n') {
    ++line_breaks_;
  } else if (byte != '\r') {
    line_breaks_ = 0;
  }
  if (line_breaks_ == 2) phase_ = Phase::kBody, taken_ = 0;
}

ssize_t Connection::read(char* bytes, size_t size) {
  const size_t most = phase_ == Phase::kHead ? limits_.head_bytes : limits_.body_bytes;
  if (taken_ >= most || !fill(deadline_)) {
    if (!stopping_ && taken_ > 0)
      taken_ >= most ? refuse(socket_, 431, "too large a request")
                     : refuse(socket_, 408, "too slow a request");
    return -1;
  }
  // Byte for byte while the head lasts: its end changes the limit.
  const size_t take = std::min({size, end_ - start_, phase_ == Phase::kHead ? size_t{1} : most - taken_});
  std::memcpy(bytes, buffer_.data() + start_, take);
  start_ += take;
  if (phase_ == Phase::kHead) {
    count(*bytes);
  } else {
    taken_ += take;
  }
  return static_cast<ssize_t>(take);
}

ssize_t Connection::write(const char* bytes, size_t size) {
  if (!wait(POLLOUT, Clock::now() + (stopping_ ? kLastWords : limits_.write_time))) return -1;
  return ::send(socket_, bytes, size, MSG_DONTWAIT | MSG_NOSIGNAL);
}

}  // namespace openwork::serve
