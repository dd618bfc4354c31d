#include "flow/hub_server.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "io/sha256.h"

namespace openwork {
namespace {

constexpr const char* kNewName = "someone/renamed-model";

void start(httplib::Server& server, int& port, std::thread& thread) {
  server.set_keep_alive_timeout(1);
  port = server.bind_to_any_port("127.0.0.1");
  thread = std::thread([&server] { server.listen_after_bind(); });
  while (!server.is_running()) std::this_thread::yield();
}

}  // namespace

HubServer::HubServer() {
  hub_.Get(R"(/api/models/(.+)/revision/(.+))",
           [this](const auto& request, auto& response) { answer_list(request, response); });
  hub_.Get(R"(/([^/]+/[^/]+)/resolve/([^/]+)/(.+))",
           [this](const auto& request, auto& response) { answer_file(request, response); });
  store_.Get(R"(/store/(.+))",
             [this](const auto& request, auto& response) { answer_store(request, response); });
  start(hub_, hub_port_, hub_thread_);
  start(store_, store_port_, store_thread_);
}

HubServer::~HubServer() {
  hub_.stop();
  store_.stop();
  hub_thread_.join();
  store_thread_.join();
}

std::string HubServer::endpoint() const {
  return fmt::format("http://127.0.0.1:{}", hub_port_);
}

void HubServer::add_file(const std::string& name, std::string content) {
  const std::string hash = git_blob_sha1_of_bytes(content);
  files_[name] = {std::move(content), hash, false};
}

void HubServer::add_large_file(const std::string& name, std::string content) {
  const std::string hash = sha256_of_bytes(content);
  files_[name] = {std::move(content), hash, true};
}

std::vector<HubRequest> HubServer::requests() const {
  const std::lock_guard guard(mutex_);
  return requests_;
}

size_t HubServer::count(const std::string& server, const std::string& method,
                        const std::string& path_part) const {
  const std::vector<HubRequest> all = requests();
  return static_cast<size_t>(std::count_if(all.begin(), all.end(), [&](const HubRequest& request) {
    return request.server == server && request.method == method &&
           request.path.find(path_part) != std::string::npos;
  }));
}

void HubServer::remember(const std::string& server, const httplib::Request& request) {
  const std::lock_guard guard(mutex_);
  requests_.push_back({server, request.method, request.target, request.get_header_value("Authorization"),
                       request.get_header_value("Range")});
}

// What every hub address may answer instead of what was asked for.
bool HubServer::refuse(const httplib::Request& request, httplib::Response& response) {
  remember("hub", request);
  if (busy > 0) {
    --busy;
    response.status = 503;
  } else if (status != 0) {
    response.status = status;
    if (!error_code.empty()) response.set_header("X-Error-Code", error_code);
  } else if (!required_token.empty() &&
             request.get_header_value("Authorization") != "Bearer " + required_token) {
    response.status = 401;
  } else if (renamed && request.path.find(kRepo) != std::string::npos) {
    std::string target = request.path;
    target.replace(target.find(kRepo), std::string(kRepo).size(), kNewName);
    response.set_redirect(target, 307);
  } else {
    return false;
  }
  return true;
}

void HubServer::answer_list(const httplib::Request& request, httplib::Response& response) {
  if (refuse(request, response)) return;
  const std::string repo = request.matches[1];
  if (repo != kRepo && repo != kNewName) {
    response.status = 404;
    return;
  }
  nlohmann::json answer = {{"id", repo}, {"sha", commit}, {"siblings", nlohmann::json::array()}};
  for (const auto& [name, file] : files_) answer["siblings"].push_back({{"rfilename", name}});
  response.set_content(list_text.empty() ? answer.dump() : list_text, "application/json");
}

void HubServer::answer_file(const httplib::Request& request, httplib::Response& response) {
  if (refuse(request, response)) return;
  const auto found = files_.find(request.matches[3]);
  if (found == files_.end() || request.matches[2] != commit) {
    response.status = 404;
    return;
  }
  if (request.method == "HEAD" && !knows_head) {
    response.status = 405;
    return;
  }
  const File& file = found->second;
  const auto other = etags.find(found->first);
  const std::string etag = other == etags.end() ? file.hash : other->second;
  response.set_header("X-Repo-Commit", commit);
  if (file.large) {
    if (!etag.empty()) response.set_header("X-Linked-Etag", "\"" + etag + "\"");
    response.set_header("X-Linked-Size",
                        std::to_string(claimed_size != 0 ? claimed_size : file.content.size()));
    response.set_redirect(
        fmt::format("http://127.0.0.1:{}/store/{}?signature=secret", store_port_, found->first));
  } else {
    if (!etag.empty()) response.set_header("ETag", "W/\"" + etag + "\"");
    response.set_content(file.content, "application/octet-stream");
  }
}

void HubServer::answer_store(const httplib::Request& request, httplib::Response& response) {
  remember("store", request);
  const std::string& content = files_.at(request.matches[1]).content;
  const bool breaks_off = breaks > 0;
  if (breaks_off) --breaks;
  auto send = [&content, breaks_off, limit = break_after, sent = size_t{0}](size_t offset, size_t length,
                                                                            httplib::DataSink& sink) mutable {
    const size_t piece = std::min<size_t>(length, 4096);
    if (breaks_off && sent + piece > limit) return false;
    sent += piece;
    return sink.write(content.data() + offset, piece);
  };
  if (!ignores_ranges) {
    response.set_content_provider(content.size(), "application/octet-stream", send);
    return;
  }
  response.status = 200;
  response.set_chunked_content_provider("application/octet-stream",
                                        [&content, send](size_t offset, httplib::DataSink& sink) mutable {
                                          if (offset < content.size())
                                            return send(offset, content.size() - offset, sink);
                                          sink.done();
                                          return true;
                                        });
}

}  // namespace openwork
