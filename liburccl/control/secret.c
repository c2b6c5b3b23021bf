/* SPDX-License-Identifier: Apache-2.0 */
/* The secret that peers share: given by the program, or read from a file that others cannot
 * read. */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "control/private.h"

#define LEAST 16u /* least bytes of a secret */
#define MOST  1024u

/* Keeps a key derived from the secret: the secret may have any length, and need not stay in
 * memory. */
static int secret_keep(struct secret *s, const void *bytes, size_t len, const char *of)
{
	static const char label[] = "liburccl shared secret 1";
	int err;

	if (len < LEAST || len > MOST)
		return fail(-EINVAL, "%s: the secret has %zu bytes, from %u to %u are possible", of,
			    len, LEAST, MOST);
	err = hmac_open(&s->hmac);
	if (err)
		return err;
	err = hmac_sha256(&s->hmac, label, sizeof(label) - 1, bytes, len, s->key);
	if (err)
		return fail(err, "%s: no HMAC of the secret could be made", of);
	s->is_set = 1;
	return 0;
}

/* The file's group may read it, since many systems distribute secrets that way. */
static int check_file(int fd, const char *name)
{
	struct stat st;

	if (fstat(fd, &st))
		return fail(-errno, "secret_file: \"%s\": %s", name, errno_text(errno));
	if (!S_ISREG(st.st_mode))
		return fail(-EINVAL, "secret_file: \"%s\" is not a regular file", name);
	if (st.st_uid != geteuid() && st.st_uid)
		return fail(-EACCES,
			    "secret_file: \"%s\" belongs to user %u, neither to this one "
			    "nor to root",
			    name, st.st_uid);
	if (st.st_mode & (S_IRWXO | S_IWGRP))
		return fail(-EACCES,
			    "secret_file: \"%s\" has mode %03o: others could read or "
			    "change it; chmod o=,g-w",
			    name, st.st_mode & 0777);
	return 0;
}

static int read_file(struct secret *s, const char *name)
{
	uint8_t bytes[MOST + 2];
	int fd = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK), err;
	ssize_t n = 0;

	if (fd < 0)
		return fail(-errno, "secret_file: \"%s\" cannot be read: %s", name,
			    errno_text(errno));
	err = check_file(fd, name);
	if (!err) {
		n = read(fd, bytes, sizeof(bytes));
		if (n < 0)
			err = fail(-errno, "secret_file: \"%s\": %s", name, errno_text(errno));
	}
	close(fd);
	if (n > 0 && bytes[n - 1] == '\n') /* an editor appends it */
		n--;
	if (!err)
		err = secret_keep(s, bytes, (size_t)n, "secret_file");
	explicit_bzero(bytes, sizeof(bytes));
	return err;
}

int secret_open(struct secret *s, const struct urccl_params *p)
{
	if (p->secret_len && !p->secret)
		return fail(-EINVAL, "secret_len is %u and secret is NULL", p->secret_len);
	if (p->secret && p->secret_file)
		return fail(-EINVAL, "secret and secret_file are both given: one is possible");
	if (p->secret)
		return secret_keep(s, p->secret, p->secret_len, "secret");
	return p->secret_file ? read_file(s, p->secret_file) : 0;
}
