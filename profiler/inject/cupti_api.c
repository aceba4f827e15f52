#include "profiler/inject/cupti_api.h"

#include <dlfcn.h>
#include <stdio.h>

#include "common/install.h"

#define PATH_BYTES 4096

/* Library names by CUDA's major version. */
static const char *const sonames[] = {"libcupti.so.13", "libcupti.so.12", "libcupti.so.11.8"};
#define SONAME_COUNT (sizeof sonames / sizeof sonames[0])
#define FIRST_OF_CUDA_12 1
#define CUDA_13 13000

/* Folders used by toolkits. DL_CUPTI_FOLDER is that of the toolkit used for this build. */
static const char *const folders[] = {DL_CUPTI_FOLDER, "/usr/local/cuda/extras/CUPTI/lib64",
                                      "/usr/local/cuda/lib64"};
#define FOLDER_COUNT (sizeof folders / sizeof folders[0])

dl_cuda_api dl_cuda_api_find(void)
{
    dl_cuda_api cuda = {0};
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    if (library == NULL) return cuda;
#define FIND(name) dl_library_function(library, "cu" #name, &cuda.name);
    DL_CUDA_FUNCTIONS(FIND)
#undef FIND
    if (cuda.DriverGetVersion == NULL || cuda.DriverGetVersion(&cuda.version) != CUDA_SUCCESS) {
        cuda.version = 0;
    }
    return cuda;
}

/* Finds a library that the process has already loaded. */
static void *find_loaded(void)
{
    void *library = NULL;
    for (size_t i = 0; i < SONAME_COUNT && library == NULL; i++)
        library = dlopen(sonames[i], RTLD_NOW | RTLD_NOLOAD);
    return library;
}

static void *load_name(const char *soname)
{
    void *library = dlopen(soname, RTLD_NOW | RTLD_LOCAL);
    for (size_t i = 0; i < FOLDER_COUNT && library == NULL; i++) {
        char path[PATH_BYTES];
        snprintf(path, sizeof path, "%s/%s", folders[i], soname);
        library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    }
    return library;
}

/* Loads CUPTI for the driver's major version, else for another: CUPTI may be older than the driver,
 * but not newer. */
static void *load_for(int driver_version)
{
    const size_t first = driver_version > 0 && driver_version < CUDA_13 ? FIRST_OF_CUDA_12 : 0;
    void *library = NULL;
    for (size_t i = 0; i < SONAME_COUNT && library == NULL; i++)
        library = load_name(sonames[(first + i) % SONAME_COUNT]);
    return library;
}

static dl_status find_functions(dl_cupti_api *api, void *library, dl_error *err)
{
#define OPTIONAL(name) dl_library_function(library, "cupti" #name, &api->name);
#define NEEDED(name)                                                                   \
    if (!dl_library_function(library, "cupti" #name, &api->name)) {                    \
        return dl_error_set(err, DL_ERR_UNSUPPORTED, "libcupti lacks cupti%s", #name); \
    }
    DL_CUPTI_NEEDED(NEEDED)
    DL_CUPTI_OPTIONAL(OPTIONAL)
#undef NEEDED
#undef OPTIONAL
    return DL_OK;
}

dl_status dl_cupti_api_load(dl_cupti_api *api, const char *path, int driver_version, dl_error *err)
{
    dl_cupti_api made = {0};
    void *library = path[0] != '\0' ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : find_loaded();
    if (library == NULL && path[0] == '\0') library = load_for(driver_version);
    if (library == NULL) {
        const char *why = dlerror();
        return dl_error_set(err, DL_ERR_UNSUPPORTED, "cannot load %s: %s",
                            path[0] != '\0' ? path : "libcupti", why != NULL ? why : "not found");
    }
    const dl_status status = find_functions(&made, library, err);
    if (status != DL_OK) return status;
    const CUptiResult result = made.GetVersion(&made.version);
    if (result != CUPTI_SUCCESS) { /* from 13.3 on, if there is no driver */
        return dl_error_set(err, DL_ERR_UNSUPPORTED,
                            "libcupti does not report its version (error %d), as without a "
                            "driver that it supports",
                            (int)result);
    }
    if (made.version < DL_CUPTI_11_6) {
        return dl_error_set(err, DL_ERR_UNSUPPORTED,
                            "libcupti has version %u: that of CUDA 11.6 or later is needed",
                            (unsigned)made.version);
    }
    *api = made;
    return DL_OK;
}

bool dl_cupti_gives_names(const dl_cupti_api *api)
{
    return api->version >= DL_CUPTI_13_0;
}

const char *dl_cupti_result_name(const dl_cupti_api *api, CUptiResult result)
{
    const char *name = NULL;
    if (api->GetResultString(result, &name) != CUPTI_SUCCESS || name == NULL) return "unknown";
    return name;
}
