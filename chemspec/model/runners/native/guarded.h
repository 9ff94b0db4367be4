// Functions of a C interface must not throw.
#pragma once

namespace {

// Runs work(); returns 1, or 0 if memory ran out.
template <class Work>
int guarded(const Work& work) {
  try {
    work();
    return 1;
  } catch (...) {
    return 0;
  }
}

}  // namespace
