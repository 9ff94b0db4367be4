// Records of forward passes, as in `types.Pass`, and the settings of a run.
#pragma once

#include <cstdint>
#include <vector>

struct Span {  // a `types.AcceptedSpan`
  int32_t start, length, name, spanned, from, to;
};

struct PassRecord {  // record of one forward pass for one query; lists are in `Record`
  int32_t requested, computed, emitted, accepted, width, spans, drafts, drafts_count, beam, grown;
};

struct LoopOptions {  // settings of a run
  int32_t max_len, budget, record, threads;
  int32_t fixed, per_root;  // `session.CompactionThreshold`
  int32_t vocab_size;
  double factor;
};

struct Record {
  std::vector<PassRecord> passes;
  std::vector<double> margins;
  std::vector<Span> spans;
  std::vector<int32_t> beam, parents, tokens, sources;  // of the nodes, if they are recorded
};
