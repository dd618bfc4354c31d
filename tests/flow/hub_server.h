// A small hub for tests: two HTTP servers on this machine, one that answers as the Hugging Face hub does and
// one that stands for the store large files are redirected to. It keeps what it was asked, and can misbehave
// on order.
//   HubServer hub;
//   hub.add_file("config.json", "{}");                        // small: git's hash, sent by the hub itself
//   hub.add_large_file("model.safetensors", bytes);           // large: sha256, redirected to the store
//   setenv("HF_ENDPOINT", hub.endpoint().c_str(), 1);
#pragma once
#include <httplib.h>

#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace openwork {

struct HubRequest {
  std::string server;                              // "hub" or "store"
  std::string method, path, authorization, range;  // the path as it was sent, percent signs and all
};

class HubServer {
 public:
  static constexpr const char* kRepo = "someone/tiny-model";
  static constexpr const char* kCommit = "0123456789abcdef0123456789abcdef01234567";

  HubServer();
  ~HubServer();
  HubServer(const HubServer&) = delete;
  HubServer& operator=(const HubServer&) = delete;

  std::string endpoint() const;

  void add_file(const std::string& name, std::string content);
  void add_large_file(const std::string& name, std::string content);

  // Misbehaviour, set before the fetch.
  std::string required_token;                // others get 401
  int status = 0;                            // of every answer, when not 0
  std::string error_code;                    // X-Error-Code sent with it
  std::string list_text;                     // instead of the list of files
  std::string commit = kCommit;              // what the list says
  std::map<std::string, std::string> etags;  // instead of the right ones; "" sends none
  int breaks = 0;                            // how many large transfers still break off ...
  size_t break_after = 0;                    // ... after so many bytes
  bool ignores_ranges = false;               // of large files
  uint64_t claimed_size = 0;                 // of large files, when not 0
  bool knows_head = true;
  bool renamed = false;  // kRepo's addresses redirect, relative, to a new name
  int busy = 0;          // how many requests still get 503

  std::vector<HubRequest> requests() const;
  size_t count(const std::string& server, const std::string& method, const std::string& path_part) const;

 private:
  struct File {
    std::string content, hash;
    bool large = false;
  };

  void remember(const std::string& server, const httplib::Request& request);
  bool refuse(const httplib::Request& request, httplib::Response& response);
  void answer_list(const httplib::Request& request, httplib::Response& response);
  void answer_file(const httplib::Request& request, httplib::Response& response);
  void answer_store(const httplib::Request& request, httplib::Response& response);

  httplib::Server hub_, store_;
  int hub_port_ = 0, store_port_ = 0;
  std::thread hub_thread_, store_thread_;
  std::map<std::string, File> files_;
  mutable std::mutex mutex_;
  std::vector<HubRequest> requests_;
};

}  // namespace openwork
