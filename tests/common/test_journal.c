#include "tests/check.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/file.h"
#include "common/jobs.h"
#include "common/journal.h"
#include "common/system.h"

enum { JOBS = 5 };

/* Returns the number of records found. */
static int open_and_count(uint64_t key, dl_journal **journal)
{
    dl_error err = {0};
    int count = 0;
    if (dl_journal_open(journal, "run.journal", key, JOBS, &err) != DL_OK) fail_msg("%s", err.text);
    for (int job = 0; job < JOBS; job++) {
        const void *data = NULL;
        size_t bytes = 0;
        int64_t value = 0;
        if (!dl_journal_find(*journal, job, &data, &bytes)) continue;
        assert_int_equal(bytes, sizeof value);
        memcpy(&value, data, sizeof value);
        assert_int_equal(value, 100 + job);
        count++;
    }
    return count;
}

static void add(dl_journal *journal, int64_t job)
{
    const int64_t value = 100 + job;
    dl_journal_add(journal, job, &value, sizeof value);
}

static void flush_and_end(dl_journal *journal)
{
    dl_error err = {0};
    if (dl_journal_flush(journal, &err) != DL_OK) fail_msg("%s", err.text);
    dl_journal_end(journal, false);
}

/* Overwrites a byte of the journal. */
static void damage(long at)
{
    FILE *file = fopen("run.journal", "r+b");
    assert_non_null(file);
    fseek(file, at, SEEK_SET);
    fputc('x', file);
    fclose(file);
}

/* Writes a journal with the first three jobs. */
static void write_three(void)
{
    dl_journal *journal = NULL;
    unlink("run.journal");
    assert_int_equal(open_and_count(7, &journal), 0);
    for (int job = 0; job < 3; job++)
        add(journal, job);
    flush_and_end(journal);
}

static long size_of(const char *path)
{
    struct stat file;
    return stat(path, &file) == 0 ? (long)file.st_size : -1;
}

static void records_come_back(void **state DL_UNUSED)
{
    dl_journal *journal = NULL;
    unlink("run.journal");
    assert_int_equal(open_and_count(7, &journal), 0);
    assert_int_equal(size_of("run.journal"), -1); /* no file yet */
    add(journal, 3);
    add(journal, 0);
    flush_and_end(journal);
    assert_int_equal(size_of("run.journal"), 24 + 2 * (24 + 8));
    assert_int_equal(open_and_count(7, &journal), 2);
    add(journal, 4);
    flush_and_end(journal);
    assert_int_equal(open_and_count(7, &journal), 3);
    dl_journal_end(journal, true);
    assert_int_equal(size_of("run.journal"), -1);
}

/* Truncated anywhere: whole records before it are kept, and new ones replace the rest. */
static void a_torn_end_is_replaced(void **state DL_UNUSED)
{
    for (long bytes = 24 + 3 * 32; bytes >= 0; bytes -= 5) {
        dl_journal *journal = NULL;
        write_three();
        assert_int_equal(truncate("run.journal", bytes), 0);
        const int whole = bytes < 24 ? 0 : (int)(bytes - 24) / 32;
        assert_int_equal(open_and_count(7, &journal), whole);
        add(journal, 4);
        flush_and_end(journal);
        assert_int_equal(size_of("run.journal"), 24 + 32 * (whole + 1));
        assert_int_equal(open_and_count(7, &journal), whole + 1);
        dl_journal_end(journal, true);
    }
}

/* The changed byte is the second record's value: its checksum is then wrong, so only the first
 * record is valid. */
static void a_changed_byte_is_noticed(void **state DL_UNUSED)
{
    dl_journal *journal = NULL;
    write_three();
    damage(24 + 32 + 24);
    assert_int_equal(open_and_count(7, &journal), 1);
    dl_journal_end(journal, true);
}

/* Valid records after the damage belong to a finished run; they are removed with the rest. */
static void what_follows_the_damage_is_cut_off(void **state DL_UNUSED)
{
    dl_journal *journal = NULL;
    write_three();
    damage(24 + 24);
    assert_int_equal(open_and_count(7, &journal), 0);
    add(journal, 4);
    flush_and_end(journal);
    assert_int_equal(size_of("run.journal"), 24 + 32);
    assert_int_equal(open_and_count(7, &journal), 1);
    dl_journal_end(journal, true);
}

/* A rebuilt program may compute other results: its runs are not resumed. */
static void a_newer_program_starts_anew(void **state DL_UNUSED)
{
    dl_journal *journal = NULL;
    struct stat file;
    DL_AUTOFREE char *program = dl_system_program();
    assert_non_null(program);
    unlink("run.journal");
    assert_int_equal(open_and_count(7, &journal), 0);
    add(journal, 3);
    flush_and_end(journal);
    assert_int_equal(stat(program, &file), 0);
    const struct timespec built[] = {file.st_atim, file.st_mtim};
    const struct timespec later[] = {file.st_atim, {file.st_mtim.tv_sec + 1, 0}};
    assert_int_equal(utimensat(AT_FDCWD, program, later, 0), 0);
    const int of_newer = open_and_count(7, &journal);
    assert_int_equal(utimensat(AT_FDCWD, program, built, 0), 0);
    assert_int_equal(of_newer, 0);
    dl_journal_end(journal, true);
    assert_int_equal(open_and_count(7, &journal), 1);
    dl_journal_end(journal, true);
}

static void another_run_is_set_aside(void **state DL_UNUSED)
{
    dl_journal *journal = NULL, *other = NULL;
    dl_error err = {0};
    assert_int_equal(open_and_count(7, &journal), 0);
    add(journal, 1);
    flush_and_end(journal);
    /* Run 8 has a separate file, which exists when it is killed; both resume in turn. */
    assert_int_equal(open_and_count(8, &other), 0);
    add(other, 2);
    add(other, 3);
    flush_and_end(other);
    assert_int_equal(open_and_count(7, &journal), 1);
    dl_journal_end(journal, false);
    assert_int_equal(open_and_count(8, &other), 2);
    dl_journal_end(other, true);
    assert_int_equal(access("run.journal", F_OK), -1);
    assert_int_equal(open_and_count(7, &journal), 1);
    /* While this run holds it: */
    assert_int_equal(dl_journal_open(&other, "run.journal", 7, JOBS, &err), DL_ERR_IO);
    assert_contains(err.text, "another run is writing this journal");
    char *path = NULL;
    assert_int_equal(dl_journal_beside(&path, "run", DL_JOURNAL_RESTART, &err), DL_ERR_IO);
    assert_contains(err.text, "another run is writing this journal");
    assert_string_equal(path, "run.journal");
    free(path);
    assert_true(size_of("run.journal") > 0);
    dl_journal_end(journal, false);
    assert_int_equal(dl_journal_beside(&path, "run", DL_JOURNAL_RESTART, &err), DL_OK);
    free(path);
    assert_int_equal(access("run.journal", F_OK), -1);
    assert_int_equal(dl_journal_beside(&path, "run", DL_JOURNAL_RESTART, &err),
                     DL_OK); /* not in this mode either */
    free(path);
    FILE *file = fopen("run.journal", "w");
    assert_non_null(file);
    fputs("workers,throughput_per_s\n1,2\n2,3\n", file);
    fclose(file);
    assert_int_equal(dl_journal_open(&other, "run.journal", 7, JOBS, &err), DL_ERR_DATA);
    assert_contains(err.text, "is no journal");
    assert_int_equal(size_of("run.journal"), 33); /* unchanged */
}

/* Its file has the name under which it would be set aside for its own run. */
static void a_run_of_other_jobs_is_set_aside(void **state DL_UNUSED)
{
    dl_journal *journal = NULL, *other = NULL;
    dl_error err = {0};
    assert_int_equal(open_and_count(7, &journal), 0);
    add(journal, 1);
    flush_and_end(journal);
    assert_int_equal(dl_journal_open(&other, "run.journal", 7, JOBS + 1, &err), DL_OK);
    assert_int_equal(dl_journal_count(other), 0);
    dl_journal_end(other, false);
    assert_int_equal(access("run.journal", F_OK), -1);
    assert_int_equal(open_and_count(7, &journal), 1);
    dl_journal_end(journal, true);
}

static void a_device_is_no_journal(void **state DL_UNUSED)
{
    dl_journal *journal = NULL;
    dl_error err = {0};
    assert_int_equal(dl_journal_open(&journal, "/dev/zero", 7, JOBS, &err), DL_ERR_IO);
    assert_contains(err.text, "is no regular file");
}

/* --- jobs ------------------------------------------------------------------------------------ */

typedef struct sums {
    int64_t value[JOBS];
    int runs;
} sums;

static dl_status run(void *user, int64_t job, dl_error *err DL_UNUSED)
{
    sums *s = user;
    s->value[job] = 100 + job;
    s->runs++;
    return DL_OK;
}

static void encode(void *user, int64_t job, dl_bytes *into)
{
    dl_bytes_add(into, &((sums *)user)->value[job], sizeof(int64_t));
}

static bool decode(void *user, int64_t job, const void *data, size_t bytes)
{
    if (bytes != sizeof(int64_t)) return false;
    memcpy(&((sums *)user)->value[job], data, bytes);
    return true;
}

/* Jobs in the journal are not repeated, including those of a second set; a short run writes
 * none. */
static void jobs_go_on(void **state DL_UNUSED)
{
    dl_journal *journal = NULL;
    unlink("run.journal");
    assert_int_equal(open_and_count(7, &journal), 0);
    add(journal, 1);
    add(journal, 3);
    const int64_t value = 104; /* job 4 of the second set */
    dl_journal_add(journal, JOBS + 4, &value, sizeof value);
    flush_and_end(journal);
    for (int round = 0; round < 2; round++) {
        dl_error err = {0};
        if (dl_journal_open(&journal, "run.journal", 7, JOBS, &err) != DL_OK)
            fail_msg("%s", err.text);
        assert_int_equal(dl_journal_is_kept(journal), round == 0);
        for (int lot = 0; lot < 2; lot++) {
            sums s = {.runs = 0};
            const dl_jobs jobs = {.count = JOBS,
                                  .threads = 1,
                                  .user = &s,
                                  .run = run,
                                  .encode = encode,
                                  .decode = decode,
                                  .journal = journal,
                                  .journal_first = (int64_t)lot * JOBS};
            assert_int_equal(dl_jobs_run(&jobs, &err), DL_OK);
            assert_int_equal(s.runs, round == 1 ? JOBS : lot == 0 ? JOBS - 2 : JOBS - 1);
            for (int job = 0; job < JOBS; job++)
                assert_int_equal(s.value[job], 100 + job);
        }
        /* 7 more jobs in the first round, none in the second. */
        assert_int_equal(dl_journal_flush(journal, &err), DL_OK);
        assert_int_equal(size_of("run.journal"), round == 0 ? 24 + 10 * 32 : -1);
        dl_journal_end(journal, true);
        assert_int_equal(size_of("run.journal"), -1);
    }
}

/* For a job done twice, e.g. in sets of different sizes, the last record is used. */
static void the_last_record_counts(void **state DL_UNUSED)
{
    dl_journal *journal = NULL;
    unlink("run.journal");
    assert_int_equal(open_and_count(7, &journal), 0);
    const int64_t before = 3;
    dl_journal_add(journal, 2, &before, sizeof before);
    add(journal, 0);
    add(journal, 2);
    flush_and_end(journal);
    assert_int_equal(open_and_count(7, &journal), 2);
    dl_journal_end(journal, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_come_back),
        cmocka_unit_test(a_torn_end_is_replaced),
        cmocka_unit_test(a_changed_byte_is_noticed),
        cmocka_unit_test(what_follows_the_damage_is_cut_off),
        cmocka_unit_test(a_newer_program_starts_anew),
        cmocka_unit_test(another_run_is_set_aside),
        cmocka_unit_test(a_device_is_no_journal),
        cmocka_unit_test(jobs_go_on),
        cmocka_unit_test(the_last_record_counts),
        cmocka_unit_test(a_run_of_other_jobs_is_set_aside),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
