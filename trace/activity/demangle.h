/* Readable names of C++ functions.
 *
 * The only user of the C++ run-time library (for __cxa_demangle of the Itanium C++ ABI), in a
 * module and object file of its own, so that programs which need no names, such as the library that
 * is loaded into other programs, do not need libstdc++. */
#ifndef DL_TRACE_ACTIVITY_DEMANGLE_H
#define DL_TRACE_ACTIVITY_DEMANGLE_H

#include <stddef.h>

/* Most characters of a short name. */
#define DL_SHORT_NAME_CHARS 80

/* The function's name without return type, template arguments and arguments, from a mangled or
 * demangled name; a C name is unchanged. Generic kernels are followed by the functor that they run,
 * as "at::native::reduce_kernel<sum_functor>": the first template argument that is not a number, a
 * built-in type or a generic kernel. A name longer than DL_SHORT_NAME_CHARS loses its namespaces,
 * then its middle (".." there). free() it. */
char *dl_demangle_short(const char *name);

/* Cuts `text` in place to at most `chars` (>= 4) characters, with ".." for its middle. */
void dl_cut_middle(char *text, size_t chars);

#endif
