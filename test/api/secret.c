/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts with the same secret connect and move data, wherever they have it from; one with another
 * secret, or with none, is refused with a sentence on both sides. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include "meet.h"

#define LEN 100000u

static const char secret[] = "what both of them know";
static struct pair p;
static char told[8192];

static void tell(void *arg, int level, const char *text)
{
	(void)arg, (void)level;
	snprintf(told + strlen(told), sizeof(told) - strlen(told), "%s\n", text);
}

static void open_with(struct side *s, const void *bytes, uint32_t len, const char *file)
{
	p.params.secret = bytes;
	p.params.secret_len = len;
	p.params.secret_file = file;
	side_open(&p, s);
}

static void close_both(void)
{
	side_close(&p.a);
	side_close(&p.b);
}

/* ---- those who may ---- */

static void moves(void)
{
	static uint8_t local[LEN];
	struct urccl_sqe *sqe;
	struct target t;

	pair_open(&p);
	target_open(&p, &t, LEN, 0);
	side_register(&p.a, local, LEN, 0);
	pattern_fill(local, LEN, 0, 1);
	sqe = side_sqe(&p.a);
	urccl_prep_write(sqe, t.remote, local, LEN, 0);
	CHECK_EQ(pair_run(&p, &p.a, sqe).res, LEN);
	CHECK(pattern_holds(t.bytes, LEN, 0, 1));
	close_both();
}

static void write_file(const char *name, const char *text, mode_t mode)
{
	FILE *f = fopen(name, "w");

	CHECK(f && fputs(text, f) >= 0);
	CHECK_EQ(fclose(f), 0);
	CHECK_EQ(chmod(name, mode), 0);
}

/* The end of a file's last line is no part of it, and the program's bytes are copied. */
static void same(const char *file)
{
	char bytes[] = "what both of them know", line[64];

	snprintf(line, sizeof(line), "%s\n", secret);
	write_file(file, line, 0400);
	open_with(&p.a, bytes, sizeof(bytes) - 1, NULL);
	memset(bytes, 0, sizeof(bytes));
	open_with(&p.b, NULL, 0, file);
	moves();
	open_with(&p.a, NULL, 0, file);
	open_with(&p.b, secret, sizeof(secret) - 1, NULL);
	moves();
}

/* ---- those who may not ---- */

static void dial_refused(const char *sentence, const char *log)
{
	uint8_t blob[URCCL_METADATA_MAX];
	int len = urccl_metadata(p.b.ctx, blob, sizeof(blob));
	struct urccl_cqe cqe;

	side_accept(&p.b, 1);
	told[0] = 0;
	cqe = side_dialled(&p.a, &p.b, blob, (uint32_t)len, 0);
	CHECK_EQ(cqe.res, -EACCES);
	check_sentence(&p.a, &cqe, sentence);
	check_sentence(&p.a, &cqe, "127.0.0.1:");
	close_both();
	CHECK_SAYS(told, log);
	CHECK(!strstr(told, secret));
}

static void apart(void)
{
	p.params.log = tell;
	open_with(&p.a, NULL, 0, NULL);
	open_with(&p.b, secret, sizeof(secret) - 1, NULL);
	dial_refused("this context has none", "it has no shared secret");
	open_with(&p.a, secret, sizeof(secret) - 1, NULL);
	open_with(&p.b, NULL, 0, NULL);
	dial_refused("has no shared secret", "this context has none");
	open_with(&p.a, secret, sizeof(secret) - 2, NULL);
	open_with(&p.b, secret, sizeof(secret) - 1, NULL);
	dial_refused("has another shared secret", "is not the one of this context");
	p.params.log = NULL;
}

/* ---- settings ---- */

static void refused(const void *bytes, uint32_t len, const char *file, int err, const char *words)
{
	struct urccl *ctx;

	p.params.secret = bytes;
	p.params.secret_len = len;
	p.params.secret_file = file;
	CHECK_EQ(urccl_open(&p.params, &ctx), err);
	CHECK_SAYS(urccl_errmsg(), words);
}

static void settings(const char *file)
{
	refused(secret, 15, NULL, -EINVAL, "15 bytes");
	refused(secret, 1025, NULL, -EINVAL, "1025 bytes");
	refused(NULL, 20, NULL, -EINVAL, "secret is NULL");
	refused(secret, 20, file, -EINVAL, "both");
	refused(NULL, 0, "/nowhere/at/all", -ENOENT, "/nowhere/at/all");
	refused(NULL, 0, "/tmp", -EINVAL, "regular");
	CHECK_EQ(unlink(file), 0);
	write_file(file, "short\n", 0600);
	refused(NULL, 0, file, -EINVAL, "5 bytes");
	write_file(file, secret, 0604);
	refused(NULL, 0, file, -EACCES, "604");
	write_file(file, secret, 0620);
	refused(NULL, 0, file, -EACCES, "chmod");
	CHECK_EQ(setenv("URCCL_SECRET", secret, 1), 0);
	CHECK_EQ(urccl_params_from_env(&p.params), -EINVAL);
	CHECK(strstr(urccl_errmsg(), "URCCL_SECRET_FILE") && !strstr(urccl_errmsg(), secret));
	CHECK_EQ(unsetenv("URCCL_SECRET"), 0);
}

int main(int argc, char **argv)
{
	char file[] = "/tmp/urccl-secret-XXXXXX";
	struct urccl *ctx;
	int fd = mkstemp(file);

	CHECK(fd >= 0 && !close(fd));
	pair_options(&p, argc, argv);
	pair_sim(&p);
	p.params.secret = secret;
	p.params.secret_len = sizeof(secret) - 1;
	if (urccl_open(&p.params, &ctx) == -EOPNOTSUPP) {
		unlink(file);
		SKIP(urccl_errmsg());
	}
	urccl_close(ctx);
	same(file);
	apart();
	settings(file);
	unlink(file);
	if (p.sim)
		CHECK_EQ(urccl_sim_close(p.sim), 0);
	return 0;
}
