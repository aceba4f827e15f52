/* Names of C++ functions made readable.
 *
 * The only user of the C++ run-time library (for __cxa_demangle of the Itanium C++ ABI): a module
 * and object file of its own, so that what does not ask for names, as the library that is loaded
 * into other programs, does not need libstdc++.
 */
#ifndef DL_TRACE_ACTIVITY_DEMANGLE_H
#define DL_TRACE_ACTIVITY_DEMANGLE_H

#include <stddef.h>

/* Characters of a short name at most. */
#define DL_SHORT_NAME_CHARS 80

/* The function's name without return type, template arguments and arguments: of a mangled name, of
 * a demangled one, or of a C name, which stays as it is. Frames that say nothing by themselves are
 * followed by what they run, as "at::native::reduce_kernel<sum_functor>": the first template
 * argument that is not a number, no built-in type and no frame.
 * Longer names lose their namespaces, then their middle (".." there). free() it. */
char *dl_demangle_short(const char *name);

/* Cuts `text` to at most `chars` (>= 4) characters in place: ".." for its middle. */
void dl_cut_middle(char *text, size_t chars);

#endif
