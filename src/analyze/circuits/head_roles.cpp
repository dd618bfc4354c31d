#include "analyze/circuits/head_roles.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "analyze/circuits/edge_runner.h"

namespace openwork {
namespace {

// Roles that a task's own places give: who looks from where to where.
struct PlaceRole {
  const char *role, *from, *to;
};
constexpr PlaceRole kPlaceRoles[] = {{"mover", "end", "answer"},
                                     {"subject inhibition", "end", "subject again"},
                                     {"year reader", "end", "year"},
                                     {"word reader", "end", "word"}};

// The cells of all prompts that one kind of attention looks at: a mask [P, T, T], each row's share of the
// mean in it.
struct Kind {
  std::string name;
  Tensor weights;  // [P, T, T], sums to 1 where there are any
};

void add_cell(Tensor& mask, size_t prompt, int64_t query, int64_t key) {
  mask.data_ptr<float>()[(static_cast<int64_t>(prompt) * mask.size(1) + query) * mask.size(2) + key] = 1;
}

// The last place before `query` where the same token stands, or -1.
int64_t find_copy(const std::vector<int64_t>& ids, int64_t query) {
  for (int64_t at = query - 1; at >= 0; --at) {
    if (ids[static_cast<size_t>(at)] == ids[static_cast<size_t>(query)]) return at;
  }
  return -1;
}

std::vector<Kind> list_kinds(const Task& task, int64_t tokens) {
  const auto prompts = static_cast<int64_t>(task.prompts.size());
  const auto empty = [&] { return at::zeros({prompts, tokens, tokens}); };
  Tensor previous = empty(), duplicate = empty(), induction = empty();
  for (size_t p = 0; p < task.prompts.size(); ++p) {
    for (int64_t query = 1; query < tokens; ++query) {
      add_cell(previous, p, query, query - 1);
      const int64_t copy = find_copy(task.prompts[p].clean, query);
      if (copy < 0) continue;
      add_cell(duplicate, p, query, copy);
      if (copy + 1 < query - 1) add_cell(induction, p, query, copy + 1);
    }
  }
  std::vector<Kind> kinds = {
      {"previous token", previous}, {"duplicate token", duplicate}, {"induction", induction}};
  for (const PlaceRole& place : kPlaceRoles) {
    Tensor cells = empty();
    for (size_t p = 0; p < task.prompts.size(); ++p) {
      const auto& places = task.prompts[p].places;
      const auto from = places.find(place.from), to = places.find(place.to);
      if (from != places.end() && to != places.end() && from->second < tokens)
        add_cell(cells, p, from->second, to->second);
    }
    kinds.push_back({place.role, cells});
  }
  std::erase_if(kinds, [](const Kind& kind) { return kind.weights.sum().item<double>() == 0; });
  for (Kind& kind : kinds) kind.weights = kind.weights / kind.weights.sum();
  return kinds;
}

// What one head adds to the stream, [P, T', D], when the layer's heads have gathered z [P, T', H, d].
Tensor head_part_of_stream(const Transformer& model, const Tensor& z, const HeadPlace& head) {
  const ModelConfig& config = model.config();
  const Tensor rows = model.layer(head.layer)
                          .attention_output.matrix()
                          .t()
                          .reshape({config.heads, config.head_size, config.width});
  if (config.norm_placement == NormPlacement::kBefore)
    return at::matmul(z.select(2, head.head), rows[head.head]);
  return norm_head_parts(model, head.layer, at::einsum("bthd,hdw->bthw", {z, rows}), 2).select(2, head.head);
}

// The metric lost when one head's output is taken out of the final stream alone.
double direct_effect(AblationRunner& runner, const Transformer& model, const HeadPlace& head) {
  const TaskMetricReader& reader = runner.reader();
  const int64_t from = reader.output_from(), count = reader.tokens() - from;
  const Tensor last =
      runner.recorded(true, Site::kResidPost, model.config().layers - 1).narrow(1, from, count);
  const Tensor z = runner.recorded(true, Site::kZ, head.layer).narrow(1, from, count);  // [P, T', H, d]
  const Tensor part = head_part_of_stream(model, z, head);
  return mean_of(runner.clean()) - mean_of(to_prompt_metrics(reader.read(last - part)[0]));
}

}  // namespace

std::vector<std::string> attention_kinds(const Task& task) {
  std::vector<std::string> names;
  for (const Kind& kind : list_kinds(task, task.last_read() + 1)) names.push_back(kind.name);
  return names;
}

std::vector<HeadRole> describe_heads(const Transformer& model, const Task& task, AblationRunner& runner,
                                     const std::vector<HeadPlace>& heads) {
  const at::NoGradGuard no_grad;
  const std::vector<Kind> kinds = list_kinds(task, runner.tokens());
  std::vector<HeadRole> roles;
  for (const HeadPlace& head : heads) {
    const Tensor A = runner.recorded(true, Site::kPattern, head.layer)
                         .select(1, head.head)
                         .to(at::kCPU, at::kFloat);  // [P, T, T]
    HeadRole role{.head = head, .role = "other", .attentions = {}};
    role.direct_effect = direct_effect(runner, model, head);
    for (const Kind& kind : kinds) {
      const double attention = (A * kind.weights).sum().item<double>();
      role.attentions.push_back(attention);
      if (attention < kRoleAttention || attention <= role.attention) continue;
      role.role = kind.name;
      role.attention = attention;
    }
    if (role.role == "mover" && role.direct_effect < 0) role.role = "negative mover";
    roles.push_back(std::move(role));
  }
  return roles;
}

}  // namespace openwork
