// Records of forward passes, as in `types.Pass`, and the settings of a run.
#pragma once

#include <cstdint>
#include <vector>

extern "C" {

struct Span {  // a `types.AcceptedSpan`
  int32_t start, length, name, spanned, from, to;
};

struct PassRecord {  // record of one forward pass for one query; lists are in `Record`
  int32_t asked, computed, emitted, accepted, width, spans, drafts, drafts_count, beam, grown;
};
}

namespace {

struct Record {
  std::vector<PassRecord> passes;
  std::vector<double> margins;
  std::vector<Span> spans;
  std::vector<int32_t> beam, parents, tokens, sources;  // of the nodes, if they are recorded
};

struct Settings {
  int max_len, budget;
  int64_t vocab_size;
  bool record;
};

}  // namespace
