/* Shared by bench_shapes.c, which times kernels one by one, and bench_layer.c, which runs those
 * of a layer in a loop. */
#ifndef DL_PROFILER_BENCH_SHAPES_INTERNAL_H
#define DL_PROFILER_BENCH_SHAPES_INTERNAL_H

#include "profiler/bench/bench_shapes.h"
#include "trace/shape.h"

/* A kernel: a product, attention, or one that moves data. */
typedef struct dl_kernel {
    dl_shape_product product; /* rows > 0: a product */
    int heads, tokens, size;  /* heads > 0: causal attention */
    dl_move_kind move;        /* else a move of vectors of `numbers` in rows of `columns` */
    size_t numbers, columns;
    bool backward; /* of attention and moves */
} dl_kernel;

/* Memory of one call of a kernel: what it reads, and what it writes. */
typedef struct dl_kernel_memory {
    const void *in[3];
    void *out[3];
    /* Numbers that stay small: means, logarithms of sums, losses [rows]; labels [rows], all 0. */
    void *of_rows[2];
    double *losses;
    int32_t *labels, *correct;
} dl_kernel_memory;

/* Sets the numbers that the kernel reads and writes in each place of its memory; 0: not used. */
void dl_kernel_sizes(const dl_kernel *kernel, size_t in[3], size_t out[3]);
/* Returns the numbers that it needs in of_rows, losses, ... */
size_t dl_kernel_rows(const dl_kernel *kernel);

/* Returns the numbers that the kernel reads and writes, each kernel reading its inputs and writing
 * its outputs once, as dlsim counts them (sim/workloads/architecture.h). */
double dl_kernel_traffic(const dl_kernel *kernel);

bool dl_kernel_equal(const dl_kernel *a, const dl_kernel *b);

/* Returns whether the backend has the kernel. */
bool dl_kernel_exists(const dl_backend *backend, const dl_kernel *kernel);

void dl_kernel_launch(const dl_backend *backend, const dl_kernel *kernel,
                      const dl_kernel_memory *memory);

/* A kernel that is timed one by one. */
typedef struct dl_kernel_case {
    dl_kernel kernel;
    uint32_t step_count;  /* occurrences in the network's step; 0: a spread size */
    uint32_t layer_count; /* occurrences in one layer, in both passes */
    uint32_t name;
} dl_kernel_case;

/* The layer that runs in a loop, a transformer's last block with its forward and backward pass. */
typedef struct dl_bench_layer dl_bench_layer;

/* Makes the layer of the network, without attention if the backend has none, or none of its form:
 * causal, over whole sequences. Returns NULL if there is no layer. *note is then the reason, else
 * what the layer lacks, as the end of a sentence; NULL: nothing. */
dl_bench_layer *dl_bench_layer_make(const dl_architecture *network, int64_t batch,
                                    const dl_backend *backend, const char **note);

/* Makes the same layer with `tokens` tokens in all. */
dl_bench_layer *dl_bench_layer_with(const dl_bench_layer *layer, int64_t tokens);
void dl_bench_layer_free(dl_bench_layer *layer);

/* Return the number of the layer's kernels, and a kernel by its place in the order of execution,
 * borrowed. */
size_t dl_bench_layer_count(const dl_bench_layer *layer);
const dl_kernel *dl_bench_layer_kernel(const dl_bench_layer *layer, size_t k);

/* Allocates weights, copied from normal[normal_count] numbers in host memory, and on devices all
 * results. dl_bench_layer_stop releases them. */
void dl_bench_layer_start(dl_bench_layer *layer, const void *normal, size_t normal_count);
void dl_bench_layer_stop(dl_bench_layer *layer);

/* Runs or launches the layer's passes once; what `memory` has is read where no result is large
 * enough. On processors each result has fresh memory, as frameworks allocate it, and is freed when
 * the backward pass no longer needs it. On devices, whose allocators keep memory, it is always the
 * same. */
void dl_bench_layer_run(dl_bench_layer *layer, const dl_kernel_memory *memory);

#endif
