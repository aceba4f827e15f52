/* Replaces libdlprof_cuda.so where calls are measured: a device type whose calls go to the double
 * of the driver. DOUBLE_DEVICE=none: there is no device. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/device.h"
#include "tests/doubles/driver_double.h"

struct dl_device {
    int number;
};

static dl_status start(dl_error *err DL_UNUSED)
{
    return DL_OK;
}

static void *allocate(size_t bytes, const char *purpose DL_UNUSED)
{
    return calloc(1, bytes);
}

static void upload(void *to, const void *from, size_t bytes)
{
    memcpy(to, from, bytes);
    driver_double_copy(bytes);
}

static dl_status wait_done(dl_error *err DL_UNUSED)
{
    return DL_OK;
}

static dl_status count_devices(int *count, dl_error *err)
{
    const char *word = getenv("DOUBLE_DEVICE");
    *count = 1;
    if (word == NULL || strcmp(word, "none") != 0) {
        cuInit(0);
        return DL_OK;
    }
    snprintf(err->text, sizeof err->text, "the double has no device");
    return err->code = DL_ERR_UNSUPPORTED;
}

static dl_status describe(int number, dl_device_info *info, dl_error *err)
{
    (void)number, (void)err;
    *info = (dl_device_info){.name = "Double of a GPU"};
    return DL_OK;
}

static dl_status open_device(dl_device **device, int number, const dl_device_settings *settings,
                             dl_error *err)
{
    static dl_device only;
    (void)settings, (void)err;
    only.number = number;
    *device = &only;
    driver_double_create_context(0);
    return DL_OK;
}

static void close_device(dl_device *device DL_UNUSED) {}

static void mark(size_t index DL_UNUSED)
{
    driver_double_record();
}

static void launch(void)
{
    driver_double_launch("_Z7nothingv");
}

static const dl_backend backend = {.name = "double",
                                   .start = start,
                                   .allocate = allocate,
                                   .release = free,
                                   .allocate_host = allocate,
                                   .release_host = free,
                                   .upload = upload,
                                   .wait = wait_done};

static const dl_device_type type = {.name = "double",
                                    .backend = &backend,
                                    .count = count_devices,
                                    .describe = describe,
                                    .open = open_device,
                                    .close = close_device,
                                    .use = close_device,
                                    .mark = mark,
                                    .launch = launch};

const dl_device_type *dl_device_entry(void);

const dl_device_type *dl_device_entry(void)
{
    return &type;
}
