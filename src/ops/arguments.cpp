// Checks gated_attention's arguments; see arguments.h.
#include "ops/arguments.h"

#include <ATen/ATen.h>

#include <cmath>

namespace openwork {
namespace {

void check_rank(const at::Tensor& tensor, const char* name, const char* shape, int64_t rank) {
  TORCH_CHECK(tensor.defined(), "gated_attention: ", name, " is undefined; a tensor ", shape, " is wanted");
  TORCH_CHECK(tensor.dim() == rank, "gated_attention: ", name, " has shape ", tensor.sym_sizes(), "; ", shape,
              " is wanted");
  TORCH_CHECK(tensor.layout() == at::kStrided, "gated_attention: ", name, " has layout ", tensor.layout(),
              "; a dense (strided) tensor is wanted");
}

void check_size(const at::Tensor& tensor, const char* name, int64_t dim, const c10::SymInt& wanted,
                const char* meaning) {
  TORCH_CHECK(tensor.sym_size(dim) == wanted, "gated_attention: ", name, " has shape ", tensor.sym_sizes(),
              "; its size ", dim, " must be ", wanted, " (", meaning, ")");
}

void check_like(const at::Tensor& tensor, const char* name, const at::Tensor& q) {
  TORCH_CHECK(tensor.device() == q.device(), "gated_attention: ", name, " is on ", tensor.device(),
              "; q's device ", q.device(), " is wanted");
}

void check_dtype(const at::Tensor& tensor, const char* name, at::ScalarType wanted) {
  TORCH_CHECK(tensor.scalar_type() == wanted, "gated_attention: ", name, " has dtype ", tensor.scalar_type(),
              "; ", wanted, " is wanted");
}

void check_shape_of_q(const at::Tensor& tensor, const char* name, const at::Tensor& q) {
  check_rank(tensor, name, "[B, H, T, d]", 4);
  const char* meanings[] = {"q's batch size", "q's heads", "q's tokens", "q's head size"};
  for (int64_t dim = 0; dim < 4; ++dim) check_size(tensor, name, dim, q.sym_size(dim), meanings[dim]);
  check_dtype(tensor, name, q.scalar_type());
  check_like(tensor, name, q);
}

void check_keys(const at::Tensor& tensor, const char* name, const at::Tensor& q, const at::Tensor& k) {
  check_rank(tensor, name, "[B, Hkv, T, d]", 4);
  check_size(tensor, name, 0, q.sym_size(0), "q's batch size");
  check_size(tensor, name, 1, k.sym_size(1), "k's heads");
  check_size(tensor, name, 2, q.sym_size(2), "q's tokens: attention here is of a sequence to itself");
  check_size(tensor, name, 3, q.sym_size(3), "q's head size");
  check_dtype(tensor, name, q.scalar_type());
  check_like(tensor, name, q);
}

// bias and idle: one number per head.
void check_per_head(const at::Tensor& tensor, const char* name, const at::Tensor& q) {
  check_rank(tensor, name, "[H]", 1);
  check_size(tensor, name, 0, q.sym_size(1), "one number per head of q");
  TORCH_CHECK(tensor.scalar_type() == at::kFloat || tensor.scalar_type() == q.scalar_type(),
              "gated_attention: ", name, " has dtype ", tensor.scalar_type(), "; float32 or q's ",
              q.scalar_type(), " is wanted");
  check_like(tensor, name, q);
}

// An argument of gated_inference that the gate wants, or refuses: one number per head.
void check_inference_gate(const std::optional<at::Tensor>& tensor, const char* name, bool wanted,
                          std::string_view gate, const at::Tensor& q) {
  const bool given = tensor && tensor->defined();
  TORCH_CHECK(given == wanted, "gated_inference: gate is '", gate, "' and ", name, " is ",
              given ? "given" : "missing", "; ", wanted ? "a tensor [H]" : "none", " is wanted");
  if (!given) return;
  TORCH_CHECK(tensor->dim() == 1 && tensor->sym_size(0) == q.sym_size(1), "gated_inference: ", name,
              " has shape ", tensor->sym_sizes(), "; one number for each of q's ", q.sym_size(1),
              " heads is wanted");
  TORCH_CHECK(tensor->scalar_type() == at::kFloat || tensor->scalar_type() == q.scalar_type(),
              "gated_inference: ", name, " has dtype ", tensor->scalar_type(), "; float32 or q's ",
              q.scalar_type(), " is wanted");
  TORCH_CHECK(tensor->device() == q.device(), "gated_inference: ", name, " is on ", tensor->device(),
              "; q's device ", q.device(), " is wanted");
}

}  // namespace

GateKind gate_of(std::string_view gate) {
  const auto kind = find_gate(gate);
  TORCH_CHECK(kind, "gated_attention: gate is '", gate, "'; ", kGateNames, " is wanted");
  return *kind;
}

GateKind inference_gate_of(std::string_view gate) {
  const auto kind = find_gate(gate);
  TORCH_CHECK(kind || gate == gate_name(GateKind::kNone), "gated_inference: gate is '", gate, "'; 'none', ",
              kGateNames, " is wanted");
  return kind.value_or(GateKind::kNone);
}

void check_gated_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           const at::Tensor& bias, const std::optional<at::Tensor>& idle,
                           std::string_view gate, int64_t first, double sharpness) {
  const bool has_idle = idle && idle->defined(), wants_idle = gate_of(gate) == GateKind::kIdle;
  check_rank(q, "q", "[B, H, T, d]", 4);
  const auto dtype = q.scalar_type();
  TORCH_CHECK(dtype == at::kFloat || dtype == at::kDouble || dtype == at::kBFloat16 || dtype == at::kHalf,
              "gated_attention: q has dtype ", dtype, "; float32, float64, bfloat16 or float16 is wanted");
  TORCH_CHECK(q.sym_size(1) > 0 && q.sym_size(3) > 0, "gated_attention: q has shape ", q.sym_sizes(),
              "; at least one head and a head size of at least 1 are wanted");
  check_keys(k, "k", q, k);
  check_keys(v, "v", q, k);
  TORCH_CHECK(k.sym_size(1) > 0 && q.sym_size(1) % k.sym_size(1) == 0, "gated_attention: k has ",
              k.sym_size(1), " heads; a divisor of q's ", q.sym_size(1), " is wanted");
  check_per_head(bias, "bias", q);
  TORCH_CHECK(has_idle || !wants_idle,
              "gated_attention: gate is 'idle' and idle is missing; a tensor [H] is "
              "wanted");
  TORCH_CHECK(wants_idle || !has_idle, "gated_attention: idle is given and gate is '", gate,
              "'; only gate 'idle' takes it");
  if (has_idle) check_per_head(*idle, "idle", q);
  TORCH_CHECK(first >= 0, "gated_attention: first is ", first, "; an index of at least 0 is wanted");
  TORCH_CHECK(sharpness == 1 || sharpness == 2 || sharpness == 4, "gated_attention: sharpness is ", sharpness,
              "; 1, 2 or 4 is wanted");
}

void check_gated_attention_backward(const at::Tensor& grad_out, const at::Tensor& grad_penalty,
                                    const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                    const at::Tensor& bias, const std::optional<at::Tensor>& idle,
                                    const at::Tensor& out, const at::Tensor& log_sum_exp,
                                    std::string_view gate, int64_t first, double sharpness) {
  check_gated_attention(q, k, v, bias, idle, gate, first, sharpness);
  check_shape_of_q(grad_out, "grad_out", q);
  check_shape_of_q(out, "out", q);
  check_rank(grad_penalty, "grad_penalty", "[B, H]", 2);
  check_rank(log_sum_exp, "log_sum_exp", "[B, H, T]", 3);
  const char* meanings[] = {"q's batch size", "q's heads", "q's tokens"};
  for (int64_t dim = 0; dim < 3; ++dim) {
    if (dim < 2) check_size(grad_penalty, "grad_penalty", dim, q.sym_size(dim), meanings[dim]);
    check_size(log_sum_exp, "log_sum_exp", dim, q.sym_size(dim), meanings[dim]);
  }
  check_dtype(grad_penalty, "grad_penalty", sum_dtype(q));
  check_dtype(log_sum_exp, "log_sum_exp", sum_dtype(q));
  check_like(grad_penalty, "grad_penalty", q);
  check_like(log_sum_exp, "log_sum_exp", q);
}

bool check_turns(const std::optional<at::Tensor>& cosine, const std::optional<at::Tensor>& sine,
                 const at::Tensor& q) {
  TORCH_CHECK(cosine.has_value() == sine.has_value(), "gated_attention: ", cosine ? "cosine" : "sine",
              " is given alone; both tables or none are wanted");
  if (!cosine) return false;
  for (const at::Tensor* table : {&*cosine, &*sine}) {
    const char* name = table == &*cosine ? "cosine" : "sine";
    check_rank(*table, name, "[T, half]", 2);
    check_size(*table, name, 0, q.sym_size(2), "q's tokens");
    check_size(*table, name, 1, cosine->sym_size(1), "cosine's");
    check_dtype(*table, name, q.scalar_type());
    check_like(*table, name, q);
  }
  TORCH_CHECK(cosine->sym_size(1) * 2 <= q.sym_size(3), "gated_attention: cosine has shape ",
              cosine->sym_sizes(), "; at most half of the head size ", q.sym_size(3), " is wanted to a row");
  return true;
}

void check_gated_inference(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           const std::optional<at::Tensor>& bias, const std::optional<at::Tensor>& idle,
                           const std::optional<at::Tensor>& key_of_query, std::string_view gate) {
  const GateKind kind = inference_gate_of(gate);
  TORCH_CHECK(q.dim() == 4 && k.dim() == 4 && k.sym_sizes() == v.sym_sizes() &&
                  q.sym_size(0) == k.sym_size(0) && q.sym_size(3) == k.sym_size(3) &&
                  q.sym_size(2) <= k.sym_size(2) && q.sym_size(3) > 0,
              "gated_inference: q has shape ", q.sym_sizes(), ", k ", k.sym_sizes(), " and v ", v.sym_sizes(),
              "; [B, H, T, d] and twice [B, G, K, d] with K >= T are wanted");
  const auto dtype = q.scalar_type();
  TORCH_CHECK(dtype == at::kFloat || dtype == at::kDouble || dtype == at::kBFloat16 || dtype == at::kHalf,
              "gated_inference: q has dtype ", dtype, "; float32, float64, bfloat16 or float16 is wanted");
  TORCH_CHECK(dtype == k.scalar_type() && dtype == v.scalar_type(),
              "gated_inference: q, k and v have dtypes ", q.scalar_type(), ", ", k.scalar_type(), " and ",
              v.scalar_type(), "; one is wanted");
  TORCH_CHECK(q.device() == k.device() && q.device() == v.device(), "gated_inference: q, k and v are on ",
              q.device(), ", ", k.device(), " and ", v.device(), "; one device is wanted");
  check_inference_gate(bias, "bias", kind != GateKind::kNone, gate, q);
  check_inference_gate(idle, "idle", kind == GateKind::kIdle, gate, q);
  if (!key_of_query) {
    TORCH_CHECK(k.sym_size(1) > 0 && q.sym_size(1) % k.sym_size(1) == 0, "gated_inference: ", q.sym_size(1),
                " heads over ", k.sym_size(1), " key/value heads; a multiple is wanted, or key_of_query");
    return;
  }
  TORCH_CHECK(key_of_query->dim() == 1 && key_of_query->sym_size(0) == q.sym_size(1) &&
                  key_of_query->scalar_type() == at::kLong && key_of_query->device() == q.device(),
              "gated_inference: key_of_query has shape ", key_of_query->sym_sizes(), ", dtype ",
              key_of_query->scalar_type(), " and is on ", key_of_query->device(), "; [", q.sym_size(1),
              "], int64 and q's device are wanted");
}

int64_t slope_width(at::ScalarType dtype, const c10::SymInt& head_size) {
  if (dtype != at::kBFloat16 && dtype != at::kHalf) return 0;
  const int64_t d = head_size.guard_int(__FILE__, __LINE__);
  if (d > 32 && d <= 64) return 64;
  return d > 96 && d <= 128 ? 128 : 0;
}

int64_t slope_width(const at::Tensor& q) {
  return slope_width(q.scalar_type(), q.sym_size(3));
}

bool wants_slopes(at::DeviceType device, GateKind gate, at::ScalarType dtype, const c10::SymInt& head_size) {
  return device == at::kCUDA && (gate == GateKind::kLogprob || gate == GateKind::kIdle) &&
         slope_width(dtype, head_size) > 0;
}

bool wants_slopes(const at::Tensor& q, std::string_view gate) {
  return wants_slopes(q.device().type(), gate_of(gate), q.scalar_type(), q.sym_size(3));
}

std::tuple<at::Tensor, at::Tensor> make_slopes(const at::Tensor& q, bool sampled, bool keep) {
  const auto B = q.sym_size(0), H = q.sym_size(1), T = q.sym_size(2);
  const auto sums = q.options().dtype(sum_dtype(q));
  return {keep && sampled ? at::empty_symint({B, H, T, slope_width(q)}, q.options())
                          : at::empty({0}, q.options()),
          keep ? at::empty_symint({B, H, T}, sums) : at::empty({0}, sums)};
}

bool check_slopes(const at::Tensor& slope_rows, const at::Tensor& slope_sums, const at::Tensor& q,
                  bool sampled) {
  if (slope_sums.sym_numel() == 0) return false;
  check_rank(slope_sums, "slope_sums", "[B, H, T]", 3);
  if (sampled) check_rank(slope_rows, "slope_rows", "[B, H, T, d]", 4);
  const char* meanings[] = {"q's batch size", "q's heads", "q's tokens"};
  for (int64_t dim = 0; dim < 3; ++dim) {
    check_size(slope_sums, "slope_sums", dim, q.sym_size(dim), meanings[dim]);
    if (sampled) check_size(slope_rows, "slope_rows", dim, q.sym_size(dim), meanings[dim]);
  }
  if (sampled) {
    check_size(slope_rows, "slope_rows", 3, slope_width(q), "q's head size, padded");
    check_dtype(slope_rows, "slope_rows", q.scalar_type());
    check_like(slope_rows, "slope_rows", q);
  }
  check_dtype(slope_sums, "slope_sums", sum_dtype(q));
  check_like(slope_sums, "slope_sums", q);
  return true;
}

double scale_of(const at::Tensor& q, std::optional<double> scale) {
  if (scale) return *scale;
  return 1 / std::sqrt(static_cast<double>(q.sym_size(3).guard_int(__FILE__, __LINE__)));
}

at::ScalarType sum_dtype(const at::Tensor& q) {
  return q.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

}  // namespace openwork
