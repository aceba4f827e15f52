#include "sim/island/axes.h"

#include <stddef.h>

#include "common/alloc.h"

const char *const dl_axis_names[] = {[DL_AXIS_TP] = "tp",
                                     [DL_AXIS_CP] = "cp",
                                     [DL_AXIS_EP] = "ep",
                                     [DL_AXIS_PP] = "pp",
                                     [DL_AXIS_FSDP] = "fsdp",
                                     [DL_AXES] = "dp",
                                     NULL};

int dl_axis_size(const int size[DL_AXES], dl_axis axis)
{
    return size[axis] > 1 ? size[axis] : 1;
}

bool dl_axes_are_equal(const int a[DL_AXES], const int b[DL_AXES])
{
    int axis = 0;
    while (axis < DL_AXES && dl_axis_size(a, (dl_axis)axis) == dl_axis_size(b, (dl_axis)axis))
        axis++;
    return axis == DL_AXES;
}

int dl_axes_gpus(const int size[DL_AXES])
{
    int64_t gpus = 1;
    for (int a = 0; a < DL_AXES; a++) {
        gpus *= dl_axis_size(size, (dl_axis)a);
        if (gpus > INT32_MAX) return INT32_MAX;
    }
    return (int)gpus;
}

int64_t dl_axes_batches(const int size[DL_AXES])
{
    return (int64_t)dl_axis_size(size, DL_AXIS_FSDP) * dl_axis_size(size, DL_AXIS_EP);
}

char *dl_axes_text(const int size[DL_AXES], const dl_axis *order)
{
    char *text = NULL;
    for (int a = 0; a < DL_AXES; a++) {
        const dl_axis axis = order != NULL ? order[a] : (dl_axis)a;
        if (size[axis] <= 1) continue;
        dl_join_format(&text, ",", "%s=%d", dl_axis_names[axis], size[axis]);
    }
    return text;
}
