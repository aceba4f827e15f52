/* The number type of the sources that are compiled twice, once with -DDL_REAL=float and once with
 * -DDL_REAL=double (CMakeLists.txt lists them). Their exported names carry the type:
 * DL_TYPED(dl_backend_cpu) is dl_backend_cpu_float or dl_backend_cpu_double. */
#ifndef DL_KERNELS_REAL_H
#define DL_KERNELS_REAL_H

#ifndef DL_REAL
#error "compile this source with -DDL_REAL=float or -DDL_REAL=double"
#endif

typedef DL_REAL dl_real;

#define DL_TYPED_PASTE(name, real) name##_##real
#define DL_TYPED_EXPAND(name, real) DL_TYPED_PASTE(name, real)
#define DL_TYPED(name) DL_TYPED_EXPAND(name, DL_REAL)

/* Hot loops are compiled for several vector widths and chosen when the program is loaded, so that a
 * binary built for any x86-64 uses the widest available. Builds with a sanitizer have no such
 * choice, since the sanitizer would have to run before it. Without DL_AVX512 the program behaves as
 * on a processor that lacks it. */
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#ifdef DL_AVX512
#define DL_HOT __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define DL_HOT __attribute__((target_clones("avx2", "default")))
#endif
#else
#define DL_HOT
#endif

#endif
