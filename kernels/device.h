/* Devices besides the processor that a model can run on: finding them, and the functions that
 * training needs apart from the backend's operations.
 *
 * A type of device is one const table. The only one is "cuda"; its code is in a separate library,
 * DL_DEVICE_CUDA_LIBRARY in the program's folder, loaded only on request, so that programs
 * start fast and run without CUDA's libraries. Tests pass their own tables. */
#ifndef DL_KERNELS_DEVICE_H
#define DL_KERNELS_DEVICE_H

#include <stdbool.h>
#include <stddef.h>

#include "common/status.h"
#include "kernels/backend.h"
#include "kernels/quantise.h"

#define DL_DEVICE_CUDA_LIBRARY "libdlprof_cuda.so"
#define DL_DEVICE_NAME_BYTES 256  /* as in CUDA */
#define DL_DEVICE_VECTORS_MAX 256 /* maximum vectors of an average */
#define DL_DEVICE_HELD_MAX 800    /* maximum launches behind a hold: GPUs queue about 1000 */

/* One worker's slot on a device: its stream of operations, library handles, scratch memory and
 * marks. A device may have several slots. */
typedef struct dl_device dl_device;

/* Precision to which the factors of matrix products and convolutions may be rounded for the tensor
 * cores: none, TensorFloat-32 (10 bits of mantissa), half precision (10 bits, range 6e-8 to 65504).
 * The libraries round where they have kernels for it. Sums and stored numbers are fp32. With fp16
 * the loss is scaled so that small gradients stay within the range. */
extern const char *const dl_device_math_names[]; /* "fp32", "tf32", "fp16", NULL */
typedef enum dl_device_math {
    DL_DEVICE_MATH_FP32,
    DL_DEVICE_MATH_TF32,
    DL_DEVICE_MATH_FP16
} dl_device_math;

typedef struct dl_device_settings {
    dl_device_math math;
    bool pageable; /* copies use ordinary host memory instead of page-locked */
} dl_device_settings;

typedef struct dl_device_info {
    char name[DL_DEVICE_NAME_BYTES]; /* "NVIDIA H100 80GB HBM3" */
    char bus_id[32];                 /* "0000:17:00.0" */
    size_t memory_bytes;
    int major, minor; /* compute capability */
    int multiprocessors;
} dl_device_info;

#define DL_DEVICE_ID_BYTES 128 /* as in NCCL */

/* A group whose members are in several processes. */
typedef struct dl_device_ranks {
    char id[DL_DEVICE_ID_BYTES]; /* made by make_id in one process; equal in all processes */
    int first, count;            /* this process's slots are members first, first + 1, ... of
                                  * `count` */
    double limit_s;              /* longest wait for the other members */
    bool (*lost)(void *user);    /* returns whether another process is known to have ended; called
                                  * by any thread */
    void *user;
} dl_device_ranks;

typedef struct dl_device_type {
    const char *name; /* "cuda" */
    /* Operations on the slot in use by the calling thread. */
    const dl_backend *backend;

    /* Number of devices of this machine, at least 1; DL_ERR_UNSUPPORTED with the reason if there is
     * none. */
    dl_status (*count)(int *count, dl_error *err);
    dl_status (*describe)(int number, dl_device_info *info, dl_error *err);

    /* Opens a slot on device `number`; DL_ERR_UNSUPPORTED if that lacks the arithmetic. Any thread
     * may use it, but only one at a time. */
    dl_status (*open)(dl_device **device, int number, const dl_device_settings *settings,
                      dl_error *err);
    void (*close)(dl_device *device); /* NULL is allowed; release its memory before */
    /* Makes `device` the slot that the backend's operations and those below use in this thread. */
    void (*use)(dl_device *device);

    /* Bytes in use on the device of the slot in use, by this program, its libraries, and others. */
    size_t (*used_bytes)(void);

    /* Records mark `index` (0, 1, ...) after the operations launched so far; a mark may be recorded
     * again. */
    void (*mark)(size_t index);
    /* Returns the time in ns from mark `from` to a later mark `to`, accurate to about half a
     * microsecond; call it after `wait`. */
    double (*between_ns)(size_t from, size_t to);

    /* Makes a group of devices[count], unused slots, for all-reduces; DL_ERR_UNSUPPORTED if two of
     * them are on one device, DL_ERR_SYSTEM if the library cannot join them. With `ranks` not NULL
     * the group spans several processes, each of which calls this with its own slots as devices[].
     * If a member fails, `lost` must report its process in the other processes, so that their
     * `wait` fails. make_id makes the id of one such group. */
    dl_status (*join)(dl_device *const *devices, int count, const dl_device_ranks *ranks,
                      dl_error *err);
    dl_status (*make_id)(char id[DL_DEVICE_ID_BYTES], dl_error *err);
    /* All-reduce: values[count] = mean of all members' values. Every member must call it; a thread
     * that calls it for several members does so between group(true) and group(false). Once a member
     * has failed, `wait` fails for the others too, instead of waiting for it. */
    void (*all_reduce)(void *values, size_t count);
    void (*group)(bool begin);

    /* For measurements. Operations launched after `hold` start at `let_go`, so that launch times do
     * not count. Launch at most DL_DEVICE_HELD_MAX in between, and none for which the host waits
     * (copies of pageable memory, and between devices that do not reach each other). A slot's first
     * hold allocates memory, which may wait for held devices. A hold ends by itself after two
     * seconds. */
    void (*hold)(void);
    void (*let_go)(void);
    /* Launches an empty operation. */
    void (*launch)(void);
    /* Requests direct copies between the used slot's device and another slot's; returns whether
     * there are. Otherwise the host passes each copy on, and waits for all that was launched before
     * it (seen with RTX 3090: forums.developer.nvidia.com, thread 295894). */
    bool (*reach)(const dl_device *other);
    /* Copies between two slots' memory, on one device or two; the used slot is one of them and
     * launches the copy. */
    void (*copy)(const dl_device *target, void *to, const dl_device *source, const void *from,
                 size_t bytes);

    /* To be called after every backward pass of a slot with fp16: divides the gradients by the loss
     * scale. If one of them is not finite, all become 0: a step that overflows changes only
     * momentum. */
    void (*unscale)(void *gradients, size_t count);

    /* result[count] = mean of vectors[0..n-1], as dl_exchange_average, n <= DL_DEVICE_VECTORS_MAX;
     * all in the used slot's memory. The list itself is in host memory and may be freed on
     * return. */
    void (*average)(void *result, const void *const *vectors, int n, size_t count);
    /* As dl_quantise_encode and dl_quantise_decode, for the kinds fp16 and 1bit only; all pointers
     * are to the used slot's memory, and `blocks` is a copy of plan->blocks. */
    void (*encode)(const dl_quantise_plan *plan, const void *blocks, const void *values,
                   void *residual, void *message);
    void (*decode)(const dl_quantise_plan *plan, const void *blocks, const void *message,
                   void *values);
} dl_device_type;

/* A parsed "cpu", "cuda" or "cuda:2". */
typedef struct dl_device_choice {
    bool cuda;
    int first; /* number of the first device to use; the others follow */
} dl_device_choice;

/* Parses `text`. Returns DL_ERR_USAGE if it is none of these. */
dl_status dl_device_parse(const char *text, dl_device_choice *choice, dl_error *err) DL_MUST_CHECK;

/* Loads the "cuda" table from DL_DEVICE_CUDA_LIBRARY, which stays loaded. DL_ERR_UNSUPPORTED,
 * naming the missing part and offering the processor, if it cannot be loaded or there is no device;
 * DL_ERR_SYSTEM if the program's folder cannot be found. */
dl_status dl_device_load_cuda(const dl_device_type **type, dl_error *err) DL_MUST_CHECK;

/* The library's export: a function without arguments that returns its table. */
#define DL_DEVICE_ENTRY "dl_device_entry"
typedef const dl_device_type *(*dl_device_entry_function)(void);

/* Loads a table from the library at `path`; errors as above. */
dl_status dl_device_load(const char *path, const dl_device_type **type,
                         dl_error *err) DL_MUST_CHECK;

#endif
