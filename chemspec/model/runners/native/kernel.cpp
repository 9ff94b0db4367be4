// CPU kernel: the encoder (prefill) and the forward pass of new nodes of the prefix trees; fp32, or int8 linear layers.
//
// Why not a library: at 1 to 30 new nodes a forward pass is bound by reading the weights and by operator overhead. Here weights
// that are exact in bfloat16 are read as such (same numbers, half the memory traffic), a pass is a few function calls, and
// attention walks a node's ancestors instead of masking all other nodes.
//
// On processors with a matrix unit (AMX), bfloat16 weights are multiplied there, as exactly as in fp32: an fp32 number is the sum
// of three bfloat16 numbers, so three products replace one, at a quarter of its cost.
//
// The kernel is bitwise batch-invariant: every row is computed by the same operations in the same order, so scores do not depend
// on batch, drafts or beams. The order of the sums:
// - linear layer: products in the order of the inputs, with fused multiply-adds if the processor has them, then the bias;
// - linear layer with AMX: inputs in blocks of 32, in order; for each block the three bfloat16 parts of x, largest first, each
//   as the unit adds its 16 pairs; then the bias;
// - attention: a score sums its products in 16 lanes, even and odd vectors of 16 features separately, then the two, then the lanes
//   of its head by halves; the softmax and the weighted sum of values add in the order of the keys;
// - norm and log-softmax: 16 lanes, each in the order of its numbers, then the lanes by halves (8, 4, 2, 1).
// Only fp32 linear layers use fused multiply-adds and AMX, so only they differ between instruction sets.
//
// Linear layers in int8 add integers, in any order. With them results are bitwise identical on every machine, with every
// instruction set, and in torch: `tests/programs/int8_reference.py` is the reference.
//
// Bottom-up: `vectors.h`, `threads.h`; memory and linear layers in `linear.h`, `linear_amx.h` and `linear_int8.h`; `layers.h`
// (norms, attention); `model.h` (weights, KV caches, layers). This file has the forward passes and the C interface for Python.
//
// Compiled at first use by `build.py` for this machine, called through ctypes. GCC or Clang.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "guarded.h"
#include "model.h"
#include "pages.h"
#include "processor.h"

namespace {

constexpr int ATTENTION = 3;  // rows per task of attention over ancestors

// Computes the keys and values of sources that the decoder reads: rows at these positions, each attends to those before it.
void read_prompts(LayerPass& pass, const int32_t* tokens, const int32_t* positions, float* memory_cache) {
  const Model& model = pass.model;
  const int inner = model.inner;
  const size_t stride = model.slot_stride();
  pass.embed(1, tokens, positions);
  for (size_t l = 0; l < model.decoder.size(); l++) {
    const Layer& layer = model.decoder[l];
    float* cached = memory_cache + 2 * l * inner;
    pass.apply(layer.qkv, pass.before(layer.norms[0]), model.width, pass.projected, pass.projected_width, KEEP);
    pass.turn(positions);
    pass.for_each_row(64, [&](int row) { std::memcpy(cached + row * stride, pass.projected + size_t(row) * pass.projected_width + inner, 2 * inner * sizeof(float)); });
    pass.for_each_row(ATTENTION, [&](int row) {
      const float* keys = cached + (row - positions[row]) * stride;
      pass.attend_one(layer, 1, pass.projected + size_t(row) * pass.projected_width, positions[row], positions[row] + 1, [&](int i) { return keys + i * stride; },
                      pass.attended + size_t(row) * inner);
    });
    pass.apply(layer.out, pass.attended, inner, pass.x, model.width, ADD);
    pass.after(layer.norms[0]);
    pass.ffn(layer, layer.norms[1]);
  }
}

// Encodes queries `from` to `to` of one memory cache; tokens: of all its queries.
void encode(Session& session, const int32_t* tokens, int from, int to) {
  Model& model = session.model;
  const int width = model.width, inner = model.inner, offset = session.queries[from].first, memory_stride = int(model.slot_stride());
  std::vector<int32_t> positions, owner;
  for (int q = from; q < to; q++)
    for (int i = 0; i < session.queries[q].length; i++) positions.push_back(i), owner.push_back(q);
  const auto lead = model.pool->lead();
  LayerPass pass(session, int(owner.size()));
  float* memory_cache = session.queries[from].memory_cache->data() + size_t(offset) * memory_stride;
  if (model.decoder_only()) return read_prompts(pass, tokens + offset, positions.data(), memory_cache);
  pass.embed(0, tokens + offset, positions.data());
  for (Layer& layer : model.encoder) {
    pass.apply(layer.qkv, pass.before(layer.norms[0]), width, pass.projected, pass.projected_width, KEEP);
    pass.for_each_group(owner.data(), [&](int row, int some) {
      const Query& query = session.queries[owner[row]];
      const float* keys = pass.projected + size_t(query.first - offset) * pass.projected_width + inner;
      for (int one = row; model.relative_vectors && one < row + some; one++)
        pass.attend_one(layer, 0, pass.projected + size_t(one) * pass.projected_width, positions[one], query.length, [&](int i) { return keys + size_t(i) * pass.projected_width; },
                        pass.attended + size_t(one) * inner);
      if (model.relative_vectors) return;
      attend(some, pass.projected + size_t(row) * pass.projected_width, pass.projected_width, query.length, [&](int i) { return keys + size_t(i) * pass.projected_width; },
             inner, pass.attended + size_t(row) * inner, inner, model.heads, model.bias(0, positions[row]));
    });
    pass.apply(layer.out, pass.attended, inner, pass.x, width, ADD);
    pass.after(layer.norms[0]);
    pass.ffn(layer, layer.norms[1]);
  }
  pass.apply(model.memory_projection, pass.finish(0), width, memory_cache, memory_stride, KEEP);
}

void best_tokens(const float* logits, int vocabulary, int count, int32_t* ids, float* log_probs) {
  thread_local Block<float> buffer;
  thread_local std::vector<int32_t> order;
  float max_logit = logits[0];
  for (int i = 1; i < vocabulary; i++) max_logit = std::max(max_logit, logits[i]);
  const int padded_size = (vocabulary + 15) / 16 * 16;
  float* shifted = buffer.reserve(padded_size);
  Sixteen sum = {};
  for (int i = 0; i < padded_size; i += 16) {
    float chunk[16];
    std::fill(chunk, chunk + 16, -INFINITY);
    std::memcpy(chunk, logits + i, std::min(16, vocabulary - i) * sizeof(float));
    const Sixteen value = load<Sixteen>(chunk) - max_logit;
    store(shifted + i, value);
    const Sixteen prob = exponential(value);
    sum = sum + prob;  // padding past the vocabulary adds e^-87, negligible compared with the best token's 1
  }
  const float log_sum = float(std::log(double(total(sum))));  // in fp64, where math libraries agree after rounding
  for (int i = 0; i < vocabulary; i++) shifted[i] -= log_sum;
  order.resize(vocabulary);
  for (int i = 0; i < vocabulary; i++) order[i] = i;
  std::partial_sort(order.begin(), order.begin() + count, order.end(),
                    [shifted](int32_t a, int32_t b) { return shifted[a] != shifted[b] ? shifted[a] > shifted[b] : a < b; });
  for (int i = 0; i < count; i++) ids[i] = order[i], log_probs[i] = shifted[order[i]];
}

}  // namespace

// --- C interface for Python -----------------------------------------------------------------------
// Every function that can run out of memory returns 0 (or null) instead of throwing.

extern "C" {

// Bits of `Processor`: whether this kernel runs on the processor at hand, and whether that has a matrix unit.
int chemspec_processor() { return processor(); }

void* chemspec_model(const int32_t* sizes, float eps, int threads) {
  Model* opened = nullptr;
  guarded([&] {
    auto model = std::make_unique<Model>();
    model->width = sizes[0], model->heads = sizes[1], model->feedforward = sizes[2], model->vocabulary = sizes[3];
    model->encoder.resize(sizes[4]), model->decoder.resize(sizes[5]);
    model->activation = Epilogue(sizes[6]), model->norm_first = sizes[7], model->final_norms = sizes[8], model->eps = eps;
    model->inner = sizes[9], model->max_positions = sizes[10], model->embedding_norm = sizes[11], model->centred = sizes[12];
    model->gated = sizes[13], model->relative_positions = sizes[14], model->forced_first = sizes[15], model->relative_vectors = sizes[16];
    model->pool = std::make_unique<ThreadPool>(threads);
    opened = model.release();
  });
  return opened;
}

void chemspec_model_free(void* handle) {
  Model* model = static_cast<Model*>(handle);
  if (model->pool && model->pool->forked()) model->pool.release();  // not destroyed, see `ThreadPool`
  delete model;
}

int chemspec_linear(void* model, int stack, int layer, int which, int out, int in, const float* weight, const float* bias, const BF16* weight16) {
  return guarded([&] { static_cast<Model*>(model)->linear_of(stack, layer, which)->set(out, in, weight, bias, weight16); });
}

// weight (out, in): integers from -127 to 127; scales (out).
int chemspec_linear_int8(void* model, int stack, int layer, int which, int out, int in, const int8_t* weight, const float* scales, const float* bias) {
  return guarded([&] { static_cast<Model*>(model)->linear_of(stack, layer, which)->set_int8(out, in, weight, scales, bias); });
}

int chemspec_norm(void* model, int stack, int layer, int which, const float* scale, const float* shift) {
  return guarded([&] {
    Model& opened = *static_cast<Model*>(model);
    Norm* norm = opened.norm_of(stack, layer, which);
    std::memcpy(norm->scale.reserve(opened.width), scale, opened.width * sizeof(float));
    std::memcpy(norm->shift.reserve(opened.width), shift, opened.width * sizeof(float));
  });
}

// data (rows, width), (rows, 16) for relative position biases, or (rows, inner / 2) for cosines and sines.
int chemspec_table(void* model, int which, const float* data, int rows) {
  return guarded([&] {
    Model& opened = *static_cast<Model*>(model);
    Block<float>* all[] = {&opened.source_table, &opened.target_table, &opened.source_positions, &opened.target_positions, &opened.distances[0], &opened.distances[1], &opened.cosines, &opened.sines};
    const size_t size = size_t(rows) * (which < 4 ? opened.width : which < 6 ? 16 : opened.inner / 2);
    std::memcpy(all[which]->reserve(size), data, size * sizeof(float));
  });
}

// data (2 relative_vectors + 1, inner): what is added to keys and values of a layer's self-attention, by distance.
int chemspec_vectors(void* model, int stack, int layer, const float* data) {
  return guarded([&] {
    Model& opened = *static_cast<Model*>(model);
    const size_t size = size_t(2 * opened.relative_vectors + 1) * opened.inner;
    std::memcpy((stack ? opened.decoder : opened.encoder)[layer].vectors.reserve(size), data, size * sizeof(float));
  });
}

void* chemspec_open(void* model) {
  void* session = nullptr;
  guarded([&] { session = new Session(*static_cast<Model*>(model)); });
  return session;
}

// Adds queries, which get the next query numbers. tokens: concatenated sources; lengths (queries).
int chemspec_join(void* handle, const int32_t* tokens, const int32_t* lengths, int queries) {
  return guarded([&] {
    Session& session = *static_cast<Session*>(handle);
    const int begin = int(session.queries.size()), end = begin + queries;
    const auto memory_cache = std::make_shared<MemoryCache>();
    session.queries.resize(end);
    int rows = 0;
    for (int q = begin; q < end; rows += session.queries[q++].length) {
      Query& query = session.queries[q];
      query.memory_cache = memory_cache, query.first = rows, query.length = lengths[q - begin];
    }
    memory_cache->reserve(size_t(rows) * session.model.slot_stride());
    const int max_rows = 4096;  // rows at once, to limit the size of activations
    for (int from = begin, to = begin; from < end; from = to) {
      for (rows = 0; to < end && (to == from || rows + session.queries[to].length <= max_rows); to++) rows += session.queries[to].length;
      encode(session, tokens, from, to);
    }
  });
}

void chemspec_close(void* session) { delete static_cast<Session*>(session); }

// Forward pass of new nodes, grouped by query; each takes its query's next slot. All arrays (rows). parents: slots, or -1.
//
// blocks: null, or for each row -1 or the number of its block of masks, whose rows are consecutive: a mask attends to its parent,
// the parent's ancestors and its whole block, and is not cached. The masks of a query come last.
// states: null, or output (rows, width) of the last hidden states.
int chemspec_run(void* handle, int rows, const int32_t* owner, const int32_t* tokens, const int32_t* depths, const int32_t* parents,
                 const int32_t* blocks, int count, int32_t* ids, float* log_probs, float* states) {
  return guarded([&] {
    Session& session = *static_cast<Session*>(handle);
    Model& model = session.model;
    const int width = model.width, inner = model.inner, layers = int(model.decoder.size()), slot_stride = int(model.slot_stride());
    session.path.clear(), session.path_start.clear();
    std::vector<int> first(session.queries.size(), -1), slots(rows), before(session.queries.size());
    std::vector<int32_t> places(depths, depths + rows);  // positions: without an encoder they follow the source
    for (int row = 0; row < rows && model.decoder_only(); row++) places[row] += session.queries[owner[row]].length;
    for (int row = 0; row < rows; row++) {
      Query& query = session.queries[owner[row]];
      if (first[owner[row]] < 0) first[owner[row]] = row, before[owner[row]] = query.slots;
      slots[row] = query.slots++;
      query.parents.push_back(parents[row]);
      session.path_start.push_back(int(session.path.size()));
      const bool mask = blocks && blocks[row] >= 0;
      for (int slot = mask ? parents[row] : slots[row]; slot >= 0; slot = query.parents[slot]) session.path.push_back(slot);
      std::reverse(session.path.begin() + session.path_start.back(), session.path.end());
      if (!mask) continue;
      int from = row, to = row + 1;
      while (from > 0 && blocks[from - 1] == blocks[row]) from--;
      while (to < rows && blocks[to] == blocks[row]) to++;
      for (int other = from; other < to; other++) session.path.push_back(slots[row] + other - row);
    }
    session.path_start.push_back(int(session.path.size()));
    for (size_t q = 0; q < session.queries.size(); q++)
      if (first[q] >= 0) session.queries[q].cache.reserve(size_t(session.queries[q].slots) * slot_stride, size_t(before[q]) * slot_stride);
    const auto lead = model.pool->lead();
    LayerPass pass(session, rows);
    const int vocabulary = model.vocabulary;
    float* logits = session.logits.reserve(size_t(rows) * vocabulary);
    pass.embed(1, tokens, places.data());
    for (int l = 0; l < layers; l++) {
      const Layer& layer = model.decoder[l];
      pass.apply(layer.qkv, pass.before(layer.norms[0]), width, pass.projected, pass.projected_width, KEEP);
      pass.turn(places.data());
      pass.for_each_row(ATTENTION, [&](int row) {
        Query& query = session.queries[owner[row]];
        const float* qkv = pass.projected + size_t(row) * pass.projected_width;
        std::memcpy(query.cache.data() + size_t(slots[row]) * slot_stride + size_t(2 * l) * inner, qkv + inner, 2 * inner * sizeof(float));
        const float* cached = query.cache.data() + size_t(2 * l) * inner;
        const float* fresh = pass.projected + size_t(first[owner[row]]) * pass.projected_width + inner;
        const int32_t* path = session.path.data() + session.path_start[row];
        const int old = before[owner[row]], count = session.path_start[row + 1] - session.path_start[row];
        // Other threads may still be writing the new slots of the cache, so these are read from the activations.
        const auto keys = [&](int i) { return path[i] < old ? cached + size_t(path[i]) * slot_stride : fresh + size_t(path[i] - old) * pass.projected_width; };
        float* out = pass.attended + size_t(row) * inner;
        if (!model.decoder_only()) return pass.attend_one(layer, 1, qkv, count - 1, count, keys, out);
        const int read = query.length;
        const float* source = query.memory_cache->data() + size_t(query.first) * slot_stride + size_t(2 * l) * inner;
        pass.attend_one(layer, 1, qkv, places[row], read + count, [&](int i) { return i < read ? source + size_t(i) * slot_stride : keys(i - read); }, out);
      });
      pass.apply(layer.out, pass.attended, inner, pass.x, width, ADD);
      pass.after(layer.norms[0]);
      if (model.decoder_only()) {
        pass.ffn(layer, layer.norms[1]);
        continue;
      }
      pass.apply(layer.cross, pass.before(layer.norms[1]), width, pass.projected, pass.projected_width, KEEP);
      pass.for_each_group(owner, [&](int row, int some) {
        const Query& query = session.queries[owner[row]];
        const float* keys = query.memory_cache->data() + size_t(query.first) * slot_stride + size_t(2 * l) * inner;
        attend(some, pass.projected + size_t(row) * pass.projected_width, pass.projected_width, query.length, [&](int i) { return keys + size_t(i) * slot_stride; }, inner,
               pass.attended + size_t(row) * inner, inner, model.heads, nullptr);
      });
      pass.apply(layer.cross_out, pass.attended, inner, pass.x, width, ADD);
      pass.after(layer.norms[1]);
      pass.ffn(layer, layer.norms[2]);
    }
    const float* last = pass.finish(1);
    if (states) std::memcpy(states, last, size_t(rows) * width * sizeof(float));
    pass.apply(model.output, last, width, logits, vocabulary, KEEP);
    pass.for_each_row(4, [&](int row) {
      float* row_logits = logits + size_t(row) * vocabulary;
      if (model.forced_first >= 0 && depths[row] == 0) std::fill(row_logits, row_logits + vocabulary, -1e4f), row_logits[model.forced_first] = 0.0f;
      best_tokens(row_logits, model.vocabulary, count, ids + size_t(row) * count, log_probs + size_t(row) * count);
    });
    for (int row = 0; blocks && row < rows; row++)
      if (blocks[row] >= 0) session.queries[owner[row]].slots--, session.queries[owner[row]].parents.pop_back();
  });
}

// Keeps these slots of a query, ascending, each with its parent, and renumbers them in this order; the others are evicted.
int chemspec_compact(void* handle, int owner, const int32_t* kept, int count) {
  return guarded([&] {
    Session& session = *static_cast<Session*>(handle);
    Query& query = session.queries[owner];
    const size_t slot_stride = session.model.slot_stride();
    std::vector<int32_t> renumbered(query.slots, -1), parents(count);
    for (int i = 0; i < count; i++) {
      renumbered[kept[i]] = i;
      parents[i] = query.parents[kept[i]] < 0 ? -1 : renumbered[query.parents[kept[i]]];
      std::memmove(query.cache.data() + i * slot_stride, query.cache.data() + kept[i] * slot_stride, slot_stride * sizeof(float));
    }
    query.parents = std::move(parents);
    query.slots = count;
  });
}

// Frees the memory of a finished query.
void chemspec_release(void* handle, int owner) {
  Query& query = static_cast<Session*>(handle)->queries[owner];
  query.cache = Block<float>();
  query.memory_cache.reset();
  query.parents.clear();
  query.slots = 0;
}
}
