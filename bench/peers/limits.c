/* Measures the machine's limits: memory bandwidth like STREAM, arithmetic, and a few hand-written operations.

   limits THREADS SECONDS CASE [SIZE...] prints {"ms": median, "gbs": bandwidth, "gflops": ...}. Each case is measured
   with ordinary and with non-temporal stores; the faster variant counts. As in STREAM, the bandwidth counts the bytes
   that the program reads and writes, without the reads of cache lines that precede ordinary stores. */
#define _GNU_SOURCE
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif

typedef float vec __attribute__((vector_size(64)));
typedef float vec_u __attribute__((vector_size(64), aligned(4)));
typedef int lanes __attribute__((vector_size(64)));
enum { W = 16 };

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + 1e-9 * t.tv_nsec;
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Memory with large pages, first touched by the threads that will use it. */
static float *make(size_t n) {
  size_t bytes = (4 * n + (2u << 20) - 1) & ~(size_t)((2u << 20) - 1);
  float *p = aligned_alloc(2u << 20, bytes);
  if (!p) exit(1);
  madvise(p, bytes, MADV_HUGEPAGE);
#pragma omp parallel for schedule(static)
  for (size_t i = 0; i < n; i++) p[i] = (float)(i % 1009) / 1009 - 0.5f;
  return p;
}

static inline void put(float *p, vec v, int stream) {
#if defined(__AVX512F__)
  if (stream) { _mm512_stream_ps(p, (__m512)v); return; }
#elif defined(__AVX__)
  if (stream) {
    union { vec v; __m256 half[2]; } u = {v};
    _mm256_stream_ps(p, u.half[0]);
    _mm256_stream_ps(p + 8, u.half[1]);
    return;
  }
#endif
  *(vec_u *)p = v;
}

static inline void fence(int stream) {
#ifdef __x86_64__
  if (stream) _mm_sfence();
#endif
}

static inline vec at(const float *p) { return *(const vec_u *)p; }

static size_t n;
static long sizes[3];
static float *out, *a, *b, *c, *d, *e;
static volatile float sink;

#define LOOP(value)                                          \
  do {                                                       \
    _Pragma("omp parallel") {                                \
      _Pragma("omp for schedule(static) nowait")             \
      for (size_t i = 0; i < n; i += W) put(out + i, (value), stream); \
      fence(stream);                                         \
    }                                                        \
  } while (0)

static void copy(int stream) { LOOP(at(a + i)); }
static void add(int stream) { LOOP(at(a + i) + at(b + i)); }
static void triad(int stream) { LOOP(at(a + i) + 3.0f * at(b + i)); }

static void chain(int stream) {
  vec zero = {0};
  LOOP(({
    vec t = at(a + i) * at(b + i) + at(c + i);
    lanes positive = t > zero;
    t = (vec)((lanes)t & positive);
    t * at(d + i) - at(e + i);
  }));
}

static void sum(int stream) {
  (void)stream;
  float total = 0;
#pragma omp parallel for schedule(static) reduction(+ : total)
  for (size_t k = 0; k < n / 4096; k++) {
    vec s[8] = {{0}};
    for (size_t i = 4096 * k; i < 4096 * (k + 1); i += 8 * W)
      for (int j = 0; j < 8; j++) s[j] += at(a + i + W * j);
    for (int j = 1; j < 8; j++) s[0] += s[j];
    for (int j = 0; j < W; j++) total += s[0][j];
  }
  sink = total;
}

/* Transposes a block of 16 x 16: four rounds that interleave row i with row i + 8. */
static inline void interleave(vec *r) {
  const lanes low = {0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23};
  const lanes high = {8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  vec t[W];
#pragma GCC unroll 4
  for (int round = 0; round < 4; round++) {
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) {
      t[2 * i] = __builtin_shuffle(r[i], r[i + 8], low);
      t[2 * i + 1] = __builtin_shuffle(r[i], r[i + 8], high);
    }
#pragma GCC unroll 16
    for (int i = 0; i < W; i++) r[i] = t[i];
  }
}

/* Transposes a 16 x 16 block from x with row stride xs to y with row stride ys. If z is not null, its block, with row
   stride ys, is added. */
static inline void square(const float *x, long xs, float *y, long ys, const float *z, int stream) {
  vec r[W];
#pragma GCC unroll 16
  for (int i = 0; i < W; i++) r[i] = at(x + i * xs);
  interleave(r);
#pragma GCC unroll 16
  for (int i = 0; i < W; i++) put(y + i * ys, z ? r[i] + at(z + i * ys) : r[i], stream);
}

/* Transposes sizes[0] matrices of rows x columns. Each thread takes panels of rows, whose pages stay in the TLB. */
static void transposes(const float *x, const float *z, int stream) {
  long count = sizes[0], rows = sizes[1], columns = sizes[2], panel = 64, panels = (rows + panel - 1) / panel;
  if (rows % W) stream = 0;
#pragma omp parallel
  {
#pragma omp for collapse(2) schedule(static) nowait
    for (long k = 0; k < count; k++)
      for (long p = 0; p < panels; p++) {
        const float *from = x + k * rows * columns, *more = z ? z + k * rows * columns : 0;
        float *to = out + k * rows * columns;
        long first = p * panel, end = first + panel < rows ? first + panel : rows, i, j;
        for (j = 0; j + W <= columns; j += W) {
          for (i = first; i + W <= end; i += W)
            square(from + i * columns + j, columns, to + j * rows + i, rows, more ? more + j * rows + i : 0, stream);
          for (; i < end; i++)
            for (long q = j; q < j + W; q++) to[q * rows + i] = from[i * columns + q] + (more ? more[q * rows + i] : 0);
        }
        for (; j < columns; j++)
          for (i = first; i < end; i++) to[j * rows + i] = from[i * columns + j] + (more ? more[j * rows + i] : 0);
      }
    fence(stream);
  }
}

static void transpose(int stream) { transposes(a, 0, stream); }
static void add_t(int stream) { transposes(b, a, stream); }

static int transposed_right(void) {
  long rows = sizes[1], columns = sizes[2];
  for (long k = 0; k < sizes[0]; k++)
    for (long i = 0; i < rows; i++)
      for (long j = 0; j < columns; j += 7)
        if (out[(k * columns + j) * rows + i] != a[(k * rows + i) * columns + j]) return 0;
  return 1;
}

/* Multiply-adds in registers, with enough independent chains to hide their latency. */
#define EACH(f) f(0) f(1) f(2) f(3) f(4) f(5) f(6) f(7) f(8) f(9) f(10) f(11)
#define BEGIN(j) vec s##j = at(a + W * j);
#define STEP(j) s##j = s##j * x + y;
#define END(j) total += s##j;

static void fma_peak(int stream) {
  (void)stream;
#pragma omp parallel
  {
    vec x = at(a), y = at(a + W), total = {0};
    EACH(BEGIN)
    for (long i = 0; i < sizes[0]; i++) { EACH(STEP) }
    EACH(END)
    sink = total[0];
  }
}

static const struct {
  const char *name;
  void (*run)(int stream);
  int operands, bytes; /* bytes read and written for each element */
  int stores;          /* 2: also measured with non-temporal stores */
} cases[] = {{"copy", copy, 1, 8, 2},   {"add", add, 2, 12, 2},           {"triad", triad, 2, 12, 2},
             {"chain", chain, 5, 24, 2}, {"read", sum, 1, 4, 1},          {"transpose", transpose, 1, 8, 2},
             {"add_t", add_t, 2, 12, 2}, {"fma", fma_peak, 1, 0, 1}};

static double median(void (*run)(int), int stream, double seconds) {
  static double times[1 << 16];
  int count = 0, inner = 1;
  run(stream);
  run(stream);
  for (double t = now();; inner *= 2, t = now()) { /* short runs are repeated between two clock readings */
    for (int i = 0; i < inner; i++) run(stream);
    if (now() - t > 20e-6 || inner > 1000) break;
  }
  for (double end = now() + seconds; count < 3 || (now() < end && count < 1 << 16); count++) {
    double t = now();
    for (int i = 0; i < inner; i++) run(stream);
    times[count] = (now() - t) / inner;
  }
  qsort(times, count, sizeof *times, by_value);
  return times[count / 2];
}

int main(int argc, char **argv) {
  if (argc < 5) return fprintf(stderr, "limits THREADS SECONDS CASE SIZE...\n"), 2;
  omp_set_num_threads(atoi(argv[1]));
  for (int i = 4; i < argc && i < 7; i++) sizes[i - 4] = atol(argv[i]);
  n = sizes[0];
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
    if (strcmp(cases[k].name, argv[3])) continue;
    if (cases[k].run == transpose) n = sizes[0] * sizes[1] * sizes[2];
    if (cases[k].run == add_t) sizes[1] = sizes[2] = sizes[0], n = sizes[0] * sizes[0], sizes[0] = 1;
    if (cases[k].run == fma_peak) n = 16 * W;
    if (n % W) return fprintf(stderr, "sizes are multiples of %d\n", W), 2;
    float **operands[] = {&a, &b, &c, &d, &e};
    for (int i = 0; i < cases[k].operands; i++) *operands[i] = make(n);
    out = make(n);
    double best = 0;
    for (int stream = 0; stream < cases[k].stores; stream++) {
      double t = median(cases[k].run, stream, atof(argv[2]) / cases[k].stores);
      if (cases[k].run == transpose && !transposed_right()) return fprintf(stderr, "a wrong transpose\n"), 1;
      if (!best || t < best) best = t;
    }
    double flops = cases[k].run == fma_peak ? 2.0 * W * 12 * sizes[0] * atoi(argv[1]) : 0;
    printf("{\"ms\": %.9g, \"gbs\": %.9g, \"gflops\": %.9g}\n", best * 1e3, (double)cases[k].bytes * n / best / 1e9,
           flops / best / 1e9);
    return 0;
  }
  return fprintf(stderr, "no case %s\n", argv[3]), 2;
}
