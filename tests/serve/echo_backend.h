// Answers without models: a prompt is said back, patterns are many bytes, long work counts to ten, and "forever" never
// ends by itself.
#pragma once
#include <atomic>
#include <chrono>
#include <thread>

#include "base/error.h"
#include "serve/backend.h"
#include "serve/binary_tensor.h"

namespace openwork::serve {

class EchoBackend : public Backend {
 public:
  std::atomic<int> answered{0};
  std::chrono::milliseconds step{2};

  nlohmann::json describe() const override {
    return {{"models", {{{"name", "echo"}}}},
            {"tasks", nlohmann::json::array()},
            {"statistics", nlohmann::json::array()},
            {"classes", nlohmann::json::array()},
            {"prompt_tokens", 512}};
  }
  std::vector<std::string> names() const override { return {"echo"}; }

  Answer answer(const Request& request, Work& work) override {
    ++answered;
    if (const auto* run = std::get_if<RunRequest>(&request)) return say(run->prompt);
    if (const auto* patterns = std::get_if<PatternsRequest>(&request)) {
      const std::string data(static_cast<size_t>(patterns->cells), '\7');
      const nlohmann::json header = {{"dtype", "u8"}, {"shape", {1, patterns->cells}}};
      return {kBinaryType, std::make_shared<const std::string>(pack_tensor(header, data))};
    }
    if (const auto* trace = std::get_if<TraceRequest>(&request)) return count(trace->prompt, work);
    return json_answer(nlohmann::json::object());
  }

 private:
  Answer say(const std::string& prompt) {
    if (prompt == "wrong") fail_input("a wrong prompt", "prompt", "say something else");
    if (prompt == "broken") fail("broken", "backend", "mend it");
    if (prompt == "slow") std::this_thread::sleep_for(std::chrono::milliseconds(300));
    return json_answer({{"prompt", prompt}});
  }

  Answer count(const std::string& prompt, Work& work) {
    const uint64_t all = prompt == "forever" ? 1'000'000'000 : 10;
    for (uint64_t n = 0; n <= all; ++n) {
      work.tell("echo", n, all);
      std::this_thread::sleep_for(step);
    }
    if (prompt == "broken") fail("broken", "backend", "mend it");
    return json_answer({{"counted", all}});
  }
};

}  // namespace openwork::serve
