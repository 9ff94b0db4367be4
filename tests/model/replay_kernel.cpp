// Decodes the queries of a recording (record_kernel.py) greedily, with the whole kernel: prints a hash of all ids and of the bits
// of all log-probs, and the number of forward passes. Arguments: the recording, threads.
#include "kernel.cpp"

#include <cstdio>
#include <cstdlib>
#include <string>

static FILE* input;

static std::string array() {
  int64_t size = 0;
  if (fread(&size, 8, 1, input) != 1) exit(3);
  std::string content(size, 0);
  if (size && fread(&content[0], 1, size, input) != size_t(size)) exit(3);
  return content;
}

template <class T>
static const T* numbers(const std::string& content) { return content.empty() ? nullptr : reinterpret_cast<const T*>(content.data()); }

struct Hash {
  unsigned long long value = 1469598103934665603ull;
  void add(uint32_t word) { value = (value ^ word) * 1099511628211ull; }
};

static int decode(void* model, const std::string& source, int32_t length, Hash& hash) {
  void* session = chemspec_open(model);
  if (!chemspec_join(session, numbers<int32_t>(source), &length, 1)) exit(4);
  int32_t token = 1;
  int depth = 0;
  for (; depth < 120 && token != 2; depth++) {
    int32_t owner = 0, at = depth, parent = depth - 1, ids[2];
    float log_probs[2];
    if (!chemspec_run(session, 1, &owner, &token, &at, &parent, nullptr, 2, ids, log_probs, nullptr)) exit(5);
    for (int i = 0; i < 2; i++) {
      uint32_t bits;
      memcpy(&bits, log_probs + i, 4);
      hash.add(uint32_t(ids[i]));
      hash.add(bits);
    }
    token = ids[0];
  }
  chemspec_close(session);
  return depth;
}

int main(int, char** argv) {
  input = fopen(argv[1], "rb");
  if (!input) return 1;
  void* model = nullptr;
  Hash hash;
  int passes = 0;
  for (int32_t tag, a[8]; fread(&tag, 4, 1, input) == 1 && fread(a, 4, 8, input) == 8 && tag;) {
    if (tag == 1) {
      const auto sizes = array(), eps = array();
      model = chemspec_model(numbers<int32_t>(sizes), *numbers<float>(eps), atoi(argv[2]));
    } else if (tag == 2) {
      const auto data = array();
      chemspec_table(model, a[0], numbers<float>(data), a[1]);
    } else if (tag == 3) {
      const auto weight = array(), bias = array(), half = array();
      chemspec_linear(model, a[0], a[1], a[2], a[3], a[4], numbers<float>(weight), numbers<float>(bias), numbers<BF16>(half));
    } else if (tag == 4) {
      const auto weight = array(), scales = array(), bias = array();
      chemspec_linear_int8(model, a[0], a[1], a[2], a[3], a[4], numbers<int8_t>(weight), numbers<float>(scales), numbers<float>(bias));
    } else if (tag == 5) {
      const auto scale = array(), shift = array();
      chemspec_norm(model, a[0], a[1], a[2], numbers<float>(scale), numbers<float>(shift));
    } else {
      passes += decode(model, array(), a[0], hash);
    }
  }
  printf("%016llx %d\n", hash.value, passes);
}
