/* Products of matrices in place; see dl_product. A tile of rows times a few vectors of columns
 * stays in registers over the whole depth. */
#include "kernels/backend_cpu_internal.h"

/* Vectors without alignment. */
typedef dl_real vec16 __attribute__((vector_size(16), aligned(sizeof(dl_real))));

/* 16 registers: any x86-64, and the minimum of other processors. */
#define NAME product_any
#define TARGET
#define VECTOR vec16
#define VECTORS 2
#define ROWS 4
#define DOTS 2
#include "kernels/product_tile.h"

static bool always(void)
{
    return true;
}

#if defined(__x86_64__) && defined(__GNUC__)
typedef dl_real vec32 __attribute__((vector_size(32), aligned(sizeof(dl_real))));
typedef dl_real vec64 __attribute__((vector_size(64), aligned(sizeof(dl_real))));

/* 16 registers */
#define NAME product_avx2
#define TARGET __attribute__((target("avx2,fma")))
#define VECTOR vec32
#define VECTORS 2
#define ROWS 6
#define DOTS 2
#include "kernels/product_tile.h"

/* 32 registers */
#define NAME product_avx512
#define TARGET __attribute__((target("avx512f")))
#define VECTOR vec64
#define VECTORS 4
#define ROWS 6
#define DOTS 4
#include "kernels/product_tile.h"

static bool has_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

static bool has_avx512(void)
{
#ifdef DL_AVX512
    return __builtin_cpu_supports("avx512f");
#else
    return false;
#endif
}
#endif

static const dl_product_kind kinds[] = {
#if defined(__x86_64__) && defined(__GNUC__)
    {"avx512", true, has_avx512, product_avx512, product_avx512_dots},
    {"avx2", false, has_avx2, product_avx2, product_avx2_dots},
#endif
    {"any", false, always, product_any, product_any_dots},
    {NULL, false, NULL, NULL, NULL},
};

const dl_product_kind *dl_product_kinds(void)
{
    return kinds;
}

static const dl_product_kind *best_kind(void)
{
    const dl_product_kind *kind = kinds;
    while (!kind->is_there())
        kind++;
    return kind;
}

void dl_product_run(const dl_product *product)
{
    best_kind()->run(product);
}

void dl_dots_run(const dl_dots *dots)
{
    best_kind()->run_dots(dots);
}

bool dl_product_outruns_blas(void)
{
    return best_kind()->outruns_blas;
}
