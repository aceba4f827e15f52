/* The keys of one kind of INI file as one constant table: each key's values, unit, range and
 * default, and the field that keeps it. Readers, checks and the reference (docs/keys.md, dlsim
 * --keys) are made from the rows. */
#ifndef DL_COMMON_KEYS_H
#define DL_COMMON_KEYS_H

#include <stdint.h>
#include <stdio.h>

#include "common/ini.h"
#include "common/names.h"
#include "common/quantity.h"

/* How a key's value is read, and the type of the field that keeps it. */
typedef enum dl_key_type {
    DL_KEY_TEXT,     /* char *: any text */
    DL_KEY_CHOICE,   /* int or an enum: index in choices */
    DL_KEY_FLAG,     /* bool: no, yes, or the two choices */
    DL_KEY_INT,      /* int */
    DL_KEY_INT64,    /* int64_t */
    DL_KEY_REAL,     /* double */
    DL_KEY_QUANTITY, /* dl_quantity: with unit and origin */
    DL_KEY_OWN       /* read by code of its own; `form` describes it */
} dl_key_type;

/* One key. Numbers outside low..high, a generous range, are taken for mistakes and refused. */
typedef struct dl_key {
    const char *section; /* "op *": of any name */
    const char *name;    /* "copies_*": with a number or a name after it */
    dl_key_type type;
    dl_dimension dimension;     /* of a number; times are in ns, without a unit too */
    double low, high;           /* of a number */
    const char *const *choices; /* NULL-terminated */
    const char *form;           /* form of the value, if type and choices do not say */
    const char *fallback;       /* as a file would give it; NULL: none */
    bool required;
    int owner;      /* which struct keeps it: the table's own numbers */
    size_t offset;  /* in that struct; of DL_KEY_OWN only where the reader says so */
    unsigned group; /* the table's own: who needs or takes it */
    const char *help;
    const char
        *only;  /* "compress = topk", "kind = lognormal, gamma", "stages > 1", "scale_compute":
                   condition on another key of the section, without which it means nothing */
    char sweep; /* between the values of a list that makes variants: ',' or '|'; '.': a list
                   makes points; 0: no lists */
    const char *column;       /* of the results where it is swept; NULL: its name */
    int limits;               /* the table's own: parts of a result that its default may limit */
    bool bounds;              /* a quantity's number may have bounds: NUMBER (LOW to HIGH) */
    const dl_word *elsewhere; /* other programs' words for its choices; NULL: none */
} dl_key;

typedef struct dl_keys {
    const dl_key *rows;
    size_t count;
    const dl_word *words; /* other programs', for SECTION.KEY; NULL: none */
} dl_keys;

/* DL_ERR_NAME for the first section or key of the file that no row admits, with the nearest name.
 */
dl_status dl_keys_check(const dl_keys *keys, const dl_ini *ini, dl_error *err) DL_MUST_CHECK;

/* The row of a key; `section` may be one that a pattern admits ("op conv1.forward"). NULL: none. */
const dl_key *dl_keys_find(const dl_keys *keys, const char *section, const char *name);

/* The row of "SECTION.KEY", or of "KEY" that just one section has; else DL_ERR_NAME, with the
 * nearest name. */
dl_status dl_keys_named(const dl_keys *keys, const char *text, const dl_key **found,
                        dl_error *err) DL_MUST_CHECK;

/* Reads every key of `owner` that is not DL_KEY_OWN into *part: the file's value, or the fallback;
 * without both the field stays as it is, or, if the key is required, DL_ERR_DATA at the line of the
 * section. With `section` only the rows whose pattern admits it are read; NULL: rows whose section
 * is no pattern. Texts are copied. */
dl_status dl_keys_read(const dl_keys *keys, int owner, const dl_ini *ini, const char *section,
                       void *part, dl_error *err) DL_MUST_CHECK;

/* DL_ERR_RANGE unless the number is in the key's range. `text`: the number as the file gives it. */
dl_status dl_key_check(const dl_key *key, double value, const char *text, const dl_ini *ini,
                       const dl_ini_entry *entry, dl_error *err) DL_MUST_CHECK;

/* The index of `text` among the key's choices; DL_ERR_NAME with the nearest one. */
dl_status dl_key_choice(const dl_key *key, const char *text, int *choice,
                        dl_error *err) DL_MUST_CHECK;

/* A field's value as a file would give it, without unit and origin; not of DL_KEY_OWN. The caller
 * frees it. */
char *dl_key_text(const dl_key *key, const void *field);

/* Writes the name of the key that `only` depends on to name[bytes]; false: there is none. */
bool dl_key_depends(const dl_key *key, char *name, size_t bytes);

/* Whether the condition `only` holds if the key that it names has this value (NULL: none). */
bool dl_key_holds(const dl_key *key, const char *value);

/* How the table is printed: for a terminal, as Markdown tables, as part of a manual page. */
typedef enum dl_keys_form { DL_KEYS_TERMINAL, DL_KEYS_MARKDOWN, DL_KEYS_MAN } dl_keys_form;

/* Prints one section of the table, or all (NULL), neighbouring sections with the same keys as one.
 * False if there is no such section. `takes`, unless NULL, writes to text[bytes] which modes take a
 * key, "" for all. `before`: NULL, or a table printed earlier, whose sections with the same keys
 * are only named. */
typedef void (*dl_key_takes_fn)(const dl_key *key, char *text, size_t bytes);

bool dl_keys_print(FILE *out, const dl_keys *keys, const char *section, dl_keys_form form,
                   dl_key_takes_fn takes, const dl_keys *before);

/* Finds an entry; DL_ERR_DATA at the line of the section if it is missing. */
dl_status dl_keys_need(const dl_ini *ini, const char *section, const char *name,
                       const dl_ini_entry **entry, dl_error *err) DL_MUST_CHECK;

#endif
