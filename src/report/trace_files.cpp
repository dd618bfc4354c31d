#include "report/trace_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "io/atomic_file.h"
#include "report/captions.h"
#include "report/trace_graph.h"
#include "report/trace_kept.h"

namespace openwork {

std::string name_for_model(const std::string& file, const std::string& model, size_t models) {
  if (models == 1) return file;
  const std::filesystem::path path(file);
  std::string name = short_name(model);
  std::replace(name.begin(), name.end(), '/', '-');
  return (path.parent_path() / fmt::format("{}-{}{}", path.stem().string(), name, path.extension().string()))
      .string();
}

void write_trace_graph(const std::string& path, const ModelTrace& trace, int64_t max_nodes,
                       const nlohmann::json& protocol, const std::string& version) {
  const auto now = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::system_clock::now().time_since_epoch());
  TraceGraphOrigin origin{.slug = std::filesystem::path(path).stem().string(),
                          .scan = trace.scan,
                          .prompt = {},
                          .program = "openwork",
                          .version = version,
                          .feature_url = {},
                          .created_ms = now.count(),
                          .max_nodes = max_nodes,
                          .protocol = protocol,
                          .record = describe_trace(trace),
                          .supernodes = trace.supernodes};
  for (const std::string& token : trace.graph.tokens) origin.prompt += token;
  if (!trace.text.empty()) origin.prompt = trace.text;
  const nlohmann::json graph = make_trace_graph(trace.graph, origin, trace.labels);
  // Bytes of a token need not be UTF-8; they are shown with replacement characters rather than refused.
  write_text_file(path, graph.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

draw::Figure draw_kept_traces(const std::vector<std::string>& files) {
  std::vector<ModelTrace> traces;
  nlohmann::json protocol;
  for (const std::string& file : files) {
    KeptTrace kept = read_kept_trace(file);
    if (traces.empty()) protocol = kept.protocol;
    traces.push_back(std::move(kept.trace));
  }
  const ModelTrace& first = traces.front();
  std::vector<std::string> texts;  // none where only tokens were known
  if (!first.text.empty()) texts.push_back(first.text);
  const std::string prompt = describe_prompts(texts, 1, first.graph.tokens.size()),
                    made = protocol.is_object() ? describe_protocol(protocol) : "";
  return draw_model_traces(traces, prompt, made);
}

}  // namespace openwork
