#include "common/install.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/system.h"

/* Returns the folder of the running program; NULL with errno if it cannot be found. The caller
 * frees it. */
static char *program_folder(void)
{
    char *program = dl_system_program();
    if (program == NULL) return NULL;
    char *slash = strrchr(program, '/');
    *slash = '\0';
    return program;
}

/* Returns the folder of the shared library that contains this code; NULL in a program. The caller
 * frees it. */
static char *library_folder(void)
{
    static const char here = 0;
    char *library = dl_system_library(&here);
    if (library != NULL) *strrchr(library, '/') = '\0';
    return library;
}

char *dl_share_path(const char *name)
{
    const char *given = getenv("DLSCALE_SHARE");
    if (given != NULL && given[0] != '\0') return dl_format("%s/%s", given, name);
    DL_AUTOFREE char *folder = library_folder();
    const char *share = folder != NULL ? DL_SHARE_FROM_LIBRARY : DL_SHARE_FROM_PROGRAM;
    if (folder == NULL) folder = program_folder();
    char *path = dl_format("%s/%s/%s", folder != NULL ? folder : ".", share, name);
    /* Resolve the path: it is shorter in messages, and the folder may vanish while the program
     * runs. */
    char *real = realpath(path, NULL);
    if (real == NULL) return path;
    free(path);
    return real;
}

dl_status dl_library_path(const char *name, char **path, dl_error *err)
{
    DL_AUTOFREE char *folder = program_folder();
    if (folder == NULL) {
        return dl_error_set(err, DL_ERR_SYSTEM,
                            "cannot find the program's own file, beside which %s lies: %s", name,
                            strerror(errno));
    }
    DL_AUTOFREE char *beside = dl_format("%s/%s", folder, name);
    const int reason = access(beside, R_OK) == 0 ? 0 : errno;
    DL_AUTOFREE char *installed = dl_format("%s/%s/%s", folder, DL_LIBRARIES_FROM_PROGRAM, name);
    char *real = reason != 0 && access(installed, R_OK) == 0 ? realpath(installed, NULL) : NULL;
    dl_status status = DL_OK;
    if (reason == 0) {
        *path = dl_strdup(beside);
    } else if (real != NULL) {
        *path = real;
    } else {
        status = dl_error_set_at(err, DL_ERR_UNSUPPORTED, beside, 0, "%s", strerror(reason));
    }
    return status;
}

bool dl_library_function(void *library, const char *name, void *function)
{
    void *found = dlsym(library, name);
    memcpy(function, &found, sizeof found);
    return found != NULL;
}
