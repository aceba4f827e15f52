/* Names: the nearest known one, for "did you mean" in error texts; ends, hashes. */
#ifndef DL_COMMON_NAMES_H
#define DL_COMMON_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Index of the entry of names[count] that differs from `name` by the fewest single-character edits
 * (Levenshtein; case does not matter); if none is near (more than half of its letters would have to
 * change), the first that starts with it ("bert": "bert_base"), or -1. */
int dl_names_nearest(const char *name, const char *const *names, size_t count);

/* Index of `name` in names[count], or -1. */
int dl_names_find(const char *name, const char *const *names, size_t count);

/* Writes "; did you mean 'X'?" or, where nothing is near, "; known: A, B, C" to `text`. */
void dl_names_hint(char *text, size_t bytes, const char *name, const char *const *names,
                   size_t count);

/* A word of another program, read as `here`; if `here` is NULL, the word is refused, and `says`
 * tells what to write instead or that it is not simulated. The last word of a table is NULL. */
typedef struct dl_word {
    const char *word, *here, *says;
} dl_word;

/* The row of the word `given`; case does not matter, and '-' matches '_'. NULL: there is none, or
 * `words` is NULL. */
const dl_word *dl_word_find(const dl_word *words, const char *given);

bool dl_ends_with(const char *text, const char *end);

/* Whether the text holds one of `parts`, a list that NULL ends; case does not matter. */
bool dl_holds_any(const char *text, const char *const *parts);

/* Part of a path after its last '/', as notes and reports name files. Borrowed. */
const char *dl_base_name(const char *path);

/* Part of a path up to its last '/', with it; "." if there is none. free() it. */
char *dl_folder_name(const char *path);

/* `path` as given in `file`: a relative one starts in that file's folder. free() it. */
char *dl_path_beside(const char *file, const char *path);

/* FNV-1a (Fowler, Noll, Vo), 64 bits: the same in every process. */
uint64_t dl_hash_text(const char *text);

#endif
