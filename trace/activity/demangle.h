/* Readable names of C++ functions.
 *
 * This module is the only user of the C++ run-time library (for __cxa_demangle of the Itanium C++
 * ABI). It is a separate object file, so that programs without need for such names, such as the
 * library that is loaded into other programs, do not depend on libstdc++. */
#ifndef DL_TRACE_ACTIVITY_DEMANGLE_H
#define DL_TRACE_ACTIVITY_DEMANGLE_H

#include <stddef.h>

/* Maximum length of a short name in characters. */
#define DL_SHORT_NAME_CHARS 80

/* Returns the function's name without return type, template arguments and arguments, from a mangled
 * or demangled name; a C name is unchanged. A generic kernel is followed by the functor that it
 * runs, as in "at::native::reduce_kernel<sum_functor>": the first template argument that is not a
 * number, a built-in type or a generic kernel. A name longer than DL_SHORT_NAME_CHARS loses its
 * namespaces, then its middle (replaced by ".."). The caller frees it. */
char *dl_demangle_short(const char *name);

/* Shortens `text` in place to at most `chars` (>= 4) characters by replacing its middle with
 * "..". */
void dl_cut_middle(char *text, size_t chars);

#endif
