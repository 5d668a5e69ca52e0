/* What libgemmd_blas.so adds to calls that are too small to ask about.
 *
 *   LD_PRELOAD=libgemmd_blas.so small_calls LIBRARY
 *
 * calls dgemm_ of LIBRARY directly and as a program calls it, by turns, and prints the medians. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

typedef void gemm(const char*, const char*, const int*, const int*, const int*, const double*,
                  const double*, const int*, const double*, const int*, const double*, double*,
                  const int*, size_t, size_t);

enum { ROUNDS = 401, MOST = 64 };
static double a[MOST * MOST], b[MOST * MOST], c[MOST * MOST];

static double now_ns(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static double call_ns(gemm* function, int side, int calls) {
  const double one = 1, zero = 0;
  const double begin = now_ns();
  for (int i = 0; i < calls; ++i) {
    function("N", "N", &side, &side, &side, &one, a, &side, b, &side, &zero, c, &side, 1, 1);
  }
  return (now_ns() - begin) / calls;
}

static int compare(const void* left, const void* right) {
  const double x = *(const double*)left, y = *(const double*)right;
  return (x > y) - (x < y);
}

int main(int argc, char** argv) {
  void* const library = argc == 2 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
  if (library == NULL) {
    fprintf(stderr, "usage: small_calls LIBRARY\n");
    return 2;
  }
  gemm* const plain = (gemm*)dlsym(library, "dgemm_");
  gemm* const called = (gemm*)dlsym(RTLD_DEFAULT, "dgemm_");
  if (plain == NULL || called == NULL || plain == called) {
    fprintf(stderr, "libgemmd_blas.so is not preloaded\n");
    return 1;
  }
  for (int side = 1; side <= MOST; side *= 4) {
    static double ns[2][ROUNDS];
    for (int round = 0; round < ROUNDS; ++round) {
      ns[0][round] = call_ns(plain, side, side < 16 ? 2000 : 200);
      ns[1][round] = call_ns(called, side, side < 16 ? 2000 : 200);
    }
    for (int way = 0; way < 2; ++way) qsort(ns[way], ROUNDS, sizeof(double), compare);
    const double directly = ns[0][ROUNDS / 2], through = ns[1][ROUNDS / 2];
    printf("dgemm of %2d cubed: %8.1f ns directly, %8.1f ns through the library, ratio %.2f\n",
           side, directly, through, through / directly);
  }
  return 0;
}
