/* Names that a user may mistype: the nearest known one, for "did you mean" in error texts. */
#ifndef DL_COMMON_NAMES_H
#define DL_COMMON_NAMES_H

#include <stddef.h>

/* Index of the entry of names[count] that differs from `name` by the fewest single-character edits
 * (Levenshtein), or -1 if none is near (more than half of its letters would have to change). */
int dl_names_nearest(const char *name, const char *const *names, size_t count);

/* Index of `name` in names[count], or -1. */
int dl_names_find(const char *name, const char *const *names, size_t count);

/* Writes "; did you mean 'X'?" or, where nothing is near, "; known: A, B, C" to `text`. */
void dl_names_hint(char *text, size_t bytes, const char *name, const char *const *names,
                   size_t count);

#endif
