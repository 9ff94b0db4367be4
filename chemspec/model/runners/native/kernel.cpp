// The encoder and the pass over new nodes of the prefix trees, for CPUs; fp32 arithmetic, or linear layers in int8.
//
// Why not a library: at 1 to 30 new nodes a pass is bound by reading the weights and by the hand-over between operators. Here
// weights that are exact in 16 bits (bfloat16, half precision) are read as such (the same numbers, half the traffic), a step is
// a few function calls, and attention visits a node's ancestors only instead of masking all others.
//
// Where the processor has a matrix unit (AMX), bfloat16 weights are multiplied there, still as exactly as in fp32: an fp32 number
// is the sum of three in bfloat16, to the last bit, so three products do the work of one, at a quarter of its cost.
//
// Every row is computed by the same operations in the same order whatever else is in the pass. So scores do not depend on
// batch, drafts or beams, to the last bit. The order of the sums:
// - linear layer: an output adds its products in the order of the inputs, one after the other, fused where the processor can, and
//   the bias last;
// - linear layer with AMX: inputs in blocks of 32, in order; of a block the three bfloat16 parts of x, the largest first, each
//   as the unit adds its 16 pairs; the bias last;
// - attention: a score adds its products in 16 lanes, even and odd vectors of 16 features apart, then the two, then the lanes
//   of its head by halves; the softmax and the mixture of values add in the order of the keys;
// - norm and log-softmax: 16 lanes, each in the order of its numbers, then the lanes by halves (8, 4, 2, 1).
// Nothing but linear layers in fp32 is fused: those differ between instruction sets, and with AMX; all else is the same everywhere.
//
// Linear layers in int8 add whole numbers, whose sum has no order. With them a pass gives the same bits on every machine, with
// every instruction set, and in torch: `chemspec/model/int8.py` is its definition.
//
// Compiled at first use by `build.py` for the machine at hand, called through ctypes. GCC or Clang.

#include <algorithm>
#include <atomic>
#include <cmath>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <type_traits>
#include <vector>

#include <sched.h>
#include <unistd.h>

#if defined(__AMX_TILE__) && defined(__linux__)
#define TILES 1  // a unit that multiplies matrices, tiles of 16 rows of 64 bytes
#include <sys/syscall.h>
#endif
#if defined(TILES) && defined(__AMX_BF16__) && defined(__AVX512BF16__)
#define TILES_BF16 1
#endif
#if defined(TILES) && defined(__AMX_INT8__) && defined(__AVX512VNNI__)
#define TILES_INT8 1
#endif

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace {

// --- vectors ------------------------------------------------------------------------------------

#if defined(__AVX512F__)
constexpr int LANES = 16, VECTORS = 4;  // numbers in a vector, vectors in a panel: 6 rows x 4 vectors of sums, in 32 registers
#elif defined(__AVX2__)
constexpr int LANES = 8, VECTORS = 2;  // 6 x 2 in 16 registers
#else
constexpr int LANES = 4, VECTORS = 4;
#endif
constexpr int PANEL = LANES * VECTORS;  // a panel: as many outputs of a linear layer as a register block computes, packed together
constexpr int ROWS = 6;  // most rows of a register block
constexpr int UPCAST_ROW_LIMIT = 6 * ROWS;  // up to so many rows, 16-bit weights are converted to fp32 in registers at each use
constexpr int PANELS_PER_TASK = 64 / PANEL;  // less work is not worth the hand-over to another thread

typedef float Lanes __attribute__((vector_size(LANES * 4)));
typedef int32_t Lanes32 __attribute__((vector_size(LANES * 4)));

template <class V>
inline V load(const float* from) {
  V value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

template <class V>
inline void store(float* to, V value) {
  std::memcpy(to, &value, sizeof value);
}

// Numbers in 16 bits, told apart by type.
struct FP16 {
  uint16_t bits;
};
struct BF16 {  // bfloat16, the upper half of an fp32 number
  uint16_t bits;
};

#if defined(__AVX512F__)
constexpr bool HAS_FP16 = true;
inline Lanes weights(const FP16* from) { return (Lanes)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i*)from)); }
#elif defined(__AVX2__) && defined(__F16C__)
constexpr bool HAS_FP16 = true;
inline Lanes weights(const FP16* from) { return (Lanes)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)from)); }
#elif defined(__aarch64__)
constexpr bool HAS_FP16 = true;
inline Lanes weights(const FP16* from) { return (Lanes)vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16((const uint16_t*)from))); }
#else
constexpr bool HAS_FP16 = false;
inline Lanes weights(const FP16*) { return Lanes{}; }
#endif

inline Lanes weights(const float* from) { return load<Lanes>(from); }

// sum + x y, rounded once where the processor can
inline Lanes fused(Lanes sum, Lanes x, Lanes y) {
#if defined(__AVX512F__)
  return (Lanes)_mm512_fmadd_ps((__m512)x, (__m512)y, (__m512)sum);
#elif defined(__AVX2__) && defined(__FMA__)
  return (Lanes)_mm256_fmadd_ps((__m256)x, (__m256)y, (__m256)sum);
#elif defined(__aarch64__)
  return (Lanes)vfmaq_f32((float32x4_t)sum, (float32x4_t)x, (float32x4_t)y);
#else
  return sum + x * y;
#endif
}

// One input's weights for a panel.
template <class W>
inline void read(const W* from, Lanes* columns) {
#pragma GCC unroll 8
  for (int v = 0; v < VECTORS; v++) columns[v] = weights(from + v * LANES);
}
// Two vectors lie interleaved, see `Linear::column_offset`: the lower halves of 32 bits are the first, the upper halves the second.
inline void read(const BF16* from, Lanes* columns) {
#pragma GCC unroll 8
  for (int v = 0; v < VECTORS; v += 2, from += 2 * LANES) {
    Lanes32 both;
    std::memcpy(&both, from, sizeof both);
    columns[v] = (Lanes)(both << 16);
    columns[v + 1] = (Lanes)(both & int32_t(0xffff0000));
  }
}

// e^x for x <= 0, relative error below 2e-7: x = n ln 2 + r, and a polynomial for e^r.
inline Lanes exponential(Lanes x) {
  x = x < -87.0f ? Lanes{} - 87.0f : x;
  const Lanes magic = Lanes{} + 12582912.0f;  // adding it rounds to an integer
  Lanes n = (x * 1.44269504f + magic) - magic;
  Lanes r = x - n * 0.693359375f;
  r = r + n * 2.12194440e-4f;
  Lanes p = Lanes{} + 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  return p * (Lanes)((__builtin_convertvector(n, Lanes32) + 127) << 23);
}

template <int BY>
inline Lanes rotate(Lanes x) {  // lane i of the result is lane i + BY of x
  Lanes32 places;
  for (int i = 0; i < LANES; i++) places[i] = (i + BY) % LANES;
#if defined(__clang__)
  Lanes y;
  for (int i = 0; i < LANES; i++) y[i] = x[places[i]];
  return y;
#else
  return __builtin_shuffle(x, places);
#endif
}

// Sixteen numbers, in which all but the linear layers count. In as many registers as it takes: compilers take vectors that are
// wider than a register apart number by number wherever it is not plain arithmetic.
constexpr int PARTS = 16 / LANES;

struct Sixteen {
  Lanes parts[PARTS];

  float operator[](int lane) const { return parts[lane / LANES][lane % LANES]; }
};

template <class Work>
inline Sixteen each_part(const Work& work) {
  Sixteen all;
#pragma GCC unroll 4
  for (int i = 0; i < PARTS; i++) all.parts[i] = work(i);
  return all;
}

// Not copied as a whole: compilers do that in smaller pieces, which the next load must wait for.
template <>
inline Sixteen load<Sixteen>(const float* from) {
  return each_part([=](int i) { return load<Lanes>(from + i * LANES); });
}
inline void store(float* to, const Sixteen& value) {
#pragma GCC unroll 4
  for (int i = 0; i < PARTS; i++) store(to + i * LANES, value.parts[i]);
}
inline Sixteen splat(float value) {
  return each_part([=](int) { return value - Lanes{}; });  // not plus: compilers would add, as -0 + 0 is 0
}
inline Sixteen operator+(const Sixteen& x, const Sixteen& y) {
  return each_part([&](int i) { return x.parts[i] + y.parts[i]; });
}
inline Sixteen operator-(const Sixteen& x, const Sixteen& y) {
  return each_part([&](int i) { return x.parts[i] - y.parts[i]; });
}
inline Sixteen operator*(const Sixteen& x, const Sixteen& y) {
  return each_part([&](int i) { return x.parts[i] * y.parts[i]; });
}
inline Sixteen operator-(const Sixteen& x, float y) {
  return each_part([&](int i) { return x.parts[i] - y; });
}
inline Sixteen operator*(const Sixteen& x, float y) {
  return each_part([&](int i) { return x.parts[i] * y; });
}
inline Sixteen operator/(float x, const Sixteen& y) {
  return each_part([&](int i) { return x / y.parts[i]; });
}
inline Sixteen larger(const Sixteen& x, const Sixteen& y) {
  return each_part([&](int i) { return x.parts[i] > y.parts[i] ? x.parts[i] : y.parts[i]; });
}
inline Sixteen exponential(const Sixteen& x) {
  return each_part([&](int i) { return exponential(x.parts[i]); });
}
// x + y z
inline Sixteen plus(const Sixteen& x, const Sixteen& y, const Sixteen& z) {
  return each_part([&](int i) { return x.parts[i] + y.parts[i] * z.parts[i]; });
}

template <int BY>
inline Sixteen fold_by(const Sixteen& x) {
  if constexpr (BY >= LANES)
    return each_part([&](int i) { return x.parts[i] + x.parts[(i + BY / LANES) % PARTS]; });
  else
    return each_part([&](int i) { return x.parts[i] + rotate<BY>(x.parts[i]); });
}

// Sums over all lanes that are equal modulo `heads`, in each of them.
inline Sixteen fold(Sixteen x, int heads) {
  if (heads <= 8) x = fold_by<8>(x);
  if (heads <= 4) x = fold_by<4>(x);
  if (heads <= 2) x = fold_by<2>(x);
  if (heads <= 1) x = fold_by<1>(x);
  return x;
}

inline float total(const Sixteen& x) { return fold(x, 1)[0]; }

// --- memory -------------------------------------------------------------------------------------

template <class T>
class Block {  // aligned to a cache line, grows, does not shrink
 public:
  Block() = default;
  Block(const Block&) = delete;
  Block& operator=(Block&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(room_, other.room_);
    return *this;
  }
  Block(Block&& other) noexcept : data_(other.data_), room_(other.room_) {
    other.data_ = nullptr;
    other.room_ = 0;
  }
  ~Block() { std::free(data_); }
  T* data() const { return data_; }
  T* reserve(size_t count, size_t kept = 0) {
    if (count > room_) {
      size_t room = std::max(count, room_ * 3 / 2);
      size_t bytes = (room * sizeof(T) + 63) / 64 * 64;
      T* fresh = static_cast<T*>(std::aligned_alloc(64, bytes));
      if (!fresh) throw std::bad_alloc();
      if (kept) std::memcpy(fresh, data_, kept * sizeof(T));
      std::free(data_);
      data_ = fresh;
      room_ = room;
    }
    return data_;
  }

 private:
  T* data_ = nullptr;
  size_t room_ = 0;
};

// --- threads ------------------------------------------------------------------------------------

inline void relax() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// A thread that computes a pass, and workers that take parts of its larger steps if they are free in time.
// A pass waits for a worker only while that computes a part: a core that is busy with something else costs speed but does not
// stall it. Workers spin for a while before they sleep.
class ThreadPool {
 public:
  explicit ThreadPool(int size) : owner_(getpid()) {
    workers_.reserve(std::max(0, size - 1));
    try {
      for (int member = 1; member < size; member++) workers_.emplace_back([this] { serve(); });
    } catch (const std::system_error&) {  // no more threads to be had
    }
  }
  // Not to be destroyed in a forked child, see `forked`.
  ~ThreadPool() {
    stop_ = true;
    {
      std::lock_guard<std::mutex> lock(sleeping_);
    }
    woken_.notify_all();
    for (auto& worker : workers_) worker.join();
  }
  // Whether this is a forked child, which has none of the workers; destroying what they wait for would never end.
  bool forked() const { return getpid() != owner_; }
  // A lock that a pass holds; sessions of one model take turns.
  std::unique_lock<std::mutex> lead() {
    std::unique_lock<std::mutex> lock(busy_);
    alone_ = workers_.empty() || forked();
    if (!alone_ && sleepers_.load() > 0) {
      std::lock_guard<std::mutex> asleep(sleeping_);
      calls_++;
      woken_.notify_all();
    }
    return lock;
  }
  // work(part) for every part below count, each once, by anybody; all are done when this returns.
  template <class Work>
  void parallel_for(uint32_t count, const Work& work) {
    if (alone_ || count < 2) {
      for (uint32_t part = 0; part < count; part++) work(part);
      return;
    }
    const uint32_t step = ++step_;
    Job& job = jobs_[step % JOBS];
    job.count.store(count, std::memory_order_relaxed);
    job.context.store(&work, std::memory_order_relaxed);
    job.call.store([](const void* context, uint32_t part) { (*static_cast<const Work*>(context))(part); }, std::memory_order_relaxed);
    done_.store(0, std::memory_order_relaxed);
    state_.store(uint64_t(step) << 32, std::memory_order_release);
    take(step);
    for (int spins = 0; done_.load(std::memory_order_acquire) != count; spins++) {
      if (spins < 1000) relax();
      else sched_yield();  // the operating system gave the core of whoever holds the last part to somebody else
    }
    if (failed_.exchange(false)) throw std::bad_alloc();
  }

 private:
  static constexpr int JOBS = 4;
  struct Job {
    std::atomic<uint32_t> count{0};
    std::atomic<const void*> context{nullptr};
    std::atomic<void (*)(const void*, uint32_t)> call{nullptr};
  };
  // Takes parts of a step until none is left. The step's number and the next part change together, so a part is never taken
  // from a step that is over, and a step is not over before its parts are done.
  void take(uint32_t step) {
    uint64_t state = state_.load(std::memory_order_acquire);
    while (uint32_t(state >> 32) == step) {
      Job& job = jobs_[step % JOBS];
      const uint32_t part = uint32_t(state);
      const auto call = job.call.load(std::memory_order_relaxed);
      const void* context = job.context.load(std::memory_order_relaxed);
      if (part >= job.count.load(std::memory_order_relaxed)) return;
      if (state_.compare_exchange_weak(state, state + 1, std::memory_order_acq_rel)) {
        try {
          call(context, part);
        } catch (...) {  // memory: told when all parts are done, for the others may still be at work
          failed_ = true;
        }
        done_.fetch_add(1, std::memory_order_acq_rel);
        state = state_.load(std::memory_order_acquire);
      }
    }
  }
  void serve() {
    uint32_t seen = 0;
    while (!stop_) {
      int spins = 0;
      while (uint32_t(state_.load(std::memory_order_acquire) >> 32) == seen && spins++ < 8000) relax();
      const uint32_t step = uint32_t(state_.load(std::memory_order_acquire) >> 32);
      if (step == seen) {
        std::unique_lock<std::mutex> lock(sleeping_);
        const uint64_t calls = calls_;
        sleepers_.fetch_add(1);
        woken_.wait(lock, [&] { return calls_ != calls || stop_; });
        sleepers_.fetch_sub(1);
      } else {
        take(step);
        seen = step;
      }
    }
  }

  const pid_t owner_;
  bool alone_ = true;
  uint32_t step_ = 0;
  uint64_t calls_ = 0;
  std::vector<std::thread> workers_;
  std::mutex busy_, sleeping_;
  std::condition_variable woken_;
  Job jobs_[JOBS];
  alignas(64) std::atomic<uint64_t> state_{0};
  alignas(64) std::atomic<uint32_t> done_{0};
  alignas(64) std::atomic<int> sleepers_{0};
  std::atomic<bool> stop_{false}, failed_{false};
};

// --- linear layers ------------------------------------------------------------------------------

// of x W' + b: store it, store its activation, add it to the output, or multiply the output by it
enum Epilogue { KEEP, RELU, GELU, GELU_TANH, ADD, TIMES };

enum Kind { FLOAT32, FLOAT16, BFLOAT16, AMX_TILES, INT8 };  // format of the weights; AMX_TILES: bfloat16 in the order of the matrix unit

enum Instructions { PLAIN, AVX2, AVX_VNNI, AVX512_VNNI, AMX, NEON_DOT };  // of linear layers in int8

struct Linear {
  int in = 0, out = 0, panels = 0;
  Kind kind = FLOAT32;
  Block<float> fp32, bias;  // fp32: (panels, in, PANEL)
  Block<FP16> fp16;         // the same in half precision
  Block<BF16> bf16;         // the same in bfloat16, or in tiles, see `pack_tiles`
  Block<int8_t> int8;       // see `set_int8`
  Block<int32_t> starts;    // of int8: what the sums of each output start from
  Block<float> scales;      // of int8: of each output

  // weight (rows, columns); weight16 is the same in 16 bits if that is exact, else null, in the format given.
  void set(int rows, int columns, const float* weight, const float* offset, const void* weight16, Kind format) {
    out = rows, in = columns, panels = (rows + PANEL - 1) / PANEL;
    kind = !weight16 || (format == FLOAT16 && !HAS_FP16) ? FLOAT32 : format;
    if (kind == BFLOAT16 && pack_tiles(static_cast<const BF16*>(weight16))) kind = AMX_TILES;
    if (kind == FLOAT32) pack(fp32, weight);
    if (kind == FLOAT16) pack(fp16, static_cast<const FP16*>(weight16));
    if (kind == BFLOAT16) pack(bf16, static_cast<const BF16*>(weight16));
    set_bias(offset, panels * PANEL);
  }
  void set_int8(int rows, int columns, const int8_t* weight, const float* row_scales, const float* offset, Instructions which);

 private:
  void set_bias(const float* offset, int size) {
    float* to = bias.reserve(size);
    for (int i = 0; i < size; i++) to[i] = offset && i < out ? offset[i] : 0.0f;
  }
  bool pack_tiles(const BF16* from);
  static int column_offset(int column, const void*) { return column; }
  static int column_offset(int column, const BF16*) {
    return column / (2 * LANES) * 2 * LANES + column % LANES * 2 + column / LANES % 2;
  }
  template <class T>
  void pack(Block<T>& block, const T* from) {
    const size_t size = size_t(panels) * in * PANEL;
    T* to = block.reserve(size);
    std::memset(to, 0, size * sizeof(T));
    for (int row = 0; row < out; row++)
      for (int k = 0; k < in; k++)
        to[(size_t(row / PANEL) * in + k) * PANEL + column_offset(row % PANEL, from)] = from[size_t(row) * in + k];
  }
};

// GELU by way of a hyperbolic tangent: x / (1 + e^-u), u = 2 sqrt(2 / pi) (x + 0.044715 x^3), from e^-|u|.
inline Lanes gelu_tanh(Lanes x) {
  const Lanes u = x * (x * x * 0.044715f + 1.0f) * 1.5957691f;
  const Lanes small = exponential(u < 0.0f ? u : -u);
  return x * (u < 0.0f ? small : Lanes{} + 1.0f) / (small + 1.0f);
}

// Applies `mode` to a vector of outputs and stores as many of them as are valid: the last panel may end in padding.
inline void finish(Lanes value, float* to, int valid, Epilogue mode) {
  if (valid <= 0) return;
  if (mode == RELU) value = value <= 0.0f ? Lanes{} : value;  // NaN stays NaN
  if (mode == GELU)
    for (int i = 0; i < LANES; i++) value[i] = 0.5f * value[i] * (1.0f + float(std::erf(double(value[i] * 0.70710678f))));
  if (mode == GELU_TANH) value = gelu_tanh(value);
  if (valid < LANES) {
    for (int i = 0; i < valid; i++) to[i] = mode == ADD ? to[i] + value[i] : mode == TIMES ? to[i] * value[i] : value[i];
    return;
  }
  if (mode == ADD) value = load<Lanes>(to) + value;
  if (mode == TIMES) value = load<Lanes>(to) * value;
  store(to, value);
}

// Adds the bias to the sums of one row of a panel, applies `mode`, and stores the first `columns`.
inline void epilogue(const Lanes* sums, const float* bias, float* to, int columns, Epilogue mode) {
#pragma GCC unroll 8
  for (int v = 0; v < VECTORS; v++) finish(sums[v] + load<Lanes>(bias + v * LANES), to + v * LANES, columns - v * LANES, mode);
}

// A register block: R rows x P panels, their sums in registers. Each sum adds its products in the order of the inputs, whatever R and P.
template <int R, int P, class W>
void register_block(const float* x, int stride, const W* w, int in, const float* bias, float* y, int width, int columns, Epilogue mode) {
  Lanes sums[P][R][VECTORS];
  for (auto& panel : sums)
    for (auto& row : panel)
      for (auto& sum : row) sum = Lanes{};
  const size_t next = size_t(in) * PANEL;
  for (int k = 0; k < in; k++, w += PANEL) {
#pragma GCC unroll 8
    for (int p = 0; p < P; p++) {
      Lanes column[VECTORS];
      read(w + p * next, column);
#pragma GCC unroll 8
      for (int r = 0; r < R; r++) {
        const float one = x[size_t(r) * stride + k];
#pragma GCC unroll 8
        for (int v = 0; v < VECTORS; v++) sums[p][r][v] = fused(sums[p][r][v], one - Lanes{}, column[v]);
      }
    }
  }
  for (int p = 0; p < P; p++)
    for (int r = 0; r < R; r++) epilogue(sums[p][r], bias + p * PANEL, y + size_t(r) * width + p * PANEL, columns - p * PANEL, mode);
}

// R rows of `panels` panels; of few rows several panels at a time, because a sum must wait for its last product.
template <int R, class W>
void strip(const float* x, int stride, const W* w, int in, int panels, const float* bias, float* y, int width, int columns, Epilogue mode) {
  constexpr int P = std::max(1, 8 / (R * VECTORS));
  int p = 0;
  const auto at = [&](auto many) {
    register_block<R, decltype(many)::value>(x, stride, w + size_t(p) * in * PANEL, in, bias + p * PANEL, y + p * PANEL, width, columns - p * PANEL, mode);
    p += many;
  };
  while (p + P <= panels) at(std::integral_constant<int, P>());
  while (p < panels) at(std::integral_constant<int, 1>());
}

template <class W>
void strips(const float* x, int stride, int rows, const W* w, int in, int panels, const float* bias, float* y, int width, int columns, Epilogue mode) {
  for (int left = (rows + ROWS - 1) / ROWS; left > 0; left--) {  // of like heights: low ones are slow
    const int some = (rows + left - 1) / left;
    switch (some) {
      case 6: strip<6>(x, stride, w, in, panels, bias, y, width, columns, mode); break;
      case 5: strip<5>(x, stride, w, in, panels, bias, y, width, columns, mode); break;
      case 4: strip<4>(x, stride, w, in, panels, bias, y, width, columns, mode); break;
      case 3: strip<3>(x, stride, w, in, panels, bias, y, width, columns, mode); break;
      case 2: strip<2>(x, stride, w, in, panels, bias, y, width, columns, mode); break;
      default: strip<1>(x, stride, w, in, panels, bias, y, width, columns, mode);
    }
    rows -= some, x += size_t(some) * stride, y += size_t(some) * width;
  }
}

// As `strips`, for 16-bit weights: for many rows, a panel is converted to fp32 once for all of them.
template <class W>
void strips_upcast(const float* x, int stride, int rows, const W* w, int in, int panels, const float* bias, float* y, int width, int columns, Epilogue mode) {
  if (rows <= UPCAST_ROW_LIMIT) return strips(x, stride, rows, w, in, panels, bias, y, width, columns, mode);
  thread_local Block<float> upcast;
  const size_t count = size_t(in) * PANEL;
  float* floats = upcast.reserve(count);
  for (int p = 0; p < panels; p++, w += count) {
    for (size_t i = 0; i < count; i += PANEL) {
      Lanes column[VECTORS];
      read(w + i, column);
      for (int v = 0; v < VECTORS; v++) store(floats + i + v * LANES, column[v]);
    }
    strips(x, stride, rows, floats, in, 1, bias + p * PANEL, y + p * PANEL, width, columns - p * PANEL, mode);
  }
}

#ifdef TILES

constexpr int TALL = 16;  // most rows of a tile

bool tiles_allowed() {  // the operating system saves the unit's registers for those who ask
  static const bool yes = syscall(SYS_arch_prctl, 0x1023 /* ARCH_REQ_XCOMP_PERM */, 18 /* XTILEDATA */) == 0;
  return yes;
}

// The compiler does not know what tile instructions read; this makes it write to memory first.
inline void written(const void* at) { asm volatile("" ::"r"(at) : "memory"); }

void shape_tiles(int rows) {  // tiles 0 to 3: sums, 4 and 5: weights, 6: x
  struct alignas(64) {
    uint8_t palette = 1, start = 0, unused[14] = {};
    uint16_t bytes[16] = {};
    uint8_t rows[16] = {};
  } shape;
  for (int t = 0; t < 7; t++) shape.bytes[t] = 64, shape.rows[t] = uint8_t(t == 4 || t == 5 ? TALL : rows);
  written(&shape);
  _tile_loadconfig(&shape);
}

#endif

#ifdef TILES_BF16

// A product takes rows of x (16 x 32), weights (32 x 16, as 16 pairs of inputs x 16 outputs x 2) and adds to sums (16 x 16 in
// fp32). Each row of the sums depends on its row of x alone, whatever number of rows is computed.
constexpr int DEEP = 32, TILE = TALL * DEEP, PIECES = 3;

// Packed as (panels, blocks of inputs, VECTORS, TILE).
bool Linear::pack_tiles(const BF16* from) {
  if (!tiles_allowed()) return false;
  const int blocks = (in + DEEP - 1) / DEEP;
  const size_t size = size_t(panels) * blocks * VECTORS * TILE;
  BF16* to = bf16.reserve(size);
  std::memset(to, 0, size * sizeof(BF16));
  for (int row = 0; row < out; row++)
    for (int k = 0; k < in; k++) {
      const size_t which = (size_t(row / PANEL) * blocks + k / DEEP) * VECTORS + row % PANEL / LANES;
      to[which * TILE + k % DEEP / 2 * DEEP + row % LANES * 2 + k % 2] = from[size_t(row) * in + k];
    }
  return true;
}

// Splits a row of fp32 into three rows of bfloat16 whose sum it is; `to` is (blocks of inputs, PIECES, TILE), of which a row in each.
void split_bf16(const float* x, int in, BF16* to) {
  for (int k = 0; k < in; k += DEEP, to += PIECES * TILE) {
    const int left = in - k;
    __m512 low = _mm512_maskz_loadu_ps(left >= 16 ? 0xffff : (1u << left) - 1, x + k);
    __m512 high = left > 16 ? _mm512_maskz_loadu_ps(left >= 32 ? 0xffff : (1u << (left - 16)) - 1, x + k + 16) : _mm512_setzero_ps();
    for (int piece = 0; piece < PIECES; piece++) {
      const __m512i both = (__m512i)_mm512_cvtne2ps_pbh(high, low);
      _mm512_store_si512(to + piece * TILE, both);
      low = _mm512_sub_ps(low, (__m512)_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm512_castsi512_si256(both)), 16));
      high = _mm512_sub_ps(high, (__m512)_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(both, 1)), 16));
    }
  }
}

// A macro because the numbers of tiles are part of the instructions.
#define TWO_SUMS(left, right, weight, pieces)   \
  _tile_loadd(4, weight, 64);                   \
  _tile_loadd(5, weight + TILE, 64);            \
  for (int piece = 0; piece < PIECES; piece++) { \
    _tile_loadd(6, pieces + piece * TILE, 64);  \
    _tile_dpbf16ps(left, 6, 4);                 \
    _tile_dpbf16ps(right, 6, 5);                \
  }

// One panel of outputs, from x as `split_bf16` leaves it: (blocks of rows, blocks of inputs, PIECES, TILE).
void amx_panel(const BF16* pieces, int rows, const BF16* w, int in, const float* bias, float* y, int width, int columns, Epilogue mode) {
  static_assert(VECTORS == 4 && LANES == TALL, "four sums a panel");
  alignas(64) float sums[TALL][PANEL];
  const int blocks = (in + DEEP - 1) / DEEP;
  written(pieces);
  for (int row = 0; row < rows; row += TALL, y += size_t(TALL) * width) {
    const int some = std::min(TALL, rows - row);
    if (row == 0 || some < TALL) shape_tiles(some);
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    const BF16* weight = w;
    for (int block = 0; block < blocks; block++, weight += VECTORS * TILE, pieces += PIECES * TILE) {
      TWO_SUMS(0, 1, weight, pieces)
      TWO_SUMS(2, 3, weight + 2 * TILE, pieces)
    }
    _tile_stored(0, sums[0], sizeof sums[0]);
    _tile_stored(1, sums[0] + 16, sizeof sums[0]);
    _tile_stored(2, sums[0] + 32, sizeof sums[0]);
    _tile_stored(3, sums[0] + 48, sizeof sums[0]);
    for (int r = 0; r < some; r++) epilogue(reinterpret_cast<const Lanes*>(sums[r]), bias, y + size_t(r) * width, columns, mode);
  }
  _tile_release();
}

void amx_linear(ThreadPool& pool, const Linear& layer, const float* x, int stride, int rows, float* y, int width, Epilogue mode, Block<BF16>& room) {
  const size_t blocks = (layer.in + DEEP - 1) / DEEP, tall = (rows + TALL - 1) / TALL;
  BF16* pieces = room.reserve(tall * blocks * PIECES * TILE);
  const auto apart = [&](uint32_t part) {
    for (int row = int(part) * TALL; row < std::min(rows, int(part + 1) * TALL); row++)
      split_bf16(x + size_t(row) * stride, layer.in, pieces + size_t(part) * blocks * PIECES * TILE + row % TALL * DEEP);
  };
  pool.parallel_for(uint32_t(tall), apart);
  pool.parallel_for(layer.panels, [&](uint32_t p) {
    amx_panel(pieces, rows, layer.bf16.data() + p * blocks * VECTORS * TILE, layer.in, layer.bias.data() + size_t(p) * PANEL,
                y + size_t(p) * PANEL, width, std::min(PANEL, layer.out - int(p) * PANEL), mode);
  });
}

#else

bool Linear::pack_tiles(const BF16*) { return false; }
void amx_linear(ThreadPool&, const Linear&, const float*, int, int, float*, int, Epilogue, Block<BF16>&) {}

#endif

// --- linear layers in int8 ----------------------------------------------------------------------
//
// x and W are whole numbers from -127 to 127 times a scale: one for each row of x, found here, and one for each output. Four
// inputs are one 32-bit number, for that is what instructions take. Of each output there is a 32-bit sum.

constexpr int WIDE = 64, QUAD = 4;  // outputs of an int8 panel, inputs that are multiplied together
constexpr int DEPTH = 64;           // inputs of a tile; rows have whole numbers of so many, the last ones zero

inline int32_t quad(const uint8_t* x) {
  int32_t four;
  std::memcpy(&four, x, QUAD);
  return four;
}

// What one set of instructions does: adds the products of a row's four inputs, as `input` prepares them, and of `OUTPUTS` outputs'
// weights to sums. A block is ROWS x VECTORS of these, as registers allow. SHIFT is added to the inputs where instructions take
// unsigned ones; the sums start below zero by what that adds to them.
struct PlainProduct {
  static constexpr int OUTPUTS = 16, VECTORS = 1, ROWS = 2, SHIFT = 0;
  typedef int32_t Sums __attribute__((vector_size(OUTPUTS * 4), may_alias));
  typedef int8_t Weights __attribute__((vector_size(OUTPUTS * 4), may_alias));
  typedef const uint8_t* Input;
  static Input input(const uint8_t* x) { return x; }
  static void add(Sums& sums, const Weights& w, Input x) {
    for (int o = 0; o < OUTPUTS; o++) {
      int32_t sum = 0;
      for (int i = 0; i < QUAD; i++) sum += int(int8_t(x[i])) * int(w[o * QUAD + i]);
      sums[o] += sum;
    }
  }
};

#if defined(__AVX2__)
// Adds pairs of byte products in 16 bits, which two of 127 x 127 just fit into: |x| times w with the sign of x.
struct Avx2Product {
  static constexpr int OUTPUTS = 8, VECTORS = 2, ROWS = 4, SHIFT = 0;
  typedef __m256i Sums;
  typedef __m256i Weights;
  typedef __m256i Input;
  static Input input(const uint8_t* x) { return _mm256_set1_epi32(quad(x)); }
  static void add(Sums& sums, Weights w, Input x) {
    const __m256i pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(x), _mm256_sign_epi8(w, x));
    sums = _mm256_add_epi32(sums, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
  }
};
#endif

// Written as assembly because GCC 12 moves the sums of the intrinsic from register to register, and to memory.

#if defined(__AVXVNNI__)
struct AvxVnniProduct {
  static constexpr int OUTPUTS = 8, VECTORS = 2, ROWS = 6, SHIFT = 128;
  typedef __m256i Sums;
  typedef __m256i Weights;
  typedef __m256i Input;
  static Input input(const uint8_t* x) { return _mm256_set1_epi32(quad(x)); }
  static void add(Sums& sums, Weights w, Input x) { asm("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sums) : "x"(x), "x"(w)); }
};
#endif

#if defined(__AVX512VNNI__)
struct Avx512VnniProduct {
  static constexpr int OUTPUTS = 16, VECTORS = 4, ROWS = 6, SHIFT = 128;
  typedef __m512i Sums;
  typedef __m512i Weights;
  typedef __m512i Input;
  static Input input(const uint8_t* x) { return _mm512_set1_epi32(quad(x)); }
  static void add(Sums& sums, Weights w, Input x) { asm("vpdpbusd %2, %1, %0" : "+v"(sums) : "v"(x), "v"(w)); }
};
#endif

#ifdef TILES_INT8
// Of so many rows on in tiles. Of fewer, vectors are faster: a product of tiles takes its time whatever their height, and the next
// one for the same sums waits for it. They take the same inputs and weights, and give the same sums.
struct AmxProduct : Avx512VnniProduct {
  static constexpr int FROM = 4;
};
#endif

#if defined(__ARM_FEATURE_DOTPROD)
struct NeonDotProduct {
  static constexpr int OUTPUTS = 4, VECTORS = 4, ROWS = 6, SHIFT = 0;
  typedef int32x4_t Sums;
  typedef int8x16_t Weights;
  typedef int8x16_t Input;
  static Input input(const uint8_t* x) { return vreinterpretq_s8_s32(vdupq_n_s32(quad(x))); }
  static void add(Sums& sums, Weights w, Input x) { sums = vdotq_s32(sums, w, x); }
};
#endif

// Calls work(product) with the product of these instructions, if they are compiled in.
template <class Work>
bool with_product(Instructions which, const Work& work) {
  if (which == PLAIN) return work(PlainProduct()), true;
#if defined(__AVX2__)
  if (which == AVX2) return work(Avx2Product()), true;
#endif
#if defined(__AVXVNNI__)
  if (which == AVX_VNNI) return work(AvxVnniProduct()), true;
#endif
#if defined(__AVX512VNNI__)
  if (which == AVX512_VNNI) return work(Avx512VnniProduct()), true;
#endif
#ifdef TILES_INT8
  if (which == AMX) return work(AmxProduct()), true;
#endif
#if defined(__ARM_FEATURE_DOTPROD)
  if (which == NEON_DOT) return work(NeonDotProduct()), true;
#endif
  return false;
}

inline int quads(int in) { return (in + QUAD - 1) / QUAD; }

// Packs as (panels, quads of inputs, WIDE, QUAD), and what a tile may read beyond.
void Linear::set_int8(int rows, int columns, const int8_t* weight, const float* row_scales, const float* offset, Instructions which) {
  int shift = 0;
  with_product(which, [&](auto product) { shift = product.SHIFT; });
  out = rows, in = columns, panels = (rows + WIDE - 1) / WIDE, kind = INT8;
  const int padded = panels * WIDE;
  const size_t size = size_t(padded) * quads(in) * QUAD;
  const size_t beyond = WIDE * DEPTH;
  std::memset(int8.reserve(size + beyond), 0, size + beyond);
  std::memset(starts.reserve(padded), 0, padded * sizeof(int32_t));
  std::memset(scales.reserve(padded), 0, padded * sizeof(float));
  std::memcpy(scales.data(), row_scales, out * sizeof(float));
  for (int row = 0; row < out; row++)
    for (int k = 0; k < in; k++) {
      const int8_t value = weight[size_t(row) * in + k];
      int8.data()[((size_t(row / WIDE) * quads(in) + k / QUAD) * WIDE + row % WIDE) * QUAD + k % QUAD] = value;
      starts.data()[row] -= shift * value;
    }
  set_bias(offset, padded);
}

inline void lowest_bytes(Lanes32 from, uint8_t* to) {
#if defined(__AVX512F__)
  _mm_storeu_si128((__m128i*)to, _mm512_cvtepi32_epi8((__m512i)from));
#else
  typedef uint8_t Bytes __attribute__((vector_size(LANES)));
  const Bytes bytes = __builtin_convertvector(from, Bytes);
  std::memcpy(to, &bytes, sizeof bytes);
#endif
}

// Rounds a row to whole numbers, to which `shift` is added, and returns its scale: no number if one of the row is none. What follows
// up to `padded` is zero.
float quantise(const float* x, int in, uint8_t* to, int padded, int shift) {
  const int whole = in / LANES * LANES;
  Lanes even = {}, odd = {};
  // Absolute values are ordered as their bits are, where what is no number is the largest.
  const auto larger = [](Lanes x, Lanes y) { return (Lanes)((Lanes32)x > (Lanes32)y ? (Lanes32)x : (Lanes32)y); };
  const auto size = [](const float* from) { return (Lanes)((Lanes32)load<Lanes>(from) & 0x7fffffff); };
  int at = 0;
  for (; at + 2 * LANES <= whole; at += 2 * LANES) even = larger(size(x + at), even), odd = larger(size(x + at + LANES), odd);
  if (at < whole) even = larger(size(x + at), even);
  even = larger(even, odd);
  if (LANES > 8) even = larger(even, rotate<LANES / 2>(even));
  if (LANES > 4) even = larger(even, rotate<4>(even));
  even = larger(even, rotate<2>(even));
  float largest = larger(even, rotate<1>(even))[0];
  for (int i = whole; i < in; i++) largest = largest >= std::fabs(x[i]) || std::isnan(largest) ? largest : std::fabs(x[i]);
  const float factor = largest > 1e-30f ? 127.0f / largest : 0.0f;
  const float magic = 12582912.0f;  // adding it rounds to an integer, ties to even, in the lowest bits
  for (int i = 0; i < whole; i += LANES) {
    const Lanes32 bits = (Lanes32)(load<Lanes>(x + i) * factor + magic) + shift;
    lowest_bytes(bits, to + i);
  }
  for (int i = whole; i < quads(in) * QUAD; i++) {
    const float sum = (i < in ? x[i] * factor : 0.0f) + magic;
    int32_t bits;
    std::memcpy(&bits, &sum, sizeof bits);
    to[i] = uint8_t(bits + shift);
  }
  std::memset(to + quads(in) * QUAD, 0, padded - quads(in) * QUAD);
  return largest / 127.0f;
}

// Sums of R rows of P panels.
template <class Product, int R, int P>
inline void int8_sums(const uint8_t* x, int stride, const int8_t* w, int groups, const int32_t* starts, int32_t (*sums)[R][WIDE]) {
  constexpr int V = Product::VECTORS, O = Product::OUTPUTS;
  typedef typename Product::Sums Sums;
  typedef typename Product::Weights Weights;
  const size_t next = size_t(groups) * WIDE * QUAD;
  for (int part = 0; part < WIDE; part += V * O) {
    Sums sum[P][R][V];
#pragma GCC unroll 8
    for (int p = 0; p < P; p++)
#pragma GCC unroll 8
      for (int r = 0; r < R; r++)
#pragma GCC unroll 8
        for (int v = 0; v < V; v++) sum[p][r][v] = *reinterpret_cast<const Sums*>(starts + p * WIDE + part + v * O);
    const int8_t* at = w + part * QUAD;
    for (int g = 0; g < groups; g++, at += WIDE * QUAD) {
      Weights weights[P][V];
#pragma GCC unroll 8
      for (int p = 0; p < P; p++)
#pragma GCC unroll 8
        for (int v = 0; v < V; v++) weights[p][v] = *reinterpret_cast<const Weights*>(at + p * next + v * O * QUAD);
#pragma GCC unroll 8
      for (int r = 0; r < R; r++) {
        const typename Product::Input input = Product::input(x + size_t(r) * stride + g * QUAD);
#pragma GCC unroll 8
        for (int p = 0; p < P; p++)
#pragma GCC unroll 8
          for (int v = 0; v < V; v++) Product::add(sum[p][r][v], weights[p][v], input);
      }
    }
#pragma GCC unroll 8
    for (int p = 0; p < P; p++)
#pragma GCC unroll 8
      for (int r = 0; r < R; r++)
#pragma GCC unroll 8
        for (int v = 0; v < V; v++) *reinterpret_cast<Sums*>(sums[p][r] + part + v * O) = sum[p][r][v];
  }
}

// Rows in int8, with a scale each.
struct Int8Rows {
  const uint8_t* x;
  const float* scales;
  int count, stride;
};

// Outputs of `some` rows of a panel: sum x scale of the row x scale of the output + bias.
inline void int8_outputs(const Linear& layer, const Int8Rows& rows, int first, int some, int panel, const int32_t (*sums)[WIDE], float* y,
                         int width, Epilogue mode) {
  for (int r = 0; r < some; r++)
#pragma GCC unroll 4
    for (int i = 0; i < WIDE; i += LANES) {
      const int output = panel * WIDE + i;
      Lanes32 whole;
      std::memcpy(&whole, sums[r] + i, sizeof whole);
      const Lanes value = __builtin_convertvector(whole, Lanes) * rows.scales[first + r] * load<Lanes>(layer.scales.data() + output);
      finish(value + load<Lanes>(layer.bias.data() + output), y + size_t(first + r) * width + output, layer.out - output, mode);
    }
}

// Of R rows of P panels, the first of which is `panel`.
template <class Product, int R, int P>
void int8_block(const Linear& layer, const Int8Rows& rows, int first, int panel, float* y, int width, Epilogue mode) {
  alignas(64) int32_t sums[P][R][WIDE];
  const int groups = quads(layer.in), start = panel * WIDE;
  int8_sums<Product, R, P>(rows.x + size_t(first) * rows.stride, rows.stride, layer.int8.data() + size_t(start) * groups * QUAD, groups,
                           layer.starts.data() + start, sums);
  for (int p = 0; p < P; p++) int8_outputs(layer, rows, first, R, panel + p, sums[p], y, width, mode);
}

// `some` rows, at most R, of P panels.
template <class Product, int R, int P>
void int8_rows(int some, const Linear& layer, const Int8Rows& rows, int first, int panel, float* y, int width, Epilogue mode) {
  if constexpr (R > 1)
    if (some < R) return int8_rows<Product, R - 1, P>(some, layer, rows, first, panel, y, width, mode);
  int8_block<Product, R, P>(layer, rows, first, panel, y, width, mode);
}

#ifdef TILES_INT8

// Of `some` rows of a panel, in tiles of that height. Of a product x is (some, 64 inputs), weights (16 quads, 16 outputs x 4), and
// sums (some, 16 outputs).
void tile_block(const Linear& layer, const Int8Rows& rows, int first, int some, int panel, float* y, int width, Epilogue mode) {
  static_assert(WIDE == 4 * TALL && DEPTH == TALL * QUAD, "four sums a panel, from tiles that are full");
  alignas(64) int32_t sums[TALL][WIDE];
  const int groups = quads(layer.in);
  const int32_t* starts = layer.starts.data() + panel * WIDE;
  const int8_t* w = layer.int8.data() + size_t(panel) * WIDE * groups * QUAD;
  const uint8_t* x = rows.x + size_t(first) * rows.stride;
  written(x);
  _tile_loadd(0, starts, 0);  // a stride of 0: every row begins alike
  _tile_loadd(1, starts + TALL, 0);
  _tile_loadd(2, starts + 2 * TALL, 0);
  _tile_loadd(3, starts + 3 * TALL, 0);
  // The last tile of weights may reach beyond the panel, where x has zeros.
  for (int group = 0; group < groups; group += TALL, x += DEPTH, w += DEPTH * WIDE) {
    _tile_loadd(6, x, rows.stride);
    _tile_loadd(4, w, WIDE * QUAD);
    _tile_dpbusd(0, 6, 4);
    _tile_loadd(5, w + DEPTH, WIDE * QUAD);
    _tile_dpbusd(1, 6, 5);
    _tile_loadd(4, w + 2 * DEPTH, WIDE * QUAD);
    _tile_dpbusd(2, 6, 4);
    _tile_loadd(5, w + 3 * DEPTH, WIDE * QUAD);
    _tile_dpbusd(3, 6, 5);
  }
  _tile_stored(0, sums[0], sizeof sums[0]);
  _tile_stored(1, sums[0] + TALL, sizeof sums[0]);
  _tile_stored(2, sums[0] + 2 * TALL, sizeof sums[0]);
  _tile_stored(3, sums[0] + 3 * TALL, sizeof sums[0]);
  int8_outputs(layer, rows, first, some, panel, sums, y, width, mode);
}

void tile_panels(const Linear& layer, const Int8Rows& rows, int from, int to, float* y, int width, Epilogue mode) {
  int shaped = 0;
  for (int panel = from; panel < to; panel++)
    for (int first = 0, left = (rows.count + TALL - 1) / TALL; left > 0; left--) {  // blocks of like heights
      const int some = (rows.count - first + left - 1) / left;
      if (some != shaped) shape_tiles(shaped = some);
      tile_block(layer, rows, first, some, panel, y, width, mode);
      first += some;
    }
  _tile_release();
}

#endif

template <class Product>
void int8_panels(const Linear& layer, const Int8Rows& rows, int from, int to, float* y, int width, Epilogue mode) {
#ifdef TILES_INT8
  if constexpr (std::is_same_v<Product, AmxProduct>)
    if (rows.count >= AmxProduct::FROM) return tile_panels(layer, rows, from, to, y, width, mode);
#endif
  int panel = from;
  for (; rows.count == 1 && panel + 2 <= to; panel += 2)  // of one row two at a time, because a sum must wait for its last product
    int8_block<Product, 1, 2>(layer, rows, 0, panel, y, width, mode);
  for (; panel < to; panel++)
    for (int first = 0, left = (rows.count + Product::ROWS - 1) / Product::ROWS; left > 0; left--) {  // blocks of like heights
      const int some = (rows.count - first + left - 1) / left;
      int8_rows<Product, Product::ROWS, 1>(some, layer, rows, first, panel, y, width, mode);
      first += some;
    }
}

// Room for the inputs of a linear layer: in parts of bfloat16 for the matrix unit, or in int8 with the scales of the rows.
struct Room {
  Block<BF16> pieces;
  Block<uint8_t> int8;
  Block<float> scales;
};

void int8_linear(ThreadPool& pool, Instructions which, const Linear& layer, const float* x, int stride, int count, float* y, int width, Epilogue mode, Room& room) {
  // What is worth the hand-over to another thread: rows to round, and products, where to read weights costs as much as some rows do.
  constexpr int ROUNDED = 16, PRODUCTS = 1 << 19, READING = 8;
  const int padded = (layer.in + DEPTH - 1) / DEPTH * DEPTH;
  uint8_t* to = room.int8.reserve(size_t(count) * padded);
  float* scales = room.scales.reserve(count);
  with_product(which, [&](auto product) {
    typedef decltype(product) Product;
    pool.parallel_for((count + ROUNDED - 1) / ROUNDED, [&](uint32_t part) {
      for (int row = int(part) * ROUNDED; row < std::min(count, (int(part) + 1) * ROUNDED); row++)
        scales[row] = quantise(x + size_t(row) * stride, layer.in, to + size_t(row) * padded, padded, Product::SHIFT);
    });
    const Int8Rows rows{to, scales, count, padded};
    const int some = std::max(1, std::min(layer.panels, int(PRODUCTS / (size_t(layer.in) * WIDE * (count + READING)))));
    pool.parallel_for((layer.panels + some - 1) / some, [&](uint32_t part) {
      int8_panels<Product>(layer, rows, int(part) * some, std::min(layer.panels, (int(part) + 1) * some), y, width, mode);
    });
  });
}

// Whether these instructions can be had here, and give what plain C++ gives: what was compiled for a processor that nobody could try
// it on must not answer otherwise.
bool usable(Instructions which) {
  if (!with_product(which, [](auto) {})) return false;
#ifdef TILES
  if (which == AMX && !tiles_allowed()) return false;
#endif
  constexpr int OUT = 70, IN = 90, MOST = 19;
  Linear plain, layer;
  std::vector<int8_t> weight(OUT * IN);
  std::vector<float> scales(OUT, 1.0f), x(MOST * IN), expected(MOST * OUT), found(MOST * OUT);
  for (int i = 0; i < OUT * IN; i++) weight[i] = int8_t(i * 37 % 255 - 127);
  for (int i = 0; i < MOST * IN; i++) x[i] = float(i * 101 % 255 - 127);
  plain.set_int8(OUT, IN, weight.data(), scales.data(), nullptr, PLAIN);
  layer.set_int8(OUT, IN, weight.data(), scales.data(), nullptr, which);
  ThreadPool pool(1);
  Room room;
  for (int count : {1, 3, 8, MOST}) {
    int8_linear(pool, PLAIN, plain, x.data(), IN, count, expected.data(), OUT, KEEP, room);
    int8_linear(pool, which, layer, x.data(), IN, count, found.data(), OUT, KEEP, room);
    if (std::memcmp(expected.data(), found.data(), sizeof(float) * count * OUT)) return false;
  }
  return true;
}

// --- linear layers of either kind ----------------------------------------------------------------

// y (rows, width) = x (rows, in) W' + b; panels are shared out.
void linear(ThreadPool& pool, Instructions which, const Linear& layer, const float* x, int stride, int rows, float* y, int width, Epilogue mode, Room& room) {
  if (layer.kind == INT8) return int8_linear(pool, which, layer, x, stride, rows, y, width, mode, room);
  if (layer.kind == AMX_TILES) return amx_linear(pool, layer, x, stride, rows, y, width, mode, room.pieces);
  pool.parallel_for((layer.panels + PANELS_PER_TASK - 1) / PANELS_PER_TASK, [&](uint32_t part) {
    const int p = int(part) * PANELS_PER_TASK, some = std::min(PANELS_PER_TASK, layer.panels - p);
    const float* bias = layer.bias.data() + size_t(p) * PANEL;
    const size_t start = size_t(p) * layer.in * PANEL;
    float* to = y + size_t(p) * PANEL;
    const int columns = layer.out - p * PANEL;  // that are left; a panel may be wider
    if (layer.kind == FLOAT32) strips(x, stride, rows, layer.fp32.data() + start, layer.in, some, bias, to, width, columns, mode);
    if (layer.kind == FLOAT16) strips_upcast(x, stride, rows, layer.fp16.data() + start, layer.in, some, bias, to, width, columns, mode);
    if (layer.kind == BFLOAT16) strips_upcast(x, stride, rows, layer.bf16.data() + start, layer.in, some, bias, to, width, columns, mode);
  });
}

// --- the model ----------------------------------------------------------------------------------

struct Norm {
  Block<float> scale, shift;
};

struct Layer {
  Linear qkv, out, cross, cross_out, ffn_up, ffn_down, ffn_gate;
  Norm norms[3];
};

struct Model {
  int width, heads, inner, ffn_width, vocabulary, positions;  // inner: features of all heads
  int norm_first, final_norms, first_norms, centred, gated, relative;
  int forced;  // the token that comes first in every answer, or -1
  Epilogue activation;
  float eps;
  std::vector<Layer> encoder, decoder;
  Norm first[2], last[2];
  Linear memory, output;
  Block<float> source_table, target_table, source_places, target_places;
  Block<float> distances[2];  // of each stack, where `relative`: what a key at each distance adds to the scores, (2 positions - 1, 16)
  Instructions instructions = PLAIN;  // of linear layers in int8
  std::unique_ptr<ThreadPool> pool;

  Linear* linear_of(int stack, int layer, int which) {
    if (which == 6) return &memory;
    if (which == 7) return &output;
    Layer& own = (stack ? decoder : encoder)[layer];
    Linear* all[] = {&own.qkv, &own.out, &own.cross, &own.cross_out, &own.ffn_up, &own.ffn_down, nullptr, nullptr, &own.ffn_gate};
    return all[which];
  }
  Norm* norm_of(int stack, int layer, int which) {
    return which == 4 ? &first[stack] : which == 3 ? &last[stack] : &(stack ? decoder : encoder)[layer].norms[which];
  }
  // What attention of the token at `place` adds to its scores, from the key at place 0 on; 16 numbers a key.
  const float* bias(int stack, int place) const {
    return relative ? distances[stack].data() + size_t(positions - 1 - place) * 16 : nullptr;
  }
};

void normalise(const Norm& norm, const float* x, float* y, int width, float eps, bool centred) {
  Sixteen sum = {}, squares = {};
  for (int i = 0; centred && i < width; i += 16) sum = sum + load<Sixteen>(x + i);
  const float mean = total(sum) / width;
  for (int i = 0; i < width; i += 16) {
    Sixteen off = load<Sixteen>(x + i) - mean;
    squares = plus(squares, off, off);
  }
  const float shrink = 1.0f / std::sqrt(total(squares) / width + eps);
  for (int i = 0; i < width; i += 16) {
    Sixteen off = (load<Sixteen>(x + i) - mean) * shrink;
    store(y + i, plus(load<Sixteen>(norm.shift.data() + i), off, load<Sixteen>(norm.scale.data() + i)));
  }
}

// Where to write attention probabilities: `heads` are pairs of a head and its index in `out`, which is (watchers, stride) a row.
struct AttentionProbs {
  std::vector<std::pair<int, int>> heads;
  float* out = nullptr;
  int watchers = 0, stride = 0;  // heads a row of `out` has, floats between two heads

  AttentionProbs from(int row) const { return {heads, out + size_t(row) * watchers * stride, watchers, stride}; }
};

// Attention of R rows (q, q + stride, ...) to the same `count` places, whose keys and values `keys(i)` and `keys(i) + gap` point
// to; out: (R, width). Features are ordered so that lane l belongs to head l modulo heads. What is computed for a row does not
// depend on R: together they only read the keys once. bias: null, or what the first row adds to its scores, 16 numbers a key;
// the rows are at places that follow one another.
template <int R, class Keys>
void attend(const float* q, int stride, int count, const Keys& keys, int gap, float* out, int width, int heads, const float* bias, const AttentionProbs& attention_probs = {}) {
  constexpr int CHUNKS = std::max(1, (R == 1 ? 8 : 4) / PARTS);  // vectors of values at a time, as registers allow
  thread_local Block<float> buffer;
  float* scores = buffer.reserve(size_t(count) * R * 16);
  const float scale = 1.0f / std::sqrt(float(width / heads));
  Sixteen max_score[R], sum[R], inv_sum[R];
  for (int r = 0; r < R; r++) max_score[r] = splat(-INFINITY), sum[r] = Sixteen{};
  for (int i = 0; i < count; i++) {
    const float* key = keys(i);
    Sixteen even[R], odd[R];
    for (int r = 0; r < R; r++) even[r] = odd[r] = Sixteen{};
    int at = 0;
    for (; at + 32 <= width; at += 32) {
      const Sixteen left = load<Sixteen>(key + at), right = load<Sixteen>(key + at + 16);
#pragma GCC unroll 4
      for (int r = 0; r < R; r++) {
        even[r] = plus(even[r], load<Sixteen>(q + r * stride + at), left);
        odd[r] = plus(odd[r], load<Sixteen>(q + r * stride + at + 16), right);
      }
    }
#pragma GCC unroll 4
    for (int r = 0; r < R; r++) {
      if (at < width) even[r] = plus(even[r], load<Sixteen>(q + r * stride + at), load<Sixteen>(key + at));
      Sixteen score = fold(even[r] + odd[r], heads) * scale;
      if (bias) score = score + load<Sixteen>(bias + (ptrdiff_t(i) - r) * 16);
      max_score[r] = larger(score, max_score[r]);
      store(scores + (size_t(i) * R + r) * 16, score);
    }
  }
  for (int i = 0; i < count; i++) {
#pragma GCC unroll 4
    for (int r = 0; r < R; r++) {
      float* head_scores = scores + (size_t(i) * R + r) * 16;
      const Sixteen prob = exponential(load<Sixteen>(head_scores) - max_score[r]);
      sum[r] = sum[r] + prob;
      store(head_scores, prob);
    }
  }
  for (int r = 0; r < R; r++) inv_sum[r] = 1.0f / sum[r];
  for (const auto& [head, watcher] : attention_probs.heads)
    for (int r = 0; r < R; r++)
      for (int i = 0; i < count; i++)
        attention_probs.out[(size_t(r) * attention_probs.watchers + watcher) * attention_probs.stride + i] = scores[(size_t(i) * R + r) * 16 + head] * inv_sum[r][head];
  for (int from = 0; from < width; from += CHUNKS * 16) {
    const int chunks = std::min(CHUNKS, (width - from) / 16);
    Sixteen mixed[R][CHUNKS] = {};
    for (int i = 0; i < count; i++) {
      const float *value = keys(i) + gap + from, *probs = scores + size_t(i) * R * 16;
      if (chunks == CHUNKS) {
#pragma GCC unroll 8
        for (int c = 0; c < CHUNKS; c++) {
          const Sixteen vector = load<Sixteen>(value + c * 16);
#pragma GCC unroll 4
          for (int r = 0; r < R; r++) mixed[r][c] = plus(mixed[r][c], load<Sixteen>(probs + r * 16), vector);
        }
      } else {
        for (int c = 0; c < chunks; c++)
          for (int r = 0; r < R; r++) mixed[r][c] = plus(mixed[r][c], load<Sixteen>(probs + r * 16), load<Sixteen>(value + c * 16));
      }
    }
    for (int r = 0; r < R; r++)
      for (int c = 0; c < chunks; c++) store(out + size_t(r) * width + from + c * 16, mixed[r][c] * inv_sum[r]);
  }
}

constexpr int TOGETHER = PARTS == 1 ? 4 : 2;  // rows of one query that read its keys together, as registers allow

template <class Keys>
void attend(int rows, const float* q, int stride, int count, const Keys& keys, int gap, float* out, int width, int heads, const float* bias, const AttentionProbs& attention_probs = {}) {
  switch (rows) {
    case 1: return attend<1>(q, stride, count, keys, gap, out, width, heads, bias, attention_probs);
    case 2: return attend<2>(q, stride, count, keys, gap, out, width, heads, bias, attention_probs);
    case 3: return attend<std::min(3, TOGETHER)>(q, stride, count, keys, gap, out, width, heads, bias, attention_probs);
    default: return attend<TOGETHER>(q, stride, count, keys, gap, out, width, heads, bias, attention_probs);
  }
}

// --- a session ----------------------------------------------------------------------------------

// Keys and values of the source tokens of queries that came together; it goes with the last of them.
using Memory = Block<float>;  // (source tokens, layers, 2, inner)

struct Query {
  std::shared_ptr<Memory> memory;
  int first = 0, length = 0;     // its rows there
  int slots = 0;                 // nodes in the cache
  std::vector<int32_t> parents;  // slot of each node's parent, or -1
  Block<float> cache;            // (slots, layers, 2, inner)
};

struct Session {
  Model& model;
  std::vector<Query> queries;
  Block<float> x, normed, big, mixed, logits;
  Room room;
  std::vector<int32_t> path;    // ancestors and self of each new row, one after the other
  std::vector<int> path_start;  // where each row's begin

  explicit Session(Model& m) : model(m) {}
};

// One pass of some rows through the layers: what encoder and decoder have in common, norms before or after a sub-layer.
struct LayerPass {
  Model& model;
  ThreadPool& pool;
  const int rows, width, inner, big_width;
  float *x, *normed, *big, *mixed;
  Room& room;

  LayerPass(Session& session, int count)
      : model(session.model), pool(*model.pool), rows(count), width(model.width), inner(model.inner), big_width(std::max(3 * inner, model.ffn_width)),
        x(session.x.reserve(size_t(rows) * width)), normed(session.normed.reserve(size_t(rows) * width)),
        big(session.big.reserve(size_t(rows) * big_width)), mixed(session.mixed.reserve(size_t(rows) * inner)), room(session.room) {}

  // Work on each row, shared out in parts that are worth the hand-over.
  template <class Work>
  void each(int in_part, const Work& work) {
    pool.parallel_for((rows + in_part - 1) / in_part, [&](uint32_t part) {
      for (int row = int(part) * in_part; row < std::min(rows, (int(part) + 1) * in_part); row++) work(row);
    });
  }
  // Work on runs of at most TOGETHER rows of one query.
  template <class Work>
  void together(const int32_t* owner, const Work& work) {
    pool.parallel_for((rows + TOGETHER - 1) / TOGETHER, [&](uint32_t part) {
      const int end = std::min(rows, (int(part) + 1) * TOGETHER);
      for (int row = int(part) * TOGETHER, next; row < end; row = next) {
        for (next = row + 1; next < end && owner[next] == owner[row];) next++;
        work(row, next - row);
      }
    });
  }
  void norm(const Norm& norm, float* to) {
    each(32, [&](int row) { normalise(norm, x + size_t(row) * width, to + size_t(row) * width, width, model.eps, model.centred); });
  }
  const float* before(const Norm& own) {
    if (!model.norm_first) return x;
    norm(own, normed);
    return normed;
  }
  void after(const Norm& own) {
    if (!model.norm_first) norm(own, x);
  }
  const float* finish(int stack) {
    if (!model.final_norms) return x;
    norm(model.last[stack], normed);
    return normed;
  }
  void apply(const Linear& layer, const float* from, int stride, float* to, int to_width, Epilogue mode) {
    linear(pool, model.instructions, layer, from, stride, rows, to, to_width, mode, room);
  }
  void ffn(const Layer& layer, const Norm& own) {
    const float* from = before(own);
    apply(layer.ffn_up, from, width, big, big_width, model.activation);
    if (model.gated) apply(layer.ffn_gate, from, width, big, big_width, TIMES);
    apply(layer.ffn_down, big, big_width, x, width, ADD);
    after(own);
  }
  void embed(int stack, const int32_t* tokens, const int32_t* places) {
    const float* table = (stack ? model.target_table : model.source_table).data();
    const float* positions = (stack ? model.target_places : model.source_places).data();
    each(64, [&](int row) {
      const float *word = table + size_t(tokens[row]) * width, *place = positions + size_t(places[row]) * width;
      for (int i = 0; i < width; i += 16) store(x + size_t(row) * width + i, load<Sixteen>(word + i) + load<Sixteen>(place + i));
    });
    if (model.first_norms) norm(model.first[stack], x);
  }
};

constexpr int ATTENTION = 3;  // rows of attention to their own ancestors in a part

// Encodes queries `from` to `to` of one memory, where their rows follow those before; tokens: of all its queries.
void encode(Session& session, const int32_t* tokens, int from, int to) {
  Model& model = session.model;
  const int width = model.width, inner = model.inner, offset = session.queries[from].first, memory_stride = model.memory.out;
  std::vector<int32_t> places, owner;
  for (int q = from; q < to; q++)
    for (int i = 0; i < session.queries[q].length; i++) places.push_back(i), owner.push_back(q);
  const auto lead = model.pool->lead();
  LayerPass layers_pass(session, int(owner.size()));
  float* memory = session.queries[from].memory->data() + size_t(offset) * memory_stride;
  layers_pass.embed(0, tokens + offset, places.data());
  for (Layer& layer : model.encoder) {
    layers_pass.apply(layer.qkv, layers_pass.before(layer.norms[0]), width, layers_pass.big, layers_pass.big_width, KEEP);
    layers_pass.together(owner.data(), [&](int row, int some) {
      const Query& query = session.queries[owner[row]];
      const float* keys = layers_pass.big + size_t(query.first - offset) * layers_pass.big_width + inner;
      attend(some, layers_pass.big + size_t(row) * layers_pass.big_width, layers_pass.big_width, query.length, [&](int i) { return keys + size_t(i) * layers_pass.big_width; },
             inner, layers_pass.mixed + size_t(row) * inner, inner, model.heads, model.bias(0, places[row]));
    });
    layers_pass.apply(layer.out, layers_pass.mixed, inner, layers_pass.x, width, ADD);
    layers_pass.after(layer.norms[0]);
    layers_pass.ffn(layer, layer.norms[1]);
  }
  layers_pass.apply(model.memory, layers_pass.finish(0), width, memory, memory_stride, KEEP);
}

void best(const float* logits, int vocabulary, int count, int32_t* ids, float* log_probs) {
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
    sum = sum + prob;  // e^-87 for what is beyond the vocabulary: nothing beside the best one's 1
  }
  const float log_sum = float(std::log(double(total(sum))));  // by way of fp64, where all libraries agree
  for (int i = 0; i < vocabulary; i++) shifted[i] -= log_sum;
  order.resize(vocabulary);
  for (int i = 0; i < vocabulary; i++) order[i] = i;
  std::partial_sort(order.begin(), order.begin() + count, order.end(),
                    [shifted](int32_t a, int32_t b) { return shifted[a] != shifted[b] ? shifted[a] > shifted[b] : a < b; });
  for (int i = 0; i < count; i++) ids[i] = order[i], log_probs[i] = shifted[order[i]];
}

}  // namespace

// --- what Python calls ----------------------------------------------------------------------------
// Every function that can run out of memory returns 0 (or null) instead of throwing.

extern "C" {

// Whether linear layers in int8 can be computed with these instructions here, see `Instructions`.
int chemspec_has(int instructions) {
  try {
    return usable(Instructions(instructions));
  } catch (...) {
    return 0;
  }
}

void* chemspec_model(const int32_t* sizes, float eps, int threads, int instructions) {
  try {
    auto model = std::make_unique<Model>();
    model->width = sizes[0], model->heads = sizes[1], model->ffn_width = sizes[2], model->vocabulary = sizes[3];
    model->encoder.resize(sizes[4]), model->decoder.resize(sizes[5]);
    model->activation = Epilogue(sizes[6]), model->norm_first = sizes[7], model->final_norms = sizes[8], model->eps = eps;
    model->inner = sizes[9], model->positions = sizes[10], model->first_norms = sizes[11], model->centred = sizes[12];
    model->gated = sizes[13], model->relative = sizes[14], model->forced = sizes[15];
    model->instructions = Instructions(instructions);
    model->pool = std::make_unique<ThreadPool>(threads);
    return model.release();
  } catch (...) {
    return nullptr;
  }
}

void chemspec_model_free(void* handle) {
  Model* model = static_cast<Model*>(handle);
  if (model->pool && model->pool->forked()) model->pool.release();  // left alone, see `ThreadPool`
  delete model;
}

int chemspec_linear(void* model, int stack, int layer, int which, int out, int in, const float* weight, const float* bias, const void* weight16, int kind) {
  try {
    static_cast<Model*>(model)->linear_of(stack, layer, which)->set(out, in, weight, bias, weight16, Kind(kind));
    return 1;
  } catch (...) {
    return 0;
  }
}

// weight (out, in): whole numbers from -127 to 127; scales (out).
int chemspec_linear_int8(void* model, int stack, int layer, int which, int out, int in, const int8_t* weight, const float* scales, const float* bias) {
  try {
    Model& own = *static_cast<Model*>(model);
    own.linear_of(stack, layer, which)->set_int8(out, in, weight, scales, bias, own.instructions);
    return 1;
  } catch (...) {
    return 0;
  }
}

int chemspec_norm(void* model, int stack, int layer, int which, const float* scale, const float* shift) {
  try {
    Model& own = *static_cast<Model*>(model);
    Norm* norm = own.norm_of(stack, layer, which);
    std::memcpy(norm->scale.reserve(own.width), scale, own.width * sizeof(float));
    std::memcpy(norm->shift.reserve(own.width), shift, own.width * sizeof(float));
    return 1;
  } catch (...) {
    return 0;
  }
}

// data (rows, width), or of distances (rows, 16).
int chemspec_table(void* model, int which, const float* data, int rows) {
  try {
    Model& own = *static_cast<Model*>(model);
    Block<float>* all[] = {&own.source_table, &own.target_table, &own.source_places, &own.target_places, &own.distances[0], &own.distances[1]};
    const size_t size = size_t(rows) * (which < 4 ? own.width : 16);
    std::memcpy(all[which]->reserve(size), data, size * sizeof(float));
    return 1;
  } catch (...) {
    return 0;
  }
}

void* chemspec_open(void* model) {
  try {
    return new Session(*static_cast<Model*>(model));
  } catch (...) {
    return nullptr;
  }
}

// Takes on more queries, numbered on from the last one's. tokens: theirs one after the other; lengths (queries).
int chemspec_join(void* handle, const int32_t* tokens, const int32_t* lengths, int queries) {
  try {
    Session& session = *static_cast<Session*>(handle);
    const int begin = int(session.queries.size()), end = begin + queries;
    const auto memory = std::make_shared<Memory>();
    session.queries.resize(end);
    int rows = 0;
    for (int q = begin; q < end; rows += session.queries[q++].length) {
      Query& query = session.queries[q];
      query.memory = memory, query.first = rows, query.length = lengths[q - begin];
    }
    memory->reserve(size_t(rows) * session.model.memory.out);
    const int max_rows = 4096;  // rows at once: what lies between the layers stays small
    for (int from = begin, to = begin; from < end; from = to) {
      for (rows = 0; to < end && (to == from || rows + session.queries[to].length <= max_rows); to++) rows += session.queries[to].length;
      encode(session, tokens, from, to);
    }
    return 1;
  } catch (...) {
    return 0;
  }
}

void chemspec_close(void* session) { delete static_cast<Session*>(session); }

// New nodes, grouped by query, each query's taking its next slots; all arrays (rows). parents: slots, or -1.
//
// blocks: null, or of each row -1 or the number of its block of masks, whose rows follow one another: a mask sees its parent, the
// parent's ancestors and all of its block, and is gone after the pass. Of each query, masks come last.
// states: null, or (rows, width) to fill with what the output layer reads.
// watched: pairs of layer and head, `watchers` of them; attention_probs: (rows, watchers, attention_stride), their attention to the
// source, whose padding is not written.
int chemspec_run(void* handle, int rows, const int32_t* owner, const int32_t* tokens, const int32_t* depths, const int32_t* parents,
                 const int32_t* blocks, int count, int32_t* ids, float* log_probs, float* states, const int32_t* watched, int watchers, float* attention_probs,
                 int attention_stride) {
  try {
    Session& session = *static_cast<Session*>(handle);
    Model& model = session.model;
    const int width = model.width, inner = model.inner, layers = int(model.decoder.size()), slot_stride = 2 * layers * inner;
    session.path.clear(), session.path_start.clear();
    std::vector<int> first(session.queries.size(), -1), slots(rows), before(session.queries.size());
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
    LayerPass layers_pass(session, rows);
    const int broad = model.vocabulary;
    float* logits = session.logits.reserve(size_t(rows) * broad);
    layers_pass.embed(1, tokens, depths);
    for (int l = 0; l < layers; l++) {
      const Layer& layer = model.decoder[l];
      layers_pass.apply(layer.qkv, layers_pass.before(layer.norms[0]), width, layers_pass.big, layers_pass.big_width, KEEP);
      layers_pass.each(ATTENTION, [&](int row) {
        Query& query = session.queries[owner[row]];
        const float* own = layers_pass.big + size_t(row) * layers_pass.big_width;
        std::memcpy(query.cache.data() + size_t(slots[row]) * slot_stride + size_t(2 * l) * inner, own + inner, 2 * inner * sizeof(float));
        const float* cached = query.cache.data() + size_t(2 * l) * inner;
        const float* fresh = layers_pass.big + size_t(first[owner[row]]) * layers_pass.big_width + inner;
        const int32_t* path = session.path.data() + session.path_start[row];
        const int old = before[owner[row]], count = session.path_start[row + 1] - session.path_start[row];
        // Others may still be writing the cache's new slots, so those are read where they were computed.
        attend<1>(own, 0, count,
               [&](int i) { return path[i] < old ? cached + size_t(path[i]) * slot_stride : fresh + size_t(path[i] - old) * layers_pass.big_width; },
               inner, layers_pass.mixed + size_t(row) * inner, inner, model.heads, model.bias(1, count - 1));
      });
      layers_pass.apply(layer.out, layers_pass.mixed, inner, layers_pass.x, width, ADD);
      layers_pass.after(layer.norms[0]);
      layers_pass.apply(layer.cross, layers_pass.before(layer.norms[1]), width, layers_pass.big, layers_pass.big_width, KEEP);
      AttentionProbs own{{}, attention_probs, watchers, attention_stride};
      for (int i = 0; i < watchers; i++)
        if (watched[2 * i] == l) own.heads.emplace_back(watched[2 * i + 1], i);
      layers_pass.together(owner, [&](int row, int some) {
        const Query& query = session.queries[owner[row]];
        const float* keys = query.memory->data() + size_t(query.first) * slot_stride + size_t(2 * l) * inner;
        attend(some, layers_pass.big + size_t(row) * layers_pass.big_width, layers_pass.big_width, query.length, [&](int i) { return keys + size_t(i) * slot_stride; }, inner,
               layers_pass.mixed + size_t(row) * inner, inner, model.heads, nullptr, own.heads.empty() ? AttentionProbs{} : own.from(row));
      });
      layers_pass.apply(layer.cross_out, layers_pass.mixed, inner, layers_pass.x, width, ADD);
      layers_pass.after(layer.norms[1]);
      layers_pass.ffn(layer, layer.norms[2]);
    }
    const float* last = layers_pass.finish(1);
    if (states) std::memcpy(states, last, size_t(rows) * width * sizeof(float));
    layers_pass.apply(model.output, last, width, logits, broad, KEEP);
    layers_pass.each(4, [&](int row) {
      float* own = logits + size_t(row) * broad;
      if (model.forced >= 0 && depths[row] == 0) std::fill(own, own + broad, -1e4f), own[model.forced] = 0.0f;
      best(own, model.vocabulary, count, ids + size_t(row) * count, log_probs + size_t(row) * count);
    });
    for (int row = 0; blocks && row < rows; row++)
      if (blocks[row] >= 0) session.queries[owner[row]].slots--, session.queries[owner[row]].parents.pop_back();
    return 1;
  } catch (...) {
    return 0;
  }
}

// Keeps these slots of a query, ascending, each with its parent; they are numbered anew in this order.
int chemspec_compact(void* handle, int owner, const int32_t* kept, int count) {
  try {
    Session& session = *static_cast<Session*>(handle);
    Query& query = session.queries[owner];
    const size_t slot_stride = 2 * session.model.decoder.size() * size_t(session.model.inner);
    std::vector<int32_t> renumbered(query.slots, -1), parents(count);
    for (int i = 0; i < count; i++) {
      renumbered[kept[i]] = i;
      parents[i] = query.parents[kept[i]] < 0 ? -1 : renumbered[query.parents[kept[i]]];
      std::memmove(query.cache.data() + i * slot_stride, query.cache.data() + kept[i] * slot_stride, slot_stride * sizeof(float));
    }
    query.parents = std::move(parents);
    query.slots = count;
    return 1;
  } catch (...) {
    return 0;
  }
}

// Frees what a finished query holds.
void chemspec_release(void* handle, int owner) {
  Query& query = static_cast<Session*>(handle)->queries[owner];
  query.cache = Block<float>();
  query.memory.reset();
  query.parents.clear();
  query.slots = 0;
}
}
