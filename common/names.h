/* Operations on names: nearest known name, for "did you mean" in error texts; suffixes, hashes. */
#ifndef DL_COMMON_NAMES_H
#define DL_COMMON_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Returns the index of the entry of names[count] that differs from `name` by the fewest
 * single-character edits (Levenshtein; case-insensitive). If none is near (more than half of the
 * letters would have to change), returns the first entry that starts with `name`, of at least three
 * letters ("bert": "bert_base"), or -1. */
int dl_names_nearest(const char *name, const char *const *names, size_t count);

/* Returns the next significant character of a name, in lower case, and advances past it; skips '_',
 * '-', '.' and spaces. 0 at the end. */
int dl_name_letter(const char **name);

/* Returns whether two names have the same significant characters: GPT2-XL is gpt2_xl. */
bool dl_names_alike(const char *a, const char *b);

/* Returns the index of `name` in names[count], or -1. */
int dl_names_find(const char *name, const char *const *names, size_t count);

/* Writes "; did you mean 'X'?" or, if no name is near, "; known: A, B, C" to `text`. */
void dl_names_hint(char *text, size_t bytes, const char *name, const char *const *names,
                   size_t count);

/* A word of another program, read as `here`. If `here` is NULL, the word is rejected, and `says`
 * gives a replacement or states that it is not simulated. The last word of a table is NULL. */
typedef struct dl_word {
    const char *word, *here, *says;
} dl_word;

/* Returns the row of the word `given`; ignores case, and '-' matches '_'. NULL if there is none, or
 * `words` is NULL. */
const dl_word *dl_word_find(const dl_word *words, const char *given);

bool dl_ends_with(const char *text, const char *end);

/* Returns whether the text contains one of `parts`, a NULL-terminated list; case-insensitive. */
bool dl_holds_any(const char *text, const char *const *parts);

/* Returns the part of a path after its last '/', used in notes and reports. Borrowed. */
const char *dl_base_name(const char *path);

/* Returns the part of a path up to and including its last '/'; "." if there is none. The caller
 * frees it. */
char *dl_folder_name(const char *path);

/* Resolves `path` given in `file`: a relative path starts in that file's folder. The caller frees
 * it. */
char *dl_path_beside(const char *file, const char *path);

/* 64-bit FNV-1a hash (Fowler, Noll, Vo), equal in every process. */
uint64_t dl_hash_text(const char *text);

#endif
