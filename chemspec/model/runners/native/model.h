// A model's weights, a session's queries with their KV caches, and the forward pass of a batch of rows.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "layers.h"

namespace {

struct Layer {
  Linear qkv, out, cross, cross_out, ffn_up, ffn_down, ffn_gate;
  Norm norms[3];
  Block<float> vectors;  // added to keys and values by distance, if `relative_vectors`: (2 relative_vectors + 1, inner)
};

struct Model {
  int width, heads, inner, feedforward, vocabulary, max_positions;  // inner: features of all heads
  int norm_first, final_norms, embedding_norm, centred, gated, relative_positions, relative_vectors;
  int forced_first;  // the token that every output starts with, or -1
  Epilogue activation;
  float eps;
  std::vector<Layer> encoder, decoder;
  Norm before_stack[2], after_stack[2];
  Linear memory_projection, output;
  Block<float> source_table, target_table, source_positions, target_positions;
  Block<float> distances[2];  // of each stack, if `relative_positions`: their biases, (2 max_positions - 1, 16)
  Block<float> cosines, sines;  // of each position, if queries and keys are rotated: (positions, inner / 2)
  std::unique_ptr<ThreadPool> pool;

  // Without an encoder the decoder reads the source, then the answer, as one text.
  bool decoder_only() const { return encoder.empty(); }
  size_t slot_stride() const { return 2 * decoder.size() * size_t(inner); }  // of KV caches and memory caches

  Linear* linear_of(int stack, int layer, int which) {
    if (which == 6) return &memory_projection;
    if (which == 7) return &output;
    Layer& one_layer = (stack ? decoder : encoder)[layer];
    Linear* all[] = {&one_layer.qkv, &one_layer.out, &one_layer.cross, &one_layer.cross_out, &one_layer.ffn_up, &one_layer.ffn_down, nullptr, nullptr, &one_layer.ffn_gate};
    return all[which];
  }
  Norm* norm_of(int stack, int layer, int which) {
    return which == 4 ? &before_stack[stack] : which == 3 ? &after_stack[stack] : &(stack ? decoder : encoder)[layer].norms[which];
  }
  // Relative position biases of the token at `position`, from the key at position 0 on; 16 numbers per key.
  const float* bias(int stack, int position) const {
    return relative_positions ? distances[stack].data() + size_t(max_positions - 1 - position) * 16 : nullptr;
  }
};

// Cross-attention keys and values of queries that joined together, without an encoder those of self-attention; freed with the last.
using MemoryCache = Block<float>;  // (source tokens, layers, 2, inner)

struct Query {
  std::shared_ptr<MemoryCache> memory_cache;
  int first = 0, length = 0;     // its rows in `memory_cache`
  int slots = 0;                 // nodes in the KV cache
  std::vector<int32_t> parents;  // slot of each node's parent, or -1
  Block<float> cache;            // (slots, layers, {key, value}, inner), fp32 also in int8; feature i of head h at i * heads + h
};

struct Session {
  Model& model;
  std::vector<Query> queries;
  Block<float> x, normed, projected, attended, logits;
  ConvertedInputs inputs;
  std::vector<int32_t> path;    // ancestors and self of each new row, concatenated
  std::vector<int> path_start;  // start of each row's path

  explicit Session(Model& m) : model(m) {}
};

// Forward pass of a batch of rows: the parts common to encoder and decoder, pre-norm or post-norm.
struct LayerPass {
  Model& model;
  ThreadPool& pool;
  const int rows, width, inner, projected_width;
  float *x, *normed, *projected, *attended;  // activations (rows, width), likewise, (rows, projected_width), (rows, inner)
  ConvertedInputs& inputs;

  LayerPass(Session& session, int count)
      : model(session.model), pool(*model.pool), rows(count), width(model.width), inner(model.inner), projected_width(std::max(3 * inner, model.feedforward)),
        x(session.x.reserve(size_t(rows) * width)), normed(session.normed.reserve(size_t(rows) * width)),
        projected(session.projected.reserve(size_t(rows) * projected_width)), attended(session.attended.reserve(size_t(rows) * inner)), inputs(session.inputs) {}

  // Attention of one row to the first `count` positions, of which it is at `position`.
  template <class Keys>
  void attend_one(const Layer& layer, int stack, const float* q, int position, int count, const Keys& keys, float* out) {
    const int farthest = model.relative_vectors;
    const auto shift = [&](int i) { return layer.vectors.data() + size_t(std::clamp(i - position, -farthest, farthest) + farthest) * inner; };
    if (farthest) return attend<1>(q, 0, count, keys, inner, out, inner, model.heads, nullptr, shift);
    attend<1>(q, 0, count, keys, inner, out, inner, model.heads, model.bias(stack, position));
  }
  // Rotates queries and keys of rows at these positions; feature i of a head goes with i + half of its features.
  void turn(const int32_t* row_positions) {
    if (!model.cosines.data()) return;
    const int half = inner / 2;
    for_each_row(16, [&](int row) {
      const float *cosine = model.cosines.data() + size_t(row_positions[row]) * half, *sine = model.sines.data() + size_t(row_positions[row]) * half;
      for (float* left = projected + size_t(row) * projected_width; left < projected + size_t(row) * projected_width + 2 * inner; left += inner)
        for (int i = 0; i < half; i++) {
          const float x = left[i], y = left[i + half];
          left[i] = x * cosine[i] - y * sine[i], left[i + half] = y * cosine[i] + x * sine[i];
        }
    });
  }
  // Runs work(row) for each row, in tasks large enough to be distributed over threads.
  template <class Work>
  void for_each_row(int in_part, const Work& work) {
    pool.parallel_for((rows + in_part - 1) / in_part, [&](uint32_t part) {
      for (int row = int(part) * in_part; row < std::min(rows, (int(part) + 1) * in_part); row++) work(row);
    });
  }
  // Runs work on groups of at most TOGETHER consecutive rows of one query.
  template <class Work>
  void for_each_group(const int32_t* owner, const Work& work) {
    pool.parallel_for((rows + TOGETHER - 1) / TOGETHER, [&](uint32_t part) {
      const int end = std::min(rows, (int(part) + 1) * TOGETHER);
      for (int row = int(part) * TOGETHER, next; row < end; row = next) {
        for (next = row + 1; next < end && owner[next] == owner[row];) next++;
        work(row, next - row);
      }
    });
  }
  void norm(const Norm& norm, float* to) {
    for_each_row(32, [&](int row) { normalise(norm, x + size_t(row) * width, to + size_t(row) * width, width, model.eps, model.centred); });
  }
  const float* before(const Norm& layer_norm) {
    if (!model.norm_first) return x;
    norm(layer_norm, normed);
    return normed;
  }
  void after(const Norm& layer_norm) {
    if (!model.norm_first) norm(layer_norm, x);
  }
  const float* finish(int stack) {
    if (!model.final_norms) return x;
    norm(model.after_stack[stack], normed);
    return normed;
  }
  void apply(const Linear& layer, const float* from, int stride, float* to, int to_width, Epilogue mode) {
    linear(pool, layer, from, stride, rows, to, to_width, mode, inputs);
  }
  void ffn(const Layer& layer, const Norm& layer_norm) {
    const float* from = before(layer_norm);
    apply(layer.ffn_up, from, width, projected, projected_width, model.activation);
    if (model.gated) apply(layer.ffn_gate, from, width, projected, projected_width, TIMES);
    apply(layer.ffn_down, projected, projected_width, x, width, ADD);
    after(layer_norm);
  }
  void embed(int stack, const int32_t* tokens, const int32_t* row_positions) {
    const float* table = (stack ? model.target_table : model.source_table).data();
    const float* positions = (stack ? model.target_positions : model.source_positions).data();
    for_each_row(64, [&](int row) {
      const float *word = table + size_t(tokens[row]) * width, *position = positions + size_t(row_positions[row]) * width;
      for (int i = 0; i < width; i += 16) store(x + size_t(row) * width + i, load<Sixteen>(word + i) + load<Sixteen>(position + i));
    });
    if (model.embedding_norm) norm(model.before_stack[stack], x);
  }
};

}  // namespace
