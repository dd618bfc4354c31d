// The loss of next-token predictions, made from the hidden states before their logits: chunks of rows are
// walked, each with its logits, its losses and what it adds to the gradients, so that no tensor of [N, V] is
// ever in memory, in this pass or the one back.
//   z = h W^T + b          CE_n = log sum_v exp z_nv - z_n,target        P = softmax z, T of the teacher's
//   loss = mean_n CE_n + w sum_{n < M} KL_n        KL_n = sum_v T_nv (log T_nv - log P_nv)
// N dloss/dz_n = (1 + r) P_n - 1[target] - r T_n, r = w N in the first M rows and 0 after: known as soon as
// the logits are, and linear in what comes back to the loss. So the forward pass makes dh and dW too, and the
// backward pass only scales them: in place, once (a second pass back is refused). First derivatives only.
// Products are in h's dtype (a GPU's for dW end in float32); sums over the vocabulary, and over chunks for dW and db, in float32 at least.
#pragma once
#include <ATen/core/Tensor.h>

namespace openwork {

struct Unembedding {
  at::Tensor weight;  // W [V, d]
  at::Tensor bias;    // b [V], or undefined
};

// Whose probabilities the first M rows are to have; without gradients.
struct TeacherRows {
  at::Tensor hidden;  // [M, its d], M <= N; undefined: no teacher
  Unembedding unembedding;
  double weight = 0;  // w
};

struct PredictionLoss {
  at::Tensor loss;           // 0-dimensional, with its graph
  at::Tensor cross_entropy;  // [N] CE, without
  at::Tensor distance;       // [M] KL, without
};

// hidden [N, d], N > 0; targets [N] int64 in [0, V). A weight that asks for no gradient gets none made.
// chunk: rows at a time; 0: prediction_chunk.
PredictionLoss prediction_loss(const at::Tensor& hidden, const Unembedding& unembedding,
                               const at::Tensor& targets, const TeacherRows& teacher = {}, int64_t chunk = 0);

// Rows of logits that are made at a time.
int64_t prediction_chunk(int64_t V, at::ScalarType dtype, const at::Device& device);
// What a walk over N rows, `taught` of them with a teacher, holds at once beside its results, in bytes.
int64_t prediction_scratch(int64_t N, int64_t taught, int64_t V, at::ScalarType dtype,
                           const at::Device& device);

}  // namespace openwork
