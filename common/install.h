/* Data files and libraries installed with the programs. They are found relative to the running
 * program, so that an installed tree may be moved as a whole. A build tree has the same folders. */
#ifndef DL_COMMON_INSTALL_H
#define DL_COMMON_INSTALL_H

#include <stdbool.h>

#include "common/status.h"

/* Returns the path of `name` ("plots", "scenarios/machines") in $DLSCALE_SHARE, if that is set,
 * else in share/dlscale of the installation of the program or of libdlscale. The path need not
 * exist. Never NULL; the caller frees it. */
char *dl_share_path(const char *name);

/* Sets *path to the absolute path of the readable library `name`: beside the running program, else
 * in lib/dlscale of its installation. The caller frees it. Returns DL_ERR_UNSUPPORTED, naming the
 * file beside the program and the system's reason, if it is missing or not readable; DL_ERR_SYSTEM
 * if the program cannot find its own file (no /proc, and the program was moved). */
dl_status dl_library_path(const char *name, char **path, dl_error *err) DL_MUST_CHECK;

/* Stores the address of the function `name` of `library` (dlopen) in *function, a function pointer
 * of any type, since C has no cast from dlsym's object pointer to one. Stores NULL and returns
 * false if the library has no such function. */
bool dl_library_function(void *library, const char *name, void *function);

#endif
