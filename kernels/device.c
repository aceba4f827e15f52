#include "kernels/device.h"

#include <dlfcn.h>
#include <string.h>

#include "common/alloc.h"
#include "common/install.h"
#include "common/units.h"

#define OFFER "; --device cpu uses the processor"

/* Largest plausible device number in an option. */
#define DEVICES_MAX 4096

const char *const dl_device_math_names[] = {[DL_DEVICE_MATH_FP32] = "fp32",
                                            [DL_DEVICE_MATH_TF32] = "tf32",
                                            [DL_DEVICE_MATH_FP16] = "fp16",
                                            [DL_DEVICE_MATH_FP16 + 1] = NULL};

dl_status dl_device_parse(const char *text, dl_device_choice *choice, dl_error *err)
{
    int64_t first = 0;
    if (strcmp(text, "cpu") == 0) {
        *choice = (dl_device_choice){.cuda = false};
        return DL_OK;
    }
    if (strcmp(text, "cuda") == 0 ||
        (strncmp(text, "cuda:", 5) == 0 &&
         dl_parse_int(text + 5, 0, DEVICES_MAX - 1, &first, NULL) == DL_OK)) {
        *choice = (dl_device_choice){.cuda = true, .first = (int)first};
        return DL_OK;
    }
    return dl_error_set(err, DL_ERR_USAGE,
                        "unknown device '%.64s'; must be cpu, cuda, or cuda:NUMBER", text);
}

dl_status dl_device_load(const char *path, const dl_device_type **type, dl_error *err)
{
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) {
        return dl_error_set(err, DL_ERR_UNSUPPORTED, "cannot load CUDA: %.300s" OFFER, dlerror());
    }
    dl_device_entry_function entry = NULL;
    if (!dl_library_function(handle, DL_DEVICE_ENTRY, &entry)) {
        dlclose(handle);
        return dl_error_set(err, DL_ERR_UNSUPPORTED, "%.300s has no " DL_DEVICE_ENTRY OFFER, path);
    }
    const dl_device_type *found = entry();
    int count = 0;
    dl_error why = {0};
    if (found->count(&count, &why) != DL_OK) {
        return dl_error_set(err, DL_ERR_UNSUPPORTED, "%.400s" OFFER, why.text);
    }
    *type = found;
    return DL_OK;
}

dl_status dl_device_load_cuda(const dl_device_type **type, dl_error *err)
{
    DL_AUTOFREE char *path = NULL;
    dl_error why = {0};
    dl_status status = dl_library_path(DL_DEVICE_CUDA_LIBRARY, &path, &why);
    if (status == DL_ERR_UNSUPPORTED) {
        return dl_error_set(err, status, "this build has no CUDA: there is no %.300s" OFFER,
                            why.file);
    }
    if (status != DL_OK) return dl_error_set(err, status, "%s", why.text);
    status = dl_device_load(path, type, err);
    return status;
}
