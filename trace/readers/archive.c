#include "trace/readers/readers_internal.h"

#include <archive.h>
#include <archive_entry.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/sort.h"

/* Offset of a tar archive's magic (POSIX ustar and GNU). */
#define MAGIC_OFFSET 257
#define BUFFER_BYTES (256U << 10)
#define BEGIN_BYTES 4096
/* Maximum number of omitted members that are named; further ones are only counted. */
#define NAMED_MAX 3

static bool recognises(const char *begin, size_t bytes)
{
    return bytes >= MAGIC_OFFSET + 5 && memcmp(begin + MAGIC_OFFSET, "ustar", 5) == 0;
}

/* The text of a member: the archive's content, decompressed again if gzipped. */
typedef struct member {
    struct archive *archive; /* archive with the members; borrowed */
    struct archive *text;    /* decompressed text of one member */
    char *packed;            /* [BUFFER_BYTES] buffer for the member's packed bytes */
    char begin[BEGIN_BYTES]; /* [begin_bytes] first bytes, of which begin_at have been delivered */
    size_t begin_bytes, begin_at;
    bool failed; /* reading the archive failed; its error gives the reason */
} member;

static la_ssize_t read_packed(struct archive *text DL_UNUSED, void *context, const void **data)
{
    member *m = context;
    const la_ssize_t got = archive_read_data(m->archive, m->packed, BUFFER_BYTES);
    *data = m->packed;
    m->failed = got < 0;
    return got;
}

static size_t read_raw(member *m, char *into, size_t room)
{
    size_t total = 0;
    while (total < room) {
        const la_ssize_t got = archive_read_data(m->text, into + total, room - total);
        if (got <= 0) break;
        total += (size_t)got;
    }
    return total;
}

/* A dl_json_source. */
static size_t read_member(void *context, char *into, size_t room)
{
    member *m = context;
    size_t left = m->begin_bytes - m->begin_at;
    if (left > room) left = room;
    memcpy(into, m->begin + m->begin_at, left);
    m->begin_at += left;
    return left + read_raw(m, into + left, room - left);
}

static dl_status archive_error(struct archive *archive, const char *path, dl_error *err)
{
    const char *text = archive_error_string(archive);
    return dl_error_set_at(err, DL_ERR_FORMAT, path, 0, "damaged: %s",
                           text != NULL ? text : "cut short");
}

/* Opens the archive's current member; an empty member has an empty text. */
static dl_status open_member(member *m, struct archive *archive, const char *path, dl_error *err)
{
    *m = (member){.archive = archive, .text = archive_read_new()};
    m->packed = dl_calloc(BUFFER_BYTES, 1, "member of an archive");
    archive_read_support_filter_gzip(m->text);
    archive_read_support_format_raw(m->text);
    archive_read_support_format_empty(m->text);
    struct archive_entry *entry;
    int code = archive_read_open(m->text, m, NULL, read_packed, NULL);
    if (code == ARCHIVE_OK) code = archive_read_next_header(m->text, &entry);
    if (code == ARCHIVE_OK) m->begin_bytes = read_raw(m, m->begin, BEGIN_BYTES);
    if (m->failed) return archive_error(archive, path, err);
    return code == ARCHIVE_OK || code == ARCHIVE_EOF ? DL_OK : archive_error(m->text, path, err);
}

static void close_member(member *m)
{
    archive_read_free(m->text);
    free(m->packed);
    *m = (member){0};
}

/* Results of one pass over an archive. */
typedef struct pass {
    dl_read_traces *traces;
    const char *path; /* path of the archive */
    char *left_out;   /* names of omitted members, or NULL */
    size_t left_out_count;
} pass;

static void leave_out(pass *p, const char *name)
{
    if (++p->left_out_count <= NAMED_MAX) dl_join(&p->left_out, ", ", name);
}

static dl_status read_text(pass *p, member *m, const char *name, dl_error *err)
{
    dl_read_trace *item = dl_read_add(p->traces);
    dl_status status = dl_kineto_read_text(item, name, read_member, m, err);
    if (m->failed) return archive_error(m->archive, name, err);
    if (archive_errno(m->text) == 0) return status;
    /* A damaged gzip member is the cause of the text's error. */
    return archive_error(m->text, name, err);
}

static dl_status read_entry(pass *p, struct archive *archive, struct archive_entry *entry,
                            dl_error *err)
{
    const char *entry_name = archive_entry_pathname(entry);
    if (archive_entry_filetype(entry) != AE_IFREG) return DL_OK;
    if (entry_name == NULL) entry_name = "(a name that is not text)";
    DL_AUTOFREE char *name = dl_format("%s/%s", p->path, entry_name);
    member m;
    dl_status status = open_member(&m, archive, name, err);
    if (status == DL_OK && dl_kineto_reader.recognises(m.begin, m.begin_bytes)) {
        status = read_text(p, &m, name, err);
    } else if (status == DL_OK) {
        leave_out(p, entry_name);
    }
    close_member(&m);
    return status;
}

static long rank_of(const dl_read_trace *item)
{
    const char *rank = dl_trace_meta(&item->trace, "rank");
    return rank != NULL ? strtol(rank, NULL, 10) : -1;
}

DL_ORDER(by_rank, dl_read_trace, DL_COMPARE(rank_of(a), rank_of(b)), DL_BY_TEXT(trace.path));

static dl_status finish(pass *p, dl_error *err)
{
    dl_read_traces *traces = p->traces;
    if (traces->count == 0) {
        return dl_error_set_at(
            err, DL_ERR_FORMAT, p->path, 0,
            "no member of the archive is Chrome-trace JSON of PyTorch's profiler");
    }
    qsort(traces->items, traces->count, sizeof *traces->items, by_rank);
    if (p->left_out_count > 0) {
        dl_read_note(&traces->items[0], "%zu members of the archive are not traces in JSON: %s%s",
                     p->left_out_count, p->left_out, p->left_out_count > NAMED_MAX ? ", ..." : "");
    }
    return DL_OK;
}

static dl_status read_entries(pass *p, struct archive *archive, dl_error *err)
{
    struct archive_entry *entry;
    dl_status status = DL_OK;
    int code = archive_read_open_filename(archive, p->path, BUFFER_BYTES);
    while (code == ARCHIVE_OK && status == DL_OK) {
        code = archive_read_next_header(archive, &entry);
        if (code == ARCHIVE_WARN) code = ARCHIVE_OK; /* unusual field of a header */
        if (code == ARCHIVE_OK) status = read_entry(p, archive, entry, err);
    }
    if (status != DL_OK || code == ARCHIVE_EOF) return status;
    return archive_error(archive, p->path, err);
}

static dl_status read_archive(dl_read_traces *traces, const char *path, dl_error *err)
{
    pass p = {.traces = traces, .path = path};
    struct archive *archive = archive_read_new();
    DL_ASSERT(archive != NULL, "no memory for an archive");
    archive_read_support_filter_gzip(archive);
    archive_read_support_format_tar(archive);
    dl_status status = read_entries(&p, archive, err);
    if (status == DL_OK) status = finish(&p, err);
    archive_read_free(archive);
    free(p.left_out);
    return status;
}

const dl_trace_reader dl_archive_reader = {"archive", "tar archive of traces, maybe gzipped",
                                           recognises, read_archive};
