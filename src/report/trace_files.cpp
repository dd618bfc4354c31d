#include "report/trace_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <set>
#include <string_view>

#include "base/error.h"
#include "io/atomic_file.h"
#include "io/json.h"
#include "report/captions.h"
#include "report/graph_text.h"
#include "report/trace_graph.h"
#include "report/trace_kept.h"
#include "text/packed_text.h"

namespace openwork {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPacked = ".zst";
constexpr int kPackingLevel = 9;
constexpr size_t kBytesOfList = 6;  // [1,0,1] with its comma, a head's share, has more

bool is_packed(const fs::path& path) {
  return path.extension() == kPacked;
}

// time.json and time.json.zst: time
std::string graph_slug(const fs::path& path) {
  return (is_packed(path) ? path.stem() : path).stem().string();
}

nlohmann::json read_graph_file(const fs::path& path) {
  return is_packed(path) ? read_packed_json(path, kBytesOfList) : read_json_file(path);
}

void write_graph_file(const fs::path& path, const nlohmann::json& graph) {
  const std::string text = graph_text(graph);
  write_text_file(path, is_packed(path) ? pack_text(text, kPackingLevel) : text);
}

}  // namespace

std::string name_for_model(const std::string& file, const std::string& title, size_t models) {
  if (models == 1) return file;
  const fs::path path(file);
  std::string name = title, ending = path.extension().string();
  std::replace(name.begin(), name.end(), '/', '-');
  if (is_packed(path)) ending = path.stem().extension().string() + ending;
  const std::string whole = path.filename().string(), stem = whole.substr(0, whole.size() - ending.size());
  return (path.parent_path() / fmt::format("{}-{}{}", stem, name, ending)).string();
}

void write_trace_graph(const std::string& path, const ModelTrace& trace, int64_t max_nodes,
                       const nlohmann::json& protocol, const std::string& version) {
  const auto now = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::system_clock::now().time_since_epoch());
  TraceGraphOrigin origin{.slug = graph_slug(path),
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
  write_graph_file(path, make_trace_graph(trace.graph, origin, trace.labels));
}

namespace {

// Graphs are read one after the other, and none may be lost before it is: by a name that two of them would have, or that
// is one of theirs.
void check_new_name(const std::string& path, const std::vector<std::string>& files,
                    const std::set<std::string>& written) {
  const auto same = [&](const std::string& file) {
    return fs::weakly_canonical(file) == fs::weakly_canonical(path);
  };
  if (std::any_of(files.begin(), files.end(), same))
    fail_input("a graph would be written over one that is read", printable(path, 200),
               "give --graph another name");
  if (written.contains(path))
    fail_input("two graphs of one model would have the same name", printable(path, 200),
               "prune them one by one");
}

}  // namespace

KeptTraces take_kept_traces(const std::vector<std::string>& files, const PruneSettings& settings,
                            const std::string& graph) {
  KeptTraces taken;
  std::set<std::string> written;
  for (const std::string& path : files) {
    nlohmann::json file = read_graph_file(path);
    KeptTrace kept = read_kept_trace(file, path);
    if (settings.any()) {
      file = prune_stored_graph(std::move(file), kept, settings, path);
      kept = read_kept_trace(file, path);
    }
    if (!graph.empty()) {
      const std::string name = name_for_model(graph, kept.trace.title, files.size());
      check_new_name(name, files, written);
      file["metadata"]["slug"] = graph_slug(name);
      write_graph_file(name, file);
      written.insert(name);
      taken.lines.push_back(
          fmt::format("wrote {}{}", name, settings.any() ? ": " + describe_pruning(file) : ""));
    }
    taken.traces.push_back(std::move(kept));
  }
  return taken;
}

draw::Figure draw_kept_traces(const std::vector<KeptTrace>& kept) {
  std::vector<ModelTrace> traces;
  std::string made = kept.front().made;  // that of all of them, and what was done to each since
  for (const KeptTrace& one : kept) {
    traces.push_back(one.trace);
    if (!one.pruned.empty())
      made += fmt::format("{}{}: {}.", made.empty() ? "" : " ", one.trace.title, one.pruned);
  }
  const ModelTrace& first = traces.front();
  std::vector<std::string> texts;  // none where only tokens were known
  if (!first.text.empty()) texts.push_back(first.text);
  return draw_model_traces(traces, describe_prompts(texts, 1, first.graph.tokens.size()), made);
}

}  // namespace openwork
