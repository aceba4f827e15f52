/* Axes of a worker's GPUs, and their sizes. */
#ifndef DL_SIM_ISLAND_AXES_H
#define DL_SIM_ISLAND_AXES_H

#include <stdbool.h>
#include <stdint.h>

/* TP divides each layer, CP each sequence, EP the experts; PP: pipeline stages; FSDP: shards of a
 * stage. */
typedef enum dl_axis {
    DL_AXIS_TP,
    DL_AXIS_CP,
    DL_AXIS_EP,
    DL_AXIS_PP,
    DL_AXIS_FSDP,
    DL_AXES
} dl_axis;

/* Names in layouts; that of the workers, "dp", is [DL_AXES], and NULL follows. */
extern const char *const dl_axis_names[DL_AXES + 2];

/* Members with the size of each axis, by dl_axis and by name; <= 1: the axis divides nothing. */
#define DL_AXIS_SIZES                                               \
    union {                                                         \
        int size[DL_AXES];                                          \
        struct {                                                    \
            int tensor;  /* GPUs that divide each layer */          \
            int context; /* GPUs that divide each sequence */       \
            int experts; /* GPUs that divide the experts */         \
            int stages;                                             \
            int shards; /* ranks that share a stage's parameters */ \
        };                                                          \
    }

/* Size of an axis, >= 1. */
int dl_axis_size(const int size[DL_AXES], dl_axis axis);
/* Whether each axis has the same size in a and b. */
bool dl_axes_are_equal(const int a[DL_AXES], const int b[DL_AXES]);
/* Number of GPUs of a worker; INT32_MAX if there are more. */
int dl_axes_gpus(const int size[DL_AXES]);
/* Number of a stage's ranks that have different samples. */
int64_t dl_axes_batches(const int size[DL_AXES]);
/* Returns the axes larger than 1, "tp=2,pp=4", in this order, or in that of dl_axis if it is NULL;
 * NULL if there are none. The caller frees it. */
char *dl_axes_text(const int size[DL_AXES], const dl_axis *order);

#endif
