// `decode/python_loop.py` in C++, with greedy decoding or beam search, on numbered nodes; `query_state.h` has `query_state.py`. Functions
// have the names of those in Python. Without a planner it computes the same nodes in the same passes, bit-identical; with one, other
// nodes. A forward pass is `chemspec_loop_draft`, which lists the nodes to compute, the model's computation, and
// `chemspec_loop_store_scores`; or `chemspec_loop_run`, which runs all three several times in a row with a CPU kernel. The constants
// in capitals come from `build.py`; `decoding.py` explains why drafts do not change the output.

#include <atomic>
#include <chrono>
#include <functional>
#include <system_error>
#include <thread>

#include "query_state.h"

// State of the next forward pass, read by Python.
struct PassState {
  int32_t active, requested, waiting;  // of the next pass: queries, nodes without drafts, requested prefixes with or without scores
  int32_t rows;  // nodes of this pass
  const int32_t* columns;  // queries, tokens, depths and parents, `rows` each
  int32_t released, compacted;  // numbers of queries to release, and to compact
  const int32_t* queries;  // first the queries to release, or those without scores, then those to compact
  int32_t passes;  // run by `chemspec_loop_run`
  const double* times;  // of each, in seconds: of drafting, of the model, and from the call to its end
};

// A pass of a kernel that computes on this host: what `chemspec_run` of kernel.cpp takes and returns.
using KernelPass = int (*)(void* session, int rows, const int32_t* queries, const int32_t* tokens, const int32_t* depths, const int32_t* parents,
                           const int32_t* blocks, int count, int32_t* ids, float* log_probs, float* states);

namespace {

constexpr int MIN_PREFIXES = 24;  // requested prefixes from which on a pass is split among threads
enum Outcome { FINE = 1, NO_MEMORY = 0, CALL_FAILED = -1, BAD_SCORES = -2, BAD_IDS = -3 };

using Clock = std::chrono::steady_clock;

double seconds_between(Clock::time_point from, Clock::time_point to) { return std::chrono::duration<double>(to - from).count(); }

struct Loop {
  const LoopOptions options;
  Drafter drafter;
  std::unique_ptr<DraftPlanner> planner;  // or null
  int threads, pass = 0;
  std::vector<std::unique_ptr<QueryState>> queries;  // null: forgotten
  std::vector<int> active, starts;  // of the rows of each active query
  std::vector<int32_t> columns, release_then_compact, ids;
  std::vector<float> log_probs;
  std::vector<double> times;
  Clock::time_point began, drafted;  // of the current pass
  PassState state{};

  Loop(const LoopOptions& given, const DrafterArgs& drafts, const DraftPlannerArgs* plans, const DraftHistory* past)
      : options(given), drafter(drafts), planner(plans ? std::make_unique<DraftPlanner>(*plans, *past, given.budget) : nullptr), threads(drafts.kind == OTHER ? 1 : given.threads) {}

  void add_queries(int count, const int32_t* source, const int32_t* lengths, const BeamConfig* configs) {
    for (int which = 0; which < count; source += lengths[which++]) {
      std::vector<int32_t> text(source, source + lengths[which]);
      text.push_back(EOS);
      const int number = int(queries.size());
      queries.push_back(std::make_unique<QueryState>(drafter, planner.get(), options, configs[which], text, number));
      active.push_back(number);
    }
  }

  // Starts the next search of a query.
  void start_next_search(int number, const BeamConfig& config) {
    queries[number]->start_next_search(config);
    if (!queries[number]->done) active.insert(std::lower_bound(active.begin(), active.end(), number), number);
  }

  void for_each_query(const std::function<void(int)>& work) {
    const int count = int(active.size()), helpers = std::min(threads, count) - 1;
    if (helpers < 1 || state.waiting < MIN_PREFIXES) {
      for (int at = 0; at < count; at++) work(at);
      return;
    }
    std::atomic<int> next(0);
    std::atomic<bool> failed(false);
    const auto run_some = [&] {
      try {
        for (int at; (at = next++) < count;) work(at);
      } catch (...) {
        failed = true;
      }
    };
    std::vector<std::thread> running;
    running.reserve(helpers);
    try {
      for (int i = 0; i < helpers; i++) running.emplace_back(run_some);
    } catch (const std::system_error&) {  // no more threads available
    }
    run_some();
    for (std::thread& thread : running) thread.join();
    if (failed) throw std::bad_alloc();
  }

  Outcome draft() {
    began = Clock::now();
    bool drafting = options.budget > 0;
    if (planner) {
      int hypotheses = 0;
      for (const int number : active) hypotheses += queries[number]->hypotheses();
      drafting = planner->begin_pass(state.requested, state.active, hypotheses);
    }
    pass++;
    for_each_query([&](int at) { queries[active[at]]->draft(drafting, pass, this); });
    starts.assign(1, 0);
    for (const int number : active) {
      const QueryState& query = *queries[number];
      if (query.failed) return CALL_FAILED;
      starts.push_back(starts.back() + int(query.computed.size()));
    }
    const int rows = state.rows = starts.back();
    columns.resize(4 * size_t(rows));
    for (size_t at = 0; at < active.size(); at++) {
      const QueryState& query = *queries[active[at]];
      int32_t* column = columns.data() + starts[at];
      for (const int which : query.computed) {
        const Node& node = query.tree[which];
        column[0] = active[at], column[rows] = node.token, column[2 * rows] = node.depth;
        column[3 * rows] = node.parent < 0 ? -1 : query.tree[node.parent].slot;
        column++;
      }
    }
    state.columns = columns.data();
    drafted = Clock::now();
    return FINE;
  }

  template <class Value>
  Outcome store_scores(const int32_t* ids, const Value* log_probs, int count) {
    const int batch_size = int(active.size());
    for_each_query([&](int at) {
      const size_t from = size_t(starts[at]) * count;
      queries[active[at]]->store_scores(ids + from, log_probs + from, count, batch_size);
    });
    release_then_compact.clear();
    for (const int number : active) {
      if (queries[number]->bad_ids) return BAD_IDS;
      if (queries[number]->bad_scores) release_then_compact.push_back(number);
    }
    state.released = int(release_then_compact.size()), state.queries = release_then_compact.data();
    if (state.released) return BAD_SCORES;
    if (planner) {
      int needed = 0, calls = 0, tokens = 0;
      for (const int number : active) {
        QueryState& query = *queries[number];
        query.observe();
        needed += query.needed, calls += query.calls, tokens += query.advanced;
      }
      planner->record_pass(state.rows, needed, calls, tokens, state.waiting, seconds_between(drafted, Clock::now()), seconds_between(began, drafted));
    }
    schedule_next_pass();
    return FINE;
  }

  // Runs passes in a row, until Python has to do something or the given number of seconds has passed.
  Outcome run(KernelPass kernel, void* session, int count, double seconds) {
    const auto start_of_run = Clock::now();
    const auto elapsed = [&] { return seconds_between(start_of_run, Clock::now()); };
    times.clear();
    double end = 0.0;
    do {
      const double start = end;
      Outcome done = draft();
      if (done != FINE) return done;
      const double drafted = elapsed();
      const int rows = state.rows;
      const int32_t* column = columns.data();
      ids.resize(size_t(rows) * count), log_probs.resize(size_t(rows) * count);
      if (!kernel(session, rows, column, column + rows, column + 2 * rows, column + 3 * rows, nullptr, count, ids.data(), log_probs.data(), nullptr))
        return NO_MEMORY;
      const double scored = elapsed();
      done = store_scores(ids.data(), log_probs.data(), count);
      if (done != FINE) return done;
      end = elapsed();
      times.insert(times.end(), {drafted - start, scored - drafted, end});
    } while (!state.released && !state.compacted && end < seconds);
    state.passes = int(times.size() / 3), state.times = times.data();
    return FINE;
  }

  // Collects the nodes of the next pass and the cache entries to evict first.
  void schedule_next_pass() {
    release_then_compact.clear();
    std::vector<int> left;
    for (const int number : active) (queries[number]->done ? release_then_compact : left).push_back(number);
    state.released = int(release_then_compact.size()), state.compacted = 0;
    active = std::move(left);
    state.active = int(active.size()), state.requested = state.waiting = 0;
    for (const int number : active) {
      QueryState& query = *queries[number];
      state.requested += int(query.missing.size()), state.waiting += query.waiting();
      if (!query.may_restart() && query.compact()) release_then_compact.push_back(number), state.compacted++;
    }
    state.queries = release_then_compact.data();
  }
};

template <class Work>
int guarded(const Work& work) {
  try {
    return work();
  } catch (...) {
    return NO_MEMORY;
  }
}

}  // namespace

extern "C" {

// planner: null if drafts use the whole budget; else `past` is what earlier runs have learned.
void* chemspec_loop(const LoopOptions* options, const DrafterArgs* drafter, const DraftPlannerArgs* planner, const DraftHistory* past) {
  Loop* loop = nullptr;
  return guarded([&] { loop = new Loop(*options, *drafter, planner, past); return FINE; }) == FINE ? loop : nullptr;
}
void chemspec_loop_free(void* loop) { delete static_cast<Loop*>(loop); }
PassState* chemspec_loop_state(void* loop) { return &static_cast<Loop*>(loop)->state; }

// What this run and those before it have learned; it must have a planner.
void chemspec_loop_history(void* loop, DraftHistory* history) { static_cast<Loop*>(loop)->planner->write_history(*history); }

// Adds queries, with the next numbers. tokens: those of all queries concatenated; lengths and configs: of each query.
int chemspec_loop_add_queries(void* loop, int queries, const int32_t* tokens, const int32_t* lengths, const BeamConfig* configs) {
  return guarded([&] { static_cast<Loop*>(loop)->add_queries(queries, tokens, lengths, configs); return FINE; });
}

// Starts the next search of a query; call `chemspec_loop_schedule_pass` afterwards.
int chemspec_loop_start_next_search(void* loop, int query, const BeamConfig* config) {
  return guarded([&] { static_cast<Loop*>(loop)->start_next_search(query, *config); return FINE; });
}

// Deletes the records of a finished query.
void chemspec_loop_discard_query(void* loop, int query) { static_cast<Loop*>(loop)->queries[query].reset(); }

// Adds a draft after the prefix of the current callback.
int chemspec_loop_add_draft(void* handle, int query, int32_t name, const int32_t* tokens, int length, int spanned, int from, int to, int match,
                            const int32_t* places, int places_count, const double* chances, int chances_count) {
  return guarded([&] {
    DraftList& list = static_cast<Loop*>(handle)->queries[query]->drafts;
    Draft& draft = list.add(name, tokens, length);
    draft.spanned = spanned, draft.from = from, draft.to = to, draft.match = match;
    draft.places_count = places_count, draft.chances_count = chances_count;
    list.places.insert(list.places.end(), places, places + places_count);
    list.chances.insert(list.chances.end(), chances, chances + chances_count);
    return FINE;
  });
}

// Ends the registration of new queries and schedules the next pass.
int chemspec_loop_schedule_pass(void* loop) {
  return guarded([&] { static_cast<Loop*>(loop)->schedule_next_pass(); return FINE; });
}

// Lists the nodes of the next pass in `PassState.columns`.
int chemspec_loop_draft(void* loop) {
  return guarded([&] { return static_cast<Loop*>(loop)->draft(); });
}

// Stores their scores: the `count` best next tokens of each, and their log-probs as floats or doubles.
int chemspec_loop_store_scores(void* handle, const int32_t* ids, const void* log_probs, int count, int doubles) {
  return guarded([&] {
    Loop& loop = *static_cast<Loop*>(handle);
    return doubles ? loop.store_scores(ids, static_cast<const double*>(log_probs), count) : loop.store_scores(ids, static_cast<const float*>(log_probs), count);
  });
}

// Passes in a row; see `Loop::run`.
int chemspec_loop_run(void* loop, KernelPass kernel, void* session, int count, double seconds) {
  return guarded([&] { return static_cast<Loop*>(loop)->run(kernel, session, count, seconds); });
}

// The slots that a query keeps, if it was to be compacted.
const int32_t* chemspec_loop_kept_slots(void* loop, int query, int* count) {
  const auto& kept = static_cast<Loop*>(loop)->queries[query]->kept_slots;
  *count = int(kept.size());
  return kept.data();
}

// Read a query's passes -----------------------------------------------------------------------------

struct RecordView {
  int32_t passes, answers, done, written, standard, node_stride;
  const PassRecord* pass;
  const double* margins;
  const int32_t *beam, *nodes;
  const NodeRow* tree;  // one every `node_stride` bytes
  const Draft* draft;
  const int32_t *draft_tokens, *draft_places;
  const double* draft_chances;
};

void chemspec_loop_record(void* loop, int query, RecordView* view) {
  const QueryState& state = *static_cast<Loop*>(loop)->queries[query];
  const Record& record = state.record;
  *view = {int32_t(record.passes.size()), int32_t(state.results.size()), state.done, state.written, state.standard, int32_t(sizeof(Node)),
           record.passes.data(), record.margins.data(), record.beam.data(), record.nodes.data(), state.tree.rows(),
           state.drafts.drafts.data(), state.drafts.tokens.data(), state.drafts.places.data(), state.drafts.chances.data()};
}

// Writes the tokens and log-probs of an output sequence, unless these are null; returns its length.
int chemspec_loop_output_sequence(void* loop, int query, int which, int32_t* tokens, double* log_probs) {
  const QueryState& state = *static_cast<Loop*>(loop)->queries[query];
  int node = state.results[which].node;
  const int length = state.tree[node].depth;
  for (int at = length - 1; at >= 0 && tokens; at--, node = state.tree[node].parent)
    tokens[at] = state.tree[node].token, log_probs[at] = state.tree[node].log_prob;
  return length;
}
}
