#include "trace/readers/reader.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

#include "common/alloc.h"
#include "common/file.h"
#include "common/names.h"
#include "trace/readers/readers_internal.h"

/* Number of leading bytes that suffice for every reader to recognise its files. */
#define BEGIN_BYTES 4096
/* Offset of a tar archive's magic (POSIX ustar). */
#define TAR_MAGIC_OFFSET 257

static bool is_dlt(const char *begin, size_t bytes)
{
    return bytes >= 8 && memcmp(begin, "DLTRACE\n", 8) == 0;
}

static dl_status read_dlt(dl_read_traces *traces, const char *path, dl_error *err)
{
    return dl_trace_read(&dl_read_add(traces)->trace, path, err);
}

static const dl_trace_reader *const readers[] = {
    &dl_kineto_reader,
    &dl_nsys_reader,
#ifdef DL_HAVE_LIBARCHIVE
    &dl_archive_reader,
#endif
    &(const dl_trace_reader){"dlt", "dlprof's own trace", is_dlt, read_dlt},
};

static int is_trace_name(const struct dirent *entry)
{
    static const char *const endings[] = {".dlt", ".json", ".json.gz", ".sqlite"};
    for (size_t i = 0; i < DL_LENGTH(endings); i++)
        if (entry->d_name[0] != '.' && dl_ends_with(entry->d_name, endings[i])) return 1;
    return 0;
}

dl_status dl_trace_folder_list(dl_trace_folder *folder, const char *path, dl_error *err)
{
    DL_AUTOFREE struct dirent **entries = NULL;
    const int count = scandir(path, &entries, is_trace_name, alphasort);
    const char *slash = dl_ends_with(path, "/") ? "" : "/";
    for (int i = 0; i < count; i++) {
        DL_APPEND(folder->files, folder->count, "traces") =
            dl_format("%s%s%s", path, slash, entries[i]->d_name);
        free(entries[i]);
    }
    return count > 0 ? DL_OK : dl_file_refuse_folder(path, err);
}

void dl_trace_folder_free(dl_trace_folder *folder)
{
    for (size_t i = 0; i < folder->count; i++)
        free(folder->files[i]);
    free(folder->files);
    *folder = (dl_trace_folder){0};
}

/* Reads all processes of all traces in the folder. */
static dl_status read_folder(dl_read_traces *traces, const char *path, dl_error *err)
{
    DL_SCOPED(dl_trace_folder) folder = {0};
    const dl_read_options all = {0};
    dl_status status = dl_trace_folder_list(&folder, path, err);
    for (size_t f = 0; f < folder.count && status == DL_OK; f++) {
        dl_read_traces file = {0};
        status = dl_read(&file, folder.files[f], &all, err);
        for (size_t i = 0; i < file.count && status == DL_OK; i++)
            *dl_read_add(traces) = file.items[i];
        if (status == DL_OK) traces->reader = file.reader;
        free(file.items);
    }
    return status;
}

static bool is_folder(const char *path)
{
    struct stat kind;
    return stat(path, &kind) == 0 && S_ISDIR(kind.st_mode);
}

/* Rejects a pipe, because recognition would consume its start. */
static dl_status check_kind(const char *path, dl_error *err)
{
    struct stat kind;
    if (stat(path, &kind) != 0 || S_ISREG(kind.st_mode))
        return DL_OK; /* opening a missing file reports the error */
    return dl_error_set_at(err, DL_ERR_IO, path, 0,
                           "it is a pipe or a device, which cannot be read twice: save "
                           "the trace to a file first (.gz is fine)");
}

static dl_status read_begin(const char *path, char begin[BEGIN_BYTES], size_t *bytes, dl_error *err)
{
    dl_text_source *source = NULL;
    dl_status status = dl_text_source_open(&source, path, err);
    if (status != DL_OK) return status;
    *bytes = dl_text_source_read(source, begin, BEGIN_BYTES);
    return dl_text_source_close(source, NULL, err);
}

static void free_item(dl_read_trace *item)
{
    dl_notes_free(&item->notes);
    dl_trace_free(&item->trace);
}

/* Returns whether the meta key has the value `wanted`; NULL: any. */
static bool has_number(const dl_trace *trace, const char *key, const char *wanted)
{
    const char *number = dl_trace_meta(trace, key);
    return wanted == NULL || (number != NULL && strcmp(number, wanted) == 0);
}

static dl_status refuse_choice(const dl_read_traces *traces, const char *path,
                               const dl_read_options *options, dl_error *err)
{
    DL_AUTOFREE char *have = NULL;
    for (size_t i = 0; i < traces->count; i++) {
        const dl_trace *trace = &traces->items[i].trace;
        const char *rank = dl_trace_meta(trace, "rank"), *pid = dl_trace_meta(trace, "pid");
        dl_join_format(&have, "; ", "process %s, rank %s", pid != NULL ? pid : "unknown",
                       rank != NULL ? rank : "unknown");
    }
    return dl_error_set_at(
        err, DL_ERR_NAME, path, 0, "no process%s%s%s%s in it: it holds %.400s",
        options->process != NULL ? " " : "", options->process != NULL ? options->process : "",
        options->rank != NULL ? " of rank " : "", options->rank != NULL ? options->rank : "",
        have != NULL ? have : "none");
}

/* Keeps the processes that the options select. */
static dl_status choose(dl_read_traces *traces, const char *path, const dl_read_options *options,
                        dl_error *err)
{
    size_t kept = 0;
    if (options->rank == NULL && options->process == NULL) return DL_OK;
    for (size_t i = 0; i < traces->count; i++) {
        const dl_trace *trace = &traces->items[i].trace;
        kept +=
            has_number(trace, "rank", options->rank) && has_number(trace, "pid", options->process);
    }
    if (kept == 0) return refuse_choice(traces, path, options, err);
    kept = 0;
    for (size_t i = 0; i < traces->count; i++) {
        dl_read_trace item = traces->items[i];
        if (has_number(&item.trace, "rank", options->rank) &&
            has_number(&item.trace, "pid", options->process)) {
            traces->items[kept++] = item;
        } else {
            free_item(&item);
        }
    }
    traces->count = kept;
    return DL_OK;
}

dl_status dl_read(dl_read_traces *traces, const char *path, const dl_read_options *options,
                  dl_error *err)
{
    char begin[BEGIN_BYTES] = "";
    size_t bytes = 0;
    if (is_folder(path)) {
        dl_status status = read_folder(traces, path, err);
        if (status == DL_OK) status = choose(traces, path, options, err);
        if (status != DL_OK) dl_read_free(traces);
        return status;
    }
    dl_status status = check_kind(path, err);
    if (status == DL_OK) status = read_begin(path, begin, &bytes, err);
    if (status == DL_OK) status = dl_foreign_refuse(path, begin, bytes, err);
    if (status != DL_OK) return status;
    for (size_t i = 0; i < sizeof readers / sizeof readers[0]; i++) {
        if (!readers[i]->recognises(begin, bytes)) continue;
        traces->reader = readers[i]->name;
        status = readers[i]->read(traces, path, err);
        if (status == DL_OK) status = choose(traces, path, options, err);
        if (status != DL_OK) dl_read_free(traces);
        return status;
    }
    if (bytes == 0) return dl_error_set_at(err, DL_ERR_FORMAT, path, 0, "it is empty");
    if (bytes >= TAR_MAGIC_OFFSET + 5 && memcmp(begin + TAR_MAGIC_OFFSET, "ustar", 5) == 0) {
        return dl_error_set_at(
            err, DL_ERR_FORMAT, path, 0,
            "it is a tar archive, which this build cannot read: unpack it first, "
            "or build with libarchive");
    }
    return dl_error_set_at(
        err, DL_ERR_FORMAT, path, 0,
        "it is not a trace; those of PyTorch's profiler (export_chrome_trace, also gzipped), "
        "Nsight "
        "Systems (SQLite) and dlprof (.dlt) are read; the step time of a training log goes into "
        "dlsim --calibrate");
}

void dl_read_free(dl_read_traces *traces)
{
    for (size_t i = 0; i < traces->count; i++)
        free_item(&traces->items[i]);
    free(traces->items);
    *traces = (dl_read_traces){0};
}
