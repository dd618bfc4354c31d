// One client's connection under limits that no client can stretch: a request must arrive whole within a time and a
// size, an answer must be taken within a time, and all ends when the server stops. cpp-httplib's own stream limits
// each read alone, so that a byte now and then holds a thread for ever.
#pragma once
#include <httplib.h>

#include <array>
#include <atomic>
#include <chrono>

namespace openwork::serve {

struct HttpLimits {
  size_t connections = 256;
  size_t head_bytes = 32 << 10;  // request line and headers
  size_t body_bytes = 1 << 20;
  std::chrono::milliseconds request_time{10000};  // from a request's first byte to its last
  std::chrono::milliseconds write_time{20000};    // without a byte taken
  std::chrono::milliseconds idle_time{15000};     // between requests
  int requests = 1000;                            // over one connection
};

class Connection : public httplib::Stream {
 public:
  Connection(socket_t socket, const HttpLimits& limits, const std::atomic<bool>& stopping);
  ~Connection() override;  // closes it, letting the last answer arrive

  // Waits for the first byte of the next request; false: there is none, or the server stops.
  bool wait_for_request();

  bool is_readable() const override;
  bool is_writable() const override;
  ssize_t read(char* bytes, size_t size) override;
  ssize_t write(const char* bytes, size_t size) override;
  void get_remote_ip_and_port(std::string& ip, int& port) const override { ip.clear(), port = 0; }
  void get_local_ip_and_port(std::string& ip, int& port) const override { ip.clear(), port = 0; }
  socket_t socket() const override { return socket_; }

  // Says no to a client whose request is not even read. Never waits.
  static void refuse(socket_t socket, int status, const char* reason);

 private:
  using Clock = std::chrono::steady_clock;
  enum class Phase { kHead, kBody };

  bool wait(short events, Clock::time_point until) const;
  bool fill(Clock::time_point until);  // the buffer, with at least one byte
  void count(char byte);               // where the head ends

  const socket_t socket_;
  const HttpLimits& limits_;
  const std::atomic<bool>& stopping_;
  std::array<char, 16384> buffer_;
  size_t start_ = 0, end_ = 0;  // of the bytes in the buffer that are not read yet
  Phase phase_ = Phase::kHead;
  size_t taken_ = 0;     // bytes of this phase
  int line_breaks_ = 0;  // that follow on each other: two end the head
  Clock::time_point deadline_;
};

}  // namespace openwork::serve
