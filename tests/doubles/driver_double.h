/* Replaces the CUDA driver under its name libcuda.so.1: loads the injected library in cuInit like
 * the real one, and reports a program's calls to a tool (the double of CUPTI). The same library
 * contains the functions of CUDA's runtime that tests/gpu/truth.c uses (runtime_double.c). */
#ifndef DL_TESTS_DOUBLES_DRIVER_DOUBLE_H
#define DL_TESTS_DOUBLES_DRIVER_DOUBLE_H

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum driver_work_kind {
    DRIVER_KERNEL,
    DRIVER_COPY,
    DRIVER_PEER_COPY,
    DRIVER_MEMSET,
    DRIVER_GRAPH /* a whole graph, whose nodes are reported too */
} driver_work_kind;

typedef enum driver_memory { DRIVER_PAGEABLE, DRIVER_PINNED, DRIVER_DEVICE } driver_memory;

/* Work of a device. */
typedef struct driver_work {
    driver_work_kind kind;
    const char *name;               /* of the kernel */
    unsigned device, peer, stream;  /* peer: target of a copy between devices */
    driver_memory from, to;         /* kinds of memory of a copy */
    size_t bytes;                   /* of the copy or memset */
    unsigned graph, node;           /* for work in a graph; 0 = none */
    uint64_t start_ns, duration_ns; /* start 0: at the beginning of its call */
} driver_work;

/* A call of the runtime or the driver, by CUPTI's number. */
typedef struct driver_call {
    int of_driver;
    unsigned id;
} driver_call;

/* Calls of the tool, in the thread of the program's call. */
typedef struct driver_tool {
    void (*context_created)(unsigned device);
    void (*worked)(const driver_work *work, unsigned correlation);
    void (*called)(driver_call call, unsigned correlation, uint64_t start_ns); /* at the end of the
                                                                                * call */
    void (*waited)(unsigned correlation);       /* in cudaDeviceSynchronize */
    void (*synchronized)(unsigned correlation); /* in cuCtxSynchronize */
    void (*recorded)(unsigned correlation);     /* an event was recorded */
} driver_tool;

/* NULL = no tool any more. */
void driver_double_set_tool(const driver_tool *tool);

/* CLOCK_REALTIME, CUPTI's clock. */
uint64_t driver_double_now_ns(void);

/* Called by the tool when it begins to give back everything it has recorded. */
void driver_double_flushes(void);

/* Waits for `count` more of these flushes. After two, records made before the call have been taken
 * from the tool and written, since the same thread requests both. Aborts after a minute; returns
 * immediately without a tool. */
void driver_double_await_flushes(unsigned count);

/* Calls of a program. Correlation ids count from 1, including those of waits. */
void driver_double_create_context(unsigned device);
unsigned
driver_double_launch(const char *kernel); /* by cudaLaunchKernel, on stream 7 of device 0 */
void driver_double_wait(void);
void driver_double_copy(size_t bytes); /* from page-locked memory to the device */
void driver_double_record(void);

/* Makes a call that starts works[count]. */
unsigned driver_double_call(driver_call call, const driver_work *works, size_t count);

/* An operation of the fake device: a copy if bytes are copied, else a kernel. Starts the driver,
 * and creates the device's context for the first operation. */
void driver_double_operation(int device, const char *name, size_t copied_bytes, bool to_device);

#endif
