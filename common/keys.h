/* Keys of one kind of INI file as one constant table: each key's values, unit, range and default,
 * and the field that stores it. Readers, checks and the reference (docs/keys.md, dlsim --keys) are
 * derived from the rows. */
#ifndef DL_COMMON_KEYS_H
#define DL_COMMON_KEYS_H

#include <stdio.h>

#include "common/ini.h"
#include "common/names.h"
#include "common/quantity.h"

/* Parsing of a key's value, and the type of the field that stores it. */
typedef enum dl_key_type {
    DL_KEY_TEXT,     /* char *: any text */
    DL_KEY_CHOICE,   /* int or an enum: index into choices */
    DL_KEY_FLAG,     /* bool: no or yes, or two given choices */
    DL_KEY_INT,      /* int */
    DL_KEY_INT64,    /* int64_t */
    DL_KEY_REAL,     /* double */
    DL_KEY_QUANTITY, /* dl_quantity: with unit and origin */
    DL_KEY_OWN       /* read by separate code; described by `form` */
} dl_key_type;

/* A key. Numbers outside low..high, a generous range, are rejected as mistakes. */
typedef struct dl_key {
    const char *section; /* "op *": section with any name */
    const char *name;    /* "copies_*": followed by a number or a name */
    dl_key_type type;
    dl_dimension dimension;     /* dimension of a number; without a unit, a time is in ns */
    double low, high;           /* range of a number */
    const char *const *choices; /* NULL-terminated */
    const char *form;           /* form of the value, if not given by type and choices */
    const char *fallback;       /* default, in the form of a file; NULL: none */
    bool required;
    int owner;      /* struct that stores the value, numbered by the table */
    size_t offset;  /* offset in that struct; for DL_KEY_OWN only if the reader uses it */
    unsigned group; /* bit set of the key's users, defined by the table */
    const char *help;
    const char
        *only;  /* condition on another key of the section, without which this key has no effect:
                 * "compress = topk", "kind = lognormal, gamma", "stages > 1", "topology" (any but
                 * none) */
    char sweep; /* separator of a list that makes variants: ',' or '|'; '.': a list makes points; 0:
                 * no lists */
    const char *column;       /* result column if the key is swept; NULL: its name */
    int limits;               /* part of a result that the key's default may limit, numbered by the
                               * table */
    bool bounds;              /* a quantity may have bounds: NUMBER (LOW to HIGH) */
    const dl_word *elsewhere; /* other programs' words for its choices; NULL: none */
} dl_key;

typedef struct dl_keys {
    const dl_key *rows;
    size_t count;
    const dl_word *words;    /* other programs' words for SECTION.KEY; NULL: none */
    const char *const *made; /* sections that only programs write, which docs/keys.md leaves out;
                              * NULL: none */
} dl_keys;

/* Returns DL_ERR_NAME, with a hint (another section or program's name, or the nearest one), for the
 * first section of the file without a matching row, else for the first key without one or before
 * the first section. */
dl_status dl_keys_check(const dl_keys *keys, const dl_ini *ini, dl_error *err) DL_MUST_CHECK;

/* Returns the row of a key; `section` may match a pattern ("op conv1.forward"). NULL: none. */
const dl_key *dl_keys_find(const dl_keys *keys, const char *section, const char *name);

/* Finds the row of "SECTION.KEY", or of a "KEY" that only one section has; else returns
 * DL_ERR_NAME, with a hint. */
dl_status dl_keys_named(const dl_keys *keys, const char *text, const dl_key **found,
                        dl_error *err) DL_MUST_CHECK;

/* Reads every key of `owner` except DL_KEY_OWN into *part: the file's value, else the fallback.
 * Without either, leaves the field unchanged; for a missing required key, returns DL_ERR_DATA at
 * the line of the section. With `section` reads only rows whose pattern matches it; with NULL,
 * reads all rows, each in the section of exactly the row's name. Copies texts. */
dl_status dl_keys_read(const dl_keys *keys, int owner, const dl_ini *ini, const char *section,
                       void *part, dl_error *err) DL_MUST_CHECK;

/* Returns DL_ERR_RANGE if the number is outside the key's range. `text` is the number in the
 * file. */
dl_status dl_key_check(const dl_key *key, double value, const char *text, const dl_ini *ini,
                       const dl_ini_entry *entry, dl_error *err) DL_MUST_CHECK;

/* Finds the index of `text` among the key's choices, or of the choice for another program's word;
 * else returns DL_ERR_NAME with a hint. */
dl_status dl_key_choice(const dl_key *key, const char *text, int *choice,
                        dl_error *err) DL_MUST_CHECK;

/* Returns a field's value in the form of a file, without unit and origin; not for DL_KEY_OWN. The
 * caller frees it. */
char *dl_key_text(const dl_key *key, const void *field);

/* Writes the name of the key that `only` refers to into name[bytes]; returns false if there is
 * none. */
bool dl_key_depends(const dl_key *key, char *name, size_t bytes);

/* Returns whether the condition `only` holds if the key that it names has this value (NULL:
 * none). */
bool dl_key_holds(const dl_key *key, const char *value);

/* Output form of the table: for a terminal, as Markdown tables, as part of a manual page. */
typedef enum dl_keys_form { DL_KEYS_TERMINAL, DL_KEYS_MARKDOWN, DL_KEYS_MAN } dl_keys_form;

/* Prints one section of the table, or all (NULL), where neighbouring sections with the same keys
 * are merged. Returns false if there is no such section. `takes`, unless NULL, writes to
 * text[bytes] the modes that use a key, "" for all. `before` is NULL or a table printed earlier: a
 * section with the same keys in both tables is printed without its keys. */
typedef void (*dl_key_takes_fn)(const dl_key *key, char *text, size_t bytes);

bool dl_keys_print(FILE *out, const dl_keys *keys, const char *section, dl_keys_form form,
                   dl_key_takes_fn takes, const dl_keys *before);

/* Finds an entry; returns DL_ERR_DATA at the line of the section if it is missing. */
dl_status dl_keys_need(const dl_ini *ini, const char *section, const char *name,
                       const dl_ini_entry **entry, dl_error *err) DL_MUST_CHECK;

#endif
