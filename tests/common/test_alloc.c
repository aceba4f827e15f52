#include "tests/check.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void nothing_is_still_a_block(void **state DL_UNUSED)
{
    void *none = dl_calloc(0, 8, "test");
    assert_non_null(none);
    none = dl_realloc(none, 0, 8, "test");
    assert_non_null(none);
    free(none);
}

static void blocks_are_zeroed_and_keep_their_bytes(void **state DL_UNUSED)
{
    unsigned char *block = dl_calloc(100, 1, "test");
    for (int i = 0; i < 100; i++)
        assert_int_equal(block[i], 0);
    block[99] = 7;
    block = dl_realloc(block, 1000, 10, "test");
    assert_int_equal(block[99], 7);
    free(block);
}

static void aligned_blocks_start_on_a_cache_line(void **state DL_UNUSED)
{
    for (size_t bytes = 0; bytes < 200; bytes += 33) {
        unsigned char *block = dl_alloc_aligned(bytes, "test");
        assert_int_equal((uintptr_t)block % 64, 0);
        for (size_t i = 0; i < bytes; i++)
            assert_int_equal(block[i], 0);
        free(block);
    }
}

/* Without staggering, sizes of whole pages minus the allocator's header would give exactly that
 * distance. */
static void staggered_blocks_are_never_a_cycle_apart(void **state DL_UNUSED)
{
    const uintptr_t cycle = (uintptr_t)DL_STAGGER_BYTES * DL_STAGGER_COUNT;
    const size_t bytes = 4 * cycle - DL_STAGGER_BYTES;
    unsigned char *blocks[DL_STAGGER_COUNT];
    for (int i = 0; i < DL_STAGGER_COUNT; i++) {
        blocks[i] = dl_alloc_staggered(bytes, "test");
        assert_int_equal((uintptr_t)blocks[i] % 64, 0);
        for (int j = 0; j < i; j++) {
            const uintptr_t apart = ((uintptr_t)blocks[i] - (uintptr_t)blocks[j]) % cycle;
            assert_true(apart >= DL_STAGGER_BYTES && apart <= cycle - DL_STAGGER_BYTES);
        }
        assert_int_equal(blocks[i][0], 0);
        assert_int_equal(blocks[i][bytes - 1], 0);
        memset(blocks[i], 1, bytes);
    }
    for (int i = 0; i < DL_STAGGER_COUNT; i++)
        dl_free_staggered(blocks[i]);
}

static void small_staggered_blocks_are_aligned_and_zeroed(void **state DL_UNUSED)
{
    for (size_t bytes = 0; bytes <= DL_STAGGER_MIN_BYTES; bytes = 3 * bytes + 1) {
        unsigned char *block = dl_alloc_staggered(bytes, "test");
        assert_int_equal((uintptr_t)block % 64, 0);
        for (size_t i = 0; i < bytes; i++)
            assert_int_equal(block[i], 0);
        memset(block, 1, bytes);
        dl_free_staggered(block);
    }
    dl_free_staggered(NULL);
}

/* Returns whether the mapping that contains `at` is marked for huge pages: "hg" among its flags
 * (proc(5)). */
static bool is_marked_huge(const void *at)
{
    FILE *maps = fopen("/proc/self/smaps", "r");
    assert_non_null(maps);
    char line[512];
    unsigned long long first, end;
    bool inside = false, marked = false;
    while (fgets(line, sizeof line, maps) != NULL) {
        if (sscanf(line, "%llx-%llx ", &first, &end) == 2) {
            inside = (uintptr_t)at >= first && (uintptr_t)at < end;
        }
        if (inside && strncmp(line, "VmFlags:", 8) == 0) marked = strstr(line, " hg") != NULL;
    }
    fclose(maps);
    return marked;
}

/* A block of three huge pages covers two or three whole ones, one of which contains its middle
 * byte; a smaller block covers none. */
static void large_staggered_blocks_ask_for_huge_pages(void **state DL_UNUSED)
{
    if (access("/sys/kernel/mm/transparent_hugepage/enabled", R_OK) != 0) skip();
    const size_t bytes = 3 * (size_t)DL_HUGE_PAGE_BYTES;
    char *large = dl_alloc_staggered(bytes, "test");
    char *small = dl_alloc_staggered(DL_HUGE_PAGE_BYTES / 4, "test");
    assert_true(is_marked_huge(large + bytes / 2));
    assert_false(is_marked_huge(small));
    dl_free_staggered(small);
    dl_free_staggered(large);
}

static void exhaustion_is_a_failed_run(void **state DL_UNUSED)
{
    int said[2];
    assert_int_equal(pipe(said), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)dup2(said[1], STDERR_FILENO);
        free(dl_realloc(NULL, SIZE_MAX / 2, 4, "a test"));
        _exit(0);
    }
    close(said[1]);
    char text[200] = "";
    assert_true(read(said[0], text, sizeof text - 1) > 0);
    close(said[0]);
    assert_non_null(strstr(text, "out of memory: 9223372036854775807 x 4 bytes for a test\n"));
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 1);
}

/* Appends its number to the list that `released` points to. */
typedef struct numbered {
    int number;
    char **released;
} numbered;

static void release_numbered(numbered *of)
{
    dl_extend(of->released, "%d", of->number);
}

static int leave_early(bool early, char **released)
{
    DL_AUTO(release_numbered) numbered one = {1, released};
    DL_AUTOFREE char *unused DL_UNUSED = NULL;
    for (int i = 3; i < 5; i++) {
        DL_AUTO(release_numbered) numbered inner = {i, released};
        DL_AUTOFREE char *text = dl_format("%d", inner.number);
        if (early && strcmp(text, "4") == 0) return one.number;
    }
    DL_AUTO(release_numbered) numbered two = {2, released};
    return two.number;
}

/* An object of a loop's body is released in each turn, the last declared first, and objects that
 * are not yet declared at a return are not. The sanitizers' leak check covers DL_AUTOFREE. */
static void locals_are_released_when_their_scope_is_left(void **state DL_UNUSED)
{
    DL_AUTOFREE char *released = NULL;
    assert_int_equal(leave_early(true, &released), 1);
    assert_string_equal(released, "341");
    assert_int_equal(leave_early(false, &released), 2);
    assert_string_equal(released, "3413421");
}

static void strings_are_copies(void **state DL_UNUSED)
{
    DL_AUTOFREE char *whole = dl_strdup("abc"), *part = dl_strndup("abc", 2);
    DL_AUTOFREE char *made = dl_format("%s-%d-%s", whole, 42, part);
    assert_string_equal(made, "abc-42-ab");
}

/* The arguments may depend on the text before it grows. */
static void texts_grow(void **state DL_UNUSED)
{
    char *text = NULL;
    for (int i = 1; i <= 3; i++)
        dl_extend(&text, "%s%d", text != NULL ? ", " : "", i);
    dl_join(&text, " and ", "4");
    dl_join_format(&text, " to ", "%d%s", 5, "0");
    assert_string_equal(text, "1, 2, 3 and 4 to 50");
    free(text);
    text = NULL;
    dl_join_format(&text, " to ", "%d", 5);
    assert_string_equal(text, "5");
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_still_a_block),
        cmocka_unit_test(blocks_are_zeroed_and_keep_their_bytes),
        cmocka_unit_test(aligned_blocks_start_on_a_cache_line),
        cmocka_unit_test(staggered_blocks_are_never_a_cycle_apart),
        cmocka_unit_test(small_staggered_blocks_are_aligned_and_zeroed),
        cmocka_unit_test(large_staggered_blocks_ask_for_huge_pages),
        cmocka_unit_test(exhaustion_is_a_failed_run),
        cmocka_unit_test(locals_are_released_when_their_scope_is_left),
        cmocka_unit_test(strings_are_copies),
        cmocka_unit_test(texts_grow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
